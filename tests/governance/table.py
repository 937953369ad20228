"""Nineteen properties that a memory must show, and the reasons of those not tested.

The tests are portable: they ask the product's own API from outside, and each test of an
absence has a twin in the same fixture that must be found.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Requirement, one of the nineteen."""

    what: str
    #: Something must not be; else something must be shown. Reported as two figures.
    negative: bool = False
    #: The feature that is not there yet, and without which nothing can be asked.
    waits_for: str = ""


NINETEEN: dict[int, Requirement] = {
    1: Requirement(what="another scope sees nothing", negative=True),
    2: Requirement(what="a caller can't widen its scope", negative=True),
    3: Requirement(what="background work keeps to its scope", negative=True),
    4: Requirement(what="each claim in a context resolves to a source"),
    5: Requirement(what="deleting a source reaches what was made of it", negative=True),
    6: Requirement(what="a rebuild brings everything back"),
    7: Requirement(what="no way to write goes round the gate", negative=True),
    8: Requirement(what="authority is assigned, never claimed"),
    9: Requirement(what="an erased value stays out, however it returns", negative=True),
    10: Requirement(what="a tombstone outlives every expiry", negative=True),
    11: Requirement(what="a tombstone sees through spelling", negative=True),
    12: Requirement(what="nothing is extracted again", negative=True),
    13: Requirement(what="no hidden second copy is made", negative=True),
    14: Requirement(what="a deletion stays done", negative=True),
    15: Requirement(what="a deletion reaches shared copies", negative=True),
    16: Requirement(what="a correction survives a reindex"),
    17: Requirement(what="a retraction needs no replacement"),
    18: Requirement(what="recall keeps to k and to the budget"),
    19: Requirement(what="what is recalled stands fenced in the prompt"),
}
