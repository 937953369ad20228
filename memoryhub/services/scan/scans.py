"""Scans: looks for needles in every byte that we own, and judges what it finds.

It never says what it looked for. A run that does not find its own probes is void.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, transaction

from memoryhub import journal
from memoryhub.journal import audit
from memoryhub.models.access.operators import Operator
from memoryhub.queries.scan import residue, surface_files, surfaces
from memoryhub.queries.scan.residue import Standing
from memoryhub.queries.scan.surfaces import Kind as Place
from memoryhub.queries.scan.surfaces import Surface
from memoryhub.services.scan import scan_probes
from memoryhub.vault.scan.needles import Kind, Needle
from memoryhub.vault.scan.sources import Hit, Search

#: Of this scanner; receipts name it.
VERSION: Final = "memoryhub.scan/1"
#: More than that is looked through at night, once for all erasures that wait for it.
BUDGET_BYTES: Final = 4 << 30
#: What others may have written as well, where they call something so.
_CLEAR = (Kind.NAME, Kind.USER_ID, Kind.PLAINTEXT)
#: What staff and our own words may hold too. An id is none of their business, but as
#: the name of an account: that is the operator's own, who may be a customer as well.
_OF_STAFF = (Kind.NAME, Kind.PLAINTEXT)
_OF_OURS = (Kind.NAME, Kind.USER_ID)
#: Where nothing of it may be, whoever else has the same name.
_HERS = (Place.HERS, Place.UNLISTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A needle in a place, and by what it may be there."""

    surface: Place
    place: str
    kind: Kind
    decoder: str
    at: int
    standing: Standing
    #: The declared residue it belongs to, if any.
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a scan found, and whether it is to be believed."""

    self_test: Mapping[str, bool]
    surfaces: tuple[str, ...]
    #: Places that did not answer, and containers that were too large to look through.
    unreachable: tuple[str, ...]
    cut: int
    scanned_bytes: int
    needles: Mapping[str, int]
    too_short: int
    #: What stood in the way: disk, store.
    trouble: str
    hits: tuple[Found, ...]
    #: What grows with the memory was left for the night.
    deferred: bool
    seconds: float

    @property
    def void(self) -> bool:
        """It did not find its own probes."""
        return not self.self_test or not all(self.self_test.values())

    @property
    def undeclared(self) -> int:
        return sum(hit.standing is Standing.UNDECLARED for hit in self.hits)

    @property
    def clean(self) -> bool:
        """Nothing is anywhere that should not be, and it was looked for everywhere."""
        return not (self.void or self.undeclared or self.unreachable)

    @property
    def found_in_the_clear(self) -> bool:
        """Something undeclared that the erasure's row does not keep."""
        return any(
            hit.standing is Standing.UNDECLARED and hit.kind in _CLEAR
            for hit in self.hits
        )

    @property
    def looked_in_the_clear(self) -> bool:
        """It looked for some of what the erasure's row does not keep."""
        return any(self.needles.get(kind) for kind in _CLEAR)

    def facts(self) -> dict[str, Any]:
        """For the erasure's row and the receipt: words and whole numbers only."""
        return {
            "scanner": VERSION,
            "self_test": "passed" if not self.void else "failed",
            "surfaces": list(self.surfaces),
            "unreachable": list(self.unreachable),
            "needles": dict(self.needles),
            "too_short": self.too_short,
            "bytes": self.scanned_bytes,
            "cut": self.cut,
            "hits": _counted(self.hits),
            "undeclared": self.undeclared,
            "deferred": self.deferred,
        }


def _counted(hits: Iterable[Found]) -> list[dict[str, Any]]:
    counts = Counter((hit.surface, hit.kind, hit.standing, hit.what) for hit in hits)
    return [
        {
            "surface": str(surface),
            "needle": str(kind),
            "standing": str(standing),
            "residue": what,
            "count": count,
        }
        for (surface, kind, standing, what), count in sorted(counts.items())
    ]


# Scanning


def extent() -> int:
    """How many bytes a scan would look through, about; for a progress bar."""
    return sum(surface.size for surface in surfaces.iter_surfaces())


def waits() -> bool:
    """Whether what grows with the memory is too large to be looked through by day."""
    places = surfaces.iter_surfaces()
    return sum(place.size for place in places if place.large) > BUDGET_BYTES


def scan(
    needles: Iterable[Needle],
    *,
    subjects: Collection[UUID] = (),
    threads: Collection[UUID] = (),
    progress: Callable[[int], object] = lambda amount: None,
    budget_bytes: int | None = BUDGET_BYTES,
    data_directory: Path | None = None,
) -> Verdict:
    """Look for the needles in everything that we own.

    `subjects` and `threads` are those of which nothing should be left: by them their
    own rows are told from others', which may hold the same names. What is larger than
    the budget is left for the night. `data_directory` is PostgreSQL's, if it may be
    read. Cost: all bytes, at about 50 MB/s; no transaction on SQLite, on PostgreSQL
    one a table.
    """
    wanted = dict.fromkeys(needles)
    run = _Run(wanted=list(wanted), probes=scan_probes.make(), progress=progress)
    run.go(subjects, threads, budget_bytes, data_directory)
    return run.verdict(wanted)


def scan_each(
    groups: Mapping[UUID, Collection[Needle]],
    *,
    subjects: Collection[UUID] = (),
    threads: Collection[UUID] = (),
    progress: Callable[[int], object] = lambda amount: None,
    budget_bytes: int | None = BUDGET_BYTES,
) -> tuple[Verdict, dict[UUID, Verdict]]:
    """As `scan`, once for the needles of many: the verdict on all, and on each."""
    wanted = dict.fromkeys(needle for group in groups.values() for needle in group)
    run = _Run(wanted=list(wanted), probes=scan_probes.make(), progress=progress)
    run.go(subjects, threads, budget_bytes)
    return run.verdict(wanted), {
        name: run.verdict(dict.fromkeys(group)) for name, group in groups.items()
    }


def note(verdict: Verdict, *, actor: str) -> None:
    """Say in the audit log that somebody had it scanned, and how many were found."""

    def write() -> None:
        with transaction.atomic():
            audit.append(
                actor=actor,
                action="scanned",
                project=None,
                outcome="done" if verdict.clean else "failed",
                count=verdict.undeclared,
            )

    journal.run(write)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One scan on its way."""

    wanted: Sequence[Needle]
    probes: Mapping[str, Needle]
    progress: Callable[[int], object]
    looked: dict[str, None] = field(default_factory=dict)
    unreachable: dict[str, None] = field(default_factory=dict)
    found: list[tuple[Surface, Hit]] = field(default_factory=list)
    scanned: int = 0
    cut: int = 0
    deferred: bool = False
    trouble: str = ""
    seconds: float = 0.0

    def go(
        self,
        subjects: Collection[UUID],
        threads: Collection[UUID],
        budget_bytes: int | None,
        data_directory: Path | None = None,
    ) -> None:
        began = time.monotonic()
        try:
            with scan_probes.planted(self.probes):
                places = surfaces.iter_surfaces(
                    subjects=subjects, threads=threads, data_directory=data_directory
                )
                self.look(list(places), budget_bytes)
        except OSError as failure:
            # No room for the probes, or no answer to them: it has proved nothing.
            self.trouble = "disk" if failure.errno == errno.ENOSPC else "store"
        self.seconds = time.monotonic() - began

    def look(self, places: Sequence[Surface], budget: int | None) -> None:
        large = sum(place.size for place in places if place.large)
        self.deferred = budget is not None and large > budget
        search = Search([*self.wanted, *self.probes.values()])
        for place in places:
            if not (self.deferred and place.large):
                self._look_at(place, search)
        self.cut = search.cut

    def _look_at(self, place: Surface, search: Search) -> None:
        try:
            hits = search.stream(self._counted(place.read()))
        except (OSError, DatabaseError):
            self.unreachable[f"{place.kind} {place.place}"] = None
            return
        self.looked[place.kind] = None
        self.found += [(place, hit) for hit in hits]

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.scanned += len(chunk)
            self.progress(len(chunk))
            yield chunk

    def verdict(self, wanted: Collection[Needle]) -> Verdict:
        """What it says of these, which are some of those that it looked for."""
        missed = set(self.probes.values()) - {hit.needle for _, hit in self.found}
        hits = [(place, hit) for place, hit in self.found if hit.needle in wanted]
        judge = _Judge.of(hits, wanted)
        return Verdict(
            self_test={name: each not in missed for name, each in self.probes.items()},
            surfaces=tuple(self.looked),
            unreachable=tuple(self.unreachable),
            trouble=self.trouble or ("store" if self.unreachable else ""),
            cut=self.cut,
            scanned_bytes=self.scanned,
            needles=Counter(str(needle.kind) for needle in wanted),
            too_short=sum(needle.too_short for needle in wanted),
            hits=tuple(judge.judged(place, hit) for place, hit in hits),
            deferred=self.deferred,
            seconds=self.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Says by what right a needle is where it was found."""

    #: What others call something so, of whom no row of it is.
    others: frozenset[Needle]
    #: Words of our own, wherever they stand.
    ours: frozenset[Needle]
    #: User ids, and content, that an agent made part of a name.
    named_after: frozenset[Needle]

    @classmethod
    def of(
        cls, hits: Collection[tuple[Surface, Hit]], wanted: Collection[Needle]
    ) -> _Judge:
        seen = {kind: set[Needle]() for kind in Place}
        for place, hit in hits:
            seen[place.kind].add(hit.needle)
        called = {each for each in seen[Place.CALLED] if each.kind in _CLEAR}
        called |= {each for each in seen[Place.STAFF] if each.kind in _OF_STAFF}
        accounts = (Place.STAFF, Operator._meta.db_table)
        called |= {h.needle for p, h in hits if (p.kind, p.place) == accounts}
        ours = {each for each in seen[Place.SCHEMA] if each.kind in _OF_OURS}
        others = called - seen[Place.HERS]
        names = [needle.data for needle in wanted if needle.kind is Kind.NAME]
        beside = {hit.needle for _, hit in hits if hit.needle.kind is Kind.NAME}
        return cls(
            others=frozenset(others),
            ours=frozenset(ours | _own(beside - others - ours)),
            named_after=frozenset(
                each
                for each in wanted
                if each.kind in (Kind.USER_ID, Kind.PLAINTEXT)
                and any(each.data in name for name in names)
            ),
        )

    def judged(self, place: Surface, hit: Hit) -> Found:
        named = hit.needle in self.named_after
        kind = Kind.NAME if named else hit.needle.kind
        declared = residue.DECLARED.get((place.kind, kind))
        standing = declared.standing if declared else Standing.UNDECLARED
        theirs = place.kind not in _HERS and hit.needle in self.others
        if theirs or hit.needle in self.ours:
            standing = Standing.OTHERS
        return Found(
            surface=place.kind,
            place=place.place,
            kind=hit.needle.kind,
            decoder=hit.decoder,
            at=hit.at,
            standing=standing,
            what=declared.what if declared else "",
        )


def _own(names: Collection[Needle]) -> set[Needle]:
    """Those that stand in our own modules. They are read only if there are any."""
    if not names:
        return set()
    text = b"\n".join(b"".join(surface_files.read(p)) for p in surface_files.own())
    return {each for each in names if each.data in text}
