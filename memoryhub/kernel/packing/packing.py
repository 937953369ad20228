"""Packing by pack/1: which pages stand in a request, how much of each, the record.

Pure. `pack` chooses and writes a record; the bytes are then made of the record alone,
by the same function that makes them again years later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels import costs, manifest, tools
from memoryhub.kernel.levels.block_lines import Chosen
from memoryhub.kernel.levels.contexts import (
    FrameRow,
    Manifest,
    Policies,
    Record,
    Ref,
    Row,
    Section,
    Texts,
)
from memoryhub.kernel.levels.tokens import EST, Count, Tokenizer
from memoryhub.kernel.packing import assembling, choosing, filling
from memoryhub.kernel.packing.assembling import Rendered
from memoryhub.kernel.packing.choosing import Candidate, Choice, Taken, Unit
from memoryhub.kernel.packing.cuts import Cut, cuts
from memoryhub.kernel.packing.filling import Attempt
from memoryhub.kernel.state.pages import FULL, SYSTEM_PROMPT, Location
from memoryhub.kernel.state.paging_config import Format, InstructionsRole, Layout
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import in_string

PACKER = "pack/1"
_RULED = ("rules", "context", "tools")
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
    layout: Layout = "developer"
    instructions_role: InstructionsRole = "system"
    format: Format = "chat"
    #: At which the exchange began; None without a message of the user.
    since: int | None = None
    #: What its exchange was offered already.
    offered: Manifest | None = None
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
    """What stands in a request beside pages."""

    rules: str | None
    tools: str | None
    manifest: Manifest | None
    #: With all fences and framing.
    tokens: int


def pack(wanted: Wanted, texts: Texts, *, tokenizer: Tokenizer = EST) -> Packed:
    """Pack the request of one turn, within its budget on the bytes themselves.

    `texts` holds what candidates and rows refer to. One pass over the candidates;
    the costs they come with are checked, and counted again if they were not true.
    Raises TooSmallError.
    """
    return within(wanted, texts, tokenizer, attempt=_attempt, recount=_recounted)


def within(
    wanted: Wanted,
    texts: Texts,
    tokenizer: Tokenizer,
    *,
    attempt: Callable[[Wanted, Texts, int, Tokenizer], Attempt[Packed]],
    recount: Callable[[Wanted, Texts, Count], Wanted],
) -> Packed:
    """Return the first attempt that is within the budget, counted on its bytes.

    Raises TooSmallError.
    """
    spare = 0
    for attempted in range(_ROUNDS):
        tried = attempt(wanted, texts, wanted.limit - spare, tokenizer)
        made = tried.make(tried.taken)
        if made.tokens <= wanted.limit:
            return filling.filled(tried, made, wanted.limit)
        spare += attempted and made.tokens - wanted.limit
        wanted = recount(wanted, texts, tokenizer.count)
    raise TooSmallError


def _attempt(
    wanted: Wanted, texts: Texts, limit: int, tokenizer: Tokenizer
) -> Attempt[Packed]:
    count = tokenizer.count
    sides, first, room = _framed(wanted, texts, limit, count)
    offered = _offered(wanted, texts, first)
    units = [Unit((each,), each.candidate.cost) for each in offered]

    def shorten(unit: Unit, room: int) -> Unit:
        cut, spent = choosing.shortened(unit.choices[0], room, texts, count)
        return Unit((cut,), spent)

    def make(taken: Taken) -> Packed:
        shown = [each for n in sorted(taken) for each in taken[n].choices]
        record = _record(wanted, sides, shown)
        rendered = assembling.render(record, texts, thread=wanted.thread)
        return packed(wanted, record, rendered, shown, texts=texts, tokenizer=tokenizer)

    def true(unit: Unit) -> int:
        return count(choosing.written(unit.choices[0], texts))

    taken = choosing.choose(units, room=room, shorten=shorten)
    return Attempt(
        *filling.opened(units, taken, first, _forms(wanted, texts)), make, true
    )


def _framed(
    wanted: Wanted, texts: Texts, limit: int, count: Count
) -> tuple[_Sides, tuple[Choice, int] | None, int]:
    """What stands beside the pages, the newest slot, and the room left for others.

    The newest slot must be there; where the budget is tiny, all else makes way for it.
    """
    forms = _forms(wanted, texts)
    sides = _sides(wanted, texts, limit, count)
    for each in sides:
        last = each is sides[-1]
        used = count(assembling.framing(())) if last else each.tokens
        if not forms and used <= limit:
            return each, None, limit - each.tokens
        found = choosing.newest(
            forms,
            room=limit - used,
            least=0 if last else choosing.LEAST_CUT,
            texts=texts,
            count=count,
        )
        if found is not None:
            return each, found, limit - each.tokens - found[1]
    raise TooSmallError


def _sides(wanted: Wanted, texts: Texts, limit: int, count: Count) -> list[_Sides]:
    """From all that the mode wants to nothing."""
    own = tools.listed(None, wanted.own_tools, texts)
    parts = ("context", "tools") if own else ("context",)
    bare = _Sides(None, None, None, count(assembling.framing(parts)) + count(own))
    rules = prompts.CURRENT[wanted.mode]
    if rules is None:
        return [bare]
    listed = tools.listed(wanted.tools, wanted.own_tools, texts)
    rule_text = in_string(prompts.RULES[rules])
    fixed = sum(map(count, (assembling.framing(_RULED), rule_text, listed)))
    ruled = _Sides(rules, wanted.tools, None, fixed)
    sides = [ruled, bare]
    around = fixed + count(in_string(assembling.around("manifest")))
    shown = fitted_manifest(wanted, texts, around, limit, count)
    if shown is not None:
        text = manifest.text(shown, texts=texts, thread=wanted.thread)
        tokens = around + count(in_string(text))
        sides.insert(0, ruled._replace(manifest=shown, tokens=tokens))
    return sides


def fitted_manifest(
    wanted: Wanted, texts: Texts, fixed: int, limit: int, count: Count
) -> Manifest | None:
    """Return the manifest with as many rows as its reserved room holds.

    Without rows if need be.
    """
    bare = Manifest(
        thread=wanted.thread_name,
        turn=wanted.turn,
        mapped=wanted.mapped,
        policies=wanted.policies,
    )
    fit = partial(
        manifest.fitted,
        bare,
        pages=len(wanted.available) + wanted.unlisted,
        texts=texts,
        thread=wanted.thread,
        count=count,
    )
    reserved = wanted.reserved_tokens
    # Never more than half of what a small budget leaves: pages go first.
    left = (limit - fixed) // 2
    room = min(manifest.MAX_TOKENS, reserved // 2, reserved - fixed, left)
    frames = (_frame(each, texts) for each in wanted.candidates if each.level > FULL)
    return fit(frames=frames, rows=wanted.available, room=room) or fit(room=left)


def _frame(page: Candidate, texts: Texts) -> FrameRow:
    modality = texts[page.location].modality
    return FrameRow(page.page_id, modality, page.level, page.cost, page.importance)


def _forms(wanted: Wanted, texts: Texts) -> Sequence[Candidate]:
    """The slot that must be in the request, at each level there is of it."""
    mapped = [each for each in wanted.candidates if opens(wanted, each)]
    forms = wanted.newest or mapped
    # A thread may have nothing but its system prompt.
    return [each for each in forms if not instructs(each)]


def opens(wanted: Wanted, page: Candidate) -> bool:
    return page.slot is not None and page.slot == wanted.last_user_slot


def instructs(page: Candidate) -> bool:
    return page.role == "system" or page.page_id == SYSTEM_PROMPT


def _offered(wanted: Wanted, texts: Texts, first: object | None) -> list[Choice]:
    """Every other page in its place, in the order of the context."""
    own = choosing.own_tools(wanted.candidates, texts)
    offered = [Choice(each, "system") for each in wanted.system]
    for each in wanted.candidates:
        if first is not None and opens(wanted, each):
            continue
        last, slot = wanted.last_user_slot, each.slot
        if instructs(each):
            offered.append(Choice(each, "system"))
        elif last is not None and slot is not None and slot >= last:
            offered.append(Choice(each, "exchange"))
        elif each.page_id not in own:
            offered.append(Choice(each, "context"))
    return offered


def _record(wanted: Wanted, sides: _Sides, taken: Sequence[Choice]) -> Record:
    parts: dict[str, list[Choice]] = {"system": [], "context": [], "exchange": []}
    for each in taken:
        parts[each.place].append(each)
    # As it was said, also when a slot was fetched back and so was mapped late.
    parts["exchange"].sort(key=lambda each: each.candidate.slot or 0)
    refs = {
        name: tuple(ref(each, wanted.thread) for each in choices)
        for name, choices in parts.items()
    }
    present = {
        "rules": sides.rules is not None,
        "manifest": sides.manifest is not None,
        "tools": sides.tools is not None or wanted.own_tools is not None,
    }
    return Record(
        packer=PACKER,
        mode=wanted.mode,
        budget=wanted.limit,
        sections=tuple(
            Section(name=name, refs=refs.get(name, ()))
            for name in assembling.SECTIONS
            if refs.get(name) or present.get(name)
        ),
        rules=sides.rules,
        manifest=sides.manifest,
        tools=sides.tools,
        own_tools=wanted.own_tools,
    )


def ref(choice: Choice, own: UUID) -> Ref:
    """Return the ref to a shown text in the record of a request by `own`."""
    page = choice.candidate
    return Ref(
        seq=page.location.seq,
        level=page.level,
        cut=choice.cut,
        thread=page.location.elsewhere(own),
        recalled=page.recalled,
        part=page.part,
    )


def _sized(section: Section, rendered: Rendered, count: Count) -> Section:
    text = rendered.sections[section.name]
    return replace(section, bytes=len(text.encode()), tokens=count(text))


def packed(
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
        bytes=len(request),
        tokens=count(rendered.request),
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


def _recounted(wanted: Wanted, texts: Texts, count: Count) -> Wanted:
    """With the costs that its pages really have."""

    def true(pages: Sequence[Candidate]) -> tuple[Candidate, ...]:
        return tuple(
            each._replace(
                cost=costs.cost(texts[each.location], level=each.level, count=count)
            )
            for each in pages
        )

    return replace(
        wanted,
        system=true(wanted.system),
        candidates=true(wanted.candidates),
        newest=true(wanted.newest),
    )
