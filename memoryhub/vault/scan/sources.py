"""Sources: streams of bytes of any length, in which a scan looks for needles.

Pure. One pass, whatever the number of needles. What looks like a container is opened
and looked through as well, and what is inside of that.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from memoryhub.vault.scan import containers, needles
from memoryhub.vault.scan.containers import Inflating
from memoryhub.vault.scan.needles import Form, Needle

#: Containers in containers.
MAX_DEPTH: Final = 4
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
    """A needle was found: by which decoders, outermost first, and where."""

    needle: Needle
    decoder: str
    #: Offset in the stream; of what was in a container, the container's.
    at: int


class Search:
    """The same needles, looked for in many streams."""

    def __init__(self, wanted: Iterable[Needle]) -> None:
        self.words: dict[int, list[Form]] = {}
        self.short: list[Form] = []
        self.longest = 0
        #: Streams in which some container was not looked through to its end.
        self.cut = 0
        for needle in dict.fromkeys(wanted):
            if not needle.too_short:
                for form in needles.forms(needle):
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
        """Every needle in these bytes, once for each way it is written there."""
        budget = _Budget()
        look = _Look(search=self, budget=budget)
        for chunk in chunks:
            budget.allowed += RATIO * len(chunk)
            look.feed(chunk)
        look.close()
        self.cut += budget.spent
        return [
            Hit(needle=needle, decoder=decoder, at=at)
            for (needle, decoder), at in look.hits.items()
        ]

    def plain(self, data: bytes) -> Iterator[tuple[Form, int]]:
        """The forms that stand in these very bytes, and where first.

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
class _Budget:
    """What may still come out of the containers of one stream."""

    allowed: int = INFLATED_BYTES
    spent: bool = False

    def take(self, amount: int) -> bool:
        self.allowed -= amount
        self.spent = self.spent or self.allowed < 0
        return not self.spent


@dataclass(slots=True, kw_only=True)
class _Look:
    """One stream, or what comes out of a container, as far as it was seen."""

    search: Search
    budget: _Budget
    depth: int = 0
    #: The end of what was seen, and its offset in the stream.
    tail: bytes = b""
    base: int = 0
    #: Up to which offset beginnings of containers, and runs of digits, were taken up.
    begun: int = 0
    undressed: int = 0
    open: list[_Inside] = field(default_factory=list)
    hits: dict[tuple[Needle, str], int] = field(default_factory=dict)

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        """Look at the next bytes, together with the end of those before."""
        self.open = [inside for inside in self.open if inside.feed(chunk)]
        data = self.tail + chunk
        keep = max(self.search.longest - 1, _AHEAD)
        # Files of databases are full of pages that hold nothing.
        if data.strip(b"\0"):
            for form, at in self.search.plain(data):
                self.found(form.needle, form.decoder, self.base + at)
            if self.depth < MAX_DEPTH:
                self._inflate(data, last=last)
                keep = max(keep, self._undress(data, last=last))
        drop = max(len(data) - keep, 0)
        self.tail = data[drop:]
        self.base += drop

    def close(self) -> None:
        self.feed(b"", last=True)
        for inside in self.open:
            inside.close()

    def found(self, needle: Needle, decoder: str, at: int) -> None:
        self.hits.setdefault((needle, decoder), at)

    def _inflate(self, data: bytes, *, last: bool) -> None:
        """Begin with whatever looks as if it were compressed."""
        end = len(data) - (0 if last else _AHEAD)
        view = memoryview(data)
        for head in containers.heads(data, max(self.begun - self.base, 0)):
            if head.start >= end:
                break
            inside = self._inside(head.label, at=head.start)
            inside.inflating = head.inflating()
            inside.skip = max(head.content - len(data), 0)
            if inside.feed(view[head.content :]):
                self.open.append(inside)
        self.begun = max(self.begun, self.base + end)

    def _undress(self, data: bytes, *, last: bool) -> int:
        """Look through what is written in digits; how much to keep for the next."""
        waiting, since = 0, max(self.undressed - self.base, 0)
        for run in containers.runs(data, since):
            if run.open and not last:
                waiting = len(data) - run.start
                continue
            inside = self._inside(run.label, at=run.start)
            inside.take(run.decoded())
            inside.close()
            self.undressed = self.base + run.end
        return waiting

    def _inside(self, label: str, *, at: int) -> _Inside:
        look = _Look(search=self.search, budget=self.budget, depth=self.depth + 1)
        return _Inside(outer=self, look=look, label=label, at=self.base + at)


@dataclass(slots=True, kw_only=True)
class _Inside:
    """A container, and the look at what is in it."""

    outer: _Look
    look: _Look
    label: str
    at: int
    inflating: Inflating | None = None
    #: What of its head is still to come.
    skip: int = 0

    def feed(self, data: bytes | memoryview) -> bool:
        """Look at what comes out; whether there may be more."""
        assert self.inflating is not None
        ours = memoryview(data)[self.skip :]
        self.skip -= min(self.skip, len(data))
        for plain in self.inflating.feed(ours):
            if not self.take(plain):
                self.inflating.done = True
        if self.inflating.done:
            self.close()
        return not self.inflating.done

    def take(self, plain: bytes) -> bool:
        if not self.look.budget.take(len(plain)):
            return False
        self.look.feed(plain)
        return True

    def close(self) -> None:
        """Hand on what was found in it."""
        if self.inflating is not None and (rest := self.inflating.rest()):
            self.take(rest)
        self.look.close()
        for needle, decoder in self.look.hits:
            self.outer.found(needle, f"{self.label}, {decoder}", self.at)
