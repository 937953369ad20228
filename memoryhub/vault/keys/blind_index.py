"""The blind index: keyed digests by which rows are found without storing the text.

All digests are BLAKE2b with a key of the subject or the project; never a plain hash,
and never equal for two subjects.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from memoryhub.vault.keys.keys import ProjectKeys, SubjectKeys
from memoryhub.vault.keys.ring_file import Kek


def digest_term(keys: SubjectKeys, text: str) -> bytes:
    """Digest one normalised search term to 8 bytes."""
    return _compute_digest(keys.terms, 8, text.encode())


def digest_lookup(keys: SubjectKeys, *fields: bytes | str) -> bytes:
    """Digest fields for look-up, e.g. an entity and predicate, to 16 bytes."""
    return _compute_digest(keys.lookup, 16, _join_fields(*fields))


def digest_content(keys: SubjectKeys, content: bytes) -> bytes:
    """Digest content to 16 bytes, to notice a repeat inside one subject."""
    return _compute_digest(keys.dedupe, 16, content)


def digest_sequence(keys: SubjectKeys, previous: bytes, content: bytes) -> bytes:
    """Digest a sequence one item further than `previous`, to 16 bytes."""
    return _compute_digest(keys.dedupe, 16, previous + content)


def digest_value(keys: SubjectKeys, folded: str) -> bytes:
    """Digest an erased value to 16 bytes, to block the value in any spelling.

    The text is folded already: it may be part of a folded text.
    """
    return _compute_digest(keys.values, 16, folded.encode())


def digest_audit_subject(keys: SubjectKeys) -> bytes:
    """Digest the subject for the audit log to 8 bytes; useless without its key."""
    return _compute_digest(keys.audit, 8, keys.subject.bytes)


def digest_user_id(keys: ProjectKeys, user_id: str) -> bytes:
    """Digest a subject's exact `user_id` to 32 bytes, the same in the whole project."""
    return _compute_digest(keys.ids, 32, user_id.encode())


def digest_thread_name(keys: ProjectKeys, name: str) -> bytes:
    """Digest the exact name of an erased thread to 32 bytes.

    Differs from the subject_ref of the same text: agents do name threads after users.
    """
    return _compute_digest(keys.ids, 32, name.encode(), person=b"thread name")


def digest_sign_in(kek: Kek, kind: str, text: str) -> bytes:
    """Digest a name or address of a failed sign-in to 32 bytes, keyed by a KEK.

    A digest under another KEK differs.
    """
    return _compute_digest(kek.key, 32, _join_fields(kind, text), person=b"sign-in")


def _compute_digest(
    key: bytes, size: int, data: bytes, *, person: bytes = b""
) -> bytes:
    return hashlib.blake2b(data, digest_size=size, key=key, person=person).digest()


def _join_fields(*fields: bytes | str) -> bytes:
    """Join fields, each after its length: `ab`, `c` differs from `a`, `bc`."""
    parts = [text.encode() if isinstance(text, str) else text for text in fields]
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def fold(text: str) -> str:
    """Fold a text for comparison with tombstones; folding is idempotent.

    Compatibility forms, case, white space and invisible characters do not count. A
    letter that looks like a Latin letter counts as that letter. A paraphrase is another
    text.
    """
    folded = _fold_once(text)
    # Folding can undo the form (Unicode 3.13, D146), and a letter replaced by its
    # look-alike may join the accent that follows.
    while (again := _fold_once(folded)) != folded:
        folded = again
    return " ".join(folded.split())


def fold_predicate(text: str) -> str:
    """Fold a predicate: a run of blanks, underscores and hyphens is one underscore.

    `lives in`, `Lives-In` and `lives_in` fold to one text; folding is idempotent. A
    predicate without a letter or digit is folded as any text.
    """
    folded = fold(text)
    return "_".join(filter(None, _SEPARATORS.split(folded))) or folded


def list_predicate_spellings(text: str) -> list[str]:
    """List the foldings of a predicate: `fold_predicate` first, then older foldings.

    Before `fold_predicate`, a separator counted as itself.
    """
    now = fold_predicate(text)
    before = (fold(text), now.replace("_", " "), now.replace("_", "-"))
    return [*dict.fromkeys((now, *before))]


def _fold_once(text: str) -> str:
    seen = _UNSEEN.sub("", unicodedata.normalize("NFKD", text)).casefold()
    alike = unicodedata.normalize("NFKD", seen).translate(_ALIKE)
    return unicodedata.normalize("NFKC", alike)


#: Blanks, underscores and hyphens of a folded text.
_SEPARATORS = re.compile("[ _\u2010-]+")
#: Controls that are no white space, and code points that a reader does not see:
#: Default_Ignorable_Code_Point of Unicode 15, with the blank braille cell.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
#: Cyrillic, Greek, Armenian and phonetic Latin letters by the Latin letter that looks
#: alike, in small or in capitals (after UTS 39). Few, since a tombstone also blocks a
#: foreign word that folds to its Latin word. Digits for letters are other texts.
_ALIKE = {
    ord(letter): latin
    for latin, letters in {
        "a": "\u0251\u0430\u03b1",
        "b": "\u0432\u03b2",
        "c": "\u0441",
        "d": "\u0501",
        "e": "\u0435\u03b5",
        "g": "\u0261\u0581",
        "h": "\u043d\u04bb\u03b7\u0570",
        "i": "\u0131\u0456\u03b9",
        "j": "\u0237\u0458\u03f3",
        "k": "\u043a\u03ba",
        "l": "\u04cf",
        "m": "\u043c\u03bc",
        "n": "\u0578",
        "o": "\u043e\u03bf\u0585",
        "p": "\u0440\u03c1",
        "q": "\u051b",
        "s": "\u0455",
        "t": "\u0442\u03c4",
        "u": "\u057d",
        "v": "\u0475\u03bd",
        "w": "\u051d",
        "x": "\u0445\u03c7",
        "y": "\u0443\u04af\u03c5",
        "z": "\u03b6",
    }.items()
    for letter in letters
}
