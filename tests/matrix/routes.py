"""API operations that are not about people, with a valid request for each."""

from __future__ import annotations

from typing import Any

from memoryhub.api import api as agent_api
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.models import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.memory import checkpoints, keys, working_memory
from memoryhub.services.observing import observers
from memoryhub.services.people import subjects
from memoryhub.services.turns import marks, turns
from memoryhub.services.turns.turns import NewTurn
from tests.api.client import PAGE, SLOT, Answer, Client, run
from tests.cast import factories, knowing

CALL = {"name": "look", "arguments": {"n": 1}}

INSERTED, RENAMED = {"line": 0, "text": "Ann."}, {"name": "people/ann"}
APPENDED, REPLACED = {"text": " She flies."}, {"old": "Ann", "new": "Anne"}
REVERTED = {"version": 1}
FACT = {"entity": "user", "predicate": "tier", "value": "Gold"}
KEY = {"op": "set", "key": "seat", "value": "12A"}
OBSERVATION = {
    "from": 2,
    "to": 3,
    "epoch": 0,
    "lines": [{"mark": "low", "text": "She says hello."}],
}
#: By operation: target, body, and whether the target is one thread.
ROWS: dict[str, tuple[str, object, bool]] = {
    "get /api/v1/threads": ("/threads", None, False),
    "post /api/v1/threads:search": ("/threads:search", {}, False),
    "get /api/v1/stats": ("/stats", None, False),
    "put /api/v1/threads/{thread}": ("/threads/{t}", {}, True),
    "get /api/v1/threads/{thread}": ("/threads/{t}", None, True),
    "patch /api/v1/threads/{thread}": ("/threads/{t}", {"labels": {}}, True),
    "post /api/v1/threads/{thread}:close": ("/threads/{t}:close", {}, True),
    "post /api/v1/threads/{thread}:reopen": ("/threads/{t}:reopen", {}, True),
    "post /api/v1/threads/{thread}:fork": ("/threads/{t}:fork", {"thread": "f"}, True),
    "post /api/v1/threads/{thread}/slots": ("/threads/{t}/slots", SLOT, True),
    "post /api/v1/threads/{thread}/slots:batch": (
        "/threads/{t}/slots:batch",
        {"items": [SLOT]},
        True,
    ),
    "post /api/v1/threads/{thread}/slots:strike": (
        "/threads/{t}/slots:strike",
        {"indexes": [0]},
        True,
    ),
    "get /api/v1/threads/{thread}/slots": ("/threads/{t}/slots", None, True),
    "get /api/v1/threads/{thread}/slots/{index}": ("/threads/{t}/slots/0", None, True),
    "get /api/v1/threads/{thread}/messages": ("/threads/{t}/messages", None, True),
    "get /api/v1/threads/{thread}/events": ("/threads/{t}/events", None, True),
    "get /api/v1/threads/{thread}/stats": ("/threads/{t}/stats", None, True),
    "get /api/v1/tools": ("/tools", None, False),
    "get /api/v1/receipt-keys": ("/receipt-keys", None, False),
    "post /api/v1/receipts:verify": ("/receipts:verify", {"receipt": {}}, False),
    **{
        f"{method} /api/v1/threads/{{thread}}{path.replace('slot-0', '{page_id}')}": (
            "/threads/{t}" + path,
            body,
            True,
        )
        for method, path, body in (
            ("post", "/pages", PAGE),
            ("post", "/pages:batch", {"items": [PAGE]}),
            ("put", "/system-prompt", {"text": "Be brief."}),
            ("get", "/pages", None),
            ("get", "/pages/slot-0", None),
            ("get", "/pages/slot-0/history", None),
            ("patch", "/pages/slot-0", {"importance": 0.9}),
            ("post", "/pages/slot-0/fault", {}),
            ("post", "/pages/slot-0/map", {}),
            ("post", "/pages/slot-0/pin", {}),
            ("post", "/pages/slot-0/unpin", {}),
            ("post", "/pages/slot-0/reference", {}),
            ("get", "/working-set", None),
            ("get", "/tlb", None),
            ("get", "/paging", None),
            ("get", "/curves", None),
            ("get", "/manifest", None),
            ("get", "/prefetch", None),
            ("get", "/mutations", None),
            ("post", "/tlb:flush", {}),
            ("post", "/prefetch:clear", {}),
            ("post", "/tlb:invalidate", {"tier": "L0"}),
            ("get", "/context", None),
            ("post", "/turns", {}),
            ("get", "/turns", None),
            ("post", "/tool-calls", {}),
            ("get", "/tools", None),
            ("put", "/tools", {"items": []}),
            ("post", "/tool-calls:check", CALL),
            ("post", "/tool-calls:record", {**CALL, "outcome": "success"}),
            ("get", "/bindings", None),
            ("get", "/procedures", None),
        )
    },
    "put /api/v1/threads/{thread}/pages/{page_id}": (
        "/threads/{t}/pages/rules",
        PAGE,
        True,
    ),
    "delete /api/v1/threads/{thread}/pages/{page_id}": (
        "/threads/{t}/pages/note",
        None,
        True,
    ),
    "post /api/v1/threads/{thread}/pages/{page_id}/evict": (
        "/threads/{t}/pages/note/evict",
        {},
        True,
    ),
    "get /api/v1/threads/{thread}/turns/{turn}": ("/threads/{t}/turns/1", None, True),
    **{
        f"get /api/v1/threads/{{thread}}/turns/{{turn}}/{lens}": (
            f"/threads/{{t}}/turns/2/{lens}",
            None,
            True,
        )
        for lens in ("diff", "prefix")
    },
    "post /api/v1/threads/{thread}/turns/{turn}/feedback": (
        "/threads/{t}/turns/1/feedback",
        {"corrected": False, "cited": ["slot-0"]},
        True,
    ),
    "put /api/v1/threads/{thread}/turns/{turn}/mark": (
        "/threads/{t}/turns/1/mark",
        {"mark": "good"},
        True,
    ),
    "delete /api/v1/threads/{thread}/turns/{turn}/mark": (
        "/threads/{t}/turns/1/mark",
        None,
        True,
    ),
    "get /api/v1/turns:marked": ("/turns:marked", None, False),
    "get /api/v1/threads/{thread}/turns/{turn}/context": (
        "/threads/{t}/turns/1/context",
        None,
        True,
    ),
    **{
        f"{method} /api/v1/threads/{{thread}}{route}": (
            "/threads/{t}" + path,
            body,
            True,
        )
        for method, route, path, body in (
            ("put", "/keys/{key}", "/keys/new", {"value": 1}),
            ("get", "/keys/{key}", "/keys/seat", None),
            ("patch", "/keys/{key}", "/keys/seat", {"ttl_seconds": 60}),
            ("delete", "/keys/{key}", "/keys/seat", None),
            ("get", "/keys", "/keys", None),
            ("post", "/keys:batch", "/keys:batch", {"items": [KEY]}),
            ("post", "/keys:clear", "/keys:clear", {}),
            ("get", "/task", "/task", None),
            ("put", "/task", "/task", {}),
            ("patch", "/task", "/task", {"current_step": 1}),
            ("delete", "/task", "/task", None),
            ("post", "/notes", "/notes", {"text": "hm"}),
            ("post", "/notes:batch", "/notes:batch", {"items": [{"text": "hm"}]}),
            ("get", "/notes", "/notes", None),
            ("post", "/notes:clear", "/notes:clear", {}),
            ("post", "/checkpoints", "/checkpoints", {}),
            ("get", "/checkpoints", "/checkpoints", None),
            ("get", "/checkpoints:compare", "/checkpoints:compare?a=here", None),
            ("get", "/checkpoints/{checkpoint}", "/checkpoints/here", None),
            ("delete", "/checkpoints/{checkpoint}", "/checkpoints/here", None),
            (
                "post",
                "/checkpoints/{checkpoint}:restore",
                "/checkpoints/here:restore",
                {},
            ),
            ("get", "/working-memory", "/working-memory", None),
            ("post", "/facts", "/facts", FACT),
            ("post", "/facts:batch", "/facts:batch", {"items": [FACT]}),
            ("get", "/facts", "/facts", None),
            ("get", "/blocks", "/blocks", None),
            ("get", "/blocks/{block}", "/blocks/persona", None),
            ("put", "/blocks/{block}", "/blocks/persona", {"text": "Ann."}),
            ("post", "/blocks/{block}/append", "/blocks/persona/append", APPENDED),
            ("post", "/blocks/{block}/insert", "/blocks/persona/insert", INSERTED),
            ("post", "/blocks/{block}/rename", "/blocks/persona/rename", RENAMED),
            ("post", "/blocks/{block}/replace", "/blocks/persona/replace", REPLACED),
            ("post", "/blocks/{block}/revert", "/blocks/persona/revert", REVERTED),
            ("delete", "/blocks/{block}", "/blocks/persona", None),
            ("post", "/search", "/search", {"query": "hello"}),
            ("post", "/recall", "/recall", {"query": "hello"}),
            ("get", "/observer", "/observer", None),
            ("patch", "/observer", "/observer", {"observer": "Keep numbers."}),
            ("get", "/log", "/log", None),
            ("get", "/observations", "/observations", None),
            ("get", "/generations", "/generations", None),
            ("post", "/observations", "/observations", OBSERVATION),
            ("post", "/observer:run", "/observer:run", {}),
            ("post", "/observer:activate", "/observer:activate", {}),
            ("post", "/observer:abort", "/observer:abort", {}),
            ("post", "/observer:resume", "/observer:resume", {}),
            ("post", "/observer:reflect", "/observer:reflect", {}),
        )
    },
}
OF_A_THREAD = [label for label, row in ROWS.items() if row[2]]
#: Operations that make a thread of a new name instead of answering 404.
MAKING = {
    "put /api/v1/threads/{thread}",
    "put /api/v1/threads/{thread}/system-prompt",
    "put /api/v1/threads/{thread}/pages/{page_id}",
    "post /api/v1/threads/{thread}/pages",
    "post /api/v1/threads/{thread}/pages:batch",
    "post /api/v1/threads/{thread}/turns",
    "post /api/v1/threads/{thread}/slots",
    "post /api/v1/threads/{thread}/slots:batch",
    "put /api/v1/threads/{thread}/keys/{key}",
    "post /api/v1/threads/{thread}/keys:batch",
    "put /api/v1/threads/{thread}/task",
    "put /api/v1/threads/{thread}/tools",
    "post /api/v1/threads/{thread}/tool-calls:record",
    "post /api/v1/threads/{thread}/notes",
    "post /api/v1/threads/{thread}/notes:batch",
    "post /api/v1/threads/{thread}/checkpoints",
}
OPERATIONS = {
    f"{method} {path}": operation
    for path, methods in agent_api.get_openapi_schema()["paths"].items()
    for method, operation in methods.items()
}
_SHARED = agent_api.get_openapi_schema()["components"]["parameters"]


def declaring(name: str) -> list[str]:
    """List the thread operations that take this parameter or header."""
    return [label for label in OF_A_THREAD if name in _parameters(OPERATIONS[label])]


def _parameters(operation: Any) -> set[str]:
    listed = operation.get("parameters", ())
    return {
        _SHARED[each["$ref"].rpartition("/")[2]]["name"]
        if "$ref" in each
        else each["name"]
        for each in listed
    }


def client_of(project: Project, **options: Any) -> Client:
    return Client(key=factories.make_key(project, **options)[1])


def ask(
    client: Client, label: str, *, thread: str = "t-1", query: str = "", **options: Any
) -> Answer:
    target, body, _ = ROWS[label]
    method = label.partition(" ")[0].upper()
    where = target.format(t=thread)
    where += f"{'&' if '?' in where else '?'}{query}" if query else ""
    return run(client.send(method, where, body, **options))


def make_whole(agent: Agent) -> None:
    """Make a thread of ann: an evictable page, messages, turns, all kinds of memory.

    The first two messages are observed, at such length that the log can be condensed.
    """
    factories.make_thread(agent, "t-1", user_id="ann", auto_pin_turns=0, observe=True)
    factories.make_page(agent, "note")
    factories.append(agent, "t-1", "hello", "I greet all of you. " * 20)
    for act in (observers.observe_now, observers.activate_observations):
        factories.run(act(agent=agent, thread="t-1"))
    factories.append(agent, "t-1", "more")
    for _ in range(2):
        factories.run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn()))
    marks.mark_for_operator(factories.get_thread(agent), 1, "wrong", actor="operator:1")
    seat = keys.build_setting("seat", "12A", Expiry())
    factories.run(keys.change_keys(agent=agent, thread="t-1", changes=(seat,)))
    for command in (SetTask(), AddNotes(notes=(NewNote(text=b'"hm"', bytes=2),))):
        work = working_memory.submit_command(agent=agent, thread="t-1", command=command)
        factories.run(work)
    ann = subjects.find_or_create(agent.project, "ann")
    knowing.say(agent, ann, knowing.claim("Gold", predicate="tier"))
    draft = BlockDraft(block="persona", text="Ann.")
    factories.run(blocks.put_block(agent=agent, subject=ann, draft=draft))
    here = TakeCheckpoint(name="here")
    factories.run(checkpoints.take_checkpoint(agent=agent, thread="t-1", command=here))
