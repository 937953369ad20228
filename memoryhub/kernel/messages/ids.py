"""Ids of calls, and names of tools and people, such as an API takes them. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import ascii_lowercase, digits

from memoryhub.kernel.messages.pieces import Format

_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_OTHER = re.compile("[^A-Za-z0-9_-]")
_ALPHABET = digits + ascii_lowercase
#: Some servers take ids of this length only.
_ID_LENGTH = 9


class Names:
    """Names as a request may have them, and what each means. Those given go first."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._written = dict[str, str]()
        self._meant = dict[str, str]()
        listed = sorted({*names}, key=lambda name: (not _NAME.fullmatch(name), name))
        alike = Counter(_OTHER.sub("_", name) for name in listed)
        for name in listed:
            self._keep(name, ambiguous=alike[_OTHER.sub("_", name)] > 1)

    def written(self, name: str) -> str:
        """Return a name as it stands in the request."""
        return self._written.get(name) or self._keep(name, ambiguous=False)

    def meant(self, written: str) -> str:
        """Return the name that somebody means who has read the request."""
        return self._meant.get(written, written)

    def _keep(self, name: str, *, ambiguous: bool) -> str:
        found = name
        if not _NAME.fullmatch(name):
            found = _OTHER.sub("_", name)
            cut = len(found) > 64 or not found.strip("_-")
            if cut or ambiguous or found in self._meant:
                found = f"{found[:57]}_{_digest(name)[:6]}"
        self._written[name] = found
        self._meant.setdefault(found, name)
        return found


@dataclass(slots=True)
class Ids:
    """What is taken in one request: ids of calls, names of tools and people.

    Kept for longer, a message keeps its ids also when what was before it has left.
    """

    #: Of the tools that are defined, and of others that are called.
    names: Names = field(default_factory=Names)
    people: Names = field(default_factory=Names)
    #: Which place has an id: the seed of the message, and the number of the call.
    owners: dict[str, str] = field(default_factory=dict)
    #: Names, as written, of the tools that are called.
    called: set[str] = field(default_factory=set)
    #: Of calls by the ids that they came with, and of those made for results by place.
    called_by_id: dict[str, str] = field(default_factory=dict)
    called_at: dict[str, str] = field(default_factory=dict)

    def claim(self, sent: str | None, place: str, form: Format) -> str:
        """Return the id as it came, unless it is taken or none for this API."""
        if sent and form.call_id.fullmatch(sent) and self._own(sent, place):
            return sent
        made = _digest(f"{place} {sent or ''}")
        while not self._own(made, place):
            made = _digest(made)
        return made

    def _own(self, call_id: str, place: str) -> bool:
        return self.owners.setdefault(call_id, place) == place


def _digest(seed: str) -> str:
    raw = hashlib.blake2b(seed.encode(errors="replace"), digest_size=8).digest()
    number, found = int.from_bytes(raw), ""
    for _ in range(_ID_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        found += _ALPHABET[rest]
    return found
