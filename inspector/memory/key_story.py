"""History of a key in words, with each event's change of its value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from inspector.memory import values
from inspector.memory.values import DiffLine, Glimpse
from memoryhub.queries.memory.key_views import KeyStep, KeyView
from memoryhub.queries.paging.page_views import PageStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """Event of a key, in words."""

    step: PageStep
    words: str
    #: Value after the event, where there is no former value to compare with.
    value: Glimpse | None
    difference: tuple[DiffLine, ...]
    #: Whether the value after the event was erased.
    erased: bool
    #: Whether the page offers to set the key back to this value: it differs from the
    #: present value and from those of newer events.
    back: bool
    #: Whether the key existed after the event.
    left: bool


def list_steps(view: KeyView) -> list[ShownStep]:
    """Describe each event of the key, newest first."""
    # The present value is the value that the newest event left.
    now = view.history[0].wrote if view.line and view.history else None
    pairs = zip_longest(view.history, view.history[1:])
    shown, offered, room = [], {now}, values.ON_A_PAGE
    for step, older in pairs:
        # Of several events that left equal values, only the newest offers the value.
        back = step.opened and step.wrote not in offered
        shown.append(_build_step(step, older, back=back, room=room))
        room -= len(shown[-1].difference)
        offered.add(step.wrote)
    return shown


def _build_step(
    step: KeyStep, older: KeyStep | None, *, back: bool, room: int
) -> ShownStep:
    moved = step.opened and (older is None or step.wrote != older.wrote)
    lines: tuple[DiffLine, ...] = ()
    if moved and older is not None and older.opened and room > 0:
        most = min(room, values.SHOWN)
        lines = values.diff_values(older.value, step.value, most=most)
    return ShownStep(
        step=step.step,
        words=_describe_step(step.step, left=step.wrote != 0),
        value=values.build_glimpse(step.value) if moved and not lines else None,
        difference=lines,
        erased=step.erased,
        back=back,
        left=step.wrote != 0,
    )


def _describe_step(step: PageStep, *, left: bool) -> str:
    body = step.body
    if step.type == "key.set":
        verb = "added" if body.get("created") else "set"
        return f"{verb}, {body['bytes']:,} bytes, {_describe_expiry(body)}"
    if step.type == "key.retimed":
        return f"kept on, {_describe_expiry(body)}"
    if step.type == "checkpoint.restored":
        return f"{'brought' if left else 'taken'} back to a checkpoint"
    return _GONE[step.type]


_GONE = {
    "key.deleted": "deleted",
    "keys.cleared": "cleared with all others",
    "keys.expired": "expired, and swept",
}


def _describe_expiry(body: Mapping[str, Any]) -> str:
    until = body.get("expires_at")
    if not until:
        return "for ever"
    return f"until {datetime.fromisoformat(until):%Y-%m-%d %H:%M:%S}"
