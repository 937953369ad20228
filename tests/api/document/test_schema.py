"""The OpenAPI document: complete, true, and what generated requests find."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, get_args
from urllib.parse import urlsplit

import jsonschema_rs
import orjson
import pytest
import requests
import schemathesis
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response

from memoryhub import errors
from memoryhub.api import api as agent_api
from memoryhub.api import errors as api_errors
from memoryhub.api.document.fields import In, Out
from memoryhub.api.document.glossary import PARAMETER_WORDS, WORDS, WORDS_OF
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS
from memoryhub.api.knowledge.facts import FactIn
from memoryhub.kernel.state.pages import Modality
from tests.api.client import Answer, Client, run

#: The document as sent: statuses are texts there.
DOCUMENT: dict[str, Any] = json.loads(json.dumps(agent_api.get_openapi_schema()))
SCHEMAS = DOCUMENT["components"]["schemas"]
EXAMPLES = {
    name: schema["examples"] for name, schema in SCHEMAS.items() if "examples" in schema
}
OPERATIONS = {
    f"{method} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


@cache
def _validator(reference: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        {"$ref": reference, "components": DOCUMENT["components"]}
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_one_of_its_schema(name: str) -> None:
    (example,) = EXAMPLES[name]
    _validator(f"#/components/schemas/{name}").validate(example)


@settings(deadline=None)
@given(
    name=st.sampled_from(["entity", "predicate", "value"]),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.text(st.sampled_from("a \n\0\x7f\x85\u00a0\u200b\u2028\ufeff"), max_size=4)
    | st.sampled_from([128, 129, 512, 513, 4_096, 4_097]).map("x".__mul__),
)
def test_text_of_a_fact_is_taken_as_documented(name: str, text: str) -> None:
    sent = {"entity": "user", "predicate": "likes", "value": "tea", name: text}
    documented = _validator("#/components/schemas/FactIn").is_valid(sent)
    try:
        FactIn.model_validate(sent)
    except ValueError:
        assert not documented
    else:
        assert documented


def _follow_reference(part: dict[str, Any]) -> dict[str, Any]:
    _, _, kind, name = part["$ref"].split("/")
    found: dict[str, Any] = DOCUMENT["components"][kind][name]
    return found


def _resolve_schema(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that the part refers to, or the part itself."""
    while "$ref" in part:
        part = _follow_reference(part)
    return part


def _list_codes(operation: dict[str, Any], status: int) -> set[str]:
    """Return the codes that an operation can answer with a status."""
    found = dict[str, str]()
    for named, response in operation["responses"].items():
        listed = _describe(response)
        if named == "default":
            _, _, listed = listed.partition(f"{status}: ")
            listed, _, _ = listed.partition(";")
        if named in ("default", str(status)):
            found |= dict.fromkeys(re.findall("`([a-z_]+)`", listed), named)
    return set(found)


@pytest.mark.parametrize("label", OPERATIONS)
def test_operation_documents_everything(label: str) -> None:
    operation = OPERATIONS[label]
    assert re.fullmatch(r"[A-Z][^.\n]{10,90}\.", operation["summary"])
    assert operation.get("security", DOCUMENT["security"]) == [{"Bearer": []}]
    assert "x-codes" not in operation
    for status, each in operation["responses"].items():
        response = _resolve_schema(each)
        if status == "default" or status[0] in "45":
            _check_refusal(each)
        elif binary := response["content"].get("application/zip"):
            assert binary["schema"] == {"type": "string", "format": "binary"}
        else:
            _check_example(response["content"]["application/json"]["schema"])
    if body := operation.get("requestBody"):
        _check_example(body["content"]["application/json"]["schema"])


def _check_example(body: dict[str, Any]) -> None:
    """Check that each kind of value has one example, or records that have one."""
    for each in body.get("anyOf", [body]):
        assert _has_example(_resolve_schema(each))


def _has_example(kind: dict[str, Any]) -> bool:
    if "examples" in kind:
        return len(kind["examples"]) == 1
    fields = kind.get("properties", {}).values()
    return any(_has_example(_find_record(each)) for each in fields)


def _find_record(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field, of its items or its first choice."""
    (choice, *_) = field.get("anyOf", [field])
    return _resolve_schema(choice.get("items", choice))


def _check_refusal(each: dict[str, Any]) -> None:
    refusal = _resolve_schema(each)
    assert refusal["content"].keys() == {MEDIA_TYPE}
    _check_example(refusal["content"][MEDIA_TYPE]["schema"])
    assert re.search("`[a-z_]+`", _describe(each))


def _documented() -> set[str]:
    statuses = {*STATUS.values(), *PARSER_STATUS.values()}
    return {
        code
        for operation in OPERATIONS.values()
        for status in statuses
        for code in _list_codes(operation, status)
    }


def test_openapi_document_is_small() -> None:
    """A documentation page shows so small a document at once."""
    assert len(orjson.dumps(DOCUMENT)) <= 330_000


def _describe(part: dict[str, Any]) -> str:
    """Return the description of a part, or the first of those that it refers to."""
    while "description" not in part and "$ref" in part:
        part = _follow_reference(part)
    return str(part.get("description", ""))


def test_enum_of_many_fields_is_told_once() -> None:
    """A generator makes a type of each enum that is written out."""
    told = Counter(
        tuple(field["enum"])
        for schema in SCHEMAS.values()
        for field in [schema, *schema.get("properties", {}).values()]
        if "enum" in field
    )
    assert {each: count for each, count in told.items() if count > 4} == {}
    assert told[get_args(Modality)] == 1


def test_shared_parts_are_referred_to_more_than_once() -> None:
    """A part of one operation stands there; a named schema has a user at least."""
    uses = Counter(re.findall(r'"#/components/([^"]+)"', json.dumps(DOCUMENT)))
    listed = {
        f"{kind}/{name}": 1 + (kind != "schemas")
        for kind in ("parameters", "responses", "schemas")
        for name in DOCUMENT["components"][kind]
    }
    assert [name for name, least in listed.items() if uses[name] < least] == []


def test_everything_is_described() -> None:
    """Each property, parameter and header has a description, and none is left over."""
    components = DOCUMENT["components"]
    parts = {
        f"{schema}.{name}": part
        for schema, whole in SCHEMAS.items()
        for name, part in whole.get("properties", {}).items()
    }
    for response in components["responses"].values():
        parts |= response.get("headers", {})
    parameters = [
        _resolve_schema(each)
        for operation in OPERATIONS.values()
        for each in operation["parameters"]
    ]
    named = {each["name"]: each for each in parameters}
    untold = [
        name
        for name, part in [
            *parts.items(),
            *((each["name"], each) for each in parameters),
        ]
        if not re.fullmatch(r"\S.*\.", _describe(part))
    ]
    assert untold == []
    fields = {name.rpartition(".")[2] for name in parts}
    assert WORDS.keys() <= fields | named.keys()
    assert WORDS_OF.keys() <= parts.keys()
    assert PARAMETER_WORDS.keys() <= named.keys()


def _below(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def test_no_two_schemas_share_a_name() -> None:
    """Only one of two schemas of a name would be documented."""
    bases: tuple[type[BaseModel], ...] = (In, Out)
    kinds = {each for base in bases for each in _below(base)}
    ours = [each.__name__ for each in kinds if each.__module__.startswith("memoryhub")]
    assert [name for name, count in Counter(ours).items() if count > 1] == []


@pytest.mark.parametrize("label", OPERATIONS)
def test_only_what_takes_a_key_may_refuse_one(label: str) -> None:
    operation = OPERATIONS[label]
    names = {_resolve_schema(each)["name"] for each in operation["parameters"]}
    codes = _list_codes(operation, 409) | _list_codes(operation, 422)
    keyed = {"idempotency_key", "idempotency_mismatch", "in_progress"} & codes
    assert bool(keyed) == ("Idempotency-Key" in names)


def test_generators_can_take_the_document() -> None:
    """A generator refused unnamed examples of parameters, and objects as defaults."""
    found = list[str]()

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            if part.keys() & {"in"} and isinstance(part.get("examples"), list):
                found.append(path)
            if isinstance(part.get("default"), dict) and part.keys() & {
                "$ref",
                "allOf",
            }:
                found.append(path)
        pairs = part.items() if isinstance(part, dict) else enumerate(part)
        for name, each in pairs:
            if isinstance(each, dict | list):
                walk(each, f"{path}/{name}")

    walk(DOCUMENT, "")
    assert found == []


def test_every_code_is_documented() -> None:
    """The document names each refusal that this version can raise."""
    raised = {refusal.code for refusal in STATUS} | PARSER_STATUS.keys()
    # Ours to prevent; and those of a command that no route has.
    assert raised - _documented() == {
        *("internal", "bad_bundle", "bundle_erased", "budget_differs", "home_taken"),
        "observations_wanted",
    }


def test_every_refusal_has_its_status() -> None:
    kinds = {
        kind
        for module in (errors, api_errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, errors.Refusal)
    }
    assert kinds <= STATUS.keys()


@pytest.mark.django_db
def test_document_is_served_without_a_key(nobody: Client) -> None:
    answer = run(nobody.get("/openapi.json"))
    assert answer.status == 200
    assert answer.json == DOCUMENT


# Generated requests

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


def _send_case(client: Client, case: Any) -> tuple[requests.PreparedRequest, Answer]:
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


@pytest.mark.django_db
@pytest.mark.promise("P20", load="{examples} × each operation and mode, generated")
@pytest.mark.parametrize("label", GENERATED)
@pytest.mark.parametrize("examples", [3, pytest.param(30, marks=pytest.mark.nightly)])
def test_requests_reveal_no_undocumented_refusal(
    api: Client, label: str, examples: int
) -> None:
    for mode in GenerationMode:
        _send_generated(api, label, mode, examples)


def _send_generated(
    api: Client, label: str, mode: GenerationMode, examples: int
) -> None:
    @settings(max_examples=examples, database=None)
    @given(case=GENERATED[label].as_strategy(mode))
    def check_contract(case: Any) -> None:
        note(f"mode: {mode.value}")
        prepared, answer = _send_case(api, case)
        response = Response(
            status_code=answer.status,
            headers=_by_name(answer.headers),
            content=answer.body,
            request=prepared,
            elapsed=0.1,
            verify=False,
        )
        case.validate_response(response, checks=PROVES)
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.body:
            assert answer.json["code"] in _list_codes(
                OPERATIONS[label.lower()], answer.status
            )

    check_contract()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("target", "code"),
    [("slots?type=Refund", "type_not_qualified"), ("checkpoints:compare", "missing")],
)
def test_query_parameter_refusals_are_documented(
    api: Client, target: str, code: str
) -> None:
    answer = run(api.get(f"/threads/t-1/{target}"))
    path, _, _ = target.partition("?")
    operation = OPERATIONS[f"get /api/v1/threads/{{thread}}/{path}"]
    assert answer.json["code"] == code
    assert code in _list_codes(operation, answer.status)


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode().lower(), []).append(value.decode())
    return found
