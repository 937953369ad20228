"""Completion of the OpenAPI document: statuses with their codes, headers, examples.

See decision 51.
"""

from __future__ import annotations

from typing import Any, Final

from memoryhub.api.document import compact, glossary
from memoryhub.api.document.fields import NAME_SCHEMA, By
from memoryhub.api.document.refused import SharedResponses
from memoryhub.api.document.schemas import ErrorOut
from memoryhub.errors import (
    IdempotencyMismatchError,
    InProgressError,
    Refusal,
    StaleError,
)
from memoryhub.kernel.state.erase_events import Reason
from memoryhub.kernel.state.pages import Modality, PageType, Tier

#: Ninja extras of an operation: the scope a route needs, the refusals it adds.
SCOPE: Final = "x-scope"
CODES: Final = "x-codes"

DESCRIPTION = """\
Memory for agents: threads of messages that are appended, kept and read back, and pages
of which each model call is given as many as its budget holds.

**Identity.** `Authorization: Bearer mh_…`, nowhere else. A key belongs to one project;
to it other projects do not exist.

**Names** are ASCII, `[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}`, exact, and in the clear: for
identifiers, not for text about people. Threads `mh.…` and `_…` are reserved.

**Bodies** are strict JSON in UTF-8, at most 1 MiB, 32 deep, 10,000 values; times are
RFC 3339. Integers have 64 bits, in content any size. **Lists** answer `items` and
`next`; send `next` back as `after`.

**Errors** are `application/problem+json`; `code` is stable, and what was sent is never
repeated. A 422 names each field in `errors[].loc`, a member whose name is not ours by
its number, from 0; `detail` says what is taken. A refused request changed nothing. A
500 `internal` is our mistake: its `request_id` finds the line in the log. `default`
lists what any operation may answer; a status has an operation's further codes.

**Writes**: with an `Idempotency-Key` a POST has one effect for 24 hours. A repeat is
told what came of it, of a person as it is by then; the first answer is not kept, and
the key goes with the person.
`If-Match` takes the head `seq` you saw. A 2xx means it is on disk.

**Paging**: `POST …/turns` begins a model call and answers its `request`; a model's tool
call goes to `POST …/tool-calls` as it came. Tokens are those of the thread's tokenizer:
`est/1`, or `o200k_base`; without the extra for that each write brings `tokens`.
A refused fault is the one refusal that may be journaled. The fault budget (429
`fault_budget`) is no rate: it says `renews: next_exchange` and has no `Retry-After`.

**Working memory** of a thread is its keys, the task, notes and checkpoints. Each read
takes `at_seq` or `at_turn`. A key is any JSON under a name that does not begin with `_`
or `mh.`, until it expires, if it does. On keys, items, the task and blocks `If-Match`
takes the version that a read gave, and on the first three `If-None-Match: *` says that
there must be none. What a fork inherits has numbers of 0 and below. A subject's items
are keys of the home thread `mh.home.<subject_id>`, named by a namespace, a colon and a
key.

**People.** A person is named by a `user_id` in a body, never in an address:
`POST /subjects:resolve` gives the id for other routes. What was erased answers 410,
with the `erasure` and its `receipt`, if they are your project's.
While a subject is restricted its memory is neither read nor written (409
`subject_restricted`), and lists leave it out. While it is held no page of it is
deleted (409 `subject_held`, until when is said). A value that was erased for a subject
may not be written for it again (410 `value_erased`, with the `tombstone` that an
officer can lift); to say it in a message is no such write. A key that is bound to a
subject has names of threads for itself: what it calls `<name>` other keys call
`<subject_id>:<name>`.

**Forgetting** has keys of its own, with the scope `subject:forget`, and takes two
steps: a plan says what would go, what stays and what is out of reach; its token and its
count confirm it. From then on everything in scope answers 410. `GET /erasures/{id}`
tells how far it is, until there is a receipt.

**Limits**, all configurable: 500 requests a second and key (burst 1,000), 20 a second
and address without a valid key, 10 GiB a day, 50 open streams and sockets; beyond them
429 with `Retry-After`. Each answer to a valid key has `RateLimit-Policy:
"key";q=1000;w=2`, the burst and the seconds in which it comes back, and `RateLimit:
"key";r=998;t=1`, the requests left and the seconds until all are back.
Headers 16 KiB, address 8 KiB.

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
gone, 4429 beyond a limit, 1009 too big, 1011 our mistake. After 1012 (restart, or the
hour is over) and 1013 (too busy) connect again, and follow from your last seq.
"""

#: Refusals that only an Idempotency-Key can cause.
_REPEATS = (IdempotencyMismatchError, InProgressError)
#: Enums of many fields; a client has each once, by this name.
_ENUMS = {
    "By": By,
    "ErasureReason": Reason,
    "Modality": Modality,
    "PageType": PageType,
    "Tier": Tier,
}
#: Fields that several schemas have alike; a client has each once, by this name.
_FIELDS = {
    "ByteCount": "SlotOut.bytes",
    "ErasureState": "ErasureOut.state",
    "ErasureWait": "ErasureOut.waiting_on",
    "EvictionPolicy": "ConfigOut.policy",
    "ExpiryTime": "KeyOut.expires_at",
    "KeySeq": "KeyOut.seq",
    "Labels": "ThreadIn.labels",
    "MemoryKinds": "RecallIn.kinds",
    "NextCursor": "SlotsOut.next",
    "OverBudget": "TurnOut.over_budget",
    "PageContent": "PageIn.content",
    "PageId": "PageOut.page_id",
    "PageLevels": "PageOut.levels",
    "PageVersion": "PageOut.version",
    "PinRule": "PageOut.pinned",
    "Provenance": "PageIn.provenance",
    "SearchOrder": "RecallIn.order",
    "SearchQuery": "RecallIn.query",
    "Seq": "SlotOut.seq",
    "SlotIndex": "SlotOut.index",
    "TaskData": "TaskOut.data",
    "ThreadId": "ThreadOut.thread_id",
    "ThreadName": "ThreadOut.thread",
    "TokenCount": "SlotOut.tokens",
    "TurnNumber": "TurnOut.turn",
    "UnknownReferences": "TurnOut.unknown_refs",
    "WriteTime": "SlotOut.at",
}
#: Schemas of request headers.
_KEY_SCHEMA = {"type": "string", "pattern": "^[!-~]{1,255}$"}
_SEQ_SCHEMA = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"}
#: A seq, plain or as an entity tag.
_TAG_SCHEMA = {
    "type": "string",
    "pattern": '^(0|[1-9][0-9]{0,17}|"(0|[1-9][0-9]{0,17})")$',
}
#: Version of a key or the task; versions that a fork inherits are 0 or negative.
_VERSION_SCHEMA = {
    "type": "string",
    "pattern": '^(0|-?[1-9][0-9]{0,17}|"(0|-?[1-9][0-9]{0,17})")$',
}
_NONE_SCHEMA = {"type": "string", "enum": ["*"]}
_VERSIONED = ("/keys/{key}", "/task", "/items/{namespace}/{key}")


def complete(document: dict[str, Any]) -> None:
    """Add our errors, headers, streams, descriptions and examples to a document."""
    schemas = document["components"]["schemas"]
    schema = ErrorOut.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs"))
    schemas["ErrorOut"] = schema
    compact.shorten([schemas, document["paths"]])
    errors = {"$ref": "#/components/schemas/ErrorOut"}
    compact.prune(schemas, [document["paths"], errors])
    glossary.describe(schemas)
    compact.share_examples(schemas)
    compact.name_enums(schemas, _ENUMS)
    compact.name_fields(schemas, _FIELDS)
    _hoist_security(document)
    refusals, parameters = SharedResponses(), compact.Shared("parameters")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            given = _complete_operation(operation, path=path, method=method)
            writes = method in ("put", "post", "patch")
            operation["responses"] |= refusals.build_responses(given, writes=writes)
            operation["parameters"] = [
                parameters.refer(each["name"], glossary.describe_parameter(each))
                for each in operation["parameters"]
            ]
    operations = [each for path in document["paths"].values() for each in path.values()]
    refusals.share_answers(operations)
    document["components"] |= {
        "responses": refusals.named,
        "parameters": parameters.named,
    }
    compact.write_out_rare_parts(document, ("parameters", "responses"))
    compact.name_schema(NAME_SCHEMA, "Name", document)
    schemas["Name"] = {**NAME_SCHEMA}


def _hoist_security(document: dict[str, Any]) -> None:
    """Tell once what each operation demands alike: a key."""
    operations = [each for path in document["paths"].values() for each in path.values()]
    document["security"] = operations[0]["security"]
    for operation in operations:
        if operation["security"] == document["security"]:
            del operation["security"]


def _complete_operation(
    operation: dict[str, Any], *, path: str, method: str
) -> list[type[Refusal]]:
    """Add summary, headers and streams to an operation; return its own refusals."""
    refusals: list[type[Refusal]] = operation.pop(CODES)
    parameters = operation["parameters"]
    # Other writes are idempotent or versioned and ignore the header.
    if IdempotencyMismatchError in refusals and method == "post":
        parameters.append(_build_header("Idempotency-Key", _KEY_SCHEMA))
    else:
        refusals = [each for each in refusals if each not in _REPEATS]
    if StaleError in refusals and path.endswith(_VERSIONED):
        parameters.append(_build_header("If-Match", _VERSION_SCHEMA))
        parameters.append(_build_header("If-None-Match", _NONE_SCHEMA))
    elif StaleError in refusals:
        parameters.append(_build_header("If-Match", _TAG_SCHEMA))
    name = operation["operationId"]
    summary, _, more = operation.pop("description").partition(".")
    operation["summary"] = f"{summary}."
    if more.strip():
        operation["description"] = more.strip()
    answers = operation["responses"]
    if name == "subject_exports_export":
        binary = {"schema": {"type": "string", "format": "binary"}}
        answers[200]["content"] = {"application/zip": binary}
    if name == "events_list_all":
        parameters.append(_build_header("Last-Event-ID", _SEQ_SCHEMA))
        stream = {"schema": {"type": "string"}}
        answers[200]["content"]["text/event-stream"] = stream
    return refusals


def _build_header(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"in": "header", "name": name, "schema": schema}
