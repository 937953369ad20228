"""What happened to a key, in words, with what each event made of its value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from inspector.memory import values
from inspector.memory.values import DiffLine, Glimpse
from memoryhub.queries.memory.key_views import KeyStep, KeyView
from memoryhub.queries.paging.page_views import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """An event of a key, in words."""

    step: Step
    words: str
    #: The value that it left, where it can't be compared with the one before.
    value: Glimpse | None
    difference: tuple[DiffLine, ...]
    #: The value that it left is gone for good.
    erased: bool
    #: The key can be set back to it: it is another than that of now and of newer ones.
    back: bool
    #: The key was there after it.
    left: bool


def list_steps(view: KeyView) -> list[ShownStep]:
    """Word each event of the key, newest first."""
    # What stands there now is the value that the newest of them left.
    now = view.history[0].wrote if view.line and view.history else None
    pairs = zip_longest(view.history, view.history[1:])
    shown, offered, room = [], {now}, values.ON_A_PAGE
    for step, older in pairs:
        # Of several events that left the same value, the newest offers it.
        back = step.opened and step.wrote not in offered
        shown.append(_shown(step, older, back=back, room=room))
        room -= len(shown[-1].difference)
        offered.add(step.wrote)
    return shown


def _shown(step: KeyStep, older: KeyStep | None, *, back: bool, room: int) -> ShownStep:
    moved = step.opened and (older is None or step.wrote != older.wrote)
    lines: tuple[DiffLine, ...] = ()
    if moved and older is not None and older.opened and room > 0:
        most = min(room, values.SHOWN)
        lines = values.difference(older.value, step.value, most=most)
    return ShownStep(
        step=step.step,
        words=_words(step.step, left=step.wrote != 0),
        value=values.glimpse(step.value) if moved and not lines else None,
        difference=lines,
        erased=step.erased,
        back=back,
        left=step.wrote != 0,
    )


def _words(step: Step, *, left: bool) -> str:
    body = step.body
    if step.type == "key.set":
        verb = "added" if body.get("created") else "set"
        return f"{verb}, {body['bytes']:,} bytes, {_until(body)}"
    if step.type == "key.retimed":
        return f"kept on, {_until(body)}"
    if step.type == "checkpoint.restored":
        return f"{'brought' if left else 'taken'} back to a checkpoint"
    return _GONE[step.type]


_GONE = {
    "key.deleted": "deleted",
    "keys.cleared": "cleared with all others",
    "keys.expired": "expired, and swept",
}


def _until(body: Mapping[str, Any]) -> str:
    until = body.get("expires_at")
    if not until:
        return "for ever"
    return f"until {datetime.fromisoformat(until):%Y-%m-%d %H:%M:%S}"
