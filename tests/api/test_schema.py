"""The OpenAPI document: complete, true, and what generated requests find."""

from __future__ import annotations

import inspect
import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import orjson
import pytest
import requests
import schemathesis
from hypothesis import given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response

from memoryhub import errors
from memoryhub.api import api as agent_api
from memoryhub.api import errors as api_errors
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS
from memoryhub.api.examples import EXAMPLES
from tests.api.client import Answer, Client, run

pytestmark = pytest.mark.django_db

#: As it is sent: statuses are texts there.
DOCUMENT: dict[str, Any] = json.loads(json.dumps(agent_api.get_openapi_schema()))
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    f"{method} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def _checked(schema: dict[str, Any], value: object) -> None:
    jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_one_of_its_schema(name: str) -> None:
    _checked({"$ref": f"#/components/schemas/{name}"}, EXAMPLES[name])
    assert SCHEMAS[name]["examples"] == [EXAMPLES[name]]


def _refusal(response: dict[str, str]) -> dict[str, Any]:
    """What the operation refers to."""
    name = response["$ref"].removeprefix("#/components/responses/")
    refusal: dict[str, Any] = DOCUMENT["components"]["responses"][name]
    return refusal


@pytest.mark.parametrize("label", OPERATIONS)
def test_an_operation_documents_everything(label: str) -> None:
    operation = OPERATIONS[label]
    assert operation["summary"]
    assert operation["description"]
    assert operation["security"] == [{"Bearer": []}]
    assert "x-codes" not in operation
    for status, response in operation["responses"].items():
        if int(status) < HTTPStatus.BAD_REQUEST:
            if binary := response["content"].get("application/zip"):
                assert binary["schema"] == {"type": "string", "format": "binary"}
                continue
            body = response["content"]["application/json"]["schema"]
            refs = [each["$ref"] for each in body.get("anyOf", [body])]
            assert all(ref.rpartition("/")[2] in EXAMPLES for ref in refs)
            continue
        refusal = _refusal(response)
        problem = refusal["content"][MEDIA_TYPE]
        _checked(problem["schema"], problem["example"])
        assert str(problem["example"]["status"]) == status
        assert f"`{problem['example']['code']}`" in refusal["description"]
    if body := operation.get("requestBody"):
        ref = body["content"]["application/json"]["schema"]["$ref"]
        assert ref.rpartition("/")[2] in EXAMPLES


def _documented() -> set[str]:
    found: set[str] = set()
    for operation in OPERATIONS.values():
        for response in operation["responses"].values():
            if "$ref" in response:
                listed = _refusal(response)["description"].removeprefix("Codes: ")
                found |= set(listed.split(", "))
    return {code.strip("`") for code in found}


def test_the_document_is_small() -> None:
    """A page that draws it is drawn in a moment."""
    assert len(orjson.dumps(DOCUMENT)) <= 280_000


def test_every_code_is_documented() -> None:
    """Each refusal that this version can raise stands in the document."""
    raised = {refusal.code for refusal in STATUS} | PARSER_STATUS.keys()
    # Ours to prevent; and those of a command that no route has.
    assert raised - _documented() == {
        *("internal", "bad_bundle", "bundle_erased", "budget_differs")
    }


def test_every_refusal_has_its_status() -> None:
    kinds = {
        kind
        for module in (errors, api_errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, errors.Refusal)
    }
    assert kinds <= STATUS.keys()


def test_the_document_is_served_without_a_key(nobody: Client) -> None:
    answer = run(nobody.get("/openapi.json"))
    assert answer.status == 200
    assert answer.json == DOCUMENT


# What generated requests find

SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
GENERATED = {
    found.ok().label: found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}
PROVES = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)


def _sent(client: Client, case: Any) -> tuple[requests.PreparedRequest, Answer]:
    made = case.as_transport_kwargs(base_url="http://127.0.0.1")
    made.pop("cookies", None)
    prepared = requests.Request(**made).prepare()
    address = urlsplit(prepared.url or "")
    target = f"{address.path}?{address.query}" if address.query else address.path
    # Only what may stand in a header; a server lets nothing else through.
    headers = [
        (str(name), str(value))
        for name, value in prepared.headers.items()
        if name.lower() not in ("authorization", "content-length", "host")
        and str(value).isprintable()
        and str(value).isascii()
    ]
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    work = client.send(prepared.method or "", target, body, headers=headers)
    return prepared, run(work)


@pytest.mark.promise("P20", load="8 × each operation and mode, generated")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", GENERATED)
def test_no_request_finds_what_is_not_documented(
    api: Client, label: str, mode: GenerationMode
) -> None:
    operation = GENERATED[label]

    @settings(max_examples=8, database=None)
    @given(case=operation.as_strategy(mode))
    def holds(case: Any) -> None:
        prepared, answer = _sent(api, case)
        response = Response(
            status_code=answer.status,
            headers=_by_name(answer.headers),
            content=answer.body,
            request=prepared,
            elapsed=0.1,
            verify=False,
        )
        case.validate_response(response, checks=PROVES)

    holds()


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode().lower(), []).append(value.decode())
    return found
