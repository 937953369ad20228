"""Scans: search every byte of this server's stores for targets, and judge the hits.

Results never contain the targets. A run that does not find its own probes is void. See
decision 32.
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
from memoryhub.errors import ColdStorageError
from memoryhub.journal import audit
from memoryhub.models.access.operators import Operator
from memoryhub.queries.scan import surface_files, surfaces
from memoryhub.queries.scan.surface_kinds import SurfaceKind
from memoryhub.queries.scan.surfaces import Surface
from memoryhub.services.scan import scan_probes
from memoryhub.services.scan.scan_targets import ScanTargets
from memoryhub.vault.scan.sources import ScanHit, TargetSearch
from memoryhub.vault.scan.targets import ScanTarget, TargetKind

#: Version of this scanner; receipts name it.
VERSION: Final = "memoryhub.scan/1"
#: Bytes beyond which a scan waits for the night, one scan for all waiting erasures.
BUDGET_BYTES: Final = 4 << 30
#: Kinds that other subjects' rows may lawfully contain.
_CLEAR_KINDS = (TargetKind.NAME, TargetKind.USER_ID, TargetKind.PLAINTEXT)
#: Kinds that staff records may contain too. A user id is not among these, except as the
#: name of an operator's own account: an operator may be a customer as well.
_STAFF_KINDS = (TargetKind.NAME, TargetKind.PLAINTEXT)
_OWN_WORD_KINDS = (TargetKind.NAME, TargetKind.USER_ID)
#: Surfaces where a hit is undeclared, whoever else has the same name.
_STRICT_SURFACES = (SurfaceKind.OWN_ROWS, SurfaceKind.UNLISTED)


class HitStanding(StrEnum):
    """Right by which a target may stand in a place."""

    #: A name that another subject's rows, or this server's own words, hold lawfully.
    OTHERS = "others"
    UNDECLARED = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinding:
    """Target found in a place, with the right by which it may stand there."""

    surface: SurfaceKind
    place: str
    kind: TargetKind
    decoder: str
    at: int
    standing: HitStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """Result of a scan: its findings, and whether the scan is conclusive."""

    self_test: Mapping[str, bool]
    surfaces: tuple[str, ...]
    #: Places that did not answer, and the number of containers too large to search.
    unreachable: tuple[str, ...]
    cut: int
    scanned_bytes: int
    targets: Mapping[str, int]
    too_short: int
    #: What stood in the way: `disk` or `store`.
    trouble: str
    hits: tuple[ScanFinding, ...]
    #: Whether the large surfaces were left for the night.
    deferred: bool

    @property
    def is_void(self) -> bool:
        """Whether the scan did not find its own probes."""
        return not self.self_test or not all(self.self_test.values())

    @property
    def undeclared(self) -> int:
        """Number of hits where no target may be."""
        return sum(hit.standing is HitStanding.UNDECLARED for hit in self.hits)

    @property
    def is_clean(self) -> bool:
        """Whether nothing undeclared was found, and all places were searched."""
        return not (self.is_void or self.undeclared or self.unreachable)

    @property
    def has_clear_finding(self) -> bool:
        """Whether a clear target, which no erasure's row stores, was found."""
        return any(
            hit.standing is HitStanding.UNDECLARED and hit.kind in _CLEAR_KINDS
            for hit in self.hits
        )

    @property
    def has_clear_targets(self) -> bool:
        """Whether the scan had clear targets, which no erasure's row stores."""
        return any(self.targets.get(kind) for kind in _CLEAR_KINDS)

    def to_json(self) -> dict[str, Any]:
        """Convert the result to words and whole numbers, for row and receipt."""
        return {
            "scanner": VERSION,
            "self_test": "passed" if not self.is_void else "failed",
            "surfaces": list(self.surfaces),
            "unreachable": list(self.unreachable),
            "needles": dict(self.targets),
            "too_short": self.too_short,
            "bytes": self.scanned_bytes,
            "cut": self.cut,
            "hits": _count_hits(self.hits),
            "undeclared": self.undeclared,
            "deferred": self.deferred,
        }


def _count_hits(hits: Iterable[ScanFinding]) -> list[dict[str, Any]]:
    """Count hits by surface, kind and standing."""
    counts = Counter((hit.surface, hit.kind, hit.standing) for hit in hits)
    return [
        {
            "surface": str(surface),
            "needle": str(kind),
            "standing": str(standing),
            # No searched place is declared to keep anything.
            "residue": "",
            "count": count,
        }
        for (surface, kind, standing), count in sorted(counts.items())
    ]


# Scanning


def measure_extent() -> int:
    """Measure roughly how many bytes a scan would read; for a progress bar."""
    return sum(surface.size for surface in surfaces.iter_surfaces())


def needs_night() -> bool:
    """Return whether the surfaces that grow with memory are too large for the day."""
    places = surfaces.iter_surfaces()
    return sum(place.size for place in places if place.large) > BUDGET_BYTES


def scan_surfaces(
    targets: ScanTargets,
    *,
    progress: Callable[[int], object] = lambda amount: None,
    budget_bytes: int | None = BUDGET_BYTES,
) -> tuple[ScanResult, dict[UUID, ScanResult]]:
    """Search all stores for the targets; returns the result for all, and for each.

    `targets` names the subjects and threads whose own rows should be gone, to tell
    these rows from others' with the same names. What is larger than the budget is left
    for the night. Cost: all bytes, once, at about 50 MB/s; no transaction on SQLite, on
    PostgreSQL one a table.
    """
    wanted = dict.fromkeys(chain.from_iterable(targets.by_erasure.values()))
    probes = scan_probes.build_probes()
    search = TargetSearch([*wanted, *probes.values()])
    run = _ScanRun(search=search, probes=probes, progress=progress)
    run.scan_places(targets, budget_bytes)
    return run.build_result(wanted), {
        erasure: run.build_result(dict.fromkeys(own))
        for erasure, own in targets.by_erasure.items()
    }


def audit_scan(result: ScanResult, *, actor: str) -> None:
    """Append an audit entry about a scan, with its number of undeclared hits."""

    def write() -> None:
        with transaction.atomic():
            audit.append(
                actor=actor,
                action="scanned",
                project=None,
                outcome="done" if result.is_clean else "failed",
                count=result.undeclared,
            )

    journal.run(write)


@dataclass(slots=True, kw_only=True)
class _ScanRun:
    """One running scan."""

    search: TargetSearch
    probes: Mapping[str, ScanTarget]
    progress: Callable[[int], object]
    surfaces: dict[str, None] = field(default_factory=dict)
    unreachable: dict[str, None] = field(default_factory=dict)
    found: list[tuple[Surface, ScanHit]] = field(default_factory=list)
    scanned: int = 0
    deferred: bool = False
    trouble: str = ""

    def scan_places(self, targets: ScanTargets, budget: int | None) -> None:
        """Plant the probes and search all places, or only the small ones by day."""
        try:
            with scan_probes.plant_probes(self.probes):
                listed = surfaces.iter_surfaces(
                    subjects=targets.subjects, threads=targets.threads
                )
                places = [*listed]
                large = sum(place.size for place in places if place.large)
                self.deferred = budget is not None and large > budget
                for place in places:
                    if not (self.deferred and place.large):
                        self._scan_place(place)
        except OSError as failure:
            # No room for the probes, or no answer to them: the scan proves nothing.
            self.trouble = "disk" if failure.errno == errno.ENOSPC else "store"

    def _scan_place(self, place: Surface) -> None:
        """Search one place, and note the place as searched or unreachable."""
        try:
            hits = self.search.search_stream(self._iter_counted(place.read()))
        except (OSError, DatabaseError, ColdStorageError):
            self.unreachable[f"{place.kind} {place.place}"] = None
            return
        self.surfaces[place.kind] = None
        self.found += [(place, hit) for hit in hits]

    def _iter_counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Iterate over the chunks, counting their bytes."""
        for chunk in chunks:
            self.scanned += len(chunk)
            self.progress(len(chunk))
            yield chunk

    def build_result(self, wanted: Collection[ScanTarget]) -> ScanResult:
        """Build the result for some of the targets."""
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
            too_short=sum(target.is_too_short for target in wanted),
            hits=tuple(_judge_hits(hits)),
            deferred=self.deferred,
        )


def _judge_hits(hits: Collection[tuple[Surface, ScanHit]]) -> Iterator[ScanFinding]:
    """Judge by what right each target stands where it was found."""
    seen = {kind: set[ScanTarget]() for kind in SurfaceKind}
    for place, hit in hits:
        seen[place.kind].add(hit.target)
    # Names used by others, unless found in the subject's own rows.
    others = {each for each in seen[SurfaceKind.CALLED] if each.kind in _CLEAR_KINDS}
    others |= {each for each in seen[SurfaceKind.STAFF] if each.kind in _STAFF_KINDS}
    accounts = (SurfaceKind.STAFF, Operator._meta.db_table)
    others |= {hit.target for at, hit in hits if (at.kind, at.place) == accounts}
    others -= seen[SurfaceKind.OWN_ROWS]
    # This server's own words, wherever they stand.
    ours = {each for each in seen[SurfaceKind.SCHEMA] if each.kind in _OWN_WORD_KINDS}
    names = {hit.target for _, hit in hits if hit.target.kind is TargetKind.NAME}
    ours |= _find_own_words(names - others - ours)
    for place, hit in hits:
        theirs = place.kind not in _STRICT_SURFACES and hit.target in others
        lawful = theirs or hit.target in ours
        yield ScanFinding(
            surface=place.kind,
            place=place.place,
            kind=hit.target.kind,
            decoder=hit.decoder,
            at=hit.at,
            standing=HitStanding.OTHERS if lawful else HitStanding.UNDECLARED,
        )


def _find_own_words(names: Collection[ScanTarget]) -> set[ScanTarget]:
    """Find the names that stand in this server's own modules; reads these if needed."""
    if not names:
        return set()
    text = b"\n".join(
        b"".join(surface_files.read(p)) for p in surface_files.list_own_modules()
    )
    return {each for each in names if each.data in text}
