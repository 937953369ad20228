"""Search for targets in streams of bytes of any length. Pure.

One pass, for any number of targets. The search also inflates possible containers and
looks through their content.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from memoryhub.vault.scan import containers, targets
from memoryhub.vault.scan.containers import InflatedStream
from memoryhub.vault.scan.targets import ScanTarget, TargetForm

#: Most inflated bytes of one stream's containers: this many, plus this many times the
#: input. The limit stops decompression bombs.
INFLATED_BYTES, RATIO = 64 << 20, 20

_WORD: Final = 8
#: Shortest form that covers a whole word; words begin at every fourth byte.
_COVERING: Final = _WORD + 3
#: Bytes at the end of a chunk in which a container's beginning waits for the next.
_AHEAD: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHit:
    """A found target: its decoders, outermost first, and its offset."""

    target: ScanTarget
    decoder: str
    #: Offset in the stream; for a target in a container, the container's offset.
    at: int


class TargetSearch:
    """A search for the same targets in many streams."""

    def __init__(self, wanted: Iterable[ScanTarget]) -> None:
        self.words: dict[int, list[TargetForm]] = {}
        self.short: list[TargetForm] = []
        self.longest = 0
        #: Number of streams in which some container was not read to its end.
        self.cut = 0
        for target in dict.fromkeys(wanted):
            if not target.is_too_short:
                for form in targets.iter_forms(target):
                    self._add(form)

    def _add(self, form: TargetForm) -> None:
        self.longest = max(self.longest, len(form.data))
        if len(form.data) < _COVERING:
            self.short.append(form)
            return
        for at in range(4):
            word = int.from_bytes(form.data[at : at + _WORD], sys.byteorder)
            self.words.setdefault(word, []).append(form)

    def search_stream(self, chunks: Iterable[bytes]) -> list[ScanHit]:
        """Find every target in a stream, once for each encoding that occurs."""
        stream = _ScannedStream(search=self)
        for chunk in chunks:
            stream.feed(chunk)
        stream.close()
        self.cut += stream.cut
        return [
            ScanHit(target=target, decoder=decoder, at=at)
            for (target, decoder), at in stream.hits.items()
        ]

    def find_forms(self, data: bytes) -> Iterator[tuple[TargetForm, int]]:
        """Find the forms that occur in these bytes, with their first offsets.

        The words of eight bytes at every fourth place are looked up in one table: a
        search for each form would be thousands of passes, a pattern of all as slow.
        """
        suspects = dict.fromkeys(self.short)
        for start in range(0, _WORD, _WORD // 2):
            # Cut to a length that `array` accepts.
            end = start + (len(data) - start) // _WORD * _WORD
            words = array("Q", data[start:end] if end > start else b"")
            for word in self.words.keys() & words:
                suspects.update(dict.fromkeys(self.words[word]))
        for form in suspects:
            if (at := data.find(form.data)) >= 0:
                yield form, at


@dataclass(slots=True, kw_only=True)
class _ScanWindow:
    """The newest bytes of a stream, and enough earlier bytes to miss no target."""

    search: TargetSearch
    #: Number of bytes to keep when more come.
    keep: int
    data: bytes = b""
    #: Offset of `data` in the stream.
    base: int = 0

    def slide(self, chunk: bytes) -> Iterator[tuple[TargetForm, int]]:
        """Take the next bytes; yield the forms in the window, with first offsets."""
        drop = max(len(self.data) - self.keep, 0)
        self.base += drop
        self.data = self.data[drop:] + chunk
        # Database files are full of empty pages.
        if self.data.strip(b"\0"):
            for form, at in self.search.find_forms(self.data):
                yield form, self.base + at


@dataclass(slots=True, kw_only=True)
class _ScannedStream:
    """Progress of the search in one stream."""

    search: TargetSearch
    allowed: int = INFLATED_BYTES
    #: Whether some container was not read to its end.
    cut: bool = False
    window: _ScanWindow = field(init=False)
    #: Offset up to which possible containers were opened.
    begun: int = 0
    open: list[_ScannedContainer] = field(default_factory=list)
    hits: dict[tuple[ScanTarget, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keep = max(self.search.longest - 1, _AHEAD)
        self.window = _ScanWindow(search=self.search, keep=keep)

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        """Search the next bytes, together with the end of the bytes before."""
        self.allowed += RATIO * len(chunk)
        self.open = [inside for inside in self.open if inside.search_inflated(chunk)]
        for form, at in self.window.slide(chunk):
            self.record_hit(form.target, form.decoder, at)
        self._inflate(last=last)

    def close(self) -> None:
        self.feed(b"", last=True)
        for inside in self.open:
            inside.close()

    def record_hit(self, target: ScanTarget, decoder: str, at: int) -> None:
        self.hits.setdefault((target, decoder), at)

    def charge_inflated(self, amount: int) -> bool:
        """Charge inflated bytes; return whether the stream's limit allows them."""
        self.allowed -= amount
        self.cut = self.cut or self.allowed < 0
        return not self.cut

    def _inflate(self, *, last: bool) -> None:
        """Open whatever looks like the beginning of a container."""
        data, base = self.window.data, self.window.base
        end = len(data) - (0 if last else _AHEAD)
        view = memoryview(data)
        for head in containers.iter_heads(data, max(self.begun - base, 0)):
            if head.start >= end:
                break
            inside = _ScannedContainer(
                outer=self,
                label=head.label,
                at=base + head.start,
                inflating=InflatedStream(head.window_bits),
                skip=max(head.content - len(data), 0),
                window=_ScanWindow(search=self.search, keep=self.search.longest - 1),
            )
            if inside.search_inflated(view[head.content :]):
                self.open.append(inside)
        self.begun = max(self.begun, base + end)


@dataclass(slots=True, kw_only=True)
class _ScannedContainer:
    """A container in a stream, and the search in its content."""

    outer: _ScannedStream
    label: str
    at: int
    inflating: InflatedStream
    #: Bytes of the container's head still to come.
    skip: int
    window: _ScanWindow

    def search_inflated(self, data: bytes | memoryview) -> bool:
        """Search the inflated bytes; return whether more may come."""
        ours = memoryview(data)[self.skip :]
        self.skip -= min(self.skip, len(data))
        for plain in self.inflating.feed(ours):
            self._take(plain)
        if self.inflating.done:
            self.close()
        return not self.inflating.done

    def close(self) -> None:
        """Search the output that zlib held back for more of the stream."""
        if rest := self.inflating.flush_rest():
            self._take(rest)

    def _take(self, plain: bytes) -> None:
        if not self.outer.charge_inflated(len(plain)):
            self.inflating.done = True
            return
        for form, _ in self.window.slide(plain):
            self.outer.record_hit(form.target, f"{self.label}, {form.decoder}", self.at)
