from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats.transcripts import (
    Calls,
    ImportedMessage,
    read_message,
    read_time,
    require_thread_name,
)
from memoryhub.kernel.text.strict_json import JsonRefusedError


def read(content: Any, calls: Calls | None = None) -> ImportedMessage:
    return read_message(content, thread="t-1", calls=calls or Calls())


def code(content: Any) -> str:
    with pytest.raises(InvalidError) as caught:
        read(content)
    return caught.value.invalid_code


def call(*names: str) -> dict[str, Any]:
    calls = [
        {"id": f"call-{name}", "type": "function", "function": {"name": name}}
        for name in names
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def build_result(call_id: str, **more: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "12:10", **more}


@pytest.mark.parametrize(
    ("content", "role", "type_", "from_name", "to_name"),
    [
        ({"role": "system"}, "system", "chat.system", "system", "assistant"),
        ({"role": "developer"}, "system", "chat.system", "system", "assistant"),
        ({"role": "user"}, "user", "chat.user", "user", "assistant"),
        (
            {"role": "user", "content": " \n"},
            *("user", "chat.user", "user", "assistant"),
        ),
        ({"role": "assistant"}, "assistant", "chat.assistant", "assistant", "user"),
        (call(), "assistant", "chat.assistant", "assistant", "user"),
        (call("find"), "assistant", "chat.assistant", "assistant", "tool:find"),
        (call("find", "book"), "assistant", "chat.assistant", "assistant", "tools"),
        (build_result("x", name="find"), "tool", "chat.tool", "tool:find", "assistant"),
        (build_result("x"), "tool", "chat.tool", "tool:tool", "assistant"),
        (
            {"role": "function", "name": "find"},
            "tool",
            "chat.tool",
            "tool:find",
            "assistant",
        ),
        (
            {"role": "assistant", "function_call": {"name": "find"}},
            "assistant",
            "chat.assistant",
            "assistant",
            "tool:find",
        ),
        (
            {"role": "assistant", "tool_calls": [{"custom": {"name": "grep"}}]},
            "assistant",
            "chat.assistant",
            "assistant",
            "tool:grep",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "x"}]},
            "assistant",
            "chat.assistant",
            "assistant",
            "tool:tool",
        ),
    ],
)
def test_role_says_who_speaks_to_whom(
    content: dict[str, Any], role: str, type_: str, from_name: str, to_name: str
) -> None:
    message = read(content)
    assert (message.role, message.type) == (role, type_)
    assert (message.from_name, message.to_name) == (from_name, to_name)
    assert message.turn_begins == (role == "assistant")


def test_content_is_the_whole_message_with_fields_we_do_not_know() -> None:
    content = {
        "refusal": None,
        "role": "user",
        "content": "hi",
        "x": [{"b": 1, "a": 2}],
    }
    assert read(content).content == content
    assert list(read(content).content) == list(content)


def test_result_is_named_after_the_call_it_answers() -> None:
    calls = Calls()
    read(call("find", "book"), calls)
    first, second = (
        read(build_result("call-book"), calls),
        read(build_result("call-find"), calls),
    )
    assert (first.from_name, second.from_name) == ("tool:book", "tool:find")
    assert not first.unknown_call


def test_result_goes_by_its_own_name_first() -> None:
    calls = Calls()
    read(call("find"), calls)
    answer = read(build_result("call-find", name="search"), calls)
    assert answer.from_name == "tool:search"
    assert not answer.unknown_call


def test_result_of_a_call_that_was_not_seen_is_kept_and_marked() -> None:
    assert read(build_result("call-find", name="find")).unknown_call
    assert read({"role": "tool", "content": "x"}).unknown_call
    assert read({"role": "function", "name": "find"}).unknown_call


def test_old_function_call_is_linked_by_its_name() -> None:
    calls = Calls()
    read({"role": "assistant", "function_call": {"name": "find"}}, calls)
    assert not read({"role": "function", "name": "find"}, calls).unknown_call


def test_calls_of_another_thread_are_not_mixed_in() -> None:
    calls = Calls()
    read_message(call("find"), thread="t-2", calls=calls)
    assert read(build_result("call-find"), calls).unknown_call


def test_completed_tool_call_is_addressed_to_the_user() -> None:
    hosted = {"type": "web_search_call", "id": "ws", "status": "completed"}
    done = {"type": "tool-find", "toolCallId": "c", "input": {}, "output": "12:10"}
    assert read(hosted).to_name == "user"
    assert read({"role": "assistant", "parts": [done]}).to_name == "user"


def test_only_the_latest_calls_are_remembered() -> None:
    calls = Calls()
    read(call("find"), calls)
    for number in range(4_096):
        calls.note("t-1", f"later-{number}", "book")
    assert read(build_result("call-find"), calls).unknown_call
    assert not read(build_result("later-0"), calls).unknown_call


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], "object_expected"),
        ("hello", "object_expected"),
        (None, "object_expected"),
        ({}, "missing"),
        ({"role": None}, "missing"),
        ({"role": "critic"}, "role"),
        ({"role": "User"}, "role"),
        ({"role": 7}, "role"),
        ({"role": ["user"]}, "role"),
    ],
)
def test_message_that_can_not_be_a_slot_is_refused_by_code(
    content: Any, expected: str
) -> None:
    assert code(content) == expected


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"role": "assistant", "tool_calls": {}, "function_call": {}}, "user"),
        ({"role": "assistant", "tool_calls": {"a": 1}}, "tool:tool"),
        ({"role": "assistant", "tool_calls": ["find"]}, "user"),
        (call("get weather"), "tool:get_weather"),
        (call("harbour/charts.search"), "tool:harbour_charts.search"),
        (call("n" * 123), "tool:" + "n" * 123),
        (call("n" * 124), "tool:" + "n" * 123),
        (build_result("x", name="naïve\n"), "tool:na_ve_"),
    ],
)
def test_name_of_a_tool_is_never_a_reason_to_stop(content: Any, name: str) -> None:
    found = read(content)
    assert name in (found.from_name, found.to_name)
    assert found.content == content


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            {"type": "function_call", "call_id": "c", "name": "find", "arguments": ""},
            {"type": "function_call_output", "call_id": "c", "output": "found"},
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c", "name": "find", "input": {}}
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]},
        ),
        (
            {"role": "model", "parts": [{"functionCall": {"name": "find"}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "find"}}]},
        ),
        (
            {"type": "ai", "content": "", "tool_calls": [{"id": "c", "name": "find"}]},
            {"type": "tool", "content": "found", "tool_call_id": "c"},
        ),
    ],
    ids=["responses", "anthropic", "gemini", "langchain"],
)
def test_calls_and_results_of_other_apis_are_known(
    call: dict[str, Any], answer: dict[str, Any]
) -> None:
    calls = Calls()
    called, answered = read(call, calls), read(answer, calls)
    assert (called.role, called.to_name) == ("assistant", "tool:find")
    assert (answered.role, answered.from_name) == ("tool", "tool:find")
    assert not answered.unknown_call


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"role": "user", "content": "x" * 1_048_576}, "body_too_large"),
        ({"role": "user", "content": [0] * 10_000}, "too_many_nodes"),
    ],
)
def test_message_has_the_limits_of_a_request(content: Any, expected: str) -> None:
    with pytest.raises(JsonRefusedError, match=expected):
        read(content)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-15T15:00:00Z", datetime(2024, 5, 15, 15, tzinfo=UTC)),
        (
            "2024-05-15T15:00:00.250+02:00",
            datetime(2024, 5, 15, 13, 0, 0, 250_000, UTC),
        ),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2200-12-31T23:59:59Z", datetime(2200, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_time_is_read_with_its_offset(text: str, moment: datetime) -> None:
    assert read_time(text) == moment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-15T15:00:00", "time"),
        ("2024-05-15", "time"),
        ("2024-05-15T24:00:00Z", "time"),
        ("2024-05-15T23:59:60Z", "time"),
        ("2024-02-30T12:00:00Z", "time"),
        ("2024-05-15T15:00:00+25:00", "time"),
        ("٢٠٢٤-05-15T15:00:00Z", "time"),
        (1_715_785_200, "time"),
        (True, "time"),
        ("0001-01-01T00:00:00+14:00", "time_range"),
        ("9999-12-31T23:59:59-14:00", "time_range"),
        ("1970-01-01T00:00:00+14:00", "time_range"),
        ("1969-12-31T23:59:59Z", "time_range"),
        ("2201-01-01T00:00:00Z", "time_range"),
    ],
)
def test_malformed_time_is_refused(text: Any, expected: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_time(text)
    assert caught.value.invalid_code == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mh.home", "reserved_name"), ("_x", "name"), ("a b", "name"), (7, "type")],
)
def test_thread_name_is_one_that_agents_may_choose(name: Any, expected: str) -> None:
    with pytest.raises(InvalidError) as caught:
        require_thread_name(name)
    assert caught.value.invalid_code == expected
