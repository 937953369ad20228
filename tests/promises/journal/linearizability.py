"""Checker of registers, after Wing & Gong: whether a history of one key has an order.

An operation takes effect at one instant between its call and its return. One without
an answer may have taken effect at any time since its call, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

#: Each write has a word of its own, so that a word tells which write was seen.
Word = str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Operation that a client asked of a key, and its outcome."""

    kind: Literal["get", "set", "create", "swap", "delete"]
    called: float
    #: Infinite where there was no answer.
    returned: float = inf
    #: Word to write.
    word: Word = None
    #: Word that a swap had seen before.
    seen: Word = None
    #: Of a get: what it saw. Of all others: whether it did what it was asked to.
    found: Word = None
    done: bool = True

    @property
    def open(self) -> bool:
        return self.returned == inf


def check_answer(state: Word, each: Operation) -> tuple[bool, Word]:
    """Tell whether the key may have answered so, and return its word afterwards.

    `state` is the word that the key holds; None, where it holds none.
    """
    if each.kind == "get":
        return each.found == state, state
    possible = {
        "set": True,
        "create": state is None,
        "swap": state is not None and state == each.seen,
        "delete": state is not None,
    }[each.kind]
    if not each.open and possible != each.done:
        return False, state
    return True, each.word if possible else state


def order(history: Sequence[Operation]) -> list[Operation] | None:
    """Return an order that explains all answers, or None."""
    ops = sorted(history, key=lambda each: each.called)
    # What nobody heard of may be left out, so all that was answered is what counts.
    goal = sum(1 << place for place, each in enumerate(ops) if not each.open)
    dead: set[tuple[int, Word]] = set()
    path: list[int] = []
    states: list[Word] = [None]
    todo = [_next(ops, 0)]
    taken = 0
    while taken & goal != goal:
        if not todo[-1]:
            todo.pop()
            if not path:
                return None
            taken &= ~(1 << path.pop())
            states.pop()
            continue
        place = todo[-1].pop()
        fits, state = check_answer(states[-1], ops[place])
        if not fits or (taken | 1 << place, state) in dead:
            continue
        taken |= 1 << place
        # Whichever way leads here again, there is nothing more to find.
        dead.add((taken, state))
        path.append(place)
        states.append(state)
        todo.append(_next(ops, taken))
    return [ops[place] for place in path]


def _next(ops: Sequence[Operation], taken: int) -> list[int]:
    """Return places of possible next operations: called before any other returned."""
    free, ends = [], inf
    for place, each in enumerate(ops):
        if each.called > ends:
            break
        if not taken >> place & 1:
            free.append(place)
            ends = min(ends, each.returned)
    # The one that was called first is tried first; what is open, last of all.
    return sorted(free, key=lambda place: (not ops[place].open, -place))
