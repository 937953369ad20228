from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord, TextPosition
from memoryhub.kernel.formats.transcripts import (
    ImportedLine,
    ImportedRun,
    ImportOptions,
    Item,
)
from memoryhub.kernel.state.state import ScopeLabels
from tests.cast import sample

OPTIONS = ImportOptions(source="acme")
HELLO = {"role": "user", "content": "hello"}
REPLY = {"role": "assistant", "content": "hi"}
CANARY = "mia.li3818"


def iter_chunks(raw: bytes, step: int = 65_536) -> Iterator[bytes]:
    return (raw[start : start + step] for start in range(0, len(raw), step))


def read(
    raw: bytes, name: str = "auto", options: ImportOptions = OPTIONS, step: int = 65_536
) -> list[Item]:
    return list(
        formats.read(iter_chunks(raw, step), options=options, format_name=name)[1]
    )


def run(task: Any = 0, trial: Any = 0, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "trial": trial, "traj": [HELLO, REPLY], **more}


def dump(*runs: Any, indent: int | None = None) -> bytes:
    return json.dumps(runs, ensure_ascii=False, indent=indent).encode()


def dump_lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


def read_run(**more: Any) -> ImportedRun:
    (found,) = read(dump(run(**more)), "runs")
    assert isinstance(found, ImportedRun)
    return found


def read_bad(raw: bytes, name: str = "runs") -> BadRecord:
    found = read(raw, name)
    assert read(raw, name, step=3) == found
    (bad,) = [each for each in found if isinstance(each, BadRecord)]
    assert CANARY not in repr(bad)
    return bad


def read_lines(*messages: Any, options: ImportOptions = OPTIONS) -> list[ImportedLine]:
    found = read(dump_lines(*messages), "chat", options)
    assert all(isinstance(line, ImportedLine) for line in found), found
    return [line for line in found if isinstance(line, ImportedLine)]


# runs


def test_run_is_a_thread_of_its_own() -> None:
    info = {"task": {"user_id": "ann"}, "cost": 0.5}
    found = read_run(task=7, trial=1, reward=1.0, info=info)
    assert found.thread.name == "acme:7:1"
    assert found.thread.user_id == "ann"
    assert found.thread.scope == ScopeLabels(
        agent_type="acme", agent_instance="task-7", session="trial-1"
    )
    assert found.thread.labels == {
        "source": "acme",
        "format": "runs",
        "task_id": 7,
        "trial": 1,
        "reward": 1.0,
    }
    assert found.thread.info == info
    assert (found.thread.trial, found.thread.reward) == (1, 1.0)
    assert [message.content for message in found.messages] == [HELLO, REPLY]
    assert found.index == 0
    assert found.place == TextPosition(line=1, offset=1)


def test_run_fields_that_are_absent_stay_unset() -> None:
    found = read_run(task="refund.2", reward=None, info={"task": {"user_id": None}})
    assert found.thread.name == "acme:refund.2:0"
    assert found.thread.user_id is None
    assert found.thread.reward is None
    assert "reward" not in found.thread.labels
    assert read_run(info=[1]).thread.user_id is None
    assert read_run().thread.info is None


def test_operator_options_override_fields_of_the_run() -> None:
    options = ImportOptions(source="acme", user_id="bob", agent_type="desk")
    info = {"task": {"user_id": "ann"}}
    (found,) = read(dump(run(info=info)), options=options)
    assert isinstance(found, ImportedRun)
    assert found.thread.user_id == "bob"
    assert found.thread.scope.agent_type == "desk"


def test_unknown_run_fields_are_counted() -> None:
    assert read_run(seed=1, model="gpt").unknown_fields == 2


@pytest.mark.parametrize(
    ("element", "code"),
    [
        (7, "object_expected"),
        ([], "object_expected"),
        ({"trial": 0, "traj": []}, "missing"),
        ({"task_id": 0, "traj": []}, "missing"),
        ({"task_id": 0, "trial": 0}, "missing"),
        (run(task=True), "type"),
        (run(task=1.5), "type"),
        (run(task=CANARY + " x"), "name"),
        (run(task=""), "name"),
        (run(task="t" * 124), "name"),
        (run(trial="0"), "type"),
        (run(trial=False), "type"),
        (run(reward="1"), "type"),
        (run(reward=True), "type"),
        (run(traj={}), "type"),
        (run(traj=[]), "value"),
        (run(info={"task": {"user_id": ""}}), "value"),
        (run(info={"task": {"user_id": 7}}), "type"),
    ],
)
def test_run_that_cannot_be_a_thread_is_reported_as_bad(
    element: Any, code: str
) -> None:
    bad = read_bad(dump(run(), element, run(1), indent=1))
    assert (bad.code, bad.run, bad.message, bad.final) == (code, 1, None, False)


def test_run_with_a_reserved_name_is_reported_as_bad() -> None:
    options = ImportOptions(source="mh.x")
    (bad,) = read(dump(run()), options=options)
    assert isinstance(bad, BadRecord)
    assert bad.code == "reserved_name"


def test_repeated_run_is_reported_as_bad() -> None:
    found = read(dump(run(1), run("1"), run(1, 1), run(2)))
    assert [type(each) for each in found] == [
        ImportedRun,
        BadRecord,
        ImportedRun,
        ImportedRun,
    ]
    assert isinstance(found[1], BadRecord)
    assert (found[1].code, found[1].run) == ("duplicate_run", 1)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('{"role": "critic", "content": "mia.li3818"}', "role"),
        ('"mia.li3818"', "object_expected"),
        ('{"role": "user", "content": NaN, "x": "mia.li3818"}', "non_finite"),
        ('{"role": "user", "mia.li3818": 1, "mia.li3818": 2}', "duplicate_key"),
        ('{"role": "user", "content": "mia.li3818\\u0000"}', "nul"),
        ('{"role": "user", "content": "mia.li3818\\ud800"}', "surrogate"),
        ('{"role": "user", "content": ' + "[" * 32 + "]" * 32 + "}", "too_deep"),
        ('{"role": "user", "content": ' + "[" * 99 + "]" * 99 + "}", "too_deep"),
        ('{"role": "user", "content": [' + "1," * 9_999 + "1]}", "too_many_nodes"),
        ('{"role": "user", "content": "' + "x" * 1_048_577 + '"}', "body_too_large"),
    ],
)
def test_bad_message_is_reported_with_its_place(message: str, code: str) -> None:
    whole = json.dumps(HELLO)
    first = dump(run())[1:-1].decode()
    element = (
        f'{{"task_id": 1, "trial": 0,\n "traj": [{whole},\n  {message}, {whole}]}}'
    )
    raw = f"[{first},\n{element}, {first}]".replace('"task_id": 0', '"task_id": 9', 1)
    bad = read_bad(raw.encode())
    assert (bad.code, bad.run, bad.message, bad.final) == (code, 1, 1, False)
    assert bad.place == TextPosition(line=4, offset=raw.index(message))


def test_invalid_utf8_is_reported_with_its_place() -> None:
    raw = dump(run(), run(1)).replace(b"hello", b"hel\xfflo")
    first, second = read(raw)
    assert isinstance(first, BadRecord)
    assert isinstance(second, BadRecord)
    assert (first.code, first.run, first.message) == ("encoding", 0, 0)
    assert first.place.offset == raw.index(b"\xff")
    assert second.place.offset == raw.rindex(b"\xff")


def test_broken_json_in_an_array_ends_the_file_and_tells_its_place() -> None:
    raw = dump(run(), run(1), run(2)).replace(b'"hi"', b'"hi" oops', 1)
    (bad,) = [each for each in read(raw) if isinstance(each, BadRecord)]
    assert (bad.code, bad.run, bad.message, bad.final) == ("invalid_json", 0, 1, True)
    assert bad.place.offset == raw.index(b"oops")


def test_run_with_too_many_nodes_is_bad() -> None:
    many = [{"role": "user", "content": [0] * 9_000}] * 23
    bad = read_bad(dump(run(), run(1, traj=many)))
    assert (bad.code, bad.run, bad.message) == ("too_many_nodes", 1, None)


# chat


def test_line_is_a_message_of_the_source_s_thread() -> None:
    first, second = read_lines(HELLO, REPLY)
    assert first.thread.name == second.thread.name == "acme"
    assert first.thread.scope == ScopeLabels(agent_type="acme")
    assert first.thread.labels == {"source": "acme", "format": "chat"}
    assert first.thread.user_id is None
    assert second.message.turn_begins
    assert (second.index, second.place.line) == (1, 2)


def test_line_may_say_its_thread_subject_and_time() -> None:
    sent = {
        "thread": "t-1",
        "user_id": "ann",
        "at": "2024-05-15T15:00:00Z",
        **HELLO,
    }
    first, second, third = read_lines(sent, {**REPLY, "thread": "t-1"}, HELLO)
    assert (first.thread.name, first.thread.user_id) == ("t-1", "ann")
    assert first.message.agent_at is not None
    assert first.message.agent_at.isoformat() == "2024-05-15T15:00:00+00:00"
    assert first.message.content == sent
    assert second.thread.user_id == "ann"
    assert (third.thread.name, third.thread.user_id) == ("acme", None)


def test_operator_s_thread_is_for_lines_without_one() -> None:
    options = ImportOptions(source="acme", thread="desk", user_id="bob")
    first, second = read_lines({**HELLO, "thread": "t-1"}, HELLO, options=options)
    assert [first.thread.name, second.thread.name] == ["t-1", "desk"]
    assert [first.thread.user_id, second.thread.user_id] == ["bob", "bob"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"role": "critic"}', "role"),
        ('{"role": "user", "content": NaN}', "non_finite"),
        ('{"role": "user"} x', "invalid_json"),
        ('["user"]', "object_expected"),
        ('{"content": "mia.li3818"}', "missing"),
        ('{"role": "user", "thread": "mh.x"}', "reserved_name"),
        ('{"role": "user", "thread": ""}', "name"),
        ('{"role": "user", "thread": 7}', "type"),
        ('{"role": "user", "user_id": "mia.li3818 "}', "value"),
        ('{"role": "user", "at": "2024-05-15"}', "time"),
        ('{"role": "user", "at": "1024-05-15T12:00:00Z"}', "time_range"),
        ('{"role": "user", "content": "' + "x" * 1_048_577 + '"}', "body_too_large"),
    ],
)
def test_bad_line_is_reported_with_its_place(line: str, code: str) -> None:
    before, after = dump_lines(HELLO), dump_lines(REPLY)
    bad = read_bad(before + b"\n" + line.encode() + b"\n" + after, "chat")
    assert (bad.code, bad.run, bad.message, bad.final) == (code, None, 1, False)
    assert bad.place.line == 3
    inside = line.index(" x") + 1 if code == "invalid_json" else 0
    assert bad.place.offset == len(before) + 1 + inside


def test_bad_call_leaves_no_result_behind() -> None:
    call = {"id": "c1", "function": {"name": "find", "arguments": "{}"}}
    bad = {"role": "assistant", "tool_calls": [call], "at": "noon"}
    result = {"role": "tool", "tool_call_id": "c1", "content": "12:10"}
    first, second, last = read(dump_lines(bad, result, REPLY), "chat")
    assert isinstance(first, BadRecord)
    assert isinstance(second, BadRecord)
    assert (first.code, second.code) == ("time", "unknown_call")
    assert isinstance(last, ImportedLine)


def test_last_line_that_is_cut_off_is_truncated() -> None:
    raw = dump_lines(HELLO, REPLY)[:-9]
    bad = read_bad(raw, "chat")
    assert (bad.code, bad.message) == ("truncated", 1)
    assert bad.place == TextPosition(line=2, offset=len(raw))


def test_last_line_needs_no_line_break() -> None:
    found = read(dump_lines(HELLO, REPLY)[:-1])
    assert [type(each) for each in found] == [ImportedLine, ImportedLine]


def test_line_of_another_subject_does_not_enter_the_thread() -> None:
    first, bad, third = read(
        dump_lines({**HELLO, "user_id": "ann"}, {**HELLO, "user_id": "bob"}, REPLY)
    )
    assert isinstance(bad, BadRecord)
    assert bad.code == "subject_conflict"
    assert isinstance(first, ImportedLine)
    assert isinstance(third, ImportedLine)
    assert third.thread.user_id == "ann"


def test_anonymous_thread_takes_no_line_of_a_subject() -> None:
    _, bad = read(dump_lines(HELLO, {**HELLO, "user_id": "bob"}))
    assert isinstance(bad, BadRecord)
    assert bad.code == "subject_conflict"


# detection


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (dump(run()), "runs"),
        (b"\xef\xbb\xbf\n\n " + dump(run()), "runs"),
        (b"[]", "runs"),
        (dump_lines(HELLO), "chat"),
        (dump(run()).replace(b'"hi"', b"NaN"), "runs"),
        (b"[{", "runs"),
        (b"{", "chat"),
    ],
)
def test_first_record_tells_the_format(raw: bytes, name: str) -> None:
    assert formats.read(iter_chunks(raw, 2), options=OPTIONS)[0] == name


@pytest.mark.parametrize(
    "raw",
    [
        b"<html></html>",
        b"\x80\x04\x95pickle",
        b"---\nrole: user\n",
        b"SQLite format 3\x00",
        b"\x81\xa4role\xa4user",
        dump(HELLO),
        json.dumps(HELLO, indent=2).encode(),
        b"[1]",
        dump_lines(run()),
        dump_lines({"role": None, "inputs": {}}),
        dump_lines({"type": "summary"}),
        dump(run()).decode().encode("utf-16"),
    ],
)
def test_file_of_unknown_format_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError) as caught:
        read(raw)
    assert caught.value.invalid_code == "unknown_format"


@pytest.mark.parametrize("raw", [b"", b" \n\r\n", b"\xef\xbb\xbf"])
def test_empty_file_is_reported_as_empty(raw: bytes) -> None:
    with pytest.raises(InvalidError) as caught:
        read(raw)
    assert caught.value.invalid_code == "empty"


def test_requested_format_is_not_detected_again() -> None:
    assert read_bad(dump({"task_id": 1, "trial": 1})).code == "missing"
    assert read_bad(b"<html>").code == "unknown_format"


def test_format_reader_reads_no_further_than_needed() -> None:
    def endless() -> Iterator[bytes]:
        yield b"["
        for number in range(1_000_000):
            yield dump(run(number))[1:-1] + b","

    _, found = formats.read(endless(), options=OPTIONS)
    first = next(found)
    assert isinstance(first, ImportedRun)
    assert first.thread.name == "acme:0:0"


# the recorded runs of a real agent


def test_sample_maps_as_counted() -> None:
    options = ImportOptions(source=sample.NAME)
    raw = sample.require_path().read_bytes()
    found = [
        each for each in read(raw, options=options) if isinstance(each, ImportedRun)
    ]
    messages = [message for each in found for message in each.messages]
    assert len({each.thread.name for each in found}) == sample.THREADS
    assert len({each.thread.user_id for each in found}) == sample.SUBJECTS
    assert Counter(message.role for message in messages) == sample.ROLES
    assert sum(message.turn_begins for message in messages) == sample.TURNS
    assert not any(message.unknown_call for message in messages)
    expected = [message for each in json.loads(raw) for message in each["traj"]]
    assert [message.content for message in messages] == expected
