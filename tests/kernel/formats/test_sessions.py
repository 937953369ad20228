"""Files of other programs: ChatGPT, Claude, fine-tuning, Claude Code, Codex."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord
from memoryhub.kernel.formats.transcripts import (
    ImportedLine,
    ImportedMessage,
    ImportedRun,
    ImportOptions,
    Item,
    Omission,
)

AT = "2026-05-01T08:00:00.250Z"
ASKED = {"role": "user", "content": "When is low tide?"}
SAID = {"role": "assistant", "content": "At nine."}


def read(text: str, source: str = "acme") -> tuple[str, list[Item]]:
    raw = [text[n : n + 7].encode() for n in range(0, len(text), 7)]
    name, items = formats.read(raw, options=ImportOptions(source=source))
    return name, list(items)


def dump_lines(*values: Any) -> str:
    return "".join(json.dumps(each) + "\n" for each in values)


def list_messages(found: list[Item]) -> list[ImportedMessage]:
    assert not any(isinstance(each, BadRecord) for each in found), found
    of_runs = [
        m for each in found if isinstance(each, ImportedRun) for m in each.messages
    ]
    return of_runs + [each.message for each in found if isinstance(each, ImportedLine)]


def route(message: ImportedMessage) -> str:
    return f"{message.from_name}>{message.to_name}" + "*" * message.turn_begins


# fine-tuning


@pytest.mark.parametrize("indent", [None, 2])
def test_line_for_fine_tuning_is_a_thread(indent: int | None) -> None:
    line = {"messages": [ASKED, SAID], "tools": [{"type": "function"}]}
    name, found = read((json.dumps(line, indent=indent) + "\n") * 2)
    assert name == "tuning"
    runs = [each for each in found if isinstance(each, ImportedRun)]
    assert [run.thread.name for run in runs] == ["acme:0", "acme:1"]
    assert runs[0].thread.info == {"tools": [{"type": "function"}]}
    assert [message.content for message in runs[1].messages] == [ASKED, SAID]


def test_bad_message_of_a_line_is_told_by_its_place() -> None:
    good, bad = {"messages": [ASKED]}, {"messages": [ASKED, {"role": "critic"}]}
    _, found = read(dump_lines(good, bad, {"messages": []}, {"messages": 7}, good))
    codes = [(each.code, each.message) for each in found if isinstance(each, BadRecord)]
    assert codes == [("role", 1), ("value", None), ("missing", None)]
    assert isinstance(found[-1], ImportedRun)


# ChatGPT


def node(name: str, parent: str | None, role: str, content: Any, **more: Any) -> Any:
    message = {"id": name, "author": {"role": role}, "content": content, **more}
    return {"id": name, "parent": parent, "children": [], "message": message}


def build_text(*parts: Any) -> dict[str, Any]:
    return {"content_type": "multimodal_text", "parts": [*parts]}


def conversation(*nodes: Any, **more: Any) -> str:
    root: dict[str, Any] = {
        "id": "root",
        "message": None,
        "parent": None,
        "children": [],
    }
    mapping = {each["id"]: each for each in (root, *nodes)}
    return json.dumps([{"title": "Tides", "mapping": mapping, **more}])


def test_chatgpt_export_is_read_along_its_current_branch() -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-1"}
    call = {"content_type": "code", "language": "python", "text": "tide()"}
    output = {"content_type": "execution_output", "text": "09:00"}
    python = {"role": "tool", "name": "python"}
    name, (run, left) = read(
        conversation(
            node("s", "root", "system", build_text("")),
            node(
                "a",
                "s",
                "user",
                build_text("When?", picture),
                create_time=1714564800.25,
            ),
            node("old", "a", "assistant", build_text("Never.")),
            node("t", "a", "assistant", {"content_type": "thoughts", "thoughts": []}),
            node("b", "t", "assistant", call, recipient="python"),
            node("c", "b", "tool", output, author=python),
            node("d", "c", "assistant", build_text("At nine."), recipient="all"),
            node("late", "a", "assistant", build_text("No idea.")),
            current_node="d",
            conversation_id="tides-1",
        )
    )
    assert name == "chatgpt"
    assert left == Omission(
        parts={"branches.messages": 2, "thoughts": 1, "messages.empty": 1}
    )
    assert isinstance(run, ImportedRun)
    assert (run.thread.name, run.thread.info) == ("acme:tides-1", {"title": "Tides"})
    assert [route(each) for each in run.messages] == [
        "user>assistant", "assistant>tool:python*", "tool:python>assistant",
        "assistant>user*",
    ]  # fmt: skip
    assert run.messages[0].content["content"] == "When?\n[image file-1]"
    assert run.messages[0].agent_at == datetime(2024, 5, 1, 12, 0, 0, 250_000, UTC)
    assert not any(each.unknown_call for each in run.messages)


def test_chatgpt_export_without_current_node_follows_its_newest_leaf() -> None:
    nodes = (
        node("a", "root", "user", build_text("When?")),
        node("b", "a", "user", build_text("?")),
    )
    _, found = read(conversation(*nodes))
    assert [each.content["content"] for each in list_messages(found)] == ["When?", "?"]


def test_chatgpt_conversation_without_an_id_is_named_by_its_begin() -> None:
    def list_names(*talks: str) -> list[str]:
        _, found = read(json.dumps([json.loads(each)[0] for each in talks]))
        return [each.thread.name for each in found if isinstance(each, ImportedRun)]

    a, b = (node(name, "root", "user", build_text("When?")) for name in "ab")
    answer = node("c", "a", "assistant", build_text("At nine."))
    (name,) = list_names(conversation(a))
    other, later = list_names(conversation(b), conversation(a, answer))
    assert name == later != other
    assert list_names(conversation(a, create_time=7)) != [name]


def test_chatgpt_s_files_and_memories_are_told_and_the_rest_is_counted() -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://f2"}
    files = {"attachments": [{"id": "f1", "name": "a.pdf"}, {"id": "f2", "name": "b"}]}
    memory = {"content_type": "model_editable_context", "model_set_context": "Nuts."}
    thought = {"content_type": "thoughts", "thoughts": []}
    talk = conversation(
        node("m", "root", "system", memory),
        node("a", "m", "user", build_text(picture, "Read."), metadata=files),
        node("old", "a", "assistant", build_text("No.")),
        node("t", "a", "assistant", thought),
        node("b", "t", "assistant", build_text("Done.")),
        current_node="b",
    )
    nothing = conversation(node("s", "root", "system", build_text("")))
    _, (run, left) = read(json.dumps([*json.loads(talk), *json.loads(nothing)]))
    assert isinstance(run, ImportedRun)
    told = [each.content["content"] for each in run.messages]
    assert told == ["Nuts.", "[image b sediment://f2]\nRead.\n[file a.pdf]", "Done."]
    counted = {"branches.messages": 1, "thoughts": 1, "conversations.empty": 1}
    assert left == Omission(parts=counted)


@pytest.mark.parametrize(
    "mapping",
    [7, {}, {"a": None}, {"a": {"parent": "a", "message": {"author": 7}}},
     {"a": {"parent": [], "message": {"author": {"role": []}, "content": "x"}}}],
)  # fmt: skip
def test_malformed_chatgpt_tree_is_reported_as_bad(mapping: Any) -> None:
    _, (found,) = read(json.dumps([{"mapping": mapping, "current_node": "a"}]))
    assert isinstance(found, BadRecord)


# Claude


def claude(sender: str, *blocks: Any, name: str = "m", **more: Any) -> dict[str, Any]:
    return {"uuid": name, "sender": sender, "text": "", "content": blocks} | more


def exported(*sent: Any, **more: Any) -> str:
    tides = {"uuid": "tides-1", "name": "Tides", "chat_messages": sent}
    return json.dumps([{"uuid": "empty", "chat_messages": []}, tides | more])


def test_claude_s_conversation_is_its_words_results_and_attachments() -> None:
    table = {"file_name": "table.txt", "extracted_content": "low 09:00"}
    said = {"type": "text", "text": "When?", "citations": [], "start_timestamp": AT}
    use = {"type": "tool_use", "name": "look", "input": {}, "message": "Looking"}
    gave = {"type": "text", "text": "09:00", "uuid": "x"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [gave]}
    name, (run, left) = read(
        exported(
            claude(
                "human",
                said,
                attachments=[table],
                files=[{"file_name": "bay.png"}],
                created_at=AT,
            ),
            claude(
                "assistant",
                {"type": "thinking", "thinking": "hm"},
                {**use, "id": "t1"},
                {**result, "is_error": False, "integration_name": None},
                {"type": "text", "text": "At nine."},
                text="At nine.",
            ),
            claude("human", text="Thanks!"),
            claude("assistant", {"type": "text", "text": " "}),
        )
    )
    assert name == "claude"
    assert left == Omission(parts={"conversations.empty": 1, "thoughts": 1})
    assert isinstance(run, ImportedRun)
    assert (run.thread.name, run.thread.info) == ("acme:tides-1", {"title": "Tides"})
    assert [route(each) for each in run.messages] == [
        "user>assistant", "assistant>tool:look*", "tool:look>assistant",
        "assistant>user*", "user>assistant",
    ]  # fmt: skip
    asked, called, answered, *_ = (each.content["content"] for each in run.messages)
    source = {"type": "text", "media_type": "text/plain", "data": "low 09:00"}
    assert asked == [
        {"type": "text", "text": "When?"},
        {"type": "document", "source": source, "title": "table.txt"},
        {"type": "text", "text": "[file bay.png]"},
    ]
    assert called == [{"type": "tool_use", "name": "look", "input": {}, "id": "t1"}]
    assert answered == [
        {**result, "content": [{"type": "text", "text": "09:00"}], "is_error": False}
    ]
    assert [each.content["content"] for each in run.messages[3:]] == [
        "At nine.", "Thanks!",
    ]  # fmt: skip
    assert run.messages[0].agent_at == datetime(2026, 5, 1, 8, 0, 0, 250_000, UTC)


@pytest.mark.parametrize("leaf", [{}, {"current_leaf_message_uuid": "b"}])
def test_claude_s_current_branch_is_read(leaf: dict[str, str]) -> None:
    sent = [
        claude("human", name=name, text=name, parent_message_uuid=parent)
        for name, parent in [("a", "0"), ("b", "a"), ("late", "a"), ("c", "late")]
    ]
    _, found = read(exported(*sent, **leaf))
    said = [each.content["content"] for each in list_messages(found)]
    assert said == (["a", "b"] if leaf else ["a", "late", "c"])


def test_claude_s_message_without_its_predecessor_follows_the_one_before() -> None:
    sent = [
        claude("human", name=name, text=name, parent_message_uuid=parent)
        for name, parent in [("a", "0"), ("b", "a"), ("again", "0"), ("c", "gone")]
    ]
    _, found = read(exported(*sent))
    said = [each.content["content"] for each in list_messages(found)]
    assert said == ["again", "c"]
    _, found = read(exported(*sent[:2], sent[3]))
    assert [each.content["content"] for each in list_messages(found)] == ["a", "b", "c"]


def test_claude_s_cyclic_messages_are_read_once() -> None:
    circle = [
        claude("human", name=name, text=name, parent_message_uuid=parent)
        for name, parent in [("a", "b"), ("b", "a")]
    ]
    _, found = read(exported(*circle))
    assert [each.content["content"] for each in list_messages(found)] == ["a", "b"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [(7, "missing"), ([7], "object_expected"), ([claude("bot", text="x")], "role")],
)
def test_claude_s_malformed_conversation_is_reported_as_bad(
    sent: Any, code: str
) -> None:
    _, found = read(json.dumps([{"chat_messages": sent}, {"chat_messages": []}]))
    assert [each.code for each in found if isinstance(each, BadRecord)] == [code]


# Claude Code


def build_line(kind: str, message: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "message": message,
        "sessionId": "s-1",
        "timestamp": AT,
    } | more


def answer(block: dict[str, Any], name: str = "msg_1") -> dict[str, Any]:
    return {"id": name, "role": "assistant", "content": [block], "model": "m"}


def test_session_of_claude_code_is_its_messages() -> None:
    use = {"type": "tool_use", "id": "u1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "u1", "content": "a.txt"}
    inner = {"isSidechain": True, "agentId": "a7"}
    sent = [
        ASKED,
        answer({"type": "text", "text": "Let me look."}),
        answer(use),
        {"role": "user", "content": [result]},
        answer({"type": "text", "text": "One file."}, "msg_2"),
    ]
    name, found = read(
        dump_lines(
            {"type": "summary", "summary": "Files", "leafUuid": "x"},
            *(build_line(each["role"], each) for each in sent),
            build_line("system", content="hook"),
            build_line("user", ASKED, **inner),
        )
    )
    assert name == "claude-code"
    assert [each.content for each in list_messages(found)] == [*sent, ASKED]
    assert [route(each) for each in list_messages(found)][:5] == [
        "user>assistant", "assistant>user*", "assistant>tool:Bash",
        "tool:Bash>assistant", "assistant>user*",
    ]  # fmt: skip
    names = [each.thread.name for each in found if isinstance(each, ImportedLine)]
    assert names == ["acme:s-1"] * 5 + ["sidechain:acme:s-1:a7"]
    _, found = read(dump_lines(build_line("user", ASKED)), source="s-1")
    assert [each.thread.name for each in found if isinstance(each, ImportedLine)] == [
        "s-1"
    ]


def test_repeated_line_of_claude_code_comes_once() -> None:
    asked, said = (
        build_line("user", ASKED, uuid="u1"),
        build_line("assistant", SAID, uuid="u2"),
    )
    _, found = read(
        dump_lines(asked, said, asked, said, build_line("user", ASKED, uuid="u3"))
    )
    assert [each.content for each in list_messages(found)] == [ASKED, SAID, ASKED]


def test_words_of_claude_code_itself_are_nobody_s() -> None:
    result = {"type": "tool_result", "tool_use_id": "u1", "content": "a.txt"}
    given = {"role": "user", "content": [result]}
    _, found = read(
        dump_lines(
            build_line("user", ASKED),
            build_line("user", ASKED, isMeta=True),
            build_line("user", ASKED, isCompactSummary=True),
            build_line("user", given, isMeta=True),
            build_line("assistant", SAID, isApiErrorMessage=True),
            build_line("assistant", {**SAID, "model": "<synthetic>"}),
            build_line("assistant", SAID, isMeta=False),
        )
    )
    assert [each.content for each in list_messages(found)] == [ASKED, given, SAID]


def test_session_line_of_a_wrong_form_is_reported_as_bad() -> None:
    good = build_line("user", ASKED)
    bad = [build_line("user", "x"), build_line("user", ASKED, timestamp="noon"), [],
           build_line("user", ASKED, sessionId=None)]  # fmt: skip
    _, found = read(dump_lines(good) + "{\n" + dump_lines(*bad[:2], bad[3]))
    assert [each.code for each in found if isinstance(each, BadRecord)] == [
        "invalid_json", "object_expected", "time", "type",
    ]  # fmt: skip


# Codex


def item(kind: str, **members: Any) -> dict[str, Any]:
    payload = {"type": kind, **members}
    return {"timestamp": AT, "type": "response_item", "payload": payload}


def test_session_of_codex_is_its_items() -> None:
    asked = [{"type": "input_text", "text": "What is here?"}]
    items = [
        item("message", role="developer", content=asked),
        item("message", role="user", content=asked),
        item("reasoning", summary=[], encrypted_content="x"),
        item("function_call", name="shell", arguments="{}", call_id="c1"),
        item("function_call_output", call_id="c1", output="a.txt"),
        item("web_search_call", status="completed"),
        item("newest_call", call_id="c2"),
        item("newest_call_output", call_id="c2", output="done"),
        item("compaction", encrypted_content="x"),
        item("message", role="assistant", content=asked),
    ]
    note = {"timestamp": AT, "type": "event_msg", "payload": {"type": "token_count"}}
    meta = {"timestamp": AT, "type": "session_meta", "payload": {"id": "s-1"}}
    name, found = read(dump_lines(meta, *items, note, item("ghost_snapshot")))
    assert name == "codex"
    assert [each.content for each in list_messages(found)] == [
        i["payload"] for i in items
    ]
    assert [route(each) for each in list_messages(found)] == [
        "system>assistant", "user>assistant", "assistant>user*",
        "assistant>tool:shell", "tool:shell>assistant", "assistant>user*",
        "assistant>user", "tool:newest>assistant", "assistant>user*", "assistant>user",
    ]  # fmt: skip
