"""Requests: a record and its texts become the bytes that are sent.

Pure. It sees no policy, no state and no clock: packing and reading a recorded context
both go through here, so the same record gives the same bytes for ever. One head, which
says nothing that changes every turn; then what was said, and what memory brought, in
its order; then the manifest, what the turn brings along unasked and what was added to
blocks, as results of calls; then the exchange.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.kernel.levels import (
    block_lines,
    lines,
    log_lines,
    manifest,
    marks,
    recalls,
    tools,
)
from memoryhub.kernel.levels.block_lines import FENCE
from memoryhub.kernel.levels.contexts import Manifest, Recall, Record, Ref, Texts
from memoryhub.kernel.messages import writing
from memoryhub.kernel.messages.ids import Ids, Names
from memoryhub.kernel.messages.message import Medium, Vendor
from memoryhub.kernel.messages.pieces import Format, written
from memoryhub.kernel.messages.writing import FORMATS, Plain
from memoryhub.kernel.packing import conversation
from memoryhub.kernel.packing.conversation import Media, ShownPage
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import dumped, in_string

#: The shape of a packer's requests, and who speaks their head.
PACKERS: dict[str, tuple[Vendor, str]] = {
    "pack/2": ("chat", "system"),
    "pack/2-developer": ("chat", "developer"),
    "pack/2-responses": ("responses", "system"),
    "pack/2-responses-developer": ("responses", "developer"),
    "pack/2-anthropic": ("anthropic", "system"),
}
_PACKER_OF = {spoken: packer for packer, spoken in PACKERS.items()}
SECTIONS = (
    *("system", "rules", "blocks", "log", "context", "history", "manifest"),
    *("recall", "added", "exchange", "tools"),
)
_TOOLS = '],"tools":'


class Rendered(NamedTuple):
    """A request, whole and in parts."""

    request: str
    #: By section, its part of the request.
    sections: dict[str, str]
    #: Media that stand in it.
    media: Media = ()


def assemble(record: Record, texts: Texts, *, thread: UUID) -> bytes:
    """Assemble the request that `record` describes, as UTF-8. Linear.

    Raises KeyError for a text that is not there.
    """
    return render(record, texts, thread=thread).request.encode()


def render(
    record: Record,
    texts: Texts,
    *,
    thread: UUID,
    shown: Mapping[Ref, ShownPage | Plain] | None = None,
) -> Rendered:
    """Render the request as text, and each section as it stands in it.

    `shown` is what refs show that have been rendered already.
    """
    made = _Made(record, texts, thread, shown or {})
    tooled = _TOOLS + made.tools if made.tools else "]"
    messages = ",".join(each for _, part in made.parts for each in part)
    return Rendered(f"{made.opening}{messages}{tooled}}}", made.sections(), made.media)


def ranges(record: Record, texts: Texts, *, thread: UUID) -> list[tuple[int, int]]:
    """Return where in the request each ref stands: its first byte, and its end.

    What is in no message has no length. Raises as `assemble`.
    """
    made = _Made(record, texts, thread, {})
    found, at = list[tuple[int, int]](made.within_head()), len(made.opening.encode())
    for name, part in made.parts:
        sizes = [len(each.encode()) + 1 for each in part]
        if name in ("recall", "added"):
            within = made.within_call(name, part)
            found += [(at + start, at + end) for start, end in within]
        for length in made.lengths.get(name, ()):
            taken, sizes = sizes[:length], sizes[length:]
            end = at + sum(taken)
            found.append((at, max(at, end - 1)))
            at = end
        at += sum(sizes)
    return found


def otherwise(record: Record, shape: Vendor) -> Record:
    """Return the record of the same request as another API would take it."""
    before, role = PACKERS[record.packer]
    if shape == before:
        return record
    return replace(record, packer=packer(shape, role))


def packer(shape: Vendor, role: str) -> str:
    """Return a shape's packer; its own where nobody can speak the head."""
    return _PACKER_OF.get((shape, role)) or _PACKER_OF[shape, "system"]


def fenced(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


def framing(vendor: Vendor, listed: str, called: Iterable[str] = ()) -> str:
    """Return what a request holds beside its messages' own text: a head, tools."""
    form, ids = FORMATS[vendor], new_ids(listed)
    ids.called |= {ids.names.written(name) for name in called}
    head = ",".join([*_head(form, "", "developer"), *writing.first(form, ())]) + ","
    defined = writing.tools(form, listed, ids)
    opening = _opening(form, " ")
    return f"{opening}{head}{_TOOLS}{defined}}}" if defined else f"{opening}{head}]}}"


def new_ids(listed: str) -> Ids:
    """Return the ids and names of a request that defines these tools, none used yet."""
    return Ids(names=Names(each["function"]["name"] for each in _loaded(listed)))


def _loaded(listed: str) -> Any:
    return json.loads(listed or "[]")


def _opening(form: Format, head: str) -> str:
    """The request up to its first message."""
    system = f'"system":{dumped(head)},' if form.apart and head else ""
    return f'{{{system}"{form.field}":['


def _head(form: Format, head: str, role: str) -> list[str]:
    """The messages of the head."""
    return [] if form.apart else [dumped({"role": role, "content": head})]


def _before_head(form: Format, role: str) -> str:
    """The part of the request before the head's text."""
    if form.apart:
        return '{"system":"'
    return f'{_opening(form, "")}{{"role":"{role}","content":"'


def listed(
    offered: Manifest, texts: Texts, *, thread: UUID, vendor: Vendor, ids: Ids
) -> list[str]:
    """Return the messages that list the other pages there are."""
    text = manifest.offered_text(offered, texts=texts, thread=thread)
    seed = f"list {offered.turn}"
    return writing.call(tools.PAGE_LIST, {}, text, seed=seed, vendor=vendor, ids=ids)


def brought(
    recall: Recall,
    refs: Sequence[Ref],
    texts: Texts,
    *,
    thread: UUID,
    vendor: Vendor,
    ids: Ids,
) -> list[str]:
    """Return the messages that hold what the turn brings along."""
    found = [texts[ref.location(thread)] for ref in refs]
    return writing.call(
        tools.PAGE_SEARCH,
        {"query": recalls.QUERY},
        recalls.text(recall, found, texts),
        seed=f"recall {recall.turn}",
        vendor=vendor,
        ids=ids,
    )


def grown(
    refs: Sequence[Ref],
    before: Sequence[Ref],
    texts: Texts,
    *,
    thread: UUID,
    vendor: Vendor,
    ids: Ids,
) -> list[str]:
    """Return the messages that tell what was added to blocks; none without any."""
    if not refs:
        return []
    return writing.call(
        tools.PAGE_SEARCH,
        {"query": block_lines.ADDED_QUERY},
        block_lines.additions(_additions(refs, before, texts, thread)),
        seed=f"added {refs[-1].seq}",
        vendor=vendor,
        ids=ids,
    )


def _additions(
    refs: Sequence[Ref], before: Sequence[Ref], texts: Texts, thread: UUID
) -> list[str]:
    """List the lines that tell what was added to blocks of the head."""
    old = {(each := texts[ref.location(thread)]).page_id: each for ref in before}
    found = [texts[ref.location(thread)] for ref in refs]
    return [block_lines.addition(old[each.page_id], each) for each in found]


def shown_page(ref: Ref, texts: Texts, *, thread: UUID) -> ShownPage | Plain:
    """Return the page that a ref shows. Raises KeyError if its text is not there."""
    opened = texts[ref.message(thread)]
    if ref.as_said and (plain := conversation.plain(opened)):
        return plain
    lower = texts[ref.location(thread)] if ref.message_at else None
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


class _Made:
    """The messages of a request, in their order, by what they are of."""

    def __init__(
        self,
        record: Record,
        texts: Texts,
        thread: UUID,
        shown: Mapping[Ref, ShownPage | Plain],
    ) -> None:
        self._record, self._texts, self._thread = record, texts, thread
        self._shown = shown
        self._sections = {section.name: section for section in record.sections}
        self._vendor, self._role = PACKERS[record.packer]
        self._form = FORMATS[self._vendor]
        #: How many messages each ref of a section has become.
        self.lengths: dict[str, list[int]] = {}
        self.media: list[tuple[Medium, int]] = []
        defined = tools.listed(record.tools, record.own_tools, texts)
        self._ids = new_ids(defined)
        head = "\n\n".join(self._head())
        self.opening = _opening(self._form, head)
        history = self._talk("history")
        offered = record.manifest and listed(
            record.manifest, texts, thread=thread, vendor=self._vendor, ids=self._ids
        )
        self.parts: list[tuple[str, list[str]]] = [
            ("system", _head(self._form, head, self._role) if head else []),
            ("history", history),
            ("manifest", offered or []),
            ("recall", self._brought(record.recall)),
            ("added", self._grown()),
            ("exchange", self._talk("exchange")),
        ]
        spoken = (text for _, part in self.parts for text in part)
        self.parts.insert(0, ("", writing.first(self._form, spoken)))
        self.tools = writing.tools(self._form, defined, self._ids)

    def sections(self) -> dict[str, str]:
        """Return each section of the record as text, as it stands in the request."""
        made = {name: ",".join(part) for name, part in self.parts}
        made |= {"system": in_string("\n\n".join(self._prose()))}
        made |= {"rules": in_string(self._rules()), "tools": self.tools}
        made |= {"context": in_string("\n".join(self._lines()))}
        made |= {"blocks": in_string("\n".join(self._blocks()))}
        made |= {"log": in_string("\n".join(self._log()))}
        return {name: made.get(name, "") for name in self._sections}

    def within_head(self) -> Iterator[tuple[int, int]]:
        """Yield where prose and pages stand in the head."""
        at = len(_before_head(self._form, self._role))
        blank = len(in_string("\n\n"))
        for text in self._prose():
            size = len(in_string(text).encode())
            yield at, at + size
            at += size + blank
        if rules := self._rules():
            at += len(in_string(rules).encode()) + blank
        for fence, texts in self._fences():
            at += len(in_string(f"<{fence}>\n"))
            for text in texts:
                size = len(in_string(text).encode())
                yield at, at + size
                at += size + len(in_string("\n"))
            at += len(in_string(f"</{fence}>")) + blank
        at += len(in_string("<VM:CONTEXT>\n"))
        for line in self._lines():
            size = len(in_string(line).encode())
            yield at, at + size
            at += size + len(in_string("\n"))

    def _talk(self, name: str) -> list[str]:
        """History or exchange, which share the ids of their calls."""
        shown = [self._shown_page(ref) for ref in self._refs(name)]
        running = name == "exchange"
        own = conversation.messages(shown, self._vendor, ids=self._ids, running=running)
        others = (page for page in shown if isinstance(page, ShownPage))
        self.media += (each for page in others for each in page.media)
        self.lengths[name] = [len(part) for part in own]
        return [message for part in own for message in part]

    def _brought(self, recall: Recall | None) -> list[str]:
        """What the turn brings along: texts that stand in one message."""
        if recall is None:
            return []
        return brought(
            recall,
            self._refs("recall"),
            self._texts,
            thread=self._thread,
            vendor=self._vendor,
            ids=self._ids,
        )

    def _grown(self) -> list[str]:
        """Return the messages that tell what was added to blocks of the head."""
        return grown(
            self._refs("added"),
            self._refs("blocks"),
            self._texts,
            thread=self._thread,
            vendor=self._vendor,
            ids=self._ids,
        )

    def within_call(self, name: str, part: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield where each text stands in the messages of a call of ours."""
        whole, at = ",".join(part).encode(), 0
        entries = self._recalled() if name == "recall" else self._added()
        for entry in entries:
            text = written(entry)[1:-1].encode()
            at = whole.index(text, at)
            yield at, at + len(text)
            at += len(text)

    def _recalled(self) -> Iterator[str]:
        recall = self._record.recall
        if recall is None:
            return
        for n, ref in enumerate(self._refs("recall")):
            opened = self._texts[ref.location(self._thread)]
            marked = marks.text(recall.marked(n), self._texts)
            yield recalls.entry(opened, recall.sources[n], marked)

    def _added(self) -> list[str]:
        added, before = self._refs("added"), self._refs("blocks")
        return _additions(added, before, self._texts, self._thread)

    def _shown_page(self, ref: Ref) -> ShownPage | Plain:
        found = self._shown.get(ref)
        return found or shown_page(ref, self._texts, thread=self._thread)

    def _refs(self, name: str) -> tuple[Ref, ...]:
        section = self._sections.get(name)
        return section.refs if section else ()

    def _head(self) -> Iterator[str]:
        yield from self._prose()
        if rules := self._rules():
            yield rules
        for fence, texts in self._fences():
            yield fenced(fence, "\n".join(texts))
        if brought := "\n".join(self._lines()):
            yield fenced("VM:CONTEXT", brought)

    def _rules(self) -> str:
        rules = self._record.rules
        return "" if rules is None else fenced("VM:RULES", prompts.RULES[rules])

    def _prose(self) -> Iterator[str]:
        for ref in self._refs("system"):
            opened = self._texts[ref.location(self._thread)]
            yield lines.prose(opened, level=ref.level, cut=ref.cut)

    def _blocks(self) -> Iterator[str]:
        """The subject's blocks; of one that is cut the name alone."""
        for ref in self._refs("blocks"):
            opened = self._texts[ref.location(self._thread)]
            yield block_lines.line(opened, whole=ref.cut is None)

    def _log(self) -> list[str]:
        """What stands for older messages."""
        refs = self._refs("log")
        found = [self._texts[ref.location(self._thread)] for ref in refs]
        return log_lines.list_texts(found, self._record.log_marks, self._texts)

    def _fences(self) -> Iterator[tuple[str, list[str]]]:
        """What stands in fences of the head and never leaves for a page."""
        for fence, texts in (
            (FENCE, [*self._blocks()]),
            (log_lines.FENCE, self._log()),
        ):
            if texts:
                yield fence, texts

    def _lines(self) -> Iterator[str]:
        """Pages of a request without tools, which nothing else could bring."""
        for ref in self._refs("context"):
            yield lines.line(
                self._texts[ref.location(self._thread)],
                level=ref.level,
                recalled=ref.recalled,
                cut=ref.cut,
                part=ref.part,
            )
