"""Files of other memory stores: mem0, Letta, Zep."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord
from memoryhub.kernel.formats.transcripts import (
    ImportedBlock,
    ImportedClaim,
    ImportedRun,
    ImportOptions,
    Item,
    Omission,
)
from memoryhub.kernel.messages import reading

EARLY, LATE = "2026-05-01T08:00:00.250000+00:00", "2026-05-02T01:00:00-07:00"


def read(*values: Any, **options: str) -> tuple[str, list[Item]]:
    raw = "\n".join(map(json.dumps, values)).encode()
    asked = ImportOptions(**{"source": "acme", **options})
    cut = [raw[n : n + 7] for n in range(0, len(raw), 7)]
    name, items = formats.read(cut, options=asked)
    return name, [*items]


Kind = TypeVar("Kind")


def pick(found: list[Item], kind: type[Kind]) -> list[Kind]:
    return [each for each in found if isinstance(each, kind)]


def count_parts(found: list[Item]) -> dict[str, int]:
    (omission,) = pick(found, Omission)
    return dict(omission.parts)


# mem0


def memory(text: str, id_: str = "m1", at: str = EARLY, **more: Any) -> dict[str, Any]:
    return {"id": id_, "memory": text, "hash": "9f", "created_at": at, **more}


TEA = memory("Drinks tea", user_id="ann", metadata={"source": "crm"})
SEAT = memory(
    *("Sits by the window", "m0", LATE),
    user_id="ann",
    categories=["travel"],
    expiration_date="2027-01-31",
)


@pytest.mark.parametrize(
    "values",
    [
        ([SEAT, TEA, TEA],),
        ({"results": [SEAT, TEA]},),
        ({"count": 2, "next": "…", "results": [SEAT]}, {"count": 2, "results": [TEA]}),
        ({"memories": [TEA, SEAT]},),
    ],
)
def test_mem0_memories_of_a_user_are_a_thread_by_time(values: Any) -> None:
    name, found = read(*values)
    assert name == "mem0"
    (run,) = pick(found, ImportedRun)
    assert (run.thread.user_id, run.thread.name[:5]) == ("ann", "acme:")
    assert "ann" not in run.thread.name
    tea, seat = run.messages
    assert tea.content == {
        "role": "system",
        "content": "Drinks tea",
        "id": "m1",
        "created_at": EARLY,
        "metadata": {"source": "crm"},
    }
    assert seat.content["expiration_date"] == "2027-01-31"
    assert seat.content["categories"] == ["travel"]
    assert seat.agent_at == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert count_parts(found) == {"memory.hash": 2}


def test_mem0_scope_is_the_scope_of_the_thread() -> None:
    said = memory("I moved.", "m2", role="user", actor_id="Ann", run_id="r 1")
    named = {"agent_id": "desk", "app_id": "shop", "user_id": "ann"}
    _, found = read([{**said, **named}, {**TEA, "user_id": None}])
    run, other = pick(found, ImportedRun)
    assert (run.thread.scope.agent_instance, run.thread.scope.session) == ("desk", None)
    assert run.thread.labels["app_id"] == "shop"
    (message,) = run.messages
    assert (message.role, message.content["run_id"]) == ("user", "r 1")
    assert other.thread.user_id is None
    assert other.thread.name != run.thread.name


def test_mem0_time_without_offset_is_in_utc() -> None:
    _, found = read([TEA, {**TEA, "id": "m9", "created_at": "2026-05-03T08:00:00.5"}])
    (run,) = pick(found, ImportedRun)
    at = datetime(2026, 5, 3, 8, 0, 0, 500_000, UTC)
    assert [each.agent_at for each in run.messages][1] == at


def test_mem0_relations_are_counted_and_bad_memories_told() -> None:
    page = {"results": [TEA, {**TEA, "id": "x", "memory": 7}], "relations": [{}, {}]}
    _, found = read(page)
    (bad,) = pick(found, BadRecord)
    assert (bad.code, bad.message) == ("missing", 1)
    assert bad.place.offset == json.dumps(page).index('{"id": "x"')
    assert count_parts(found) == {"memory.hash": 1, "relations": 2}


def test_mem0_user_id_may_be_the_operator_s() -> None:
    _, found = read([TEA], user_id="bob", agent_type="desk")
    (run,) = pick(found, ImportedRun)
    assert (run.thread.user_id, run.thread.scope.agent_type) == ("bob", "desk")


# Letta


def build_message(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "content": [*content],
        "name": None,
        "id": "message-1",
        "agent_id": "agent-0",
        "created_at": EARLY,
        **more,
    }


def build_text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "signature": None}


def block(label: str, value: str, **more: Any) -> dict[str, Any]:
    return {"id": "block-7", "label": label, "value": value, "limit": 500, **more}


def build_file(*messages: Any, blocks: Any = (), **more: Any) -> dict[str, Any]:
    agent = {
        "id": "agent-0",
        "name": "Iris",
        "system": "Be brief.",
        "secrets": ["k"],
        "tool_ids": ["tool-0"],
        "llm_config": {"model": "x"},
        "memory_blocks": [],
    }
    agents = [{**agent, "messages": [*messages]}]
    return {"agents": agents, "blocks": [*blocks], "tools": [{}, {}], **more}


CALL = {"id": "c1", "type": "function", "function": {"name": "dig", "arguments": "{}"}}
RETURN = {"tool_call_id": "c1", "status": "success", "func_response": "Sand."}


def read_contents(*messages: Any) -> list[Any]:
    _, found = read(build_file(*messages))
    (run,) = pick(found, ImportedRun)
    return [message.content for message in run.messages]


@pytest.mark.parametrize("twice", [False, True])
def test_letta_agent_is_a_thread_and_blocks(twice: bool) -> None:
    blocks = [
        block("human", "Ann rows.", description="The user", read_only=True),
        block("system/human/work", "Surveyor", tags=["a", "b"]),
        block("human", "Another."),
        block("human", "Ann rows."),
    ]
    whole = build_file(
        build_message("user", build_text("Hi")),
        blocks=blocks,
        mcp_servers=[],
    )
    name, found = read(json.dumps(whole) if twice else whole)
    assert name == "letta"
    (run,) = pick(found, ImportedRun)
    assert run.thread.name == "acme:agent-0"
    assert run.thread.info == {"name": "Iris", "system": "Be brief."}
    (hi,) = run.messages
    assert (hi.role, hi.content["content"]) == (
        "user",
        [{"type": "text", "text": "Hi"}],
    )
    assert hi.agent_at == datetime(2026, 5, 1, 8, 0, 0, 250_000, tzinfo=UTC)
    made = [(b.name, b.text, b.read_only) for b in pick(found, ImportedBlock)]
    assert made == [
        ("human", "Ann rows.", True),
        ("system.human.work", "Surveyor", False),
        ("human:block-7", "Another.", False),
    ]
    counted = {"tools": 2, "agent.secrets": 1, "agent.llm_config": 1}
    assert count_parts(found) == {**counted, "block.limit": 4, "block.tags": 2}


def test_letta_calls_and_results_are_those_of_the_message() -> None:
    thought = {"type": "reasoning", "reasoning": "Sand?", "is_native": False}
    part = {"type": "tool_call", "id": "c1", "name": "dig", "input": {}}
    asked, *told = read_contents(
        build_message("assistant", thought, part, tool_calls=[CALL]),
        build_message(
            "tool", build_text("Sand."), tool_call_id="c1", tool_returns=[RETURN]
        ),
        build_message("tool", tool_returns=[RETURN, {**RETURN, "status": "error"}]),
        build_message(
            "tool",
            build_text("Rock."),
            tool_returns=[{**RETURN, "func_response": None}],
        ),
        build_message("tool", build_text("Rock."), tool_call_id="c1"),
        {
            **build_message("tool", tool_returns=[{**RETURN, "stderr": ["x"]}]),
            "content": "Hm",
        },
    )
    spoken = reading.read(asked)
    assert [call.name for call in spoken.calls] == ["dig"]
    assert [each.words for each in spoken.thoughts] == ["Sand?"]
    results = [reading.read(each).results for each in told]
    assert [[each.id for each in found] for found in results] == [
        *(["c1"], ["c1", "c1"], ["c1"], ["c1"], ["c1"])
    ]
    assert [each.failed for each in results[1]] == [False, True]
    heard = [found[0].parts[0].words for found in results]
    assert heard == ["Sand.", "Sand.", "Rock.", "Rock.", "Sand."]
    assert [part["type"] for part in told[4]["content"]] == ["text", "tool_result"]
    assert told[4]["content"][1]["stderr"] == ["x"]


def test_letta_result_without_a_call_is_that_of_its_message() -> None:
    nameless = {"status": "error", "func_response": "Rock."}
    _, *told = read_contents(
        build_message("assistant", tool_calls=[CALL]),
        build_message("tool", tool_call_id="c1", tool_returns=[nameless]),
        build_message("tool", tool_call_id="c1", tool_returns=[nameless, nameless]),
        build_message(
            "tool", tool_call_id="c0", tool_returns=[{**nameless, "tool_call_id": "c1"}]
        ),
    )
    results = [reading.read(each).results for each in told]
    assert [[each.id for each in found] for found in results] == [
        *(["c1"], ["c1", None], ["c1"])
    ]


def test_letta_group_and_sender_of_a_message_are_counted() -> None:
    _, found = read(
        build_file(build_message("user", build_text("Hi"), group_id="g", sender_id="s"))
    )
    parts = count_parts(found)
    assert (parts["message.group_id"], parts["message.sender_id"]) == (1, 1)
    (run,) = pick(found, ImportedRun)
    assert not {"group_id", "sender_id"} & run.messages[0].content.keys()


def test_letta_approvals_summaries_and_silence() -> None:
    told = {"type": "summarized_reasoning", "summary": [{"index": 0, "text": "Why"}]}
    sealed = {"type": "redacted_reasoning", "data": "x"}
    allowed = {"type": "approval", "tool_call_id": "c1", "approve": False}
    _, found = read(
        build_file(
            build_message("approval", tool_calls=[CALL]),
            build_message("approval", approvals=[allowed], approve=False),
            build_message(
                "approval", approvals=[{"tool_call_id": "c1", "tool_return": "Ok"}]
            ),
            build_message("summary", build_text("Before")),
            build_message("assistant", told, sealed, {"type": "omitted_reasoning"}),
            build_message(
                "tool", {"type": "tool_return", "tool_call_id": "c1", "content": "x"}
            ),
            build_message("assistant", {"type": "omitted_reasoning"}),
        )
    )
    (run,) = pick(found, ImportedRun)
    roles = [message.role for message in run.messages]
    assert roles == ["assistant", "user", "tool", "system", "assistant", "tool"]
    assert run.messages[1].content["approve"] is False
    assert count_parts(found)["message.empty"] == 1


def test_letta_file_of_one_agent_and_bad_parts_are_read() -> None:
    old = {"name": "Iris", "core_memory": [block("human", "Ann")], "version": "0.6"}
    name, found = read({**old, "messages": [build_message("user", build_text("Hi"))]})
    assert (name, len(pick(found, ImportedBlock))) == ("letta", 1)
    assert [run.thread.name for run in pick(found, ImportedRun)] == ["acme:0"]
    _, found = read(build_file(build_message("critic", build_text("Boo"))))
    (bad,) = pick(found, BadRecord)
    assert (bad.code, bad.message) == ("role", 0)
    asked = ImportOptions(source="acme")
    for raw in (b'"{', b'"[]"', b'{"agents": 1}'):
        *_, last = formats.read([raw], options=asked, format_name="letta")[1]
        assert isinstance(last, BadRecord), raw


# Zep


def edge(fact: str, **more: Any) -> dict[str, Any]:
    nodes = {"source_node_uuid": "n1", "target_node_uuid": "n2"}
    made = {"uuid": "e1", "name": "LIVES_IN", "created_at": LATE, **nodes}
    return {**made, "fact": fact, "valid_at": EARLY, **more}


def build_turn(role: str, words: str, at: str = EARLY, **more: Any) -> dict[str, Any]:
    return {"uuid": "z", "role": role, "content": words, "created_at": at, **more}


def test_zep_edges_are_claims_with_their_times() -> None:
    ended = edge("Ann lived in Oslo", invalid_at=LATE, attributes={"k": 1})
    name, found = read(
        {"edges": [ended], "user_uuid": "u1"},
        {"items": [edge("Ann rows", valid_at=None, user_uuid="u1")], "total_size": 1},
        {"nodes": [{"uuid": "n1", "name": "Ann", "labels": []}]},
        {"users": [{"uuid": "u1", "user_id": "ann"}]},
        {"edges": [edge("x", valid_at=None, created_at=None)]},
    )
    assert name == "zep"
    oslo, rows = pick(found, ImportedClaim)
    then, now = oslo.fact, rows.fact
    assert (oslo.user_id, then.entity, then.predicate) == ("ann", "Ann", "LIVES_IN")
    assert then.value == "Ann lived in Oslo"
    assert then.valid_from == datetime.fromisoformat(EARLY)
    assert then.valid_until == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert (now.valid_from, now.valid_until) == (then.valid_until, None)
    assert [bad.code for bad in pick(found, BadRecord)] == ["time"]
    lone = count_parts(read({"edges": [edge("Ann rows")], "total_size": 1})[1])
    assert lone["edges.without_user"] == 1
    assert count_parts(found) == {"edge.attributes": 1, "nodes": 1, "users": 1}


def test_zep_messages_are_the_threads_of_their_users() -> None:
    late = build_turn("assistant", "At nine.", LATE, thread_uuid="t1", processed=True)
    early = build_turn(
        "user", "When?", thread_uuid="t1", reference_time=LATE, name="Ann"
    )
    name, found = read(
        {"items": [late, early, late], "next_cursor": None, "total_size": 2},
        {"messages": [build_turn("Bo", "Hm", role_type="user")], "user_id": "bo"},
        {"threads": [{"uuid": "t1", "thread_id": "a", "user_uuid": "ann"}]},
    )
    assert name == "zep"
    first, second = pick(found, ImportedRun)
    assert [run.thread.name for run in (first, second)] == ["acme:t1", "acme"]
    assert [run.thread.user_id for run in (first, second)] == ["ann", "bo"]
    question, answer = first.messages
    assert question.content == {"role": "user", "content": "When?", "name": "Ann",
                                "reference_time": LATE}  # fmt: skip
    assert (answer.role, question.agent_at) == ("assistant", answer.agent_at)
    assert second.messages[0].content == {"role": "user", "content": "Hm", "name": "Bo"}
    assert not pick(found, BadRecord)


def test_zep_messages_are_in_the_order_of_their_times() -> None:
    """Zep's times leave out the last zeros of a fraction, so as text they mislead."""
    times = ["01:00:00Z", "01:00:00.12346Z", "01:00:00.123461Z", "01:00:00.1234615Z"]
    page = [build_turn("user", at, f"2026-05-01T{at}") for at in reversed(times)]
    name, found = read({"messages": page, "user_id": "bo", "row_count": 4})
    (run,) = pick(found, ImportedRun)
    assert (name, run.thread.user_id) == ("zep", "bo")
    assert [each.content["content"] for each in run.messages] == times
