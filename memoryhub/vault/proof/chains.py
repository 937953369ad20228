"""Chained files beside the databases, and what of each the keys database knows.

A chain proves what is in it, and not that nothing was cut off behind. So number and
hash of the newest line stand in the keys database, and are moved once the line is on
disk: a file is one line ahead after a crash between the two, and never behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings

from memoryhub.errors import (
    KeyMissingError,
    LedgerBrokenError,
    LedgerUnwritableError,
)
from memoryhub.models.keys import KeyMeta, NewestLine
from memoryhub.vault.keys import keyring
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap
from memoryhub.vault.proof import chained, signing
from memoryhub.vault.proof.chained import ChainPosition, Link

log = structlog.get_logger()

#: What a file lacks or has too much of, in the detail `what` of a refusal.
BEHIND: Final = "behind"
AHEAD: Final = "ahead"
MIRROR: Final = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One such file, and its mirror."""

    file: str
    #: Makes its first line another one than that of the other files.
    format: str

    def path(self) -> Path:
        folder: Path = settings.LEDGER
        return folder / self.file

    def mirror_path(self) -> Path | None:
        folder: Path | None = settings.LEDGER_MIRROR
        return folder and folder / self.file

    def genesis(self) -> bytes:
        """Return the hash before the first line, unlike that of any other instance."""
        metas = KeyMeta.objects.using("keys")
        instance = metas.values_list("instance", flat=True).get()
        return hashlib.sha256(self.format.encode() + instance.bytes).digest()

    def write(self, says: Mapping[str, Any]) -> Link:
        """Write a line, note it in the keys database, and bring the mirror up to it.

        Raises LedgerUnwritableError, after which there is no such line, and
        LedgerBrokenError when the file does not end where it should. The mirror follows
        as far as it can: one that can't be written holds up nobody.
        """
        link = chained.append(
            self.path(),
            says,
            signer=signing.current(),
            place=self._behind_all,
            then=self.note,
        )
        self.mirror()
        return link

    def draft(self, says: Mapping[str, Any], *, anew: bool = False) -> Link:
        """Write a line that does not count before it is noted.

        One that never was goes with it. With `anew` it follows whatever is there.
        """
        place = self._anywhere if anew else self._behind_noted
        return chained.append(self.path(), says, signer=signing.current(), place=place)

    def note(self, link: Link, *, anew: bool = False) -> None:
        """Note that the file goes as far as this line from now on.

        It never gets shorter, unless `anew`. At most three statements.
        """
        kek = keyring.ring().current
        row = NewestLine(file=self.file, n=link.n, kek_id=kek.id)
        wrapped = wrap(kek, link.hash, purpose=KeyPurpose.LINE, owner=row.place)
        values = {"n": link.n, "kek_id": kek.id, "wrapped": wrapped}
        rows = NewestLine.objects.using("keys").filter(file=self.file)
        _, made = rows.get_or_create(file=self.file, defaults=values)
        if not made:
            (rows if anew else rows.filter(n__lt=link.n)).update(**values)

    def noted(self) -> ChainPosition:
        """Return the newest line that the keys database knows. Two queries.

        Raises LedgerBrokenError when what stands there was not noted by us.
        """
        row = NewestLine.objects.using("keys").filter(file=self.file).first()
        if row is None:
            return ChainPosition(n=0, hash=self.genesis())
        try:
            kek, wrapped = keyring.kek(row.kek_id), bytes(row.wrapped)
            digest = unwrap(kek, wrapped, purpose=KeyPurpose.LINE, owner=row.place)
        except KeyMissingError:
            raise LedgerBrokenError(n=row.n, file=self.file) from None
        return ChainPosition(n=row.n, hash=digest)

    def newest(self) -> Link | None:
        """Return the newest line, noted or one further. Reads the file's end alone.

        Raises LedgerBrokenError when the file does not end there.
        """
        noted, link = self.noted(), chained.head(self.path())
        self._require(link, noted)
        return link

    def check(
        self, *, keys: Mapping[str, bytes] | None = None, restored: bool = False
    ) -> Link | None:
        """Walk the whole file: chain, hashes, signatures, its end; its newest line.

        The keys database may be any number of lines behind when it was `restored`.
        Raises LedgerBrokenError with the number of the first line that is wrong.
        """
        noted, genesis = self.noted(), self.genesis()
        keys = signing.public_keys() if keys is None else keys
        try:
            link = chained.check(self.path(), genesis=genesis, keys=keys)
        except LedgerBrokenError as broken:
            raise LedgerBrokenError(**broken.detail, file=self.file) from None
        self._require(link, noted, restored=restored)
        self._require_mirrored(link)
        return link

    def links(self) -> Iterator[Link]:
        return chained.iter_links(self.path())

    def mirror(self, *, upto: Link | None = None) -> bool:
        """Bring the mirror up to the file; whether it is, if there is to be one.

        Up to a line behind which there may be a draft of somebody else's.
        """
        copy = self.mirror_path()
        if copy is None:
            return True
        try:
            chained.copy(self.path(), copy, upto=upto)
        except (LedgerUnwritableError, LedgerBrokenError) as failure:
            log.error("ledger.mirror_failed", code=failure.code)
            return False
        return True

    def recover(self) -> int:
        """Take over what only the mirror has; returns how many bytes.

        The longer of the two counts: a file is never replaced by a shorter one. Raises
        LedgerBrokenError when neither is the other's beginning.
        """
        copy = self.mirror_path()
        if copy is None or not copy.exists():
            return 0
        ours, theirs = chained.head(self.path()), chained.head(copy)
        if theirs is None or (ours is not None and ours.n >= theirs.n):
            return 0
        return chained.copy(copy, self.path())

    def _behind_all(self, last: Link | None, end: int) -> tuple[ChainPosition, int]:
        """Behind the last line; one that nobody noted is noted now."""
        noted = self.noted()
        self._require(last, noted)
        if last is None:
            return noted, end
        if last.n > noted.n:
            self.note(last)
        return ChainPosition(n=last.n, hash=last.hash), end

    def _behind_noted(self, last: Link | None, end: int) -> tuple[ChainPosition, int]:
        """Behind the noted line, in the place of one that nobody noted."""
        noted = self.noted()
        self._require(last, noted)
        if last is not None and last.n > noted.n:
            end -= len(last.text)
        return noted, end

    def _anywhere(self, last: Link | None, end: int) -> tuple[ChainPosition, int]:
        if last is None:
            return ChainPosition(n=0, hash=self.genesis()), end
        return ChainPosition(n=last.n, hash=last.hash), end

    def _require(
        self, last: Link | None, noted: ChainPosition, *, restored: bool = False
    ) -> None:
        """`noted` was read before the file: it may have grown since, not shrunk."""
        n = last.n if last else 0
        if n < noted.n:
            raise LedgerBrokenError(n=n + 1, file=self.file, what=BEHIND)
        if last is None:
            return
        if n > noted.n + 1:
            if not restored and n > self.noted().n + 1:
                raise LedgerBrokenError(n=n, file=self.file, what=AHEAD)
            return
        same = last.hash if n == noted.n else last.prev
        further = n == noted.n or last.signed_by(signing.public_keys())
        if same != noted.hash or not further:
            raise LedgerBrokenError(n=n, file=self.file)

    def _require_mirrored(self, last: Link | None) -> None:
        copy = self.mirror_path()
        try:
            theirs = chained.head(copy) if copy else None
        except LedgerUnwritableError:
            return
        n = last.n if last else 0
        # What was written meanwhile is noted before it is mirrored.
        if theirs and theirs.n > max(n, self.noted().n):
            raise LedgerBrokenError(n=n + 1, file=self.file, what=MIRROR)
