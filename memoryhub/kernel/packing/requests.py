"""Requests: a record and its texts become the bytes that are sent.

Pure. Rendering sees no policy, no state and no clock. Packing and the reading of a
recorded context both render here, so the same record always gives the same bytes.
Order: one head, which says nothing that changes every turn; the history and the pages
from memory, in their order; the manifest, the recall and the additions to blocks, as
results of calls; the exchange.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.kernel.context import (
    block_lines,
    lines,
    log_lines,
    manifest,
    marks,
    recalls,
)
from memoryhub.kernel.context.block_lines import FENCE
from memoryhub.kernel.context.contexts import (
    ContextRecord,
    Manifest,
    Ref,
    Texts,
    TurnRecall,
)
from memoryhub.kernel.messages import writing
from memoryhub.kernel.messages.ids import Names, RequestIds
from memoryhub.kernel.messages.message import Medium, Vendor
from memoryhub.kernel.messages.pieces import MessageFormat, dump_strict
from memoryhub.kernel.messages.writing import FORMATS, PlainMessage
from memoryhub.kernel.packing import conversation
from memoryhub.kernel.packing.conversation import Media, ShownPage
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import dump_json, escape_for_string
from memoryhub.kernel.tools import tools


class PackerShape(NamedTuple):
    """API shape of a packer's requests, the role of their head, and the version."""

    vendor: Vendor
    role: str
    version: int


_SHAPES: dict[str, tuple[Vendor, str]] = {
    "": ("chat", "system"),
    "-developer": ("chat", "developer"),
    "-responses": ("responses", "system"),
    "-responses-developer": ("responses", "developer"),
    "-anthropic": ("anthropic", "system"),
    "-gemini": ("gemini", "system"),
}
_NEWEST = 3
#: Shape of each packer. See decisions 48 and 103.
PACKERS = {
    f"pack/{version}{suffix}": PackerShape(*shape, version)
    for version in (2, _NEWEST)
    for suffix, shape in _SHAPES.items()
}
_PACKER_OF = {shape: packer for packer, shape in PACKERS.items()}
SECTIONS = (
    *("system", "rules", "blocks", "log", "context", "history", "manifest"),
    *("recall", "added", "exchange", "tools"),
)
_TOOLS = '],"tools":'


class Rendered(NamedTuple):
    """A request as text, whole and by section."""

    request: str
    #: Text of each section in the request, by section name.
    sections: dict[str, str]
    #: Media that stand in it.
    media: Media = ()


def assemble(record: ContextRecord, texts: Texts, *, thread: UUID) -> bytes:
    """Assemble the request that `record` describes, as UTF-8. Linear.

    Raises KeyError for a missing text.
    """
    return render(record, texts, thread=thread).request.encode()


def render(
    record: ContextRecord,
    texts: Texts,
    *,
    thread: UUID,
    shown: Mapping[Ref, ShownPage | PlainMessage] | None = None,
) -> Rendered:
    """Render the request as text, and each section as it stands there.

    `shown` holds the pages of refs that are rendered already.
    """
    made = _RequestParts(record, texts, thread, shown or {})
    tooled = _TOOLS + made.tools if made.tools else "]"
    messages = ",".join(each for _, part in made.parts for each in part)
    return Rendered(
        f"{made.opening}{messages}{tooled}}}", made.render_sections(), made.media
    )


def list_ref_ranges(
    record: ContextRecord, texts: Texts, *, thread: UUID
) -> list[tuple[int, int]]:
    """List the place of each ref in the request: its first byte, and its end.

    A ref in no message has length 0. Raises like `assemble`.
    """
    made = _RequestParts(record, texts, thread, {})
    found, at = (
        list[tuple[int, int]](made.iter_head_ranges()),
        len(made.opening.encode()),
    )
    for name, part in made.parts:
        sizes = [len(each.encode()) + 1 for each in part]
        if name in ("recall", "added"):
            within = made.iter_call_ranges(name, part)
            found += [(at + start, at + end) for start, end in within]
        for length in made.lengths.get(name, ()):
            taken, sizes = sizes[:length], sizes[length:]
            end = at + sum(taken)
            found.append((at, max(at, end - 1)))
            at = end
        at += sum(sizes)
    return found


def convert_record(record: ContextRecord, shape: Vendor) -> ContextRecord:
    """Return the record of the same request in the shape of another API."""
    before, role, version = PACKERS[record.packer]
    if shape == before:
        return record
    return replace(record, packer=choose_packer(shape, role, version))


def choose_packer(shape: Vendor, role: str, version: int = _NEWEST) -> str:
    """Return a shape's packer; the "system" packer where no role can speak the head."""
    found = _PACKER_OF.get(PackerShape(shape, role, version))
    return found or _PACKER_OF[PackerShape(shape, "system", version)]


def render_fence(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


def render_framing(vendor: Vendor, listed: str, called: Iterable[str] = ()) -> str:
    """Render the request without the messages' text: a head, tools."""
    form, ids = FORMATS[vendor], build_ids(listed, vendor)
    ids.called |= {ids.names.to_written(name) for name in called}
    head = (
        ",".join(
            [*_render_head(form, "", "developer"), *writing.build_leading(form, ())]
        )
        + ","
    )
    defined = writing.write_tools(form, listed, ids)
    opening = _render_opening(form, " ")
    return f"{opening}{head}{_TOOLS}{defined}}}" if defined else f"{opening}{head}]}}"


def build_ids(listed: str, vendor: Vendor) -> RequestIds:
    """Build unused ids, with the names of the tools that a request defines."""
    names = (each["function"]["name"] for each in _parse_tools(listed))
    return RequestIds(names=Names(names, lettered=FORMATS[vendor].lettered))


def _parse_tools(listed: str) -> Any:
    return json.loads(listed or "[]")


def _render_opening(form: MessageFormat, head: str) -> str:
    """Render the request up to its first message."""
    before, after = form.head
    system = f"{before}{dump_json(head)}{after}," if form.apart and head else ""
    return f'{{{system}"{form.field}":['


def _render_head(form: MessageFormat, head: str, role: str) -> list[str]:
    """Render the messages of the head."""
    return [] if form.apart else [dump_json({"role": role, "content": head})]


def _render_before_head(form: MessageFormat, role: str) -> str:
    """Render the part of the request before the head's text."""
    if form.apart:
        return f'{{{form.head[0]}"'
    return f'{_render_opening(form, "")}{{"role":"{role}","content":"'


def render_listing(
    offered: Manifest, texts: Texts, *, thread: UUID, vendor: Vendor, ids: RequestIds
) -> list[str]:
    """Render the messages that list the other pages there are."""
    text = manifest.render_offer(offered, texts=texts, thread=thread)
    seed = f"list {offered.turn}"
    return writing.write_call(
        tools.PAGE_LIST, {}, text, seed=seed, vendor=vendor, ids=ids
    )


def render_recall(
    recall: TurnRecall,
    refs: Sequence[Ref],
    texts: Texts,
    *,
    thread: UUID,
    vendor: Vendor,
    ids: RequestIds,
) -> list[str]:
    """Render the messages that hold the recall of the turn."""
    found = [texts[ref.get_location(thread)] for ref in refs]
    return writing.write_call(
        tools.PAGE_SEARCH,
        {"query": recalls.QUERY},
        recalls.render_recall(recall, found, texts, levels=[ref.level for ref in refs]),
        seed=f"recall {recall.turn}",
        vendor=vendor,
        ids=ids,
    )


def render_additions(
    refs: Sequence[Ref],
    before: Sequence[Ref],
    texts: Texts,
    *,
    thread: UUID,
    vendor: Vendor,
    ids: RequestIds,
) -> list[str]:
    """Render the messages that tell the additions to blocks; none without additions."""
    if not refs:
        return []
    return writing.write_call(
        tools.PAGE_SEARCH,
        {"query": block_lines.ADDED_QUERY},
        block_lines.render_additions(_list_additions(refs, before, texts, thread)),
        seed=f"added {refs[-1].seq}",
        vendor=vendor,
        ids=ids,
    )


def _list_additions(
    refs: Sequence[Ref], before: Sequence[Ref], texts: Texts, thread: UUID
) -> list[str]:
    """List the lines that tell the additions to blocks of the head."""
    old = {(each := texts[ref.get_location(thread)]).page_id: each for ref in before}
    found = [texts[ref.get_location(thread)] for ref in refs]
    return [block_lines.render_addition(old[each.page_id], each) for each in found]


def show_page(ref: Ref, texts: Texts, *, thread: UUID) -> ShownPage | PlainMessage:
    """Build the page that a ref shows. Raises KeyError if its text is missing."""
    opened = texts[ref.get_message_location(thread)]
    if ref.is_as_said and (plain := conversation.get_plain(opened)):
        return plain
    lower = texts[ref.get_location(thread)] if ref.message_at else None
    return ShownPage(
        opened,
        seq=ref.seq if ref.placed is None else ref.placed,
        level=ref.level,
        lower=lower,
        cut=ref.cut,
        part=ref.part,
        recalled=ref.recalled,
        kept=ref.kept,
    )


def _join_parts(
    parts: Sequence[tuple[str, list[str]]], join: Callable[[Sequence[str]], list[str]]
) -> list[tuple[str, list[str]]]:
    """Join the texts of all parts; each part keeps its own."""
    texts = iter(join([text for _, part in parts for text in part]))
    return [(name, [*islice(texts, len(part))]) for name, part in parts]


class _RequestParts:
    """The messages of a request in their order, by section."""

    def __init__(
        self,
        record: ContextRecord,
        texts: Texts,
        thread: UUID,
        shown: Mapping[Ref, ShownPage | PlainMessage],
    ) -> None:
        self._record, self._texts, self._thread = record, texts, thread
        self._shown = shown
        self._sections = {section.name: section for section in record.sections}
        self._vendor, self._role, self._version = PACKERS[record.packer]
        self._form = FORMATS[self._vendor]
        #: Number of messages of each ref, by section.
        self.lengths: dict[str, list[int]] = {}
        self.media: list[tuple[Medium, int]] = []
        defined = tools.render_tools(record.tools, record.own_tools, texts)
        self._ids = build_ids(defined, self._vendor)
        head = "\n\n".join(self._iter_head())
        self.opening = _render_opening(self._form, head)
        history = self._render_talk("history")
        offered = record.manifest and render_listing(
            record.manifest, texts, thread=thread, vendor=self._vendor, ids=self._ids
        )
        self.parts: list[tuple[str, list[str]]] = [
            ("system", _render_head(self._form, head, self._role) if head else []),
            ("history", history),
            ("manifest", offered or []),
            ("recall", self._render_recall(record.recall)),
            ("added", self._render_additions()),
            ("exchange", self._render_talk("exchange")),
        ]
        spoken = (text for _, part in self.parts for text in part)
        self.parts.insert(0, ("", writing.build_leading(self._form, spoken)))
        if self._form.join is not None:
            self.parts = _join_parts(self.parts, self._form.join)
        self.tools = writing.write_tools(self._form, defined, self._ids)

    def render_sections(self) -> dict[str, str]:
        """Render each section of the record as it stands in the request."""
        made = {name: ",".join(part) for name, part in self.parts}
        made |= {"system": escape_for_string("\n\n".join(self._iter_prose()))}
        made |= {"rules": escape_for_string(self._render_rules()), "tools": self.tools}
        made |= {"context": escape_for_string("\n".join(self._iter_lines()))}
        made |= {"blocks": escape_for_string("\n".join(self._iter_blocks()))}
        made |= {"log": escape_for_string("\n".join(self._list_log()))}
        return {name: made.get(name, "") for name in self._sections}

    def iter_head_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the byte ranges of prose and pages in the head."""
        at = len(_render_before_head(self._form, self._role))
        blank = len(escape_for_string("\n\n"))
        for text in self._iter_prose():
            size = len(escape_for_string(text).encode())
            yield at, at + size
            at += size + blank
        if rules := self._render_rules():
            at += len(escape_for_string(rules).encode()) + blank
        for fence, texts in self._iter_fences():
            at += len(escape_for_string(f"<{fence}>\n"))
            for text in texts:
                size = len(escape_for_string(text).encode())
                yield at, at + size
                at += size + len(escape_for_string("\n"))
            at += len(escape_for_string(f"</{fence}>")) + blank
        at += len(escape_for_string("<VM:CONTEXT>\n"))
        for line in self._iter_lines():
            size = len(escape_for_string(line).encode())
            yield at, at + size
            at += size + len(escape_for_string("\n"))

    def _render_talk(self, name: str) -> list[str]:
        """Render history or exchange, which share the ids of their calls."""
        shown = [self._show_page(ref) for ref in self._get_refs(name)]
        running = name == "exchange"
        own = conversation.render(
            shown,
            self._vendor,
            ids=self._ids,
            running=running,
            detailed=self._version > 2,  # `pack/2`
        )
        others = (page for page in shown if isinstance(page, ShownPage))
        self.media += (each for page in others for each in page.media)
        self.lengths[name] = [len(part) for part in own]
        return [message for part in own for message in part]

    def _render_recall(self, recall: TurnRecall | None) -> list[str]:
        """Render the recall of the turn: texts that stand in one message."""
        if recall is None:
            return []
        return render_recall(
            recall,
            self._get_refs("recall"),
            self._texts,
            thread=self._thread,
            vendor=self._vendor,
            ids=self._ids,
        )

    def _render_additions(self) -> list[str]:
        """Render the messages that tell the additions to blocks of the head."""
        return render_additions(
            self._get_refs("added"),
            self._get_refs("blocks"),
            self._texts,
            thread=self._thread,
            vendor=self._vendor,
            ids=self._ids,
        )

    def iter_call_ranges(
        self, name: str, part: Sequence[str]
    ) -> Iterator[tuple[int, int]]:
        """Yield the byte range of each text in the messages of a call of our tools."""
        whole, at = ",".join(part).encode(), 0
        entries = self._iter_recalled() if name == "recall" else self._list_additions()
        for entry in entries:
            text = dump_strict(entry)[1:-1].encode()
            at = whole.index(text, at)
            yield at, at + len(text)
            at += len(text)

    def _iter_recalled(self) -> Iterator[str]:
        recall = self._record.recall
        if recall is None:
            return
        for n, ref in enumerate(self._get_refs("recall")):
            opened = self._texts[ref.get_location(self._thread)]
            marked = marks.render_marks(recall.get_marks(n), self._texts)
            yield recalls.render_entry(opened, recall.sources[n], marked)

    def _list_additions(self) -> list[str]:
        added, before = self._get_refs("added"), self._get_refs("blocks")
        return _list_additions(added, before, self._texts, self._thread)

    def _show_page(self, ref: Ref) -> ShownPage | PlainMessage:
        found = self._shown.get(ref)
        return found or show_page(ref, self._texts, thread=self._thread)

    def _get_refs(self, name: str) -> tuple[Ref, ...]:
        section = self._sections.get(name)
        return section.refs if section else ()

    def _iter_head(self) -> Iterator[str]:
        yield from self._iter_prose()
        if rules := self._render_rules():
            yield rules
        for fence, texts in self._iter_fences():
            yield render_fence(fence, "\n".join(texts))
        if brought := "\n".join(self._iter_lines()):
            yield render_fence("VM:CONTEXT", brought)

    def _render_rules(self) -> str:
        rules = self._record.rules
        return "" if rules is None else render_fence("VM:RULES", prompts.RULES[rules])

    def _iter_prose(self) -> Iterator[str]:
        for ref in self._get_refs("system"):
            opened = self._texts[ref.get_location(self._thread)]
            yield lines.render_prose(opened, level=ref.level, cut=ref.cut)

    def _iter_blocks(self) -> Iterator[str]:
        """Yield the subject's blocks; a cut block gives its name alone."""
        for ref in self._get_refs("blocks"):
            opened = self._texts[ref.get_location(self._thread)]
            yield block_lines.render_block_line(opened, whole=ref.cut is None)

    def _list_log(self) -> list[str]:
        """List the observations that stand for older messages."""
        refs = self._get_refs("log")
        found = [self._texts[ref.get_location(self._thread)] for ref in refs]
        return log_lines.list_texts(found, self._record.log_marks, self._texts)

    def _iter_fences(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the fences of the head, whose texts never make way for a page."""
        for fence, texts in (
            (FENCE, [*self._iter_blocks()]),
            (log_lines.FENCE, self._list_log()),
        ):
            if texts:
                yield fence, texts

    def _iter_lines(self) -> Iterator[str]:
        """Yield the pages of a request without tools, which no call could bring."""
        for ref in self._get_refs("context"):
            yield lines.render_line(
                self._texts[ref.get_location(self._thread)],
                level=ref.level,
                recalled=ref.recalled,
                cut=ref.cut,
                part=ref.part,
            )
