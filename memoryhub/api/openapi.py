"""The API's own document, completed: every status with its codes, and examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from memoryhub.api import errors as ours
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS, Problem
from memoryhub.api.examples import EXAMPLES
from memoryhub.api.schemas import ErrorOut
from memoryhub.errors import (
    ClockSkewError,
    ErasuresToReplayError,
    IdempotencyMismatchError,
    InvalidError,
    KeyInUrlError,
    NotFoundError,
    ProjectDeletedError,
    QueueFullError,
    RateError,
    Refusal,
    ScopeError,
    StaleError,
    UnauthorizedError,
    UnavailableError,
)

#: Ninja's own extras: the scope a route needs, and the refusals it adds.
SCOPE: Final = "x-scope"
CODES: Final = "x-codes"

DESCRIPTION = """\
Memory for agents: threads of messages that are appended, kept and read back, and pages
of which each model call is given as many as its budget holds.

**Identity.** `Authorization: Bearer mh_…`, nowhere else. A key belongs to one project;
another project's things answer as those that do not exist.

**Names** are ASCII, `[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}`, exact, and in the clear: they
are for identifiers, not for text about people. Names of threads that begin with `mh.`
or `_` are reserved.

**Bodies** are strict JSON in UTF-8, at most 1 MiB, 32 deep, 10,000 values; times are
RFC 3339. Integers have 64 bits, in content any size. **Lists** answer `items` and
`next`; send `next` back as `after`.

**Errors** are `application/problem+json`; `code` is stable, and what was sent is never
repeated. A 422 names each field in `errors[].loc`, and a member whose name is not ours
by its number, from 0; `detail` says what is taken there. A refused request changed
nothing. A 500 `internal` is a mistake of ours: its `request_id` finds the line in the
server's log.

**Writes**: with an `Idempotency-Key` a POST that changes something has one effect for
24 hours. A repeat is told again what came of it, of a person as it is by then; nothing
is kept of the first answer, and the key goes with the person.
`If-Match` takes the head `seq` you saw. A 2xx means it is on disk.

**Paging**: `POST …/turns` begins a model call and answers its `request`; a model's tool
call goes to `POST …/tool-calls` as it came. Tokens are those of the thread's tokenizer:
`est/1`, or `o200k_base`; where the extra for that is not installed, each write brings
its count as `tokens`.
A refused fault is the one refusal that may be journaled. The fault budget (429
`fault_budget`) is no rate: it says `renews: next_exchange` and has no `Retry-After`.

**Working memory** of a thread is its keys, the task, notes and checkpoints. Each
read takes `at_seq` or `at_turn`. A key is any JSON under a name that does not begin
with `_` or `mh.`, until an instant if one was set; once that has passed nothing sees it
any more. On keys and the task `If-Match` takes the version that a read gave, and
`If-None-Match: *` says that there must be none. What a fork inherits has numbers of 0
and below.

**People.** Whatever is about one person is told by a `user_id` in a body, never in an
address: `POST /subjects:resolve` gives the id by which other routes know her. What was
erased answers 410, with the `erasure` and its `receipt`, if they are your project's.
While a subject is restricted her memory is neither read nor written (409
`subject_restricted`), and lists leave it out. While she is held no page of hers is
deleted (409 `subject_held`, until when is said). A value that was erased for a subject
may not be written for her again (410 `value_erased`, with the `tombstone` that an
officer can lift); to say it in a message is no such write. A key that is bound to a
subject has names of threads for itself: what it calls `<name>` other keys call
`<subject_id>:<name>`.

**Forgetting** has keys of its own, with the scope `subject:forget`, and takes two
steps: a plan says what would go, what stays and what is out of reach; its token and its
count confirm it. From then on everything in scope answers 410. `GET /erasures/{id}`
tells how far it is, until there is a receipt.

**Limits**, all configurable: 500 requests a second and key (burst 1,000), 20 a second
and address without a valid key, 10 GiB a day, 50 open streams and sockets; beyond them
429 with `Retry-After`. Headers 16 KiB, address 8 KiB.

**Socket**: `/ws/v1/agent` follows many threads over one connection. The key is in the
handshake's `Authorization`, or in the first message, `{"t":"hello","key":"mh_…"}`, sent
within 5 s. The server answers `{"t":"hello","v":1}`. Messages are JSON text:

- `{"t":"follow","thread":…,"after":0}` is answered by `{"t":"event","thread":…}` for
  each event after that seq, in order and without end; it has all that a stream's `data`
  has. With `"content":"none"` payloads are left out.
- `{"t":"unfollow","thread":…}` ends that.
- `{"t":"gone","thread":…,"code":…}` says that a thread can't be followed, at once or
  from now on, by the code of the error that a request would get.
- `{"t":"beat"}` comes after 15 s of silence.

A socket follows 50 threads, takes 20 messages a second of 64 KiB each, and ends after
an hour. Why it ends is in its close code: 4400 no such message, 4401 no valid key, 4403
scope, 4404 no such address, 4408 nothing said, 4410 the key's subject or project is
gone, 4429 beyond a limit, 1009 too big, 1011 a mistake of ours. After 1012
(restart, or the hour is over) and 1013 (too busy) connect again, and follow from the
last seq you have. What is sent can be larger than the largest body, by a little.
"""

_PARSER_CODES = (
    *("empty_body", "invalid_json", "encoding", "non_finite"),
    *("number_too_long", "duplicate_key"),
)
_VALUE_CODES = (
    *("object_expected", "type", "missing", "extra_field", "value", "name"),
    *("reserved_name", "type_not_qualified", "time", "time_range"),
    *("batch_size", "idempotency_key", "reserved_id", "reserved_key"),
    "expiry_in_past",
)
_QUERY_CODES = (
    *("extra_parameter", "duplicate_parameter", "limit", "at", "value"),
    *("name", "reserved_name", "reserved_key", "glob_too_complex"),
)

_ANY: tuple[type[Refusal], ...] = (
    ours.EncodingError,
    ours.HostError,
    KeyInUrlError,
    UnauthorizedError,
    ScopeError,
    NotFoundError,
    ours.MethodError,
    ours.UriTooLongError,
    InvalidError,
    RateError,
    ours.HeadersTooLargeError,
    UnavailableError,
    ClockSkewError,
    ErasuresToReplayError,
)
_WITH_BODY: tuple[type[Refusal], ...] = (
    ours.BodyTooLargeError,
    ours.ContentTypeError,
    ours.ContentEncodingError,
)
_HEADERS = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After"}
_HEADERS[503] = "Retry-After"
_KEY_SCHEMA = {"type": "string", "pattern": "^[!-~]{1,255}$"}
_SEQ_SCHEMA = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"}
#: A key's or the task's: what a fork inherits has numbers of 0 and below.
_VERSION_SCHEMA = {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,17})$"}
_NONE_SCHEMA = {"type": "string", "enum": ["*"]}
_VERSIONED = ("/keys/{key}", "/task")


def complete(document: dict[str, Any]) -> None:
    """Add what Ninja can't know: our errors, headers, streams and examples."""
    schemas = document["components"]["schemas"]
    schema = ErrorOut.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs"))
    schemas["ErrorOut"] = schema
    for name, example in EXAMPLES.items():
        if name in schemas:
            schemas[name]["examples"] = [example]
    _drop_titles([schemas, document["paths"]])
    responses, parameters = _Shared("responses"), _Shared("parameters")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            codes = _complete(operation, path=path, method=method)
            for status, words in sorted(codes.items()):
                response = _response(status, words)
                refused = responses.refer(f"Refused{status}", response)
                operation["responses"][status] = refused
            operation["parameters"] = [
                parameters.refer(each["name"], _parameter(each))
                for each in operation["parameters"]
            ]
    document["components"] |= {
        "responses": responses.named,
        "parameters": parameters.named,
    }


def _drop_titles(part: Any) -> None:
    """Drop what Pydantic makes of a field's name: it says nothing more than the name.

    Only a title that is text is one; a property of that name is a schema.
    """
    if isinstance(part, list):
        for each in part:
            _drop_titles(each)
    if isinstance(part, dict):
        if isinstance(part.get("title"), str):
            del part["title"]
        for key, each in part.items():
            if key not in ("example", "examples"):
                _drop_titles(each)


def _parameter(given: dict[str, Any]) -> dict[str, Any]:
    """Say once what Ninja says of it and of its schema; an address has no null."""
    schema = dict(given["schema"])
    described = [given.get("description"), schema.pop("description", None)]
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema |= kinds[0]
        described.append(schema.pop("description", None))
    said = next(filter(None, described), None)
    return {**given, "schema": schema} | ({"description": said} if said else {})


class _Shared:
    """Parts of a kind that operations refer to, each said once.

    Operations have a thousand refusals and parameters, of which few differ.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.named: dict[str, dict[str, Any]] = {}

    def refer(self, base: str, part: dict[str, Any]) -> dict[str, str]:
        """Answer a reference to this part, which is kept under a name like `base`."""
        base, number = base.replace("-", ""), 1
        name = base
        while self.named.setdefault(name, part) != part:
            number += 1
            name = f"{base}_{number}"
        return {"$ref": f"#/components/{self._kind}/{name}"}


def _complete(
    operation: dict[str, Any], *, path: str, method: str
) -> dict[int, dict[str, str]]:
    """Add headers and streams; answer the codes of refusals, by status."""
    refusals: list[type[Refusal]] = [*operation.pop(CODES), *_ANY]
    writes = method in ("put", "post", "patch")
    if writes:
        refusals += [*_WITH_BODY, ProjectDeletedError, QueueFullError]
    parameters = operation["parameters"]
    if IdempotencyMismatchError in refusals:
        parameters.append(_header("Idempotency-Key", _KEY_SCHEMA))
    if StaleError in refusals and path.endswith(_VERSIONED):
        parameters.append(_header("If-Match", _VERSION_SCHEMA))
        parameters.append(_header("If-None-Match", _NONE_SCHEMA))
    elif StaleError in refusals:
        parameters.append(_header("If-Match", _SEQ_SCHEMA))
    if operation["operationId"].endswith("subject_exports_export"):
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["responses"][200]["content"] = {"application/zip": binary}
    if operation["operationId"].endswith("events_list_all"):
        parameters.append(_header("Last-Event-ID", _SEQ_SCHEMA))
        stream = {"schema": {"type": "string"}}
        operation["responses"][200]["content"]["text/event-stream"] = stream
    return _codes(refusals, writes=writes)


def _codes(
    refusals: Iterable[type[Refusal]], *, writes: bool
) -> dict[int, dict[str, str]]:
    """Codes by status, each with the message that goes with it."""
    found: dict[int, dict[str, str]] = {}
    for refusal in refusals:
        status = STATUS[refusal]
        found.setdefault(status, {})[refusal.code] = refusal().message
    listed = [*_QUERY_CODES]
    if writes:
        listed += [*_PARSER_CODES, *PARSER_STATUS, *_VALUE_CODES]
    for code in listed:
        status = 400 if code in _PARSER_CODES else PARSER_STATUS.get(code, 422)
        found.setdefault(status, {}).setdefault(code, "")
    return found


def _response(status: int, codes: dict[str, str]) -> dict[str, Any]:
    code, message = next(iter(codes.items()))
    problem = Problem(status=status, code=code, detail=message)
    response: dict[str, Any] = {
        "description": "Codes: " + ", ".join(f"`{word}`" for word in sorted(codes)),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/ErrorOut"},
                "example": problem.plain("4f1c2a9be07d6538"),
            }
        },
    }
    if header := _HEADERS.get(status):
        response["headers"] = {header: {"schema": {"type": "string"}}}
    return response


def _header(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": "header", "name": name, "required": False, "schema": schema}
