"""Chained files beside the databases, and their noted ends in the keys database.

A chain proves its lines, but not that no line was cut off at the end. Number and hash
of the newest line therefore stand in the keys database, and move once the line is on
disk. After a crash between the two a file is one line ahead, and never behind.
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

#: Mismatch between a file and its noted end, in the detail `what` of a refusal.
BEHIND: Final = "behind"
AHEAD: Final = "ahead"
MIRROR: Final = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One chained file, and its mirror."""

    file: str
    #: Part of the genesis hash, so that first lines of different files differ.
    format: str

    def get_path(self) -> Path:
        folder: Path = settings.LEDGER
        return folder / self.file

    def find_mirror_path(self) -> Path | None:
        folder: Path | None = settings.LEDGER_MIRROR
        return folder and folder / self.file

    def compute_genesis(self) -> bytes:
        """Compute the hash before the first line, unique to the instance. One query."""
        metas = KeyMeta.objects.using("keys")
        instance = metas.values_list("instance", flat=True).get()
        return hashlib.sha256(self.format.encode() + instance.bytes).digest()

    def write(self, says: Mapping[str, Any]) -> Link:
        """Write a line, note it in the keys database, and bring the mirror up to it.

        Raises LedgerUnwritableError, after which there is no such line, and
        LedgerBrokenError when the file's end is not the noted end. A mirror that can't
        be written holds up nobody.
        """
        link = chained.append(
            self.get_path(),
            says,
            signer=signing.get_signer(),
            place=self._place_after_all,
            then=self.note,
        )
        self.update_mirror()
        return link

    def draft(self, says: Mapping[str, Any], *, anew: bool = False) -> Link:
        """Write a line that does not count before it is noted.

        The line replaces an earlier draft. With `anew` it follows any last line.
        """
        place = self._place_anywhere if anew else self._place_after_noted
        return chained.append(
            self.get_path(), says, signer=signing.get_signer(), place=place
        )

    def note(self, link: Link, *, anew: bool = False) -> None:
        """Note a line in the keys database as the new end of the file.

        The noted end never moves back, unless `anew`. At most three statements.
        """
        kek = keyring.get_ring().current
        row = NewestLine(file=self.file, n=link.n, kek_id=kek.id)
        wrapped = wrap(kek, link.hash, purpose=KeyPurpose.LINE, owner=row.place)
        values = {"n": link.n, "kek_id": kek.id, "wrapped": wrapped}
        rows = NewestLine.objects.using("keys").filter(file=self.file)
        _, made = rows.get_or_create(file=self.file, defaults=values)
        if not made:
            (rows if anew else rows.filter(n__lt=link.n)).update(**values)

    def get_noted(self) -> ChainPosition:
        """Get the noted end of the file from the keys database. Two queries.

        Raises LedgerBrokenError when the server did not write the noted end.
        """
        row = NewestLine.objects.using("keys").filter(file=self.file).first()
        if row is None:
            return ChainPosition(n=0, hash=self.compute_genesis())
        try:
            kek, wrapped = keyring.get_kek(row.kek_id), bytes(row.wrapped)
            digest = unwrap(kek, wrapped, purpose=KeyPurpose.LINE, owner=row.place)
        except KeyMissingError:
            raise LedgerBrokenError(n=row.n, file=self.file) from None
        return ChainPosition(n=row.n, hash=digest)

    def get_newest(self) -> Link | None:
        """Return the newest line, noted or one further. Reads only the file's end.

        Raises LedgerBrokenError when the file ends elsewhere.
        """
        noted, link = self.get_noted(), chained.read_head(self.get_path())
        self._require_noted_end(link, noted)
        return link

    def check(
        self, *, keys: Mapping[str, bytes] | None = None, restored: bool = False
    ) -> Link | None:
        """Check the whole file: chain, hashes, signatures, end; return its newest line.

        The keys database may be any number of lines behind when it was `restored`.
        Raises LedgerBrokenError with the number of the first line that is wrong.
        """
        noted, genesis = self.get_noted(), self.compute_genesis()
        keys = signing.list_public_keys() if keys is None else keys
        try:
            link = chained.check(self.get_path(), genesis=genesis, keys=keys)
        except LedgerBrokenError as broken:
            raise LedgerBrokenError(**broken.detail, file=self.file) from None
        self._require_noted_end(link, noted, restored=restored)
        self._require_mirrored(link)
        return link

    def iter_links(self) -> Iterator[Link]:
        return chained.iter_links(self.get_path())

    def update_mirror(self, *, upto: Link | None = None) -> bool:
        """Update the mirror by new lines; return whether the mirror is complete.

        With `upto` no line after that line is copied, which may be a draft.
        """
        copy = self.find_mirror_path()
        if copy is None:
            return True
        try:
            chained.copy(self.get_path(), copy, upto=upto)
        except (LedgerUnwritableError, LedgerBrokenError) as failure:
            log.error("ledger.mirror_failed", code=failure.code)
            return False
        return True

    def recover(self) -> int:
        """Append the lines that only the mirror has; return the number of bytes.

        The longer file counts: a file is never replaced by a shorter file. Raises
        LedgerBrokenError when neither is the other's beginning.
        """
        copy = self.find_mirror_path()
        if copy is None or not copy.exists():
            return 0
        ours, theirs = chained.read_head(self.get_path()), chained.read_head(copy)
        if theirs is None or (ours is not None and ours.n >= theirs.n):
            return 0
        return chained.copy(copy, self.get_path())

    def _place_after_all(
        self, last: Link | None, end: int
    ) -> tuple[ChainPosition, int]:
        """Place a line after the last line, which is noted now if it was not."""
        noted = self.get_noted()
        self._require_noted_end(last, noted)
        if last is None:
            return noted, end
        if last.n > noted.n:
            self.note(last)
        return ChainPosition(n=last.n, hash=last.hash), end

    def _place_after_noted(
        self, last: Link | None, end: int
    ) -> tuple[ChainPosition, int]:
        """Place a line after the noted line, over a line that was not noted."""
        noted = self.get_noted()
        self._require_noted_end(last, noted)
        if last is not None and last.n > noted.n:
            end -= len(last.text)
        return noted, end

    def _place_anywhere(self, last: Link | None, end: int) -> tuple[ChainPosition, int]:
        if last is None:
            return ChainPosition(n=0, hash=self.compute_genesis()), end
        return ChainPosition(n=last.n, hash=last.hash), end

    def _require_noted_end(
        self, last: Link | None, noted: ChainPosition, *, restored: bool = False
    ) -> None:
        """Raise LedgerBrokenError unless `last` matches the noted end.

        `noted` was read before the file, which may have grown since, but not shrunk.
        """
        n = last.n if last else 0
        if n < noted.n:
            raise LedgerBrokenError(n=n + 1, file=self.file, what=BEHIND)
        if last is None:
            return
        if n > noted.n + 1:
            if not restored and n > self.get_noted().n + 1:
                raise LedgerBrokenError(n=n, file=self.file, what=AHEAD)
            return
        same = last.hash if n == noted.n else last.prev
        further = n == noted.n or last.is_signed_by(signing.list_public_keys())
        if same != noted.hash or not further:
            raise LedgerBrokenError(n=n, file=self.file)

    def _require_mirrored(self, last: Link | None) -> None:
        copy = self.find_mirror_path()
        try:
            theirs = chained.read_head(copy) if copy else None
        except LedgerUnwritableError:
            return
        n = last.n if last else 0
        # A line written meanwhile is noted before it is mirrored.
        if theirs and theirs.n > max(n, self.get_noted().n):
            raise LedgerBrokenError(n=n + 1, file=self.file, what=MIRROR)
