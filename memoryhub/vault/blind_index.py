"""The blind index: keyed digests, so that things are found without standing anywhere.

All BLAKE2b with a key of the subject or the project; never a plain hash, and never
equal for two subjects.
"""

from __future__ import annotations

import hashlib
import unicodedata

from memoryhub.vault.keys import ProjectKeys, SubjectKeys


def term(keys: SubjectKeys, text: str) -> bytes:
    """8 bytes: one normalised search term."""
    return _digest(keys.terms, 8, text.encode())


def lookup(keys: SubjectKeys, *fields: bytes | str) -> bytes:
    """16 bytes: fields to find a row by, e.g. a fact's entity and predicate."""
    return _digest(keys.lookup, 16, _joined(*fields))


def dedupe(keys: SubjectKeys, content: bytes) -> bytes:
    """16 bytes: content, to notice a repeat inside one subject."""
    return _digest(keys.dedupe, 16, content)


def roll(keys: SubjectKeys, previous: bytes, content: bytes) -> bytes:
    """16 bytes: the digest of a sequence, one item further than `previous`."""
    return _digest(keys.dedupe, 16, previous + content)


def value_tombstone(keys: SubjectKeys, kind: str, content: str) -> bytes:
    """16 bytes: an erased value, so that it stays out however it is spelled.

    Compatibility forms, case and white space do not count.
    """
    return _digest(keys.values, 16, _joined(kind, _folded(content)))


def audit_pseudonym(keys: SubjectKeys) -> bytes:
    """8 bytes: the subject in the audit log; dead once the subject's key is."""
    return _digest(keys.audit, 8, keys.subject.bytes)


def subject_ref(keys: ProjectKeys, user_id: str) -> bytes:
    """32 bytes: the exact `user_id` of a subject, the same in the whole project."""
    return _digest(keys.ids, 32, user_id.encode())


def thread_name(keys: ProjectKeys, name: str) -> bytes:
    """32 bytes: the exact name of an erased thread.

    Unlike the subject_ref of the same text: agents do name threads after users.
    """
    return _digest(keys.ids, 32, name.encode(), person=b"thread name")


def _digest(key: bytes, size: int, data: bytes, *, person: bytes = b"") -> bytes:
    return hashlib.blake2b(data, digest_size=size, key=key, person=person).digest()


def _joined(*fields: bytes | str) -> bytes:
    """The fields, each after its length: `ab`, `c` is not `a`, `bc`."""
    parts = [text.encode() if isinstance(text, str) else text for text in fields]
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Folding can undo the form (Unicode 3.13, D146), hence once more.
    folded = unicodedata.normalize("NFKC", folded).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
