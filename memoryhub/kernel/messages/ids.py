"""Ids of calls, and names of tools and people, in the form an API takes. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from string import ascii_lowercase, digits

from memoryhub.kernel.messages.pieces import MessageFormat

_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_LETTERED = re.compile("[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OTHER = re.compile("[^A-Za-z0-9_-]")
_UNLETTERED = frozenset("-" + digits)
_ALPHABET = digits + ascii_lowercase
#: Length of call ids; some servers take no other.
_ID_LENGTH = 9


class Names:
    """Names as a request may have them, with their originals.

    The names given to the constructor are written before all others. `lettered` names
    begin with a letter or an underscore.
    """

    def __init__(self, names: Iterable[str] = (), *, lettered: bool = False) -> None:
        self._allowed = _LETTERED if lettered else _NAME
        self._written = dict[str, str]()
        self._meant = dict[str, str]()
        listed = sorted(
            {*names}, key=lambda name: (not self._allowed.fullmatch(name), name)
        )
        alike = Counter(_OTHER.sub("_", name) for name in listed)
        for name in listed:
            self._add_name(name, ambiguous=alike[_OTHER.sub("_", name)] > 1)

    def to_written(self, name: str) -> str:
        """Return a name as it stands in the request."""
        return self._written.get(name) or self._add_name(name, ambiguous=False)

    def to_original(self, written: str) -> str:
        """Return the original of a name read from the request."""
        return self._meant.get(written, written)

    def _add_name(self, name: str, *, ambiguous: bool) -> str:
        found = name
        if not self._allowed.fullmatch(name):
            found = _OTHER.sub("_", name)
            if self._allowed is _LETTERED and found[:1] in _UNLETTERED:
                found = f"_{found}"
            cut = len(found) > 64 or not found.strip("_-")
            if cut or ambiguous or found in self._meant:
                found = f"{found[:57]}_{_build_call_id(name)[:6]}"
        self._written[name] = found
        self._meant.setdefault(found, name)
        return found


@dataclass(slots=True)
class RequestIds:
    """Ids of calls, and names of tools and people, taken in one request.

    If the object is kept between requests, a message keeps its ids even after earlier
    messages have left.
    """

    #: Names of the tools that are defined, and of others that are called.
    names: Names = field(default_factory=Names)
    people: Names = field(default_factory=Names)
    #: Owner of each id: the seed of the message, and the number of the call.
    owners: dict[str, str] = field(default_factory=dict)
    #: Written names of the tools that are called.
    called: set[str] = field(default_factory=set)
    #: Names of calls by the ids they came with, and of calls made for results by place.
    called_by_id: dict[str, str] = field(default_factory=dict)
    called_at: dict[str, str] = field(default_factory=dict)

    def claim_id(self, sent: str | None, place: str, form: MessageFormat) -> str:
        """Return the sent id, or a new id if it is taken or invalid for the API."""
        if sent and form.call_id.fullmatch(sent) and self.is_owner(sent, place):
            return sent
        made = _build_call_id(f"{place} {sent or ''}")
        while not self.is_owner(made, place):
            made = _build_call_id(made)
        return made

    def is_owner(self, call_id: str, place: str) -> bool:
        """Return whether an id is a place's; an id that is free becomes the place's."""
        return self.owners.setdefault(call_id, place) == place


def _build_call_id(seed: str) -> str:
    raw = hashlib.blake2b(seed.encode(errors="replace"), digest_size=8).digest()
    number, found = int.from_bytes(raw), ""
    for _ in range(_ID_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        found += _ALPHABET[rest]
    return found
