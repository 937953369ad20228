"""Scans: looks for targets in every byte that we own, and judges what it finds.

It never says what it looked for. A run that does not find its own probes is void.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, transaction

from memoryhub import journal
from memoryhub.journal import audit
from memoryhub.models.access.operators import Operator
from memoryhub.queries.scan import surface_files, surfaces
from memoryhub.queries.scan.surface_kinds import SurfaceKind
from memoryhub.queries.scan.surfaces import Surface
from memoryhub.services.scan import scan_probes
from memoryhub.services.scan.scan_targets import Targets
from memoryhub.vault.scan.sources import Hit, Search
from memoryhub.vault.scan.targets import ScanTarget, TargetKind

#: Of this scanner; receipts name it.
VERSION: Final = "memoryhub.scan/1"
#: More than that is looked through at night, once for all erasures that wait for it.
BUDGET_BYTES: Final = 4 << 30
#: What others may have written as well, where they call something so.
_CLEAR = (TargetKind.NAME, TargetKind.USER_ID, TargetKind.PLAINTEXT)
#: What staff and our own words may hold too. An id is none of their business, but as
#: the name of an account: that is the operator's own, who may be a customer as well.
_OF_STAFF = (TargetKind.NAME, TargetKind.PLAINTEXT)
_OF_OURS = (TargetKind.NAME, TargetKind.USER_ID)
#: Where nothing of it may be, whoever else has the same name.
_NO_OTHERS = (SurfaceKind.OWN_ROWS, SurfaceKind.UNLISTED)


class Standing(StrEnum):
    """By what right something is in a place."""

    #: A name that somebody else's rows, or our own words, hold lawfully.
    OTHERS = "others"
    UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A target in a place, and by what it may be there."""

    surface: SurfaceKind
    place: str
    kind: TargetKind
    decoder: str
    at: int
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What a scan found, and whether it is to be believed."""

    self_test: Mapping[str, bool]
    surfaces: tuple[str, ...]
    #: Places that did not answer, and containers that were too large to look through.
    unreachable: tuple[str, ...]
    cut: int
    scanned_bytes: int
    targets: Mapping[str, int]
    too_short: int
    #: What stood in the way: disk, store.
    trouble: str
    hits: tuple[Found, ...]
    #: What grows with the memory was left for the night.
    deferred: bool

    @property
    def void(self) -> bool:
        """Tell whether it did not find its own probes."""
        return not self.self_test or not all(self.self_test.values())

    @property
    def undeclared(self) -> int:
        return sum(hit.standing is Standing.UNDECLARED for hit in self.hits)

    @property
    def clean(self) -> bool:
        """Tell whether nothing is where it should not be, and all was looked at."""
        return not (self.void or self.undeclared or self.unreachable)

    @property
    def found_in_the_clear(self) -> bool:
        """Tell whether something undeclared is not kept by the erasure's row."""
        return any(
            hit.standing is Standing.UNDECLARED and hit.kind in _CLEAR
            for hit in self.hits
        )

    @property
    def looked_in_the_clear(self) -> bool:
        """Tell whether it looked for what the erasure's row does not keep."""
        return any(self.targets.get(kind) for kind in _CLEAR)

    def facts(self) -> dict[str, Any]:
        """Sum it up for the erasure's row and the receipt: words and whole numbers."""
        return {
            "scanner": VERSION,
            "self_test": "passed" if not self.void else "failed",
            "surfaces": list(self.surfaces),
            "unreachable": list(self.unreachable),
            "needles": dict(self.targets),
            "too_short": self.too_short,
            "bytes": self.scanned_bytes,
            "cut": self.cut,
            "hits": _counted(self.hits),
            "undeclared": self.undeclared,
            "deferred": self.deferred,
        }


def _counted(hits: Iterable[Found]) -> list[dict[str, Any]]:
    counts = Counter((hit.surface, hit.kind, hit.standing) for hit in hits)
    return [
        {
            "surface": str(surface),
            "needle": str(kind),
            "standing": str(standing),
            # No place that is looked through is declared to keep anything.
            "residue": "",
            "count": count,
        }
        for (surface, kind, standing), count in sorted(counts.items())
    ]


# Scanning


def extent() -> int:
    """Tell how many bytes a scan would look through, about; for a progress bar."""
    return sum(surface.size for surface in surfaces.iter_surfaces())


def waits() -> bool:
    """Tell whether what grows with the memory is too large for a scan by day."""
    places = surfaces.iter_surfaces()
    return sum(place.size for place in places if place.large) > BUDGET_BYTES


def scan(
    targets: Targets,
    *,
    progress: Callable[[int], object] = lambda amount: None,
    budget_bytes: int | None = BUDGET_BYTES,
) -> tuple[ScanResult, dict[UUID, ScanResult]]:
    """Look for these in everything that we own; the result for all, and for each.

    By the subjects and threads of which nothing should be left their own rows are told
    from others', which may hold the same names. What is larger than the budget is left
    for the night. Cost: all bytes, once, at about 50 MB/s; no transaction on SQLite, on
    PostgreSQL one a table.
    """
    wanted = dict.fromkeys(chain.from_iterable(targets.by_erasure.values()))
    probes = scan_probes.make()
    search = Search([*wanted, *probes.values()])
    run = _Run(search=search, probes=probes, progress=progress)
    run.go(targets, budget_bytes)
    return run.result(wanted), {
        erasure: run.result(dict.fromkeys(own))
        for erasure, own in targets.by_erasure.items()
    }


def note(result: ScanResult, *, actor: str) -> None:
    """Say in the audit log that somebody had it scanned, and how many were found."""

    def write() -> None:
        with transaction.atomic():
            audit.append(
                actor=actor,
                action="scanned",
                project=None,
                outcome="done" if result.clean else "failed",
                count=result.undeclared,
            )

    journal.run(write)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One scan on its way."""

    search: Search
    probes: Mapping[str, ScanTarget]
    progress: Callable[[int], object]
    surfaces: dict[str, None] = field(default_factory=dict)
    unreachable: dict[str, None] = field(default_factory=dict)
    found: list[tuple[Surface, Hit]] = field(default_factory=list)
    scanned: int = 0
    deferred: bool = False
    trouble: str = ""

    def go(self, targets: Targets, budget: int | None) -> None:
        """Plant the probes and look everywhere, as far as that may be by day."""
        try:
            with scan_probes.planted(self.probes):
                listed = surfaces.iter_surfaces(
                    subjects=targets.subjects, threads=targets.threads
                )
                places = [*listed]
                large = sum(place.size for place in places if place.large)
                self.deferred = budget is not None and large > budget
                for place in places:
                    if not (self.deferred and place.large):
                        self._look_at(place)
        except OSError as failure:
            # No room for the probes, or no answer to them: it has proved nothing.
            self.trouble = "disk" if failure.errno == errno.ENOSPC else "store"

    def _look_at(self, place: Surface) -> None:
        try:
            hits = self.search.stream(self._counted(place.read()))
        except (OSError, DatabaseError):
            self.unreachable[f"{place.kind} {place.place}"] = None
            return
        self.surfaces[place.kind] = None
        self.found += [(place, hit) for hit in hits]

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.scanned += len(chunk)
            self.progress(len(chunk))
            yield chunk

    def result(self, wanted: Collection[ScanTarget]) -> ScanResult:
        """Judge what was found of these, which are some of those looked for."""
        missed = set(self.probes.values()) - {hit.target for _, hit in self.found}
        hits = [(place, hit) for place, hit in self.found if hit.target in wanted]
        return ScanResult(
            self_test={name: each not in missed for name, each in self.probes.items()},
            surfaces=tuple(self.surfaces),
            unreachable=tuple(self.unreachable),
            trouble=self.trouble or ("store" if self.unreachable else ""),
            cut=self.search.cut,
            scanned_bytes=self.scanned,
            targets=Counter(str(target.kind) for target in wanted),
            too_short=sum(target.too_short for target in wanted),
            hits=tuple(_judged(hits)),
            deferred=self.deferred,
        )


def _judged(hits: Collection[tuple[Surface, Hit]]) -> Iterator[Found]:
    """Say by what right each target is where it was found."""
    seen = {kind: set[ScanTarget]() for kind in SurfaceKind}
    for place, hit in hits:
        seen[place.kind].add(hit.target)
    # What others call something so, of whom no row of its own is.
    others = {each for each in seen[SurfaceKind.CALLED] if each.kind in _CLEAR}
    others |= {each for each in seen[SurfaceKind.STAFF] if each.kind in _OF_STAFF}
    accounts = (SurfaceKind.STAFF, Operator._meta.db_table)
    others |= {hit.target for at, hit in hits if (at.kind, at.place) == accounts}
    others -= seen[SurfaceKind.OWN_ROWS]
    # Words of our own, wherever they stand.
    ours = {each for each in seen[SurfaceKind.SCHEMA] if each.kind in _OF_OURS}
    names = {hit.target for _, hit in hits if hit.target.kind is TargetKind.NAME}
    ours |= _own(names - others - ours)
    for place, hit in hits:
        theirs = place.kind not in _NO_OTHERS and hit.target in others
        lawful = theirs or hit.target in ours
        yield Found(
            surface=place.kind,
            place=place.place,
            kind=hit.target.kind,
            decoder=hit.decoder,
            at=hit.at,
            standing=Standing.OTHERS if lawful else Standing.UNDECLARED,
        )


def _own(names: Collection[ScanTarget]) -> set[ScanTarget]:
    """Return those that stand in our own modules, which are read if there are any."""
    if not names:
        return set()
    text = b"\n".join(b"".join(surface_files.read(p)) for p in surface_files.own())
    return {each for each in names if each.data in text}
