"""Sources: streams of bytes of any length, in which a scan looks for targets.

Pure. One pass, whatever the number of targets. What looks like a container is opened
and looked through as well.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from memoryhub.vault.scan import containers, targets
from memoryhub.vault.scan.containers import Inflating
from memoryhub.vault.scan.targets import Form, ScanTarget

#: What may come out of those of one stream: so much, and so many times what went in.
#: No bomb gets further.
INFLATED_BYTES, RATIO = 64 << 20, 20

_WORD: Final = 8
#: In two passes words begin at every fourth byte; a form of this length covers one.
_COVERING: Final = _WORD + 3
#: What begins that near to the end of what is there is left for the next chunk.
_AHEAD: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A target was found: by which decoders, outermost first, and where."""

    target: ScanTarget
    decoder: str
    #: Offset in the stream; of what was in a container, the container's.
    at: int


class Search:
    """The same targets, looked for in many streams."""

    def __init__(self, wanted: Iterable[ScanTarget]) -> None:
        self.words: dict[int, list[Form]] = {}
        self.short: list[Form] = []
        self.longest = 0
        #: Streams in which some container was not looked through to its end.
        self.cut = 0
        for target in dict.fromkeys(wanted):
            if not target.too_short:
                for form in targets.forms(target):
                    self._add(form)

    def _add(self, form: Form) -> None:
        self.longest = max(self.longest, len(form.data))
        if len(form.data) < _COVERING:
            self.short.append(form)
            return
        for at in range(4):
            word = int.from_bytes(form.data[at : at + _WORD], sys.byteorder)
            self.words.setdefault(word, []).append(form)

    def stream(self, chunks: Iterable[bytes]) -> list[Hit]:
        """Find every target in these bytes, once for each way it is written there."""
        stream = _Stream(search=self)
        for chunk in chunks:
            stream.feed(chunk)
        stream.close()
        self.cut += stream.cut
        return [
            Hit(target=target, decoder=decoder, at=at)
            for (target, decoder), at in stream.hits.items()
        ]

    def plain(self, data: bytes) -> Iterator[tuple[Form, int]]:
        """Find the forms that stand in these very bytes, and where first.

        The words of eight bytes at every fourth place are looked up in one table: a
        search for each form would be thousands of passes, a pattern of all as slow.
        """
        suspects = dict.fromkeys(self.short)
        for start in range(0, _WORD, _WORD // 2):
            # Of a length that an array takes.
            end = start + (len(data) - start) // _WORD * _WORD
            words = array("Q", data[start:end] if end > start else b"")
            for word in self.words.keys() & words:
                suspects.update(dict.fromkeys(self.words[word]))
        for form in suspects:
            if (at := data.find(form.data)) >= 0:
                yield form, at


@dataclass(slots=True, kw_only=True)
class _Window:
    """The newest bytes of a stream, with so many before them that nothing is missed."""

    search: Search
    #: How many stay when more come.
    keep: int
    data: bytes = b""
    #: Where they begin in the stream.
    base: int = 0

    def slide(self, chunk: bytes) -> Iterator[tuple[Form, int]]:
        """Take the next bytes; the forms in what is seen now, and where first."""
        drop = max(len(self.data) - self.keep, 0)
        self.base += drop
        self.data = self.data[drop:] + chunk
        # Files of databases are full of pages that hold nothing.
        if self.data.strip(b"\0"):
            for form, at in self.search.plain(self.data):
                yield form, self.base + at


@dataclass(slots=True, kw_only=True)
class _Stream:
    """One stream, as far as it was seen."""

    search: Search
    allowed: int = INFLATED_BYTES
    #: Some container was not looked through to its end.
    cut: bool = False
    window: _Window = field(init=False)
    #: Up to which offset beginnings of containers were taken up.
    begun: int = 0
    open: list[_Inside] = field(default_factory=list)
    hits: dict[tuple[ScanTarget, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keep = max(self.search.longest - 1, _AHEAD)
        self.window = _Window(search=self.search, keep=keep)

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        """Look at the next bytes, together with the end of those before."""
        self.allowed += RATIO * len(chunk)
        self.open = [inside for inside in self.open if inside.feed(chunk)]
        for form, at in self.window.slide(chunk):
            self.found(form.target, form.decoder, at)
        self._inflate(last=last)

    def close(self) -> None:
        self.feed(b"", last=True)
        for inside in self.open:
            inside.close()

    def found(self, target: ScanTarget, decoder: str, at: int) -> None:
        self.hits.setdefault((target, decoder), at)

    def allow(self, amount: int) -> bool:
        """Tell whether so much more may come out of its containers."""
        self.allowed -= amount
        self.cut = self.cut or self.allowed < 0
        return not self.cut

    def _inflate(self, *, last: bool) -> None:
        """Begin with whatever looks as if it were compressed."""
        data, base = self.window.data, self.window.base
        end = len(data) - (0 if last else _AHEAD)
        view = memoryview(data)
        for head in containers.heads(data, max(self.begun - base, 0)):
            if head.start >= end:
                break
            inside = _Inside(
                outer=self,
                label=head.label,
                at=base + head.start,
                inflating=Inflating(head.window_bits),
                skip=max(head.content - len(data), 0),
                window=_Window(search=self.search, keep=self.search.longest - 1),
            )
            if inside.feed(view[head.content :]):
                self.open.append(inside)
        self.begun = max(self.begun, base + end)


@dataclass(slots=True, kw_only=True)
class _Inside:
    """A container, and how far what comes out of it was seen."""

    outer: _Stream
    label: str
    at: int
    inflating: Inflating
    #: What of its head is still to come.
    skip: int
    window: _Window

    def feed(self, data: bytes | memoryview) -> bool:
        """Look at what comes out; whether there may be more."""
        ours = memoryview(data)[self.skip :]
        self.skip -= min(self.skip, len(data))
        for plain in self.inflating.feed(ours):
            self._take(plain)
        if self.inflating.done:
            self.close()
        return not self.inflating.done

    def close(self) -> None:
        """Look at what was held back for more of the stream."""
        if rest := self.inflating.rest():
            self._take(rest)

    def _take(self, plain: bytes) -> None:
        if not self.outer.allow(len(plain)):
            self.inflating.done = True
            return
        for form, _ in self.window.slide(plain):
            self.outer.found(form.target, f"{self.label}, {form.decoder}", self.at)
