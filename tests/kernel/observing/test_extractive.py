"""The extractive observer: a line for what was said, one for a run of tools."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing.extractive import ObservedSlot, observe, reflect
from memoryhub.kernel.observing.lines import SIGNS, render_lines

BEGUN = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
SLOTS = st.builds(
    ObservedSlot,
    index=st.just(0),
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    at=st.just(BEGUN),
    text=st.none() | st.text(max_size=40),
    tokens=st.integers(1, 2_000),
    tools=st.lists(st.sampled_from(["grep", "read"]), max_size=3).map(tuple),
    error=st.booleans(),
)
THREADS = st.lists(SLOTS, min_size=1, max_size=40).map(
    lambda found: [each._replace(index=n) for n, each in enumerate(found, 7)]
)


def build_slot(index: int, role: str, text: str | None, **more: Any) -> ObservedSlot:
    at = BEGUN + timedelta(minutes=index)
    return ObservedSlot(index, role, at, text, tokens=500, **more)


def test_slot_is_a_line_and_a_run_of_tools_is_one() -> None:
    spoken = [
        build_slot(4, "user", "Where is order A-17?"),
        build_slot(5, "assistant", "I'll look.", tools=("find", "find")),
        build_slot(6, "tool", "none"),
        build_slot(7, "tool", "timeout", error=True),
        build_slot(8, "assistant", None),
        build_slot(9, "user", None),
        build_slot(10, "tool", "left over"),
        build_slot(11, "assistant", "", tools=("find", "read"), arguments=("", "a.py")),
        build_slot(12, "tool", "sent"),
        build_slot(13, "tool", "by post"),
        build_slot(14, "assistant", "It was sent."),
    ]
    lines = observe(spoken, count=estimate_tokens)
    rows = render_lines(lines).splitlines()
    assert rows == [
        "## 2026-03-01",
        "- 🔴 14:09 user: Where is order A-17? [4]",
        "- 🟢 14:10 tool find ×2 → none [5-7]",
        "- 🔴 14:12 tool error: timeout [7]",
        "- 🟢 14:13 [2 messages erased] [8-9]",
        "- 🟢 14:15 tool find ×1; read ×1: a.py → by post [10-13]",
        "- 🟡 14:19 assistant: It was sent. [14]",
    ]
    assert {line.mark for line in lines} < set(SIGNS)


def test_each_code_stands_where_it_was_said_first() -> None:
    spoken = [
        build_slot(0, "user", "Where is A-17?", codes=("A-17",)),
        build_slot(1, "assistant", "", tools=("find",), codes=("A-17",)),
        build_slot(2, "tool", "{}", codes=("A-17", "B-18", "C-19")),
        build_slot(3, "assistant", "Here is a list:", codes=("A-17", "C-19")),
    ]
    assert [line.text for line in observe(spoken, count=estimate_tokens)] == [
        "user: Where is A-17?",
        "tool find ×1 → {} (B-18)",
        "assistant: Here is a list: (C-19)",
    ]


def test_codes_outlast_what_was_said_around_them() -> None:
    spoken = [
        build_slot(n, "assistant", f"{'word ' * 40}and then", codes=(f"A-{n}",))
        for n in range(10, 40)
    ]
    spoken = [each._replace(tokens=60) for each in spoken]
    lines = observe(spoken, count=estimate_tokens)
    assert estimate_tokens(render_lines(lines)) <= 30 * 60 // 5
    shown = " ".join(line.text for line in lines)
    assert sum(f"A-{n}" in shown for n in range(10, 40)) >= 24
    shorter = reflect(lines, tokens=180, count=estimate_tokens)
    assert "A-39" in " ".join(line.text for line in shorter)


def test_rules_wishes_and_files_outlast_what_is_said_around_them() -> None:
    spoken = [
        build_slot(0, "user", "Good day. Never deploy on a Friday."),
        build_slot(1, "assistant", "", tools=("write",), arguments=("src/main.py",)),
        build_slot(2, "tool", "ok"),
        build_slot(3, "user", "I prefer the cottage."),
        build_slot(4, "user", "Thanks!"),
        *(
            build_slot(n, "user", f"{'It rained on the hills. ' * 6}")
            for n in range(5, 60)
        ),
    ]
    lines = reflect(
        observe(spoken, count=estimate_tokens), tokens=90, count=estimate_tokens
    )
    text = render_lines(lines)
    for kept in ("Never deploy on a Friday.", "I prefer the cottage.", "src/main.py"):
        assert kept in text
    assert "Good day" not in text
    assert estimate_tokens(text) <= 90


def test_wish_outlasts_a_rule_that_is_said_again() -> None:
    spoken = [
        build_slot(0, "user", "I prefer the cottage by the lake."),
        build_slot(1, "user", "Never call Anna on a Friday, ever."),
        *(
            build_slot(n, "user", "Never call Odile on a Friday, ever.")
            for n in range(2, 40)
        ),
    ]
    lines = reflect(
        observe(spoken, count=estimate_tokens), tokens=100, count=estimate_tokens
    )
    told = [each.text for each in lines]
    assert told[:2] == [f"user: {each.text}" for each in spoken[:2]]
    assert told[-1] == f"user: {spoken[-1].text}"


def test_wish_outlasts_codes_of_what_is_folded() -> None:
    spoken = [
        build_slot(0, "user", "I prefer the cottage by the lake."),
        *(
            build_slot(n, "assistant", f"{'word ' * 40}and", codes=(f"A-{n}", f"B-{n}"))
            for n in range(1, 40)
        ),
    ]
    lines = observe(spoken, count=estimate_tokens)
    text = render_lines(reflect(lines, tokens=100, count=estimate_tokens))
    assert "I prefer the cottage by the lake." in text
    assert "A-39" in text


def test_tools_that_nobody_called_are_counted() -> None:
    (line,) = observe(
        [build_slot(0, "tool", "a"), build_slot(1, "tool", "b")], count=estimate_tokens
    )
    assert line.text == "tool ×2 → b"


@given(THREADS)
def test_extractive_is_deterministic_and_small(spoken: list[ObservedSlot]) -> None:
    lines = observe(spoken, count=estimate_tokens)
    assert observe(tuple(spoken), count=estimate_tokens) == lines
    raw = sum(each.tokens for each in spoken)
    assert estimate_tokens(render_lines(lines)) <= max(200, raw // 5)
    covered = {n for line in lines for n in range(line.first, line.end)}
    assert covered == {each.index for each in spoken}


@given(THREADS, st.integers(30, 300))
def test_log_is_reflected_by_folding_it(
    spoken: list[ObservedSlot], tokens: int
) -> None:
    lines = observe(spoken, count=estimate_tokens)
    shorter = reflect(lines, tokens=tokens, count=estimate_tokens)
    assert len(shorter) == 1 or estimate_tokens(render_lines(shorter)) <= tokens
    end = max(line.end for line in shorter)
    assert (shorter[0].first, end) == (7, 7 + len(spoken))
