"""Packing: which messages and pages a request holds, how much of each, its record.

Pure. Calls stand with their results or not at all, and no message changes its role;
what is left out the manifest names, which an exchange is given once. `pack` chooses and
writes a record; the bytes are then made of the record alone, by the same function that
makes them again years later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.kernel.levels import (
    block_lines,
    log_lines,
    manifest,
    marks,
    recalls,
    tools,
)
from memoryhub.kernel.levels.block_lines import Chosen
from memoryhub.kernel.levels.contexts import (
    Manifest,
    Policies,
    Recall,
    Record,
    Ref,
    Row,
    Section,
    SlotMarks,
    Texts,
)
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.recalls import Related
from memoryhub.kernel.levels.tokens import EST, Count, Tokenizer
from memoryhub.kernel.messages.ids import Ids
from memoryhub.kernel.messages.pieces import written
from memoryhub.kernel.messages.writing import FORMATS, Plain
from memoryhub.kernel.packing import choosing, conversation, filling, requests
from memoryhub.kernel.packing.choosing import (
    Candidate,
    Choice,
    SectionName,
    Taken,
    Unit,
    brought,
)
from memoryhub.kernel.packing.conversation import ShownPage
from memoryhub.kernel.packing.cuts import Cut, cuts
from memoryhub.kernel.packing.filling import Attempt
from memoryhub.kernel.packing.requests import Rendered, fenced
from memoryhub.kernel.packing.shortener import Shortener
from memoryhub.kernel.paging import weights
from memoryhub.kernel.state.pages import FULL, SYSTEM_PROMPT, Location
from memoryhub.kernel.state.paging_config import Format, InstructionsRole
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import in_string
from memoryhub.kernel.text.padding import padded

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
#: Rounds of packing a little less, for a count that does not simply add up.
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """All that packing needs: the state of a thread at one commit."""

    thread: UUID
    #: The thread's name, as the manifest says it.
    thread_name: str
    turn: int
    mode: str
    budget_tokens: int
    reserved_tokens: int
    policies: Policies
    #: A smaller budget for this request.
    token_budget: int | None = None
    #: Pages of the system prompt, in their order.
    system: tuple[Candidate, ...] = ()
    #: Mapped pages as they stand in the context.
    candidates: tuple[Candidate, ...] = ()
    #: Where the exchange begins: index of the last user slot, else of the newest slot.
    last_user_slot: int | None = None
    #: That slot at every level it has, most faithful first.
    newest: tuple[Candidate, ...] = ()
    #: How many pages are mapped.
    mapped: int = 0
    #: Pages the manifest may offer, best first.
    available: tuple[Row, ...] = ()
    #: How many could be fetched besides those.
    unlisted: int = 0
    #: Version and form of the tool definitions.
    tools: str = tools.CURRENT
    #: Where the definitions of the agent's own tools lie.
    own_tools: Location | None = None
    #: The subject's blocks that the request carries, in their order.
    blocks: tuple[Chosen, ...] = ()
    #: Newer versions of some of them, of which what was added is told apart.
    added: tuple[Location, ...] = ()
    #: Where the observations lie that stand for older messages, in their order.
    log: tuple[Location, ...] = ()
    log_marks: tuple[SlotMarks, ...] = ()
    instructions_role: InstructionsRole = "system"
    format: Format = "chat"
    #: At which the exchange began; None without a message of the user.
    since: int | None = None
    #: The exchange of the turn before goes on; with what it was offered, and brought.
    continues: bool = False
    offered: Manifest | None = None
    recall: Recall | None = None
    recalled: tuple[Ref, ...] = ()
    #: Of this exchange, what the turn before has cut or shown as due, by where it lies.
    cut_before: Mapping[Location, Ref] = field(default_factory=dict)
    #: Texts that may be brought along unasked, best first, and the most they may take.
    related: tuple[Related, ...] = ()
    recall_tokens: int = 0
    #: Those that the thread asks for; None where it says nothing of them.
    recall_asked: int | None = None
    #: Of those, what those may take that no word of the message has found.
    prefetch_tokens: int = 0
    #: Costs are to be counted, since those the pages come with were too low.
    exact: bool = False

    @property
    def limit(self) -> int:
        return min(self.budget_tokens, self.token_budget or self.budget_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A request and what became of each page; ids in the order of `Wanted`."""

    record: Record
    request: bytes
    sha256: str
    tokens: int
    included: tuple[str, ...]
    cut: tuple[Cut, ...]
    omitted: tuple[str, ...]
    #: What it was made of, while it is at hand.
    texts: Texts


class TooSmallError(ValueError):
    """Not even the newest message fits, however short it is cut."""


class _Sides(NamedTuple):
    """What stands in a request beside messages and pages."""

    rules: str | None
    tools: str | None
    manifest: Manifest | None
    #: With all framing.
    tokens: int
    #: The subject's blocks, and the log of observations.
    blocks: tuple[Ref, ...] = ()
    log: tuple[Ref, ...] = ()
    #: Blocks of which more is told.
    added: tuple[Ref, ...] = ()
    #: What the turn brings along unasked.
    recall: Recall | None = None
    recalled: tuple[Ref, ...] = ()


def pack(wanted: Wanted, texts: Texts, *, tokenizer: Tokenizer = EST) -> Packed:
    """Pack the request of one turn, within its budget on the bytes themselves.

    `texts` holds what candidates and rows refer to. One pass over the candidates;
    the costs they come with are checked, and counted again if they were not true.
    Raises TooSmallError.
    """
    spare = 0
    for attempted in range(_ROUNDS):
        tried = _attempt(wanted, texts, wanted.limit - spare, tokenizer)
        made = tried.make(tried.taken)
        if made.tokens <= wanted.limit:
            return filling.filled(tried, made, wanted.limit)
        # Twice as much each time: what is over may say little of what is not counted.
        spare += attempted and made.tokens - wanted.limit << attempted - 1
        # Costs are what the messages really take from now on.
        wanted = replace(wanted, exact=True)
    raise TooSmallError


def _attempt(
    wanted: Wanted, texts: Texts, limit: int, tokenizer: Tokenizer
) -> Attempt[Packed]:
    packer = _Packer(wanted, texts, tokenizer.count)
    sides, first, room = packer.framed(limit)
    units = packer.units(first)
    sides, room = packer.recalled(sides, room)

    def make(taken: Taken) -> Packed:
        # All else of its exchange came after the newest message of the user.
        order = sorted(taken, key=lambda n: (n != len(units), n))
        shown = [each for n in order for each in taken[n].choices]
        record = packer.record(sides, shown)
        rendered = requests.render(
            record, texts, thread=wanted.thread, shown=packer.shown_pages
        )
        return _packed(
            wanted, record, rendered, shown, texts=texts, tokenizer=tokenizer
        )

    taken = packer.chosen(units, room)
    whole, shown = filling.opened(units, taken, first, packer.forms)
    return Attempt(whole, shown, make, packer.true, packer.shortener.grow)


class _Packer:
    """Packs one request."""

    def __init__(self, wanted: Wanted, texts: Texts, count: Count) -> None:
        self.wanted, self.texts, self.count = wanted, texts, count
        self.recall, self.brought = wanted.recall, wanted.recalled
        #: What is asked for again and again while units are made and written.
        self.refs: dict[tuple[Any, ...], Ref] = {}
        self.shown_pages: dict[Ref, ShownPage | Plain] = {}
        self.packer = requests.packer(wanted.format, wanted.instructions_role)
        self.vendor = wanted.format
        listed = tools.listed(wanted.tools, wanted.own_tools, texts)
        self.names = requests.new_ids(listed).names
        self.called = self._called()
        self.forms = [each for each in wanted.newest if not _instructs(each)]
        self.shortener = Shortener(
            texts,
            count,
            cost=self._counted,
            write=self._write,
            before=wanted.cut_before,
        )

    def _called(self) -> set[str]:
        """Names of all tools that the request may need a definition of."""
        if not FORMATS[self.vendor].apart:
            return set()
        pages = (Choice(each, "history") for each in self.wanted.candidates)
        own = {tools.PAGE_LIST, tools.PAGE_FAULT}
        return own | conversation.called([self._shown_page(each) for each in pages])

    def framed(self, limit: int) -> tuple[_Sides, tuple[Choice, int] | None, int]:
        """Return the sides, the newest message, and the room left for other pages.

        The newest message must be there; where the budget is tiny, all else makes way.
        """
        forms, sides = self.forms, self._sides(limit)
        for each in sides:
            room = limit - each.tokens
            if not forms and room >= 0:
                return each, None, room
            found = choosing.newest(
                forms,
                room=room,
                least=0 if each is sides[-1] else choosing.LEAST_CUT,
                texts=self.texts,
                count=self.count,
                write=self._write,
                cost=self._newest_cost,
                shorten=self.shortener.cut_newest,
            )
            if found is not None:
                return each, found, room - found[1]
        raise TooSmallError

    def _newest_cost(self, choice: Choice) -> int:
        return self._counted([choice]) if self.wanted.exact else _cost(choice)

    def _bring(self, fixed: int, limit: int) -> None:
        """Choose what the turn brings along, which an exchange keeps from its start.

        It never takes the place of a page, or what stands before it would change. Who
        asks for so much has what is reserved, too, and no manifest can take.
        """
        wanted = self.wanted
        if not wanted.continues and wanted.related:
            pages = (*wanted.system, *wanted.candidates)
            left = limit - wanted.reserved_tokens - sum(each.cost for each in pages)
            if wanted.recall_asked:
                spare = wanted.reserved_tokens - fixed
                left += max(0, spare - self._count_manifest_room(fixed, limit))
            self.recall, self.brought = self._related(min(left, wanted.recall_tokens))

    def recalled(self, sides: _Sides, room: int) -> tuple[_Sides, int]:
        """Return the sides with what the turn brings along, and the room left."""
        if sides.rules is None or self.recall is None or not self.brought:
            return sides, room
        tokens = self._recall_tokens(self.recall, self.brought)
        if tokens > room:
            return sides, room
        sides = sides._replace(recall=self.recall, recalled=self.brought)
        return sides._replace(tokens=sides.tokens + tokens), room - tokens

    def _related(self, room: int) -> tuple[Recall | None, tuple[Ref, ...]]:
        """The best texts that so many tokens hold, oldest first."""
        wanted, chosen = self.wanted, list[Related]()
        room -= self._recall_tokens(Recall(wanted.turn, (), ()), ())
        unasked = wanted.prefetch_tokens
        for each in wanted.related:
            opened = self.texts[each.place]
            marked = marks.text(each.marks, self.texts)
            entry = recalls.entry(opened, each.source, marked)
            cost = self.count(in_string("\n\n" + entry))
            prefetched = each.source in recalls.PREFETCHED
            if cost > (min(room, unasked) if prefetched else room):
                continue
            chosen.append(each)
            room -= cost
            unasked -= cost if prefetched else 0
        chosen.sort(key=lambda each: each.place.seq)
        chosen.sort(key=lambda each: self.texts[each.place].at or _LONG_AGO)
        own = wanted.thread
        refs = (Ref(at.seq, at.level, None, at.elsewhere(own)) for at, *_ in chosen)
        pages = (
            None if source == recalls.ELSEWHERE else self.texts[at].page_id
            for at, source, _ in chosen
        )
        became = tuple(each.marks for each in chosen)
        recall = Recall(
            wanted.turn,
            tuple(each.source for each in chosen),
            tuple(pages),
            became if any(became) else (),
        )
        return recall, tuple(refs)

    def _recall_tokens(self, recall: Recall, refs: Sequence[Ref]) -> int:
        return self._count_call(requests.brought, recall, refs)

    def _sides(self, limit: int) -> list[_Sides]:
        """From all that the mode wants to nothing."""
        wanted, count = self.wanted, self.count
        own = tools.listed(None, wanted.own_tools, self.texts)
        nothing = _Sides(None, None, None, self._framing(own))
        shown, texts = wanted.blocks, [self.texts[place] for place in wanted.log]
        blocks = [block_lines.line(self.texts[b.place], whole=b.whole) for b in shown]
        fenced_tokens = self._fence(block_lines.FENCE, blocks)
        logged = log_lines.list_texts(texts, wanted.log_marks, self.texts)
        fenced_tokens += self._fence(log_lines.FENCE, logged)
        refs = tuple(self._head_ref(b.place, whole=b.whole) for b in shown)
        log = tuple(map(self._head_ref, wanted.log))
        tokens = nothing.tokens + fenced_tokens
        bare = nothing._replace(tokens=tokens, blocks=refs, log=log)
        least = [bare, nothing] if refs or log else [nothing]
        rules = prompts.CURRENT[wanted.mode]
        if rules is None:
            return least
        listed = tools.listed(wanted.tools, wanted.own_tools, self.texts)
        fence = in_string(fenced("VM:RULES", prompts.RULES[rules]))
        added = tuple(map(self._head_ref, wanted.added))
        fixed = self._framing(listed) + count(fence) + fenced_tokens
        fixed += self._count_call(requests.grown, added, refs)
        ruled = _Sides(rules, wanted.tools, None, fixed, refs, log, added)
        sides = [ruled, *least]
        listing = fixed + weights.fetching(tools.PAGE_LIST)
        self._bring(listing, limit)
        offered = self._offered(listing, limit)
        if offered is not None:
            fixed += self._count_call(requests.listed, offered)
            sides.insert(0, ruled._replace(manifest=offered, tokens=fixed))
        return sides

    def _count_call(self, tell: Callable[..., list[str]], *what: Any) -> int:
        """Count the messages by which a call of ours tells something."""
        messages = tell(
            *what,
            self.texts,
            thread=self.wanted.thread,
            vendor=self.vendor,
            ids=Ids(names=self.names),
        )
        return sum(self.count(each + ",") for each in messages)

    def _fence(self, name: str, texts: Sequence[str]) -> int:
        """Count what a fence with these texts takes in the head."""
        if not texts:
            return 0
        return self.count(in_string("\n\n" + fenced(name, "\n".join(texts))))

    def _head_ref(self, place: Location, *, whole: bool = True) -> Ref:
        cut = None if whole else 0
        return Ref(place.seq, place.level, cut, place.elsewhere(self.wanted.thread))

    def _framing(self, listed: str) -> int:
        return self.count(requests.framing(self.vendor, listed, self.called))

    def _offered(self, fixed: int, limit: int) -> Manifest | None:
        """What the exchange was offered before, so that its start stays; else anew."""
        if self.wanted.offered is not None:
            return self.wanted.offered
        return self._fitted(fixed, limit)

    def _fitted(self, fixed: int, limit: int) -> Manifest | None:
        """The manifest with as many rows as its reserved room holds, or without."""
        wanted = self.wanted
        along = {*self.recall.pages} if self.recall else set()
        rows = [row for row in wanted.available if row.page_id not in along]
        bare = Manifest(
            thread=wanted.thread_name,
            turn=wanted.turn,
            mapped=wanted.mapped,
            policies=wanted.policies,
            telling=True,
        )
        fit = partial(
            manifest.fitted,
            bare,
            pages=len(rows) + wanted.unlisted,
            texts=self.texts,
            thread=wanted.thread,
            count=self.count,
        )
        room = self._count_manifest_room(fixed, limit)
        return fit(rows=rows, room=room) or fit(room=(limit - fixed) // 2)

    def _count_manifest_room(self, fixed: int, limit: int) -> int:
        """Return what a manifest may take: pages go first where the budget is small."""
        reserved, left = self.wanted.reserved_tokens, (limit - fixed) // 2
        return min(manifest.MAX_TOKENS, reserved // 2, reserved - fixed, left)

    def units(self, first: object | None) -> list[Unit]:
        """Return all units that may stand beside the newest message, in order."""
        wanted, begins = self.wanted, self._begins()
        heads, context = [*wanted.system], list[Candidate]()
        history, exchange = list[Candidate](), list[Candidate]()
        for each in wanted.candidates:
            if _instructs(each):
                heads.append(each)
            elif first is not None and _opens(wanted, each):
                continue
            elif wanted.mode == "passive" and brought(each):
                context.append(each)
            else:
                (exchange if self._running(each, begins) else history).append(each)
        found = [Unit((Choice(each, "system"),), each.cost) for each in heads]
        found += [Unit((Choice(each, "context"),), each.cost) for each in context]
        own = choosing.own_tools(history, self.texts)
        history = [each for each in history if each.page_id not in own]
        found += self._grouped(history, "history")
        exchange = self._as_called(self.shortener.raise_due(exchange))
        return [*found, *self._grouped(exchange, "exchange")]

    def _as_called(self, pages: Sequence[Candidate]) -> list[Candidate]:
        """As they came; but what a message called for stands behind it.

        A call is done before the message that makes it is appended, and a request may
        not end with what its model said.
        """
        found, pending = list[Candidate](), list[Candidate]()
        for each in sorted(pages, key=attrgetter("at")):
            if brought(each):
                pending.append(each)
                continue
            called = self._faults(each) if pending else ()
            found += [page for page in pending if page.page_id not in called]
            found.append(each)
            found += [page for page in pending if page.page_id in called]
            pending = []
        return found + pending

    def _faults(self, page: Candidate) -> list[Any]:
        """Return the ids of the pages that a message asks for, whatever it wrote."""
        opened = self.texts.get(page.message_at)
        calls = opened.message.calls if opened and page.role == "assistant" else ()
        return [
            call.values.get("page_id")
            for call in calls
            if call.name == tools.PAGE_FAULT and call.values
        ]

    def _begins(self) -> int | None:
        """The slot that the exchange begins with: calls come with their results."""
        begins, roles = (
            self.wanted.last_user_slot,
            {each.slot: each.role for each in self.wanted.candidates},
        )
        if self.wanted.since is None and begins is not None:
            while begins and roles.get(begins) == "tool":
                begins -= 1
        return begins

    def _running(self, page: Candidate, begins: int | None) -> bool:
        if brought(page):
            return self.wanted.since is not None and page.at > self.wanted.since
        return begins is not None and page.slot is not None and page.slot >= begins

    def _grouped(
        self, pages: Sequence[Candidate], place: SectionName
    ) -> Iterator[Unit]:
        """Messages with what answers them; what memory brought never stands between."""
        choices = [Choice(each, place, 0 if each.stub else None) for each in pages]
        spoken, units = list[int](), dict[int, Unit]()
        for index, each in enumerate(choices):
            if not brought(each.candidate):
                spoken.append(index)
                continue
            exact = self.wanted.exact
            cost = self._counted([each]) if exact else _cost(each)
            units[index] = Unit((each,), cost)
        shown, done = [self._shown_page(choices[index]) for index in spoken], 0
        for group in conversation.groups(shown):
            members = spoken[done : done + len(group)]
            done += len(group)
            own = tuple(choices[index] for index in members)
            mapped = self.shortener.count_mapped(own)
            units[members[0]] = Unit(own, self._cost(own, group), mapped)
        for index in sorted(units):
            yield units[index]

    def _cost(
        self, choices: Sequence[Choice], group: Sequence[ShownPage | Plain]
    ) -> int:
        if self.wanted.exact:
            return self._counted(choices)
        # What nobody can say stands as what memory brings.
        return sum(
            _cost(each) + (0 if _says(page) else weights.fetching(_id(each)))
            for each, page in zip(choices, group, strict=True)
        )

    def _counted(self, choices: Sequence[Choice]) -> int:
        pages = [self._shown_page(each) for each in choices]
        others = (each for each in pages if isinstance(each, ShownPage))
        running, media = (
            choices[0].place == "exchange",
            [medium for each in others for medium in each.media],
        )
        # Written with what follows, if it is a page that was called for.
        unsaid = conversation.unsaid(pages[-1], self.vendor) if running else ()
        return sum(self.count(written(each) + ",") for each in unsaid) + sum(
            conversation.weigh(text + ",", media, self.count)
            for each in self._messages(pages, running=running)
            for text in each
        )

    def _messages(
        self, pages: Sequence[ShownPage | Plain], *, running: bool
    ) -> list[list[str]]:
        ids = Ids(names=self.names)
        return conversation.messages(pages, self.vendor, ids=ids, running=running)

    def true(self, unit: Unit) -> int:
        """Return the true cost of units as they stand in the request."""
        if unit.choices[0].place not in choosing.HEAD:
            return self._counted(unit.choices)
        (choice,) = unit.choices
        opened = self.texts[choice.candidate.location]
        return self.count(choosing.head(choice, opened))

    def chosen(self, units: list[Unit], room: int) -> dict[int, Unit]:
        """Choose the units that `room` tokens hold."""
        if sum(unit.cost for unit in units) > room and not self.wanted.exact:
            # What pages come with is the most they can take: nothing is cut for that.
            units[:] = [
                unit._replace(cost=min(unit.cost, self.true(unit))) for unit in units
            ]
        return choosing.choose(units, room=room, shorten=self.shortener.shorten)

    def record(self, sides: _Sides, taken: Sequence[Choice]) -> Record:
        """Return the record of what the request is made of."""
        parts: dict[str, list[Ref]] = {}
        for each in taken:
            parts.setdefault(each.place, []).append(self._ref(each))
        parts["blocks"], parts["recall"] = [*sides.blocks], [*sides.recalled]
        parts["log"], parts["added"] = [*sides.log], [*sides.added]
        present = {
            "rules": sides.rules is not None,
            "manifest": sides.manifest is not None,
            "tools": sides.tools is not None or self.wanted.own_tools is not None,
        }
        return Record(
            packer=self.packer,
            mode=self.wanted.mode,
            budget=self.wanted.limit,
            sections=tuple(
                Section(name=name, refs=tuple(parts.get(name, ())))
                for name in requests.SECTIONS
                if parts.get(name) or present.get(name)
            ),
            rules=sides.rules,
            manifest=sides.manifest,
            recall=sides.recall,
            recall_asked=self.wanted.recall_asked,
            tools=sides.tools,
            own_tools=self.wanted.own_tools,
            log_marks=self.wanted.log_marks if sides.log else (),
        )

    def _shown_page(self, choice: Choice) -> ShownPage | Plain:
        page = choice.candidate
        plain = None
        if page.level == FULL and choice.cut is None and not brought(page):
            plain = conversation.plain(self.texts[page.location])
        if plain is not None:
            # Nearly all: no ref is needed to tell.
            return plain
        ref = self._ref(choice)
        if (found := self.shown_pages.get(ref)) is None:
            found = requests.shown_page(ref, self.texts, thread=self.wanted.thread)
            self.shown_pages[ref] = found
        return found

    def _write(self, choice: Choice, opened: Opened, cut: int | None) -> str:
        pages = [self._shown_page(choice._replace(cut=cut))]
        written = self._messages(pages, running=choice.place == "exchange")
        return "".join(text + "," for each in written for text in each)

    def _ref(self, choice: Choice) -> Ref:
        page = choice.candidate
        name = (page.page_id, page.level, page.part, page.due, choice[2:])
        if (found := self.refs.get(name)) is None:
            found = self.refs[name] = self._made(choice)
        return found

    def _made(self, choice: Choice) -> Ref:
        page, own = choice.candidate, self.wanted.thread
        return Ref(
            page.location.seq,
            page.level,
            choice.cut,
            page.location.elsewhere(own),
            page.recalled,
            page.part,
            page.at if brought(page) else None,
            page.full and (page.full.seq, page.full.elsewhere(own)),
            kept=choice.kept,
            due=page.due,
        )


def _cost(choice: Choice) -> int:
    return choice.candidate.cost


def _says(page: ShownPage | Plain) -> bool:
    return isinstance(page, Plain) or page.message is not None


def _id(choice: Choice) -> str:
    return choice.candidate.page_id


def _opens(wanted: Wanted, page: Candidate) -> bool:
    return page.slot is not None and page.slot == wanted.last_user_slot


def _instructs(page: Candidate) -> bool:
    return page.role == "system" or page.page_id == SYSTEM_PROMPT


def _sized(section: Section, rendered: Rendered, count: Count) -> Section:
    text = rendered.sections[section.name]
    tokens = conversation.weigh(text, rendered.media, count)
    return replace(section, bytes=padded(len(text.encode())), tokens=tokens)


def _packed(
    wanted: Wanted,
    record: Record,
    rendered: Rendered,
    taken: Sequence[Choice],
    *,
    texts: Texts,
    tokenizer: Tokenizer,
) -> Packed:
    """Return the request as counted and handed out, and what became of each page."""
    request, count = rendered.request.encode(), tokenizer.count
    record = replace(
        record,
        sections=tuple(_sized(section, rendered, count) for section in record.sections),
        bytes=padded(len(request)),
        tokens=conversation.weigh(rendered.request, rendered.media, count),
        tokenizer=tokenizer.name,
    )
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    ids = list(dict.fromkeys(page.page_id for page in pages if not page.stub))
    fate = {each.candidate.page_id: each.cut is not None for each in taken}
    return Packed(
        record=record,
        request=request,
        sha256=hashlib.sha256(request).hexdigest(),
        tokens=record.tokens,
        included=tuple(each for each in ids if fate.get(each) is False),
        cut=cuts(record, texts, thread=wanted.thread, count=count),
        omitted=tuple(each for each in ids if each not in fate),
        texts=texts,
    )
