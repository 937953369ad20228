"""Ninja operations with a strict conversion of requests to values and back.

Ninja routes and documents. Ninja would take unknown parameters, read JSON leniently and
check every answer a second time, so this module replaces these three steps.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from inspect import iscoroutinefunction, unwrap
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router, Schema, operation
from ninja.operation import AsyncOperation, Operation, PathView
from ninja.params.models import BodyModel, PathModel, QueryModel
from ninja.signature import ViewSignature
from pydantic import BaseModel, TypeAdapter, ValidationError

from memoryhub.api import allowed
from memoryhub.api.document.fields import FieldRefusedError
from memoryhub.api.document.openapi import CODES, SCOPE
from memoryhub.api.errors import (
    WHOLE_BODY,
    InternalError,
    InvalidInputError,
    Loc,
    ProblemDocument,
    Wrong,
    build_invalid,
)
from memoryhub.api.http import auth, gate, limits
from memoryhub.errors import InvalidError, Refusal, UnavailableError
from memoryhub.journal.writing.activity import activity
from memoryhub.journal.writing.batch import SubjectMadeError
from memoryhub.kernel.text import names, strict_json
from memoryhub.queries.replay import exact_json
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

MAX_PARAMETERS = 100

View = TypeVar("View", bound=Callable[..., Any])
#: No byte limit here: the gate has bounded the body by a setting.
_LIMITS = strict_json.JsonLimits(max_bytes=sys.maxsize)
#: Converter of a step of a path, which stands before the step's name.
_CONVERTER = re.compile(r"\{[a-z]+:")
_BODY, _QUERY, _PATH = "body", "query", "path"
#: Members that bind a value's type; a schema without any allows any JSON.
_BINDING = frozenset({"type", "$ref", "enum", "const"})
_CODES = {
    "missing": "missing",
    "extra_forbidden": "extra_field",
    "literal_error": "value",
}


# Only the API's document reads the models that Ninja makes of each operation. At every
# start these 436 models would take 90 ms and 4 MB, so `build_models` makes them.
for _base in (BodyModel, PathModel, QueryModel, Schema):
    _base.model_config["defer_build"] = True


class LateSignature(ViewSignature):
    """Signature of a view, without models until the document is built."""

    def _create_models(self) -> list[Any]:
        return []

    def _validate_view_path_params(self) -> None:
        """Leave the check of path parameters to `build_models`."""

    def build_models(self) -> list[Any]:
        self.models = super()._create_models()
        super()._validate_view_path_params()
        return self.models


operation.ViewSignature = LateSignature  # type: ignore[attr-defined]  # no other way


class StrictOperation(AsyncOperation):
    """One method of one path."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self.openapi_extra is not None
        self.needs: str = self.openapi_extra[SCOPE]
        self.inputs = [_Input(param) for param in self.signature.params]
        self.takes_query = any(each.source == _QUERY for each in self.inputs)
        self.status = next(iter(self.response_models))
        self.is_coroutine = iscoroutinefunction(unwrap(self.view_func))
        #: Name in counts of requests.
        self.route = f"{self.methods[0]} {_CONVERTER.sub('{', self.path)}"

    def build_models(self) -> None:
        """Build the models that the document shows."""
        assert isinstance(self.signature, LateSignature)
        self.models = self.signature.build_models()
        for status, out in self.response_models.items():
            self.response_models[status] = super()._create_response_model(out)

    def _create_response_model(self, response_param: Any) -> Any:
        return response_param

    @cached_property
    def parameters(self) -> set[str]:
        """Names of the query's parameters."""
        queries = [each for each in self.inputs if each.source == _QUERY]
        return {word for each in queries for word in each.words}

    def clone(self) -> Operation:
        cloned = super().clone()
        assert isinstance(cloned, StrictOperation)
        for name in (
            "needs",
            "inputs",
            "takes_query",
            "status",
            "is_coroutine",
            "route",
        ):
            setattr(cloned, name, getattr(self, name))
        return cloned

    async def run(self, request: HttpRequest, **path: Any) -> HttpResponseBase:  # type: ignore[override]  # as Ninja's
        answer = request.scope[gate.ANSWER]  # type: ignore[attr-defined]  # ASGI
        answer.route = self.route
        try:
            agent = await auth.admit(request, needs=self.needs)
            limits.charge(agent, len(request.scope[gate.BODY]))  # type: ignore[attr-defined]  # ASGI
            values = self._read_values(request, path)
            response = self._render_result(await self._run_view(request, values))
            if isinstance(response, HttpResponse):
                limits.charge_reply(agent, len(response.content))
        except Exception as failure:  # noqa: BLE001 # the outermost frame of a request
            if isinstance(failure, InvalidError):
                self._explain(failure)
            response = answer_failure(request, failure)
        caller = getattr(request, "auth", None)
        if isinstance(caller, Agent):
            answer.headers = limits.build_headers(caller)
        return response

    async def _run_view(self, request: HttpRequest, values: Mapping[str, Any]) -> Any:
        """Run the view, which may make the person whom the request names."""
        if not auth.is_beginning(request, needs=self.needs):
            return await self._call_view(request, values)
        await auth.begin_person(request)
        try:
            return await self._call_view(request, values)
        except SubjectMadeError:
            # Nothing was written: the person's first thread is what was refused.
            await auth.find_begun_person(request)
            return await self._call_view(request, values)

    async def _call_view(self, request: HttpRequest, values: Mapping[str, Any]) -> Any:
        """Await a coroutine's view; run any other view on a reader thread."""
        if self.is_coroutine:
            return await self.view_func(request, **values)
        return await read(partial(self.view_func, request, **values))

    def _read_values(
        self, request: HttpRequest, path: Mapping[str, Any]
    ) -> dict[str, Any]:
        query = read_query(request.META["QUERY_STRING"], words=self.parameters)
        if query and not self.takes_query:
            raise _build_unknown_parameter("the route takes none")
        return {each.name: each.read(request, path, query) for each in self.inputs}

    def _explain(self, refusal: InvalidError) -> None:
        """Add the allowed values of a field that services or the kernel refused."""
        if refusal.loc in self.parameters:
            # Services do not know which values came in the query.
            refusal.loc = f"{_QUERY}.{refusal.loc}"
        if refusal.allowed or type(refusal) is not InvalidError or not refusal.loc:
            return
        first, *rest = refusal.loc.split(".")
        for each in self.inputs:
            if each.source == first == _PATH and rest == [each.name]:
                refusal.allowed = each.describe_allowed(())
            elif each.source == first == _QUERY:
                refusal.allowed = each.describe_allowed(rest)
            elif each.source == _BODY and first in each.words:
                refusal.allowed = each.describe_allowed((first, *rest))
        refusal.allowed = allowed.BY_CODE.get(refusal.invalid_code, refusal.allowed)

    def _render_result(self, result: Any) -> HttpResponseBase:
        if isinstance(result, HttpResponseBase):
            return result
        return render_answer(result, status=self.status)


class _Input:
    """One argument of a view: its source and its type."""

    def __init__(self, param: Any) -> None:
        self.name: str = param.name
        self.source: str = type(param.source).__name__.lower()
        self.annotation: Any = param.annotation

    # Built at the first request of a route: the adapters of 142 routes take 0.5 s.

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)

    @cached_property
    def schema(self) -> dict[str, Any]:
        return self.adapter.json_schema()

    @cached_property
    def words(self) -> frozenset[str]:
        """Names of the input's fields; the input's own name if it has no fields."""
        return frozenset(name for name, _ in self._fields) or frozenset({self.name})

    @cached_property
    def contents(self) -> set[str]:
        """Names of the fields that always hold any JSON, at any depth."""
        free = {name for name, schema in self._fields if _is_free(schema)}
        return free - {name for name, schema in self._fields if not _is_free(schema)}

    @cached_property
    def _fields(self) -> list[tuple[str, Any]]:
        return [] if self.source == _PATH else list(_list_fields(self.schema))

    def read(
        self, request: HttpRequest, path: Mapping[str, Any], query: dict[str, str]
    ) -> Any:
        if self.source == _PATH:
            return self._check_value(path[self.name])
        if self.source == _QUERY:
            return self._check_value(query)
        raw = request.scope[gate.BODY]  # type: ignore[attr-defined]  # ASGI
        value = strict_json.parse(
            raw, _LIMITS, words=self.words, contents=self.contents
        )
        if not isinstance(value, dict):
            code = "object_expected"
            raise InvalidInputError([Wrong(WHOLE_BODY, code, allowed.BY_CODE[code])])
        return self._check_value(value)

    def describe_allowed(self, loc: Sequence[str | int]) -> str:
        """Describe in words the values allowed at `loc` of the input."""
        return allowed.describe_schema(
            allowed.resolve_schema(self.schema, loc), self.schema
        )

    def _check_value(self, value: Any) -> Any:
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            listed = error.errors(include_url=False, include_input=False)
            raise InvalidInputError(
                [self._build_refused_value(each, value) for each in listed]
            ) from None

    def _build_refused_value(self, each: Mapping[str, Any], value: Any) -> Wrong:
        """Build place, code and words of a validation error, without any sent value."""
        refused = each.get("ctx", {}).get("error")
        loc, code = each["loc"], _get_code(each)
        place = self._build_place(loc, value)
        if isinstance(refused, FieldRefusedError):
            loc, place = loc + refused.loc, place + refused.loc
        if code == "extra_field":
            holder = allowed.resolve_schema(self.schema, loc[:-1])
            says = allowed.describe_nearest_members(
                holder, self.schema, near=str(loc[-1])
            )
        elif isinstance(refused, FieldRefusedError) and refused.allowed:
            says = refused.allowed
        else:
            says = allowed.BY_CODE.get(code) or self.describe_allowed(loc)
        if code == "extra_field" and self.source == _QUERY:
            code = "extra_parameter"
        return Wrong(place or WHOLE_BODY, code, says)

    def _build_place(self, loc: Sequence[str | int], value: Any) -> Loc:
        """Build the place in our own names; a client's member name becomes an index."""
        if self.source == _PATH:
            return (_PATH, self.name)
        place: list[str | int] = [] if self.source == _BODY else [_QUERY]
        for step in loc:
            keys = list(value) if isinstance(value, dict) else []
            if isinstance(step, int) or step in self.words:
                place.append(step)
            elif step in keys:
                place.append(keys.index(step))
            else:
                # The step names a choice of a union, not a place.
                continue
            value = _get_inner(value, step)
        return tuple(place)


class StrictPathView(PathView):
    """The methods of one path."""

    def add_operation(
        self, path: str, methods: list[str], view_func: View, **options: Any
    ) -> Operation:
        operation = StrictOperation(path, methods, view_func, **options)
        self.is_async = True
        self.operations.append(operation)
        return operation

    def clone(self) -> PathView:
        cloned = StrictPathView()
        cloned.is_async, cloned.url_name = self.is_async, self.url_name
        cloned.operations = [operation.clone() for operation in self.operations]
        return cloned

    def _find_operation(self, request: HttpRequest) -> Operation | None:
        # HEAD runs GET; the gate leaves out the body.
        method = "GET" if request.method == "HEAD" else request.method
        return next((op for op in self.operations if method in op.methods), None)


class StrictRouter(Router):
    """Routes of one noun."""

    def route(
        self,
        method: str,
        path: str,
        *,
        needs: str,
        out: Any,
        status: Collection[int] = (200,),
        refusals: Collection[type[Refusal]] = (),
        hidden: bool = False,
    ) -> Callable[[View], View]:
        """Register a view. `needs` is the scope, `refusals` lists its own errors.

        A view that is no coroutine runs on a reader thread, and may query and render.
        """
        self.path_operations.setdefault(path, StrictPathView())
        codes = sorted(refusals, key=lambda refusal: refusal.code)
        return self.api_operation(
            [method],
            path,
            response=dict.fromkeys(status, out),
            include_in_schema=not hidden,
            by_alias=True,
            openapi_extra={SCOPE: needs, CODES: codes},
        )


def read_query(text: str, *, words: Collection[str]) -> dict[str, str]:
    """Parse the parameters of a query, each allowed once.

    The gate has checked that the query is UTF-8.
    """
    if not text:
        return {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise _build_unknown_parameter(f"at most {MAX_PARAMETERS} are read") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        sent = [name for name, _ in pairs]
        twice = next(n for n, name in enumerate(sent) if name in sent[:n])
        place = sent[twice] if sent[twice] in words else twice
        raise InvalidError(
            code="duplicate_parameter",
            loc=f"{_QUERY}.{place}",
            allowed=allowed.BY_CODE["duplicate_parameter"],
        )
    return query


def _build_unknown_parameter(why: str) -> InvalidError:
    return InvalidError(code="extra_parameter", loc=f"{_QUERY}.0", allowed=why)


def _list_fields(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    parts = (schema, *schema.get("$defs", {}).values())
    return [each for part in parts for each in part.get("properties", {}).items()]


def _is_free(schema: Mapping[str, Any]) -> bool:
    """Return whether a value is any JSON, or an object of any members, or null."""
    kinds = [k for k in schema.get("anyOf", (schema,)) if k.get("type") != "null"]
    return all(
        each.get("additionalProperties") is True or not each.keys() & _BINDING
        for each in kinds
    )


def _get_inner(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _get_code(each: Mapping[str, Any]) -> str:
    refused = each.get("ctx", {}).get("error")
    if isinstance(refused, FieldRefusedError):
        return refused.code
    kind: str = each["type"]
    return "type" if kind.endswith("_type") else _CODES.get(kind, "value")


def render_answer(
    out: BaseModel, *, status: int = 200, replayed: bool = False
) -> HttpResponse:
    """Render a JSON answer.

    `replayed`: an earlier request got this answer, and this request wrote nothing.
    """
    plain = out.model_dump(by_alias=True)
    response = HttpResponse(
        exact_json.dump_json(plain), status=status, content_type="application/json"
    )
    if replayed:
        response["Idempotent-Replayed"] = "true"
    return response


def answer_failure(request: HttpRequest, failure: Exception) -> HttpResponse:
    """Build the problem document of a failure; count and log the refusal."""
    request_id = request.scope[gate.REQUEST_ID]  # type: ignore[attr-defined]  # ASGI
    if isinstance(failure, InvalidInputError):
        problem = build_invalid(failure.found)
    else:
        problem = ProblemDocument.from_refusal(_to_refusal(failure, request_id))
    request.scope[gate.ANSWER].code = problem.code  # type: ignore[attr-defined]  # ASGI
    match = request.resolver_match
    if not getattr(failure, "journaled", False):
        _count_refusal(request, problem.code)
    gate.log.info(
        "request.refused",
        request_id=request_id,
        code=problem.code,
        status=problem.status,
        method=request.method,
        route=match.route if match else None,
    )
    return problem.to_response(request_id)


def _count_refusal(request: HttpRequest, code: str) -> None:
    """Count a refusal for the key's project, and for the thread in the address if any.

    A request without a known key belongs to no project; only the log has it.
    """
    agent, match = getattr(request, "auth", None), request.resolver_match
    if not isinstance(agent, Agent):
        return
    name = match.kwargs.get("thread", "") if match else ""
    place = agent.address(name).names if names.is_valid(name) else None
    activity.count_refusal(agent.project, code, place)


def _to_refusal(failure: Exception, request_id: str) -> Refusal:
    if isinstance(failure, Refusal):
        return failure
    gate.log_failure(failure, request_id=request_id)
    if isinstance(failure, InterfaceError | DatabaseError):
        return UnavailableError()
    return InternalError()
