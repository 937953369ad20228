"""Erasures at a terminal: the plan, the progress, and a progress bar."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, TextIO
from uuid import UUID

import orjson

from memoryhub.management.progress import ProgressBar
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.queries.forget import erasure_views, erasure_waits
from memoryhub.queries.forget.erasure_views import ErasureRemains
from memoryhub.queries.forget.erasures import CLOSED, ErasureLine
from memoryhub.services.forget import erasures, receipts

State = Erasure.State
#: Number of states from the confirmation to the receipt, in any scope.
_STEPS: Final = 8


def list_unfinished() -> list[Erasure]:
    """List open erasures, plans included, oldest first."""
    return [*Erasure.objects.exclude(state__in=CLOSED).order_by("created_at", "id")]


def list_confirmed() -> list[Erasure]:
    """List confirmed erasures that are neither finished nor held."""
    rows = Erasure.objects.exclude(state__in=(*CLOSED, State.HELD))
    return [*rows.exclude(confirmed_at=None).order_by("confirmed_at", "id")]


def list_with_space_left(ended: Collection[str]) -> list[Erasure]:
    """List complete erasures whose receipts declare free space that has ended only now.

    Erasures without any addendum of a rewrite are included.
    """
    rows = Erasure.objects.filter(state=State.COMPLETE)
    rows = rows.filter(planned__contains='"database_free_space"')
    ended_of: dict[UUID, set[str]] = {}
    receipts = Receipt.objects.filter(n__gt=0, text__contains='"rewritten"')
    for erasure, text in receipts.values_list("erasure", "text"):
        ended_of.setdefault(erasure, set()).update(orjson.loads(text)["ended"])
    return [
        row for row in rows if row.id not in ended_of or {*ended} - ended_of[row.id]
    ]


def follow(row: Erasure, *, out: TextIO) -> Erasure:
    """Advance the erasure as far as possible, with a progress bar.

    Another process may advance the same erasure at the same time."""
    progress = ProgressBar(out, total=_STEPS, unit="steps")
    while row.state not in CLOSED:
        before = row.state
        row = erasures.advance_erasure(row)
        if row.state == before:
            break
        progress.add(1)
    progress.close()
    return row


def render_plan(line: ErasureLine) -> str:
    """Render a plan as a table: by place, the rows that go, and those that stay and
    why."""
    return "\n".join(_iter_plan_lines(line))


def render_progress(line: ErasureLine) -> str:
    """Render the state of an erasure, with lines on waits and remains."""
    since = line.times.get(line.state, "")[:19]
    text = f"{line.id}  {line.scope:<7}  {line.state} since {since} UTC"
    if line.defect:
        text += f", broken: {line.defect}"
    elif line.waiting_on:
        text += f", waits for: {line.waiting_on}"
    gone = sum(place.erased or 0 for place in line.places)
    if line.state in CLOSED or gone:
        text += f", {gone:,} rows erased"
    stays = erasure_views.get_remains(line.id)
    lines = [
        erasure_waits.render_wait(line),
        *(iter_remains_lines(stays) if stays else ()),
    ]
    return "\n  ".join([text, *filter(None, lines)])


def iter_remains_lines(remains: ErasureRemains) -> Iterator[str]:
    """Yield the receipt's lines on data out of our reach."""
    if remains.residue:
        yield "Out of our reach:"
    for each in remains.left:
        yield f"  {each}"


def _iter_plan_lines(line: ErasureLine) -> Iterator[str]:
    yield f"Plan {line.id}, scope {line.scope}: {line.count:,} rows go."
    for place in line.places:
        if place.erase or place.keep:
            kept = f"  {place.keep:,} stay ({place.why})" if place.keep else ""
            yield f"  {place.place:<16}{place.erase:>12,}  {place.method}{kept}"
    yield f"Threads: {line.threads:,}; forks that inherit of them: {line.forks:,}."
    if line.unlinked:
        yield f"Of the same turns, and staying: {line.unlinked:,} records."
    if line.holds:
        yield f"Holds in force: {line.holds:,}. Nothing is erased while one is."
    yield from iter_remains_lines(
        receipts.build_expected_remains(line.scope, line.residue)
    )
