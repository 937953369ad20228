"""Checks of a call before it runs: limits, rules, verdicts. Pure.

A check changes nothing: what counts is what was recorded. See decision 80.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from memoryhub.kernel.guards import calls
from memoryhub.kernel.guards.bindings import Bindings, is_reference, resolve
from memoryhub.kernel.guards.literals import NumberIndex, Numeric, find_number
from memoryhub.kernel.state.calls import (
    CallKind,
    GuardReason,
    RecordedCall,
    Verdict,
)
from memoryhub.kernel.state.paging_config import GuardMode

NextStep = Literal[
    "rebind_from_existing",
    "compute_missing",
    "rewrite_call",
    "symbolic_fallback",
    "ask_user",
]

#: Distance at which numbers of a precondition are equal, and results are one.
EQUAL = 1e-9
#: Most numbers of one call that are swapped for references.
REPAIRS = 3
#: Number of last numeric results that tell whether a model runs away.
RESULTS = 5
#: Results whose absolute value is smaller, but not 0, count as noise.
_TINY = 1e-12


class GuardLimits(NamedTuple):
    """Limits of one exchange; 0 is unlimited, but for `grace`."""

    discovery: int
    execution: int
    total: int
    #: Number of calls with ungrounded numbers that are never blocked.
    grace: int
    blocks_ungrounded: bool = False
    per_tool: int = 3
    #: Number of calls of one tool from which the next is warned of.
    warned_at: int = 2


LIMITS: dict[GuardMode, GuardLimits] = {
    "default": GuardLimits(discovery=5, execution=12, total=15, grace=1),
    "smooth": GuardLimits(discovery=6, execution=15, total=20, grace=2),
    "strict": GuardLimits(
        discovery=4, execution=10, total=12, grace=0, blocks_ungrounded=True
    ),
}


class GuardFinding(NamedTuple):
    """Objection of a rule to a call, and the step that the model may take."""

    reason: GuardReason
    next_step: NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedExchange:
    """Facts of the exchange that the rules read; a check changes nothing here."""

    limits: GuardLimits
    #: Recorded calls, oldest first, and how many of the tool that is checked.
    recorded: Sequence[RecordedCall] = ()
    same_tool: int = 0
    #: Newest numeric results, oldest first.
    results: Sequence[Numeric] = ()
    bindings: Bindings = field(default_factory=lambda: Bindings([]))
    #: Numbers of the user's message.
    typed: NumberIndex = field(default_factory=NumberIndex)
    #: Number of recorded calls with ungrounded numbers.
    ungrounded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCheck:
    """The verdict on a call."""

    verdict: Verdict
    #: The finding that blocks the call: the first of several.
    block: GuardFinding | None = None
    warnings: tuple[GuardFinding, ...] = ()
    #: Arguments to run with: references replaced, numbers as they were written.
    arguments: Any = None
    #: References that could have stood for numbers, by JSON pointer.
    repaired: Mapping[str, str] = field(default_factory=dict)


class _CheckedCall(NamedTuple):
    """A call under check."""

    name: str
    kind: CallKind
    #: Numbers that are no reference, by JSON pointer.
    numbers: Mapping[str, Numeric]
    #: Whether a number is neither typed, nor bound and swapped.
    ungrounded: bool


class _Ruling(NamedTuple):
    block: GuardFinding | None = None
    warning: GuardFinding | None = None


def check_call(name: str, arguments: Any, exchange: GuardedExchange) -> GuardCheck:
    """Check a call. The first block wins; all warnings are returned.

    Raises ValueTooLargeError when references bring in more than 1 MiB.
    """
    resolved = resolve(arguments, exchange.bindings)
    numbers = dict(_iter_numbers(arguments, exchange.bindings))
    loose = [at for at, n in numbers.items() if not exchange.typed.has_number(n, EQUAL)]
    repaired = _find_repairs(numbers, loose, exchange.bindings)
    name = calls.normalize_name(name)
    call = _CheckedCall(
        name=name,
        kind=calls.classify_tool(name),
        numbers=numbers,
        ungrounded=any(at not in repaired for at in loose),
    )
    rulings = [rule(call, exchange) for rule in _RULES]
    if resolved.unknown:
        missing = GuardFinding("missing_refs", _choose_source(exchange))
        rulings.insert(0, _Ruling(block=missing))
    block = next((each.block for each in rulings if each.block), None)
    warnings = tuple(each.warning for each in rulings if each.warning)
    verdict: Verdict = "warn" if warnings else "allow"
    if block or repaired:
        verdict = "block" if block else "repair"
    return GuardCheck(
        verdict=verdict,
        block=block,
        warnings=warnings,
        arguments=resolved.arguments,
        repaired=repaired,
    )


def has_ungrounded(arguments: Any, bindings: Bindings, typed: NumberIndex) -> bool:
    """Return whether arguments hold a number that is neither typed nor bound."""
    return any(
        not typed.has_number(number, EQUAL) and bindings.find_by_value(number) is None
        for _, number in _iter_numbers(arguments, bindings)
    )


def _check_precondition(call: _CheckedCall, exchange: GuardedExchange) -> _Ruling:
    """Block a tool that needs numbers from before, unless each is known."""
    if not calls.needs_computed_numbers(call.name):
        return _Ruling()
    is_known = all(
        number in (0, 1)
        or exchange.typed.has_number(number, EQUAL)
        or exchange.bindings.find_by_value(number, EQUAL) is not None
        for number in call.numbers.values()
    )
    if exchange.bindings and is_known:
        return _Ruling()
    return _Ruling(block=GuardFinding("missing_dependency", "compute_missing"))


def _check_budget(call: _CheckedCall, exchange: GuardedExchange) -> _Ruling:
    """Block beyond the budgets of an exchange; warn when results run away."""
    discovered = sum(each.kind == "discovery" for each in exchange.recorded)
    executed = len(exchange.recorded) - discovered
    limits, is_discovery = exchange.limits, call.kind == "discovery"
    own = (
        (discovered, limits.discovery) if is_discovery else (executed, limits.execution)
    )
    spent = any(
        limit and count >= limit
        for count, limit in (own, (len(exchange.recorded), limits.total))
    )
    step: NextStep = "rebind_from_existing" if exchange.bindings else "ask_user"
    block = GuardFinding("budget_exhausted", step) if spent else None
    running = not is_discovery and is_runaway(exchange.results)
    warning = GuardFinding("runaway", "symbolic_fallback") if running else None
    return _Ruling(block, warning)


def _check_ungrounded(call: _CheckedCall, exchange: GuardedExchange) -> _Ruling:
    """Warn of numbers that are neither typed nor bound; strict limits block them."""
    if not call.ungrounded:
        return _Ruling()
    found = GuardFinding("ungrounded_args", _choose_source(exchange))
    limits = exchange.limits
    if limits.blocks_ungrounded and exchange.ungrounded >= limits.grace:
        return _Ruling(block=found)
    return _Ruling(warning=found)


def _check_tool(call: _CheckedCall, exchange: GuardedExchange) -> _Ruling:
    """Block one tool's calls beyond their limit; discovery and math are exempt."""
    limits, count = exchange.limits, exchange.same_tool
    if call.kind != "execution" or not limits.per_tool:
        return _Ruling()
    found = GuardFinding("per_tool_limit", "rewrite_call")
    if count >= limits.per_tool:
        return _Ruling(block=found)
    return _Ruling(warning=found if count >= limits.warned_at else None)


#: Rules in their order: the first block wins.
_RULES: tuple[Callable[[_CheckedCall, GuardedExchange], _Ruling], ...] = (
    _check_precondition,
    _check_budget,
    _check_ungrounded,
    _check_tool,
)


def is_runaway(results: Sequence[Numeric]) -> bool:
    """Return whether the last results are noise: 0 or 1 twice, tiny, or three equal."""
    last = results[-RESULTS:]
    index = [NumberIndex([each]) for each in last]
    return (
        sum(number in (0, 1) for number in last) > 1
        or any(0 < abs(number) < _TINY for number in last)
        or any(sum(each.has_number(n, EQUAL) for n in last) > 2 for each in index)
    )


def _choose_source(exchange: GuardedExchange) -> NextStep:
    return "rebind_from_existing" if exchange.bindings else "compute_missing"


def _find_repairs(
    numbers: Mapping[str, Numeric], loose: Sequence[str], bindings: Bindings
) -> dict[str, str]:
    """Find references for numbers that equal a bound value, at most three."""
    found: dict[str, str] = {}
    for at in loose:
        bound = bindings.find_by_value(numbers[at])
        if bound is not None and len(found) < REPAIRS:
            found[at] = f"${bound.id}"
    return found


def _iter_numbers(
    value: Any, bindings: Bindings, at: str = ""
) -> Iterator[tuple[str, Numeric]]:
    """Yield (JSON pointer, number) of the numbers and numeric texts in arguments."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            place = name.replace("~", "~0").replace("/", "~1")
            yield from _iter_numbers(each, bindings, f"{at}/{place}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _iter_numbers(each, bindings, f"{at}/{index}")
    elif not (isinstance(value, str) and is_reference(value, bindings)):
        number = find_number(value)
        if number is not None:
            yield at, number
