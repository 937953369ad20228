"""Checks of an agent's own tool calls, and bindings of an exchange. Never writes.

The state knows which calls were recorded. This module opens their arguments and
results, in a constant number of queries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from memoryhub.errors import ValueTooLargeError
from memoryhub.journal import texts
from memoryhub.kernel.guards import bindings, calls, checks, literals
from memoryhub.kernel.guards.bindings import Binding, Bindings
from memoryhub.kernel.guards.checks import GuardCheck, GuardedExchange
from memoryhub.kernel.guards.literals import NumberIndex
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.state.calls import RecordedCall, ValueType
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.turns.calls import list_exchange_calls
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import slots
from memoryhub.vault.keys import blind_index, keys

#: Newest calls that are opened although no argument names them, and their largest
#: size in bytes.
OPENED, SMALL_BYTES = 200, 16_384
#: Newest messages of the exchange that are searched for `x = 3`, and their bytes.
MESSAGES, MESSAGE_BYTES = 64, 1_048_576
#: Most results that stand in for a repeated call.
CACHED = 100


class CachedResult(NamedTuple):
    """The result of an equal call that succeeded in this turn."""

    seq: int
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingLine:
    """A binding as it is listed."""

    id: str
    #: Seq of the call; None for a number that an assistant named.
    seq: int | None
    tool: str | None
    value_type: ValueType
    #: The value, cut.
    value: str
    aliases: tuple[str, ...]
    #: Seqs of later calls whose arguments name it.
    used_in: tuple[int, ...]


class _ExchangeReader:
    """The calls and messages of a thread's exchange, opened when they are needed."""

    def __init__(
        self, thread: Thread, state: ThreadState, named: Collection[str] = ()
    ) -> None:
        self.thread = thread
        self.state = state
        self.recorded = list_exchange_calls(state)
        self._named = {name for name in named if bindings.is_binding_id(name)}
        self._key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)

    @cached_property
    def payloads(self) -> Mapping[int, Mapping[str, Any]]:
        """Payloads by clock: those of small calls, and of those that are named.

        Raises ValueTooLargeError when the named results are larger than 2 MiB.
        """
        named = [e for e in self.recorded if f"v{e.binding}" in self._named]
        most = 2 * bindings.MOST_BYTES
        if sum(each.bytes for each in named) > most:
            raise ValueTooLargeError(max_bytes=bindings.MOST_BYTES)
        small = [e for e in self.recorded if e.bytes <= SMALL_BYTES][-OPENED:]
        return self._open_payloads({each.clock for each in (*named, *small)})

    def _open_payloads(self, clocks: Collection[int]) -> dict[int, Mapping[str, Any]]:
        found = texts.open_events(self.thread, self.state, clocks)
        return {n: each.content for n, each in found.items() if each.content}

    @cached_property
    def bindings(self) -> Bindings:
        results = []
        for call in self.recorded:
            payload = self.payloads.get(call.clock)
            if call.binding and payload is not None:
                kind, value = calls.read_result(payload.get("result"))
                results.append(
                    Binding(
                        id=f"v{call.binding}",
                        value=value,
                        value_type=kind,
                        clock=call.clock,
                    )
                )
        assigned = map(literals.iter_assigned_numbers, self._read_answers())
        return Bindings(results, (each for pairs in assigned for each in pairs))

    def _read_answers(self) -> list[str]:
        """Read the assistant's messages of the exchange, oldest first."""
        user = self.state.paging.last_user
        found = slots.list_slots(
            self.thread,
            start=user.slot + 1 if user else 0,
            end=self.state.slot_count,
            order="desc",
            struck=False,
            limit=MESSAGES,
            max_bytes=MESSAGE_BYTES,
        )
        return [
            render_content_words(line.content)
            for line in reversed(found.items)
            if line.role == "assistant" and not line.erased
        ]

    @cached_property
    def typed(self) -> NumberIndex:
        """Numbers in the user's newest message."""
        user = self.state.paging.last_user
        lines = slots.get_slots(self.thread, [user.slot]) if user else ()
        shown = [render_content_words(e.content) for e in lines if e.is_shown]
        return NumberIndex(n for e in shown for n in literals.iter_typed_numbers(e))

    def build_exchange(self, name: str) -> GuardedExchange:
        """Build the facts of the exchange that the rules check a call by."""
        tool = self._digest(calls.normalize_name(name))
        payloads = [self.payloads.get(call.clock, {}) for call in self.recorded]
        results = [
            number
            for payload in payloads
            if "result" in payload
            and calls.read_result(payload["result"])[0] == "number"
            and (number := literals.find_number(payload["result"])) is not None
        ]
        return GuardedExchange(
            limits=checks.LIMITS[self.state.paging.settings.guard],
            recorded=self.recorded,
            same_tool=sum(call.tool == tool for call in self.recorded),
            results=results[-checks.RESULTS :],
            bindings=self.bindings,
            typed=self.typed,
            ungrounded=sum(
                checks.has_ungrounded(payload["arguments"], self.bindings, self.typed)
                for payload in payloads
                if payload
            ),
        )

    def find_cached(self, name: str, *ways: Any) -> CachedResult | None:
        """Find the result of an equal call of this turn that succeeded.

        `ways` are the same arguments, with references and with values. One query for a
        result that was not opened yet.
        """
        wanted = {self._digest(calls.build_call_key(name, each)) for each in ways}
        newest = dict[str, RecordedCall]()
        for call in reversed(self.recorded):
            if call.turn == self.state.turn_count and call.outcome == "success":
                newest.setdefault(call.digest, call)
        held = islice(newest.values(), CACHED)
        found = next((call for call in held if call.digest in wanted), None)
        if found is None:
            return None
        payload = self.payloads.get(found.clock)
        if payload is None:
            payload = self._open_payloads([found.clock]).get(found.clock, {})
        if "result" not in payload:
            return None
        return CachedResult(self.state.to_seq(found.clock), payload["result"])

    def _digest(self, text: str) -> str:
        return blind_index.digest_lookup(self._key, "call", text).hex()


def check_call(
    thread: Thread, state: ThreadState, name: str, arguments: Any
) -> tuple[GuardCheck, CachedResult | None]:
    """Check a call as of a state. `thread` comes with its subject.

    At most eight queries, more in a fork; none if the guard is off. Raises
    ValueTooLargeError when references bring in more than 1 MiB.
    """
    if state.paging.settings.guard == "off":
        return GuardCheck(verdict="allow", arguments=arguments), None
    reader = _ExchangeReader(thread, state, bindings.list_references(arguments))
    found = checks.check_call(name, arguments, reader.build_exchange(name))
    if found.block is not None:
        return found, None
    return found, reader.find_cached(name, arguments, found.arguments)


def list_bindings(thread: Thread, state: ThreadState) -> tuple[BindingLine, ...]:
    """List the bindings of the exchange in order, values cut. As `check_call`.

    Results larger than 16 KiB, and those before the newest 200, are left out.
    """
    reader = _ExchangeReader(thread, state)
    by_clock = {call.clock: call for call in reader.recorded}
    used: dict[str, list[int]] = {}
    for clock, payload in sorted(reader.payloads.items()):
        for name in bindings.list_references(payload["arguments"]):
            if (bound := reader.bindings.find(name)) is not None:
                used.setdefault(bound.id, []).append(state.to_seq(clock))
    lines = []
    for each in reader.bindings.items:
        call = None if each.clock is None else by_clock[each.clock]
        lines.append(
            BindingLine(
                id=each.id,
                seq=call and state.to_seq(call.clock),
                tool=call and reader.payloads[call.clock]["tool"],
                value_type=each.value_type,
                value=bindings.render_shown(each.value),
                aliases=tuple(each.aliases),
                used_in=tuple(dict.fromkeys(used.get(each.id, ()))),
            )
        )
    return tuple(lines)
