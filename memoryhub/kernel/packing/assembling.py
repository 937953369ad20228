"""Assembling: a record and the texts it refers to become the bytes of a request.

Pure. It sees no policy, no state and no clock, so the same record gives the same bytes
for ever; packing and reading a recorded context both go through here. What a packer
makes never changes: a new form gets a new version beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from memoryhub.kernel.levels import exchange, lines, manifest, tools
from memoryhub.kernel.levels.contexts import Record, Ref, Section, Texts
from memoryhub.kernel.levels.exchange import Shown
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import in_string

#: Sections of the developer message, in their order; the exchange and tools follow.
DEVELOPER = ("system", "rules", "context", "manifest")
SECTIONS = (*DEVELOPER, "exchange", "tools")

HEAD = '{"messages":['
DEVELOPER_HEAD, DEVELOPER_END = '{"role":"developer","content":"', '"}'
TOOLS_HEAD = '],"tools":'
BLANK_LINE = "\n\n"
_FENCES = {"rules": "VM:RULES", "context": "VM:CONTEXT", "manifest": "VM:MANIFEST_JSON"}


class Rendered(NamedTuple):
    """A request, whole and in parts."""

    request: str
    #: By section, its part of the request.
    sections: dict[str, str]


def assemble(record: Record, texts: Texts, *, thread: UUID) -> bytes:
    """Assemble the request that `record` describes, as UTF-8. Linear.

    Raises KeyError for a text that is not there.
    """
    return render(record, texts, thread=thread).request.encode()


def render(record: Record, texts: Texts, *, thread: UUID) -> Rendered:
    """Render the request as text, and each section as it stands in it."""
    write = _Writer(record, texts, thread)
    made = {section.name: write.section(section) for section in record.sections}
    parts = [part for name, part in made.items() if name in DEVELOPER]
    messages = [made["exchange"]] if "exchange" in made else []
    if parts:
        developer = in_string(BLANK_LINE).join(parts)
        messages.insert(0, DEVELOPER_HEAD + developer + DEVELOPER_END)
    listed = TOOLS_HEAD + made["tools"] if "tools" in made else "]"
    return Rendered(f"{HEAD}{','.join(messages)}{listed}}}", made)


def written(record: Record, section: Section, texts: Texts, *, thread: UUID) -> str:
    """Return one section as it stands in the request's JSON. Raises as `assemble`."""
    return _Writer(record, texts, thread).section(section)


def ranges(record: Record, texts: Texts, *, thread: UUID) -> list[tuple[int, int]]:
    """Return where in the request each ref's text stands: first byte, and end.

    Raises as `assemble`.
    """
    write, at, after = _Writer(record, texts, thread), len(HEAD), ""
    found = list[tuple[int, int]]()
    for section in record.sections:
        at += len(_opening(section.name, after=after).encode())
        lead, parts, between = write.parts(section)
        here = at + len(lead.encode())
        for part in parts:
            found.append((here, here + len(part.encode())))
            here = found[-1][1] + len(between)
        at += len(write.section(section).encode())
        after = section.name
    return found


def fenced(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>"


def framing(sections: Collection[str]) -> str:
    """Return all that such a request holds at most beside its sections' contents."""
    fences = (around(name) for name in sections if name in _FENCES)
    developer = in_string("".join(fences))
    if developer:
        developer = DEVELOPER_HEAD + developer + DEVELOPER_END + ","
    return HEAD + developer + (TOOLS_HEAD if "tools" in sections else "]") + "}"


def around(section: str) -> str:
    """Return a section of the developer message with nothing inside."""
    return BLANK_LINE + fenced(_FENCES[section], "")


class _Writer:
    """Writes the sections of one record."""

    def __init__(self, record: Record, texts: Texts, thread: UUID) -> None:
        self.record = record
        self.texts = texts
        self.thread = thread

    def section(self, section: Section) -> str:
        """Return the section's part of the request's JSON."""
        if section.name == "tools":
            return tools.listed(self.record.tools, self.record.own_tools, self.texts)
        if section.name == "exchange":
            return ",".join(exchange.messages(self._slots(section.refs)))
        return in_string(self._developer(section))

    def parts(self, section: Section) -> tuple[str, list[str], str]:
        """Return what precedes a section's texts, the texts, and what joins them."""
        if section.name == "exchange":
            return "", exchange.messages(self._slots(section.refs)), ","
        if section.name == "system":
            prose = map(in_string, self._prose(section.refs))
            return "", [*prose], in_string(BLANK_LINE)
        lead = in_string(f"<{_FENCES['context']}>\n")
        return lead, [*map(in_string, self._lines(section.refs))], in_string("\n")

    def _developer(self, section: Section) -> str:
        record = self.record
        if section.name == "system":
            return BLANK_LINE.join(self._prose(section.refs))
        if section.name == "context":
            return fenced(_FENCES["context"], "\n".join(self._lines(section.refs)))
        if section.name == "rules":
            return fenced(_FENCES["rules"], prompts.RULES[record.rules or ""])
        assert record.manifest is not None
        listed = manifest.text(record.manifest, texts=self.texts, thread=self.thread)
        return fenced(_FENCES["manifest"], listed)

    def _opened(self, ref: Ref) -> Opened:
        return self.texts[ref.location(self.thread)]

    def _slots(self, refs: Sequence[Ref]) -> list[Shown]:
        return [
            Shown(self._opened(ref), ref.level, ref.cut, ref.recalled, ref.part)
            for ref in refs
        ]

    def _prose(self, refs: Sequence[Ref]) -> Iterator[str]:
        return (
            lines.prose(self._opened(ref), level=ref.level, cut=ref.cut) for ref in refs
        )

    def _lines(self, refs: Sequence[Ref]) -> Iterator[str]:
        return (
            lines.line(
                self._opened(ref),
                level=ref.level,
                recalled=ref.recalled,
                cut=ref.cut,
                part=ref.part,
            )
            for ref in refs
        )


def _opening(name: str, *, after: str) -> str:
    """What stands between a section and the one before it."""
    if name in DEVELOPER:
        return in_string(BLANK_LINE) if after else DEVELOPER_HEAD
    ending = DEVELOPER_END if after in DEVELOPER else ""
    if name == "tools":
        return ending + TOOLS_HEAD
    return ending + "," if ending else ""


def same_sides(name: str, previous: Record, record: Record) -> bool:
    """Return whether the rest of a section is the same, which no ref identifies."""
    if name == "rules":
        return previous.rules == record.rules
    if name == "manifest":
        return previous.manifest == record.manifest
    return name != "tools" or (previous.tools, previous.own_tools) == (
        record.tools,
        record.own_tools,
    )
