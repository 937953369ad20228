"""Texts that say why the next step of an erasure waits, and what ends the wait.

Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from memoryhub.distribution import PROGRAM
from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget.erasures import ErasureLine

#: Texts by the word that an erasure waits on.
WAITING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reader": "A reader holds on to an old state of the database. The erasure goes "
        "on by itself when that reader ends.",
        "vacuum": "The database has not tidied up yet. The erasure goes on by itself.",
        "rights": "The database does not let our role clear its files. Grant what "
        "docs/operations.md says; it goes on by itself then.",
        "disk": "The disk is full. Make room; it goes on by itself.",
        "store": "A store does not answer. It goes on by itself once it does.",
        "broken": "A step failed by a defect of this server ({defect}). What was "
        "erased stays erased. The server tries again every minute; report the defect, "
        "and update the server once it is mended.",
        "night": "There is more to look through than may be by day. It goes on at "
        "night, from 1 to 5 by UTC.",
        "needles": "A scan had found what should be nowhere any more, and what it "
        "looked for went with a restart. Remove it, if that is not done, and type the "
        f"person's id again, here or to `{PROGRAM} forget needles`; it goes on then.",
        "hold": "A hold is in force, so nothing is erased. Once it is lifted, make a "
        "new plan.",
    }
)
#: Words of waits that end without anybody's doing.
PASSING: Final = frozenset({"reader", "vacuum", "night"})
_FOUND: Final = (
    f"The scan found what should be nowhere any more, in {{places}}. `{PROGRAM} scan` "
    "tells each place. Remove it there; it goes on by itself then."
)
#: Names of places by their kind; other kinds are shown as they are.
PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "called": "names that clients gave",
        "staff": "what staff call projects and roles",
        "rows": "other rows, such as sessions",
        "unlisted": "tables that are not MemoryHub's, if there are any",
        "hers": "its own rows",
        "database": "the database's files",
        "wal": "the database's log",
        "log": "log files",
        "ledger": "the ledger's folder",
        "temporary": "temporary files",
    }
)


def render_wait(line: ErasureLine) -> str:
    """Render what an open erasure waits for and what to do; empty if nothing."""
    word = "hold" if line.state == Erasure.State.HELD else line.waiting_on
    if word == "store" and line.undeclared:
        places = [PLACES.get(each, each) for each in line.undeclared]
        return _FOUND.format(places="; ".join(places))
    text = WAITING.get(word, word) if word else ""
    return text.format(defect=line.defect) if word == "broken" else text
