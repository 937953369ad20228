"""Procedures: patterns in the recorded calls of an agent's own tools. Pure.

A success that follows a failure of the same tool and goal is the failure's fix.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memoryhub.kernel.guards.bindings import render_shown
from memoryhub.kernel.search import terms
from memoryhub.kernel.state.calls import CallOutcome
from memoryhub.kernel.text import strict_json

#: Earlier calls among which a success looks for the failure that it fixes.
LOOK_BACK = 10
#: Most patterns of a kind for a tool, and most contexts or traces of a pattern.
PATTERNS, TRACES = 10, 5
#: Most items of a kind that a request shows, and arguments of one item.
SHOWN, ARGUMENTS = 3, 10
#: Successes with the same arguments' names that make a pattern worth a page.
REPEATED = 2
#: Most characters of an error's type, of a goal, and of a line of a request.
TYPE_CHARS, GOAL_CHARS, LINE_CHARS = 120, 160, 2_000
_FAILED: frozenset[CallOutcome] = frozenset({"failure", "timeout"})
_DIGITS = re.compile(r"\d+")
KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A recorded call, opened, and the message of the user that it served."""

    clock: int
    #: Place among all recorded calls, oldest first.
    number: int
    tool: str
    arguments: Mapping[str, Any]
    outcome: CallOutcome
    error: str = ""
    duration_ms: int | None = None
    #: Clock and text of the message; the text is empty once erased.
    goal_clock: int = 0
    goal: str = ""

    @property
    def has_failed(self) -> bool:
        return self.outcome in _FAILED

    @property
    def error_type(self) -> str:
        """First line of the error, with numbers as 0, so that equal errors meet."""
        line = next(iter(self.error.strip().splitlines()), "")
        return _DIGITS.sub("0", cut_text(line, TYPE_CHARS)) or self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFix:
    """Difference between a failed call and the success that fixed the failure."""

    #: Clocks of the two calls.
    failed: int
    fixed: int
    added: Mapping[str, Any] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def is_retry(self) -> bool:
        """Whether the same arguments succeeded: the failure was transient."""
        return not (self.added or self.removed or self.changed)

    @property
    def delta(self) -> str:
        """Changes as `+a; -b; k:old->new`; empty for a retry."""
        pairs = self.changed.items()
        parts = [
            *(f"+{_cut_name(name)}" for name in self.added),
            *(f"-{_cut_name(name)}" for name in self.removed),
            *(
                f"{_cut_name(k)}:{render_shown(a)}->{render_shown(b)}"
                for k, (a, b) in pairs
            ),
        ]
        return "; ".join(parts[:ARGUMENTS])


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPattern:
    """Base of patterns: how often, for which goals, and the newest calls."""

    count: int
    #: Texts and clocks of the newest goals.
    contexts: tuple[str, ...]
    context_clocks: tuple[int, ...]
    #: Clocks of the newest calls, newest first.
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPattern(CallPattern):
    type: str
    #: The newest fix with the usual difference; None if nothing has helped yet.
    fix: CallFix | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessPattern(CallPattern):
    #: Arguments by name, as the newest call had them, cut.
    hints: Mapping[str, str]
    #: Mean over the calls that were timed.
    mean_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProcedures:
    """All patterns of a tool, most frequent first."""

    tool: str
    calls: int
    failures: int
    mean_ms: float | None
    errors: tuple[ErrorPattern, ...]
    successes: tuple[SuccessPattern, ...]
    #: The newest calls, newest first.
    recent: tuple[PastCall, ...]

    @property
    def fixed(self) -> tuple[ErrorPattern, ...]:
        """Errors with a fix, as many as a request shows."""
        return tuple(each for each in self.errors if each.fix)[:SHOWN]

    @property
    def repeated(self) -> tuple[SuccessPattern, ...]:
        """Successes that were repeated, as many as a request shows."""
        return tuple(e for e in self.successes if e.count >= REPEATED)[:SHOWN]

    @property
    def lessons(self) -> frozenset[object]:
        """Lessons of the page, without counts and the newest calls."""
        errors = [
            (each.type, each.contexts, each.fix and each.fix.delta)
            for each in self.fixed
        ]
        return frozenset([*errors, *(tuple(each.hints) for each in self.repeated)])

    @property
    def source_clocks(self) -> tuple[int, ...]:
        """Clocks of all calls and messages that the page quotes, sorted."""
        clocks = {each.clock for each in self.recent}
        for pattern in (*self.fixed, *self.repeated):
            clocks |= {*pattern.calls, *pattern.context_clocks}
        clocks |= {c for e in self.fixed if e.fix for c in (e.fix.failed, e.fix.fixed)}
        return tuple(sorted(clocks))


def build_procedures(calls: Sequence[PastCall]) -> tuple[ToolProcedures, ...]:
    """Build the patterns of each tool from calls in their order, tools by name."""
    fixes = find_fixes(calls)
    by_tool = _group(calls, (each.tool for each in calls))
    return tuple(_build_tool(t, by_tool[t], fixes) for t in sorted(by_tool))


def find_fixes(calls: Sequence[PastCall]) -> dict[int, CallFix]:
    """Find the fix of each failure that has one, by the failed call's clock.

    A success fixes the newest unfixed failure of its tool and goal, at most ten calls
    before.
    """
    found: dict[int, CallFix] = {}
    unfixed: dict[str, list[PastCall]] = defaultdict(list)
    for call in calls:
        if call.has_failed:
            unfixed[call.tool].append(call)
        elif call.outcome == "success":
            for failed in reversed(unfixed[call.tool]):
                if call.number - failed.number > LOOK_BACK:
                    break
                if has_same_goal(failed, call):
                    found[failed.clock] = _compare(failed, call)
                    unfixed[call.tool].remove(failed)
                    break
    return found


def has_same_goal(one: PastCall, other: PastCall) -> bool:
    """Return whether two calls served one message, or messages of similar words.

    Similar: half of the terms of the shorter message stand in the longer.
    """
    if one.goal_clock == other.goal_clock:
        return True
    words = [{*terms.list_terms(each.goal)} - terms.STOP for each in (one, other)]
    fewest = min(map(len, words))
    return fewest > 0 and 2 * len(words[0] & words[1]) >= fewest


def render_section(found: ToolProcedures) -> str:
    """Render what the calls of a tool have taught, as requests show it."""
    lines = [f"tool: {found.tool}"]
    for error in found.fixed:
        assert error.fix is not None
        remedy = error.fix.delta or "the same call again"
        lines.append(
            f"last time this failed with {error.type} ({error.count}x); "
            f"this fixed it: {remedy}{_render_contexts(error)}"
        )
    for success in found.repeated:
        hints = "; ".join(f"{_cut_name(k)}={v}" for k, v in success.hints.items())
        lines.append(f"worked ({success.count}x): {hints}{_render_contexts(success)}")
    for call in found.recent:
        hints = "; ".join(f"{k}={v}" for k, v in _build_hints(call).items())
        lines.append(f"recent {call.outcome}: {hints}")
    inner = "\n".join(_escape(cut_text(each, LINE_CHARS)) for each in lines)
    return f"<procedural_memory>\n{inner}\n</procedural_memory>"


def cut_text(text: str, most: int) -> str:
    """Return a text in one line, cut."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _escape(text: str) -> str:
    """Escape a text so that it can open no tag; `->` stays as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _cut_name(name: str) -> str:
    return cut_text(name, 50)


def _render_contexts(pattern: CallPattern) -> str:
    return "".join(f' · for "{goal}"' for goal in pattern.contexts)


def _build_tool(
    tool: str, calls: Sequence[PastCall], fixes: Mapping[int, CallFix]
) -> ToolProcedures:
    failed = [each for each in calls if each.has_failed]
    worked = [each for each in calls if each.outcome == "success"]
    errors = _group(failed, (each.error_type for each in failed))
    successes = _group(worked, (tuple(sorted(each.arguments)) for each in worked))
    return ToolProcedures(
        tool=tool,
        calls=len(calls),
        failures=len(failed),
        mean_ms=_compute_mean(calls),
        errors=tuple(
            ErrorPattern(
                **_build_common(group), type=kind, fix=_choose_fix(group, fixes)
            )
            for kind, group in _rank(errors)
        ),
        successes=tuple(
            SuccessPattern(
                **_build_common(group),
                hints=_build_hints(group[-1]),
                mean_ms=_compute_mean(group),
            )
            for _, group in _rank(successes)
        ),
        recent=tuple(reversed(calls[-SHOWN:])),
    )


def _group(
    calls: Sequence[PastCall], keys: Iterable[KeyT]
) -> dict[KeyT, list[PastCall]]:
    found: dict[KeyT, list[PastCall]] = defaultdict(list)
    for key, call in zip(keys, calls, strict=True):
        found[key].append(call)
    return found


def _rank(groups: Mapping[KeyT, list[PastCall]]) -> list[tuple[KeyT, list[PastCall]]]:
    """Return the groups with most calls, of these the newest first."""
    ranked = sorted(groups.items(), key=lambda e: (len(e[1]), e[1][-1].clock))
    return ranked[: -PATTERNS - 1 : -1]


def _build_common(group: Sequence[PastCall]) -> dict[str, Any]:
    goals: dict[str, int] = {}
    for call in reversed(group):
        if call.goal:
            goals.setdefault(cut_text(call.goal, GOAL_CHARS), call.goal_clock)
    newest = [*goals.items()][:TRACES]
    return {
        "count": len(group),
        "contexts": tuple(text for text, _ in newest),
        "context_clocks": tuple(clock for _, clock in newest),
        "calls": tuple(each.clock for each in reversed(group[-TRACES:])),
    }


def _build_hints(call: PastCall) -> dict[str, str]:
    named = [*call.arguments.items()][:ARGUMENTS]
    return {_cut_name(name): render_shown(value) for name, value in named}


def _choose_fix(
    group: Sequence[PastCall], fixes: Mapping[int, CallFix]
) -> CallFix | None:
    """Choose the newest fix whose difference is the most frequent."""
    found = [fixes[each.clock] for each in group if each.clock in fixes]
    if not found:
        return None
    counts = Counter(each.delta for each in found)
    return max(found, key=lambda each: (counts[each.delta], each.fixed))


def _compare(failed: PastCall, fixed: PastCall) -> CallFix:
    old, new = failed.arguments, fixed.arguments
    both = [name for name in old if name in new]
    return CallFix(
        failed=failed.clock,
        fixed=fixed.clock,
        added={name: value for name, value in new.items() if name not in old},
        removed=tuple(name for name in old if name not in new),
        changed={
            name: (old[name], new[name])
            for name in both
            if not _is_equal(old[name], new[name])
        },
    )


def _is_equal(one: Any, other: Any) -> bool:
    return strict_json.dump_canonical(one) == strict_json.dump_canonical(other)


def _compute_mean(calls: Sequence[PastCall]) -> float | None:
    timed = [each.duration_ms for each in calls if each.duration_ms is not None]
    return round(sum(timed) / len(timed), 1) if timed else None
