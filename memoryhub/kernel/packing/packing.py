"""Packing: the messages and pages of a request, how much of each, and its record.

Pure. Calls stand with their results or not at all; no message changes its role. An
exchange gets one manifest of the pages left out. `pack` writes a record, from which
alone `requests.assemble` makes the bytes, today and years later.
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

from memoryhub.kernel.context import block_lines, log_lines, manifest, recalls
from memoryhub.kernel.context.block_lines import ChosenBlock
from memoryhub.kernel.context.contexts import (
    ContextRecord,
    FaultPolicies,
    Manifest,
    ManifestRow,
    Ref,
    Section,
    SlotMarks,
    Texts,
    TurnRecall,
)
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.recalls import Related
from memoryhub.kernel.context.tokens import EST, Count, Tokenizer
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.pieces import dump_strict
from memoryhub.kernel.messages.writing import FORMATS, PlainMessage
from memoryhub.kernel.packing import (
    choosing,
    conversation,
    filling,
    recalling,
    requests,
)
from memoryhub.kernel.packing.choosing import (
    Candidate,
    Pick,
    SectionName,
    Taken,
    Unit,
    is_from_memory,
)
from memoryhub.kernel.packing.conversation import ShownPage
from memoryhub.kernel.packing.cuts import TextCut, list_cuts
from memoryhub.kernel.packing.filling import Attempt
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.requests import Rendered, render_fence
from memoryhub.kernel.packing.shortener import Shortener
from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.state.pages import FULL, SYSTEM_PROMPT, Location
from memoryhub.kernel.state.paging_config import Format, InstructionsRole
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import escape_for_string
from memoryhub.kernel.text.padding import pad_size
from memoryhub.kernel.tools import tools

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
#: Rounds of packing into less room, since token counts do not simply add up.
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingInput:
    """All input of packing: the state of a thread at one commit."""

    thread: UUID
    #: The thread's name, as the manifest shows it.
    thread_name: str
    turn: int
    mode: str
    budget_tokens: int
    reserved_tokens: int
    policies: FaultPolicies
    #: A smaller budget for this request.
    token_budget: int | None = None
    #: Pages of the system prompt, in their order.
    system: tuple[Candidate, ...] = ()
    #: Mapped pages as they stand in the context.
    candidates: tuple[Candidate, ...] = ()
    #: Start of the exchange: index of the last user slot, else of the newest slot.
    last_user_slot: int | None = None
    #: The newest slot at every level it has, most faithful first.
    newest: tuple[Candidate, ...] = ()
    #: Number of mapped pages.
    mapped: int = 0
    #: Pages the manifest may offer, best first.
    available: tuple[ManifestRow, ...] = ()
    #: Number of pages that could be fetched besides `available`.
    unlisted: int = 0
    #: Version and form of the tool definitions.
    tools: str = tools.CURRENT
    #: Location of the definitions of the agent's own tools.
    own_tools: Location | None = None
    #: The subject's blocks that the request carries, in their order.
    blocks: tuple[ChosenBlock, ...] = ()
    #: Newer versions of some blocks, whose additions are told in a separate message.
    added: tuple[Location, ...] = ()
    #: Locations of the observations that stand for older messages, in their order.
    log: tuple[Location, ...] = ()
    log_marks: tuple[SlotMarks, ...] = ()
    instructions_role: InstructionsRole = "system"
    format: Format = "chat"
    #: Clock at which the exchange began; None without a message of the user.
    since: int | None = None
    #: Whether the exchange of the turn before goes on; then its manifest and recall.
    continues: bool = False
    offered: Manifest | None = None
    recall: TurnRecall | None = None
    recalled: tuple[Ref, ...] = ()
    #: Refs of this exchange that the turn before has cut or shown as due, by location.
    cut_before: Mapping[Location, Ref] = field(default_factory=dict)
    #: Texts that may be recalled without a request, best first, and their token limit.
    related: tuple[Related, ...] = ()
    recall_tokens: int = 0
    #: Recall tokens that the thread sets; None if the thread sets none.
    recall_asked: int | None = None
    #: Share of the recall tokens for texts that no word of the message has found.
    prefetch_tokens: int = 0
    #: Whether to count costs anew, since the pages' own costs were too low.
    exact: bool = False

    @property
    def limit(self) -> int:
        return min(self.budget_tokens, self.token_budget or self.budget_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A request and the fate of each page; ids in the order of `PackingInput`."""

    record: ContextRecord
    request: bytes
    sha256: str
    tokens: int
    included: tuple[str, ...]
    cut: tuple[TextCut, ...]
    omitted: tuple[str, ...]
    #: Texts that the request was made of, while they are at hand.
    texts: Texts
    #: Texts that had no room in the recall, and why.
    unfit: Mapping[Location, recalling.Unfit] = field(default_factory=dict)


class _Sides(NamedTuple):
    """Parts of a request beside messages and pages."""

    rules: str | None
    tools: str | None
    manifest: Manifest | None
    #: Tokens with all framing.
    tokens: int
    #: The subject's blocks, and the log of observations.
    blocks: tuple[Ref, ...] = ()
    log: tuple[Ref, ...] = ()
    #: Blocks with additions told in a separate message.
    added: tuple[Ref, ...] = ()
    #: Recall of the turn: texts that the request brings along unasked.
    recall: TurnRecall | None = None
    recalled: tuple[Ref, ...] = ()


def pack(wanted: PackingInput, texts: Texts, *, tokenizer: Tokenizer = EST) -> Packed:
    """Pack the request of one turn, within its budget on the bytes themselves.

    `texts` holds the texts of candidates and rows. One pass over the candidates, whose
    costs are counted again if they were too low. Raises TooSmallError.
    """
    spare = 0
    for attempted in range(_ROUNDS):
        tried = _prepare_attempt(wanted, texts, wanted.limit - spare, tokenizer)
        made = tried.make(tried.taken)
        if made.tokens <= wanted.limit:
            return filling.fill_request(tried, made, wanted.limit)
        # Double the margin each time: the excess may say little of the uncounted part.
        spare += attempted and made.tokens - wanted.limit << attempted - 1
        # From now on, count the true costs of the messages.
        wanted = replace(wanted, exact=True)
    raise TooSmallError


def _prepare_attempt(
    wanted: PackingInput, texts: Texts, limit: int, tokenizer: Tokenizer
) -> Attempt[Packed]:
    packer = _Packer(wanted, texts, tokenizer.count)
    sides, first, room = packer.fit_sides(limit)
    units = packer.build_units(first)
    sides, room = packer.add_recall(sides, room)

    def make(taken: Taken) -> Packed:
        # All other pages of the exchange came after the newest message of the user.
        order = sorted(taken, key=lambda n: (n != len(units), n))
        shown = [each for n in order for each in taken[n].choices]
        record = packer.build_record(sides, shown)
        rendered = requests.render(
            record, texts, thread=wanted.thread, shown=packer.shown_pages
        )
        packed = _build_packed(
            wanted, record, rendered, shown, texts=texts, tokenizer=tokenizer
        )
        return replace(packed, unfit=packer.unfit) if packer.unfit else packed

    taken = packer.choose_units(units, room)
    whole, shown = filling.append_newest(units, taken, first, packer.forms)
    return Attempt(whole, shown, make, packer.recount, packer.shortener.grow)


class _Packer:
    """Packer of one request."""

    def __init__(self, wanted: PackingInput, texts: Texts, count: Count) -> None:
        self.wanted, self.texts, self.count = wanted, texts, count
        self.recall, self.brought = wanted.recall, wanted.recalled
        self.unfit: Mapping[Location, recalling.Unfit] = {}
        #: Caches of refs and shown pages, used again and again while units are written.
        self.refs: dict[tuple[Any, ...], Ref] = {}
        self.shown_pages: dict[Ref, ShownPage | PlainMessage] = {}
        self.packer = requests.choose_packer(wanted.format, wanted.instructions_role)
        self.vendor = wanted.format
        listed = tools.render_tools(wanted.tools, wanted.own_tools, texts)
        self.names = requests.build_ids(listed, self.vendor).names
        self.called = self._collect_tool_names()
        self.forms = [each for each in wanted.newest if not _is_instruction(each)]
        self.shortener = Shortener(
            texts,
            count,
            cost=self._count_choices,
            write=self._write_choice,
            before=wanted.cut_before,
        )

    def _collect_tool_names(self) -> set[str]:
        """Return the names of all tools that the request may need a definition of."""
        if not FORMATS[self.vendor].stubs:
            return set()
        pages = (Pick(each, "history") for each in self.wanted.candidates)
        own = {tools.PAGE_LIST, tools.PAGE_FAULT}
        return own | conversation.list_tools([self._show_page(each) for each in pages])

    def fit_sides(self, limit: int) -> tuple[_Sides, tuple[Pick, int] | None, int]:
        """Return the sides, the newest message (sides make way for it) and the room."""
        forms, sides = self.forms, self._build_sides(limit)
        for each in sides:
            room = limit - each.tokens
            if not forms and room >= 0:
                return each, None, room
            found = choosing.fit_newest(
                forms,
                room=room,
                least=0 if each is sides[-1] else choosing.LEAST_CUT,
                texts=self.texts,
                count=self.count,
                write=self._write_choice,
                cost=self._count_newest,
                shorten=self.shortener.cut_newest,
            )
            if found is not None:
                return each, found, room - found[1]
        raise TooSmallError

    def _count_newest(self, choice: Pick) -> int:
        return self._count_choices([choice]) if self.wanted.exact else _get_cost(choice)

    def _choose_recall(self, fixed: int, limit: int) -> None:
        """Choose the recall of the turn, which an exchange keeps from its start.

        Recall displaces no page, or the prefix would change. A thread that sets a
        recall size also gets the reserved tokens that no manifest can take.
        """
        wanted = self.wanted
        if not wanted.continues and wanted.related:
            pages = (*wanted.system, *wanted.candidates)
            left = limit - wanted.reserved_tokens - sum(each.cost for each in pages)
            if wanted.recall_asked:
                spare = wanted.reserved_tokens - fixed
                left += max(0, spare - self._count_manifest_room(fixed, limit))
            self.recall, self.brought = self._fill_room(min(left, wanted.recall_tokens))

    def add_recall(self, sides: _Sides, room: int) -> tuple[_Sides, int]:
        """Return the sides with the recall of the turn, and the room left."""
        if sides.rules is None or self.recall is None or not self.brought:
            return sides, room
        tokens = self._count_recall(self.recall, self.brought)
        if tokens > room:
            return sides, room
        sides = sides._replace(recall=self.recall, recalled=self.brought)
        return sides._replace(tokens=sides.tokens + tokens), room - tokens

    def _fill_room(self, room: int) -> tuple[TurnRecall | None, tuple[Ref, ...]]:
        """Choose the best related texts that fit in `room` tokens, oldest first."""
        wanted = self.wanted
        chosen, self.unfit = recalling.choose_texts(
            wanted.related,
            self.texts,
            room=room - self._count_recall(TurnRecall(wanted.turn, (), ()), ()),
            unasked=wanted.prefetch_tokens,
            count=self.count,
        )
        chosen.sort(key=lambda each: each[0].place.seq)
        chosen.sort(key=lambda each: self.texts[each[0].place].at or _LONG_AGO)
        own = wanted.thread
        refs = (Ref(at.seq, at.level, None, at.find_home(own)) for _, at in chosen)
        pages = (
            None if each.source in recalls.OTHER_THREADS else self.texts[at].page_id
            for each, at in chosen
        )
        became = tuple(each.marks for each, _ in chosen)
        recall = TurnRecall(
            wanted.turn,
            tuple(each.source for each, _ in chosen),
            tuple(pages),
            became if any(became) else (),
        )
        return recall, tuple(refs)

    def _count_recall(self, recall: TurnRecall, refs: Sequence[Ref]) -> int:
        return self._count_call(requests.render_recall, recall, refs)

    def _build_sides(self, limit: int) -> list[_Sides]:
        """Build the sides in alternatives, from all that the mode wants to nothing."""
        wanted, count = self.wanted, self.count
        own = tools.render_tools(None, wanted.own_tools, self.texts)
        nothing = _Sides(None, None, None, self._count_framing(own))
        shown, texts = wanted.blocks, [self.texts[place] for place in wanted.log]
        blocks = [
            block_lines.render_block_line(self.texts[b.place], whole=b.whole)
            for b in shown
        ]
        fenced_tokens = self._count_fence(block_lines.FENCE, blocks)
        logged = log_lines.list_texts(texts, wanted.log_marks, self.texts)
        fenced_tokens += self._count_fence(log_lines.FENCE, logged)
        refs = tuple(self._build_head_ref(b.place, whole=b.whole) for b in shown)
        log = tuple(map(self._build_head_ref, wanted.log))
        tokens = nothing.tokens + fenced_tokens
        bare = nothing._replace(tokens=tokens, blocks=refs, log=log)
        least = [bare, nothing] if refs or log else [nothing]
        rules = prompts.CURRENT[wanted.mode]
        if rules is None:
            return least
        listed = tools.render_tools(wanted.tools, wanted.own_tools, self.texts)
        fence = escape_for_string(render_fence("VM:RULES", prompts.RULES[rules]))
        added = tuple(map(self._build_head_ref, wanted.added))
        fixed = self._count_framing(listed) + count(fence) + fenced_tokens
        fixed += self._count_call(requests.render_additions, added, refs)
        ruled = _Sides(rules, wanted.tools, None, fixed, refs, log, added)
        sides = [ruled, *least]
        listing = fixed + weights.weigh_call(tools.PAGE_LIST)
        self._choose_recall(listing, limit)
        offered = self._choose_manifest(listing, limit)
        if offered is not None:
            fixed += self._count_call(requests.render_listing, offered)
            sides.insert(0, ruled._replace(manifest=offered, tokens=fixed))
        return sides

    def _count_call(self, tell: Callable[..., list[str]], *what: Any) -> int:
        """Count the messages by which a call of our tools tells something."""
        messages = tell(
            *what,
            self.texts,
            thread=self.wanted.thread,
            vendor=self.vendor,
            ids=RequestIds(names=self.names),
        )
        return sum(self.count(each + ",") for each in messages)

    def _count_fence(self, name: str, texts: Sequence[str]) -> int:
        """Count the tokens that a fence with these texts takes in the head."""
        if not texts:
            return 0
        return self.count(
            escape_for_string("\n\n" + render_fence(name, "\n".join(texts)))
        )

    def _build_head_ref(self, place: Location, *, whole: bool = True) -> Ref:
        cut = None if whole else 0
        return Ref(place.seq, place.level, cut, place.find_home(self.wanted.thread))

    def _count_framing(self, listed: str) -> int:
        return self.count(requests.render_framing(self.vendor, listed, self.called))

    def _choose_manifest(self, fixed: int, limit: int) -> Manifest | None:
        """Return the manifest the exchange had before, else a new manifest."""
        if self.wanted.offered is not None:
            return self.wanted.offered
        return self._fit_manifest(fixed, limit)

    def _fit_manifest(self, fixed: int, limit: int) -> Manifest | None:
        """Return the manifest with as many rows as its reserved room holds, or None."""
        wanted = self.wanted
        along = set[str | None]()
        if self.recall:
            # A page that came at a lower level may be fetched whole.
            refs = zip(self.recall.pages, self.brought, strict=True)
            along = {page_id for page_id, ref in refs if not ref.level}
        rows = [row for row in wanted.available if row.page_id not in along]
        bare = Manifest(
            thread=wanted.thread_name,
            turn=wanted.turn,
            mapped=wanted.mapped,
            policies=wanted.policies,
            telling=True,
        )
        fit = partial(
            manifest.fit_rows,
            bare,
            pages=len(rows) + wanted.unlisted,
            texts=self.texts,
            thread=wanted.thread,
            count=self.count,
        )
        room = self._count_manifest_room(fixed, limit)
        return fit(rows=rows, room=room) or fit(room=(limit - fixed) // 2)

    def _count_manifest_room(self, fixed: int, limit: int) -> int:
        """Return the tokens a manifest may take: in a small budget, pages go first."""
        reserved, left = self.wanted.reserved_tokens, (limit - fixed) // 2
        return min(manifest.MAX_TOKENS, reserved // 2, reserved - fixed, left)

    def build_units(self, first: object | None) -> list[Unit]:
        """Build all units that may stand beside the newest message, in order."""
        wanted, begins = self.wanted, self._find_exchange_start()
        heads, context = [*wanted.system], list[Candidate]()
        history, exchange = list[Candidate](), list[Candidate]()
        for each in wanted.candidates:
            if _is_instruction(each):
                heads.append(each)
            elif first is not None and _is_opening_slot(wanted, each):
                continue
            elif wanted.mode == "passive" and is_from_memory(each):
                context.append(each)
            else:
                (exchange if self._is_running(each, begins) else history).append(each)
        found = [Unit((Pick(each, "system"),), each.cost) for each in heads]
        found += [Unit((Pick(each, "context"),), each.cost) for each in context]
        own = choosing.find_own_tool_pages(history, self.texts)
        history = [each for each in history if each.page_id not in own]
        found += self._iter_units(history, "history")
        exchange = self._order_for_request(self.shortener.raise_due(exchange))
        return [*found, *self._iter_units(exchange, "exchange")]

    def _order_for_request(self, pages: Sequence[Candidate]) -> list[Candidate]:
        """Order pages by time; put each fetched page after the message that fetched it.

        A call runs before its message is appended. No request may end with its model's
        words.
        """
        found, pending = list[Candidate](), list[Candidate]()
        for each in sorted(pages, key=attrgetter("at")):
            if is_from_memory(each):
                pending.append(each)
                continue
            called = self._list_faulted_ids(each) if pending else ()
            found += [page for page in pending if page.page_id not in called]
            found.append(each)
            found += [page for page in pending if page.page_id in called]
            pending = []
        return found + pending

    def _list_faulted_ids(self, page: Candidate) -> list[Any]:
        """Return the ids of the pages that a message asks for, whatever it says."""
        opened = self.texts.get(page.message_at)
        calls = opened.message.calls if opened and page.role == "assistant" else ()
        return [
            call.values.get("page_id")
            for call in calls
            if call.name == tools.PAGE_FAULT and call.values
        ]

    def _find_exchange_start(self) -> int | None:
        """Return the first slot of the exchange: calls come with their results."""
        begins, roles = (
            self.wanted.last_user_slot,
            {each.slot: each.role for each in self.wanted.candidates},
        )
        if self.wanted.since is None and begins is not None:
            while begins and roles.get(begins) == "tool":
                begins -= 1
        return begins

    def _is_running(self, page: Candidate, begins: int | None) -> bool:
        if is_from_memory(page):
            return self.wanted.since is not None and page.at > self.wanted.since
        return begins is not None and page.slot is not None and page.slot >= begins

    def _iter_units(
        self, pages: Sequence[Candidate], place: SectionName
    ) -> Iterator[Unit]:
        """Yield messages with their answers; no page from memory stands in between."""
        choices = [Pick(each, place, 0 if each.stub else None) for each in pages]
        spoken, units = list[int](), dict[int, Unit]()
        for index, each in enumerate(choices):
            if not is_from_memory(each.candidate):
                spoken.append(index)
                continue
            exact = self.wanted.exact
            cost = self._count_choices([each]) if exact else _get_cost(each)
            units[index] = Unit((each,), cost)
        shown, done = [self._show_page(choices[index]) for index in spoken], 0
        for group in conversation.iter_groups(shown):
            members = spoken[done : done + len(group)]
            done += len(group)
            own = tuple(choices[index] for index in members)
            mapped = self.shortener.count_mapped(own)
            units[members[0]] = Unit(own, self._compute_cost(own, group), mapped)
        for index in sorted(units):
            yield units[index]

    def _compute_cost(
        self, choices: Sequence[Pick], group: Sequence[ShownPage | PlainMessage]
    ) -> int:
        if self.wanted.exact:
            return self._count_choices(choices)
        # A page without a speaker stands as a page from memory does.
        return sum(
            _get_cost(each)
            + (0 if _is_said(page) else weights.weigh_call(_get_id(each)))
            for each, page in zip(choices, group, strict=True)
        )

    def _count_choices(self, choices: Sequence[Pick]) -> int:
        pages = [self._show_page(each) for each in choices]
        others = (each for each in pages if isinstance(each, ShownPage))
        running, media = (
            choices[0].place == "exchange",
            [medium for each in others for medium in each.media],
        )
        # The reasoning is written with the next page, if a call fetched that page.
        unsaid = conversation.list_reasoning(pages[-1], self.vendor) if running else ()
        return sum(self.count(dump_strict(each) + ",") for each in unsaid) + sum(
            conversation.weigh(text + ",", media, self.count)
            for each in self._render_pages(pages, running=running)
            for text in each
        )

    def _render_pages(
        self, pages: Sequence[ShownPage | PlainMessage], *, running: bool
    ) -> list[list[str]]:
        ids = RequestIds(names=self.names)
        return conversation.render(pages, self.vendor, ids=ids, running=running)

    def recount(self, unit: Unit) -> int:
        """Count the true cost of a unit as it stands in the request."""
        if unit.choices[0].place not in choosing.HEAD:
            return self._count_choices(unit.choices)
        (choice,) = unit.choices
        opened = self.texts[choice.candidate.location]
        return self.count(choosing.render_head_page(choice, opened))

    def choose_units(self, units: list[Unit], room: int) -> dict[int, Unit]:
        """Choose the units that fit in `room` tokens."""
        if sum(unit.cost for unit in units) > room and not self.wanted.exact:
            # The pages' own costs are upper bounds: nothing is cut because of these.
            units[:] = [
                unit._replace(cost=min(unit.cost, self.recount(unit))) for unit in units
            ]
        return choosing.choose(units, room=room, shorten=self.shortener.shorten)

    def build_record(self, sides: _Sides, taken: Sequence[Pick]) -> ContextRecord:
        """Build the record of the parts of the request."""
        parts: dict[str, list[Ref]] = {}
        for each in taken:
            parts.setdefault(each.place, []).append(self._get_ref(each))
        parts["blocks"], parts["recall"] = [*sides.blocks], [*sides.recalled]
        parts["log"], parts["added"] = [*sides.log], [*sides.added]
        present = {
            "rules": sides.rules is not None,
            "manifest": sides.manifest is not None,
            "tools": sides.tools is not None or self.wanted.own_tools is not None,
        }
        return ContextRecord(
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

    def _show_page(self, choice: Pick) -> ShownPage | PlainMessage:
        page = choice.candidate
        plain = None
        if page.level == FULL and choice.cut is None and not is_from_memory(page):
            plain = conversation.get_plain(self.texts[page.location])
        if plain is not None:
            # The usual case: a plain text needs no ref.
            return plain
        ref = self._get_ref(choice)
        if (found := self.shown_pages.get(ref)) is None:
            found = requests.show_page(ref, self.texts, thread=self.wanted.thread)
            self.shown_pages[ref] = found
        return found

    def _write_choice(self, choice: Pick, opened: OpenedPage, cut: int | None) -> str:
        pages = [self._show_page(choice._replace(cut=cut))]
        written = self._render_pages(pages, running=choice.place == "exchange")
        return "".join(text + "," for each in written for text in each)

    def _get_ref(self, choice: Pick) -> Ref:
        page = choice.candidate
        name = (page.page_id, page.level, page.part, page.due, choice[2:])
        if (found := self.refs.get(name)) is None:
            found = self.refs[name] = self._build_ref(choice)
        return found

    def _build_ref(self, choice: Pick) -> Ref:
        page, own = choice.candidate, self.wanted.thread
        return Ref(
            page.location.seq,
            page.level,
            choice.cut,
            page.location.find_home(own),
            page.recalled,
            page.part,
            page.at if is_from_memory(page) else None,
            page.full and (page.full.seq, page.full.find_home(own)),
            kept=choice.kept,
            due=page.due,
        )


def _get_cost(choice: Pick) -> int:
    return choice.candidate.cost


def _is_said(page: ShownPage | PlainMessage) -> bool:
    return isinstance(page, PlainMessage) or page.message is not None


def _get_id(choice: Pick) -> str:
    return choice.candidate.page_id


def _is_opening_slot(wanted: PackingInput, page: Candidate) -> bool:
    return page.slot is not None and page.slot == wanted.last_user_slot


def _is_instruction(page: Candidate) -> bool:
    return page.role == "system" or page.page_id == SYSTEM_PROMPT


def _measure(section: Section, rendered: Rendered, count: Count) -> Section:
    text = rendered.sections[section.name]
    tokens = conversation.weigh(text, rendered.media, count)
    return replace(section, bytes=pad_size(len(text.encode())), tokens=tokens)


def _build_packed(
    wanted: PackingInput,
    record: ContextRecord,
    rendered: Rendered,
    taken: Sequence[Pick],
    *,
    texts: Texts,
    tokenizer: Tokenizer,
) -> Packed:
    """Build the request as counted and returned, with the fate of each page."""
    request, count = rendered.request.encode(), tokenizer.count
    record = replace(
        record,
        sections=tuple(
            _measure(section, rendered, count) for section in record.sections
        ),
        bytes=pad_size(len(request)),
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
        cut=list_cuts(record, texts, thread=wanted.thread, count=count),
        omitted=tuple(each for each in ids if each not in fate),
        texts=texts,
    )
