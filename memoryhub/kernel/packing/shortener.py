"""The shortener: how much of each message a request shows that can't hold them whole.

Pure. What the model waits for is shown at FULL, as much of it as there is room for,
whatever paging had room for; and what one turn has cut the next shows the same, so that
the beginning of its request stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memoryhub.kernel.levels import costs
from memoryhub.kernel.levels.contexts import Ref, Texts
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.packing import choosing, shortening
from memoryhub.kernel.packing.choosing import (
    LEAST_CUT,
    Candidate,
    Choice,
    Unit,
    Write,
    brought,
)
from memoryhub.kernel.state.pages import FULL, Location

#: Tokens that each of several results keeps at least.
_LEAST_EACH = 16


class Shortener:
    """Cuts the messages of one request."""

    def __init__(
        self,
        texts: Texts,
        count: Count,
        *,
        cost: Callable[[Sequence[Choice]], int],
        write: Write,
        before: Mapping[Location, Ref],
    ) -> None:
        self._texts, self._count = texts, count
        #: What messages take together, and what one is in the request.
        self._cost, self._write = cost, write
        #: What the turn before has cut of this exchange, by where it lies.
        self._cut_before = before
        #: By id, pages as paging has them that are offered at FULL.
        self._lowered: dict[str, Candidate] = {}

    def raise_due(self, pages: Sequence[Candidate]) -> list[Candidate]:
        """Return the messages of the exchange, results at FULL that paging has less of.

        Of those the model has not answered yet, and those that the turn before has cut.
        """
        messages = [each for each in pages if not brought(each)]
        messages.sort(key=lambda each: each.slot or 0, reverse=True)
        due, results = set[str](), True
        for each in messages:
            results = results and each.role == "tool"
            if not results and not (due and self._has_calls(each)):
                break
            due.add(each.page_id)
        found = list[Candidate]()
        for each in pages:
            shown = each.page_id in due or each.message_at in self._cut_before
            lower = each.stub or (each.role == "tool" and each.full)
            if brought(each) or not (lower and shown):
                # Calls that have left are nothing without what they are due for.
                found += [each] * (each.role == "tool" or not each.stub)
            else:
                found.append(self._at_full(each))
        return found

    def _has_calls(self, page: Candidate) -> bool:
        opened = self._texts.get(page.message_at)
        return (
            page.role == "assistant"
            and opened is not None
            and bool(opened.message.calls)
        )

    def count_mapped(self, choices: Sequence[Choice]) -> int | None:
        """Return what the working set gives to messages that would show more."""
        if not any(each.candidate.due for each in choices):
            return None
        return sum(each.candidate.cost for each in self._list_mapped(choices))

    def shorten(self, unit: Unit, room: int, free: int) -> Unit:
        """Return the unit with its longest texts cut to `free` tokens.

        As the working set has it, if too little would be left and `room` holds that;
        else of cost 0.
        """
        if not shortening.list_cuttable(unit.choices, self._texts):
            return self._cut_longest(unit, room)
        found = self._keep_cut(unit.choices, free)
        if found is None and unit.mapped is not None:
            mapped = self._list_mapped(unit.choices)
            found = (mapped, self._cost(mapped)) if mapped else None
        return Unit(*found) if found and found[1] <= room else Unit((), 0)

    def _keep_cut(
        self, choices: tuple[Choice, ...], room: int
    ) -> tuple[tuple[Choice, ...], int] | None:
        """Cut messages as the turn before has, if that fits, else anew."""
        before = tuple(self._find_before(each) or each for each in choices)
        if before == choices:
            return self._cut(choices, room)
        if (spent := self._cost(before)) <= room:
            return before, spent
        # So that the next messages of the exchange change nothing before them.
        return self._cut(choices, room - room // 4)

    def grow(self, unit: Unit, room: int) -> Unit | None:
        """Return the unit cut to all of `room`; None of one the turn before has cut."""
        if any(map(self._find_before, unit.choices)):
            return None
        return self.shorten(unit, room, room)

    def cut_newest(self, choice: Choice, room: int, least: int) -> tuple[Choice, int]:
        """Return the newest message cut to `room`, and its cost; 0 if it can't be."""
        if shortening.is_cuttable(choice):
            found = self._cut((choice,), room, least)
            return (found[0][0], found[1]) if found else (choice, 0)
        return choosing.shortened(
            choice, room, self._texts, self._count, least=least, write=self._write
        )

    def _at_full(self, page: Candidate) -> Candidate:
        self._lowered[page.page_id] = page
        place = page.message_at
        return page._replace(
            level=FULL,
            location=place,
            full=None,
            stub=False,
            due=True,
            cost=costs.cost(self._texts[place], count=self._count),
        )

    def _list_mapped(self, choices: Sequence[Choice]) -> tuple[Choice, ...]:
        """List messages as the working set has them."""
        found = list[Choice]()
        for each in choices:
            page = self._lowered[each.candidate.page_id] if each.candidate.due else None
            if page is None or (page.stub and page.role != "tool"):
                # Results of calls that have left would be of nobody's.
                found.append(each)
            else:
                found.append(Choice(page, each.place, 0 if page.stub else None))
        return tuple(found)

    def _find_before(self, choice: Choice) -> Choice | None:
        """Return a choice as the turn before has cut it; None if it has not."""
        ref = self._cut_before.get(choice.candidate.location)
        if ref is None or not shortening.is_cuttable(choice):
            return None
        return choice._replace(cut=ref.cut, kept=ref.kept)

    def _cut(
        self, choices: tuple[Choice, ...], room: int, least: int | None = None
    ) -> tuple[tuple[Choice, ...], int] | None:
        return shortening.shorten(
            choices,
            room,
            texts=self._texts,
            count=self._count,
            cost=self._cost,
            least=(LEAST_CUT, _LEAST_EACH) if least is None else (least, least),
        )

    def _cut_longest(self, unit: Unit, room: int) -> Unit:
        """Cut the longest text of a unit, where it does not stand as it was said."""
        index = max(
            range(1, len(unit.choices)),
            key=lambda n: (
                unit.choices[n].cut is None,
                unit.choices[n].candidate.cost,
            ),
            default=0,
        )
        longest = unit.choices[index]
        if longest.cut is not None:
            # All that these calls gave back has left, and is named only.
            return unit._replace(cost=0)
        others = unit.cost - longest.candidate.cost
        write = choosing.head if longest.place in choosing.HEAD else self._write
        cut, spent = choosing.shortened(
            longest, room - others, self._texts, self._count, write=write
        )
        if not spent:
            return unit._replace(cost=0)
        choices = (*unit.choices[:index], cut, *unit.choices[index + 1 :])
        return Unit(choices, others + spent)
