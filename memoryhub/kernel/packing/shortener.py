"""The shortener: how much of each message is shown if a request cannot hold all.

Pure. Messages that the model waits for are shown at FULL, as far as there is room,
whatever room paging had. A message cut in one turn is cut the same way in the next, so
that the beginning of the request stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memoryhub.kernel.context import costs
from memoryhub.kernel.context.contexts import Ref, Texts
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.packing import choosing, shortening
from memoryhub.kernel.packing.choosing import (
    LEAST_CUT,
    Candidate,
    Pick,
    Unit,
    Write,
    is_from_memory,
)
from memoryhub.kernel.state.pages import FULL, Location

#: Tokens that each of several results keeps at least.
_LEAST_EACH = 16


class Shortener:
    """Cutter of the messages of one request."""

    def __init__(
        self,
        texts: Texts,
        count: Count,
        *,
        cost: Callable[[Sequence[Pick]], int],
        write: Write,
        before: Mapping[Location, Ref],
    ) -> None:
        self._texts, self._count = texts, count
        #: Count the cost of messages together, and write one as it stands in the
        #: request.
        self._cost, self._write = cost, write
        #: Refs of this exchange that the turn before has cut, by location.
        self._cut_before = before
        #: Pages as paging has them, by id, of those that are offered at FULL.
        self._lowered: dict[str, Candidate] = {}

    def raise_due(self, pages: Sequence[Candidate]) -> list[Candidate]:
        """Return the messages of the exchange, with results due at FULL raised to FULL.

        A result is due if the model has not answered it yet, or if the turn before has
        cut it.
        """
        messages = [each for each in pages if not is_from_memory(each)]
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
            if is_from_memory(each) or not (lower and shown):
                # An evicted call is shown only with the results that it is due for.
                found += [each] * (each.role == "tool" or not each.stub)
            else:
                found.append(self._raise_to_full(each))
        return found

    def _has_calls(self, page: Candidate) -> bool:
        opened = self._texts.get(page.message_at)
        return (
            page.role == "assistant"
            and opened is not None
            and bool(opened.message.calls)
        )

    def count_mapped(self, choices: Sequence[Pick]) -> int | None:
        """Return the tokens the working set gives to messages that would show more."""
        if not any(each.candidate.due for each in choices):
            return None
        return sum(each.candidate.cost for each in self._list_mapped(choices))

    def shorten(self, unit: Unit, room: int, free: int) -> Unit:
        """Return the unit with its longest texts cut to `free` tokens.

        If too little would be left and `room` holds the unit as the working set has it,
        return that form; else a unit of cost 0.
        """
        if not shortening.list_cuttable(unit.choices, self._texts):
            return self._cut_longest(unit, room)
        found = self._keep_cut(unit.choices, free)
        if found is None and unit.mapped is not None:
            mapped = self._list_mapped(unit.choices)
            found = (mapped, self._cost(mapped)) if mapped else None
        return Unit(*found) if found and found[1] <= room else Unit((), 0)

    def _keep_cut(
        self, choices: tuple[Pick, ...], room: int
    ) -> tuple[tuple[Pick, ...], int] | None:
        """Cut messages as the turn before has, if that fits, else anew."""
        before = tuple(self._find_before(each) or each for each in choices)
        if before == choices:
            return self._cut_choices(choices, room)
        if (spent := self._cost(before)) <= room:
            return before, spent
        # Leave room, so that the next messages of the exchange change nothing before
        # them.
        return self._cut_choices(choices, room - room // 4)

    def grow(self, unit: Unit, room: int) -> Unit | None:
        """Return the unit cut to all of `room`; None if the turn before has cut it."""
        if any(map(self._find_before, unit.choices)):
            return None
        return self.shorten(unit, room, room)

    def cut_newest(self, choice: Pick, room: int, least: int) -> tuple[Pick, int]:
        """Return the newest message cut to `room`, and its cost; 0 if not cuttable."""
        if shortening.is_cuttable(choice):
            found = self._cut_choices((choice,), room, least)
            return (found[0][0], found[1]) if found else (choice, 0)
        return choosing.shorten_choice(
            choice, room, self._texts, self._count, least=least, write=self._write
        )

    def _raise_to_full(self, page: Candidate) -> Candidate:
        self._lowered[page.page_id] = page
        place = page.message_at
        return page._replace(
            level=FULL,
            location=place,
            full=None,
            stub=False,
            due=True,
            cost=costs.compute_cost(self._texts[place], count=self._count),
        )

    def _list_mapped(self, choices: Sequence[Pick]) -> tuple[Pick, ...]:
        """List messages as the working set has them."""
        found = list[Pick]()
        for each in choices:
            page = self._lowered[each.candidate.page_id] if each.candidate.due else None
            if page is None or (page.stub and page.role != "tool"):
                # Without its evicted call, a result would answer no call.
                found.append(each)
            else:
                found.append(Pick(page, each.place, 0 if page.stub else None))
        return tuple(found)

    def _find_before(self, choice: Pick) -> Pick | None:
        """Return a choice as the turn before has cut it; None if it has not."""
        ref = self._cut_before.get(choice.candidate.location)
        if ref is None or not shortening.is_cuttable(choice):
            return None
        return choice._replace(cut=ref.cut, kept=ref.kept)

    def _cut_choices(
        self, choices: tuple[Pick, ...], room: int, least: int | None = None
    ) -> tuple[tuple[Pick, ...], int] | None:
        return shortening.shorten(
            choices,
            room,
            texts=self._texts,
            count=self._count,
            cost=self._cost,
            least=(LEAST_CUT, _LEAST_EACH) if least is None else (least, least),
        )

    def _cut_longest(self, unit: Unit, room: int) -> Unit:
        """Cut the longest text of a unit that does not stand as it was said."""
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
            # All results of these calls are evicted, and only named.
            return unit._replace(cost=0)
        others = unit.cost - longest.candidate.cost
        write = (
            choosing.render_head_page if longest.place in choosing.HEAD else self._write
        )
        cut, spent = choosing.shorten_choice(
            longest, room - others, self._texts, self._count, write=write
        )
        if not spent:
            return unit._replace(cost=0)
        choices = (*unit.choices[:index], cut, *unit.choices[index + 1 :])
        return Unit(choices, others + spent)
