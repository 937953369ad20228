"""The working set: what stands in the model's context, what left it, and why."""

from __future__ import annotations

from collections.abc import Iterable

from inspector.drawing import bars, tiles
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import panels
from inspector.paging import folds
from inspector.paging.folds import Fold
from memoryhub.kernel.state.pages import Location
from memoryhub.queries.paging import eviction_runs, page_texts, residency
from memoryhub.queries.paging.eviction_runs import EvictionReason
from memoryhub.queries.paging.residency import Residency

#: Pages that just left, and pages that wait for room, which are shown.
LEFT, WAITING = 9, 6


def picture(scene: Scene) -> Context:
    """Draw the pages of a working set, those that left it, and the room they have.

    At most twelve queries and a bounded fold, however many pages there are.
    """
    return picture_of(scene, folds.fold(scene))


def picture_of(scene: Scene, fold: Fold) -> Context:
    """Draw the working set of a fold. Seven queries at most."""
    thread, seq, run = scene.thread, scene.seq, fold.run
    found = residency.residency_of(thread, fold.state)
    since = found.turn_seq if scene.base_seq is None else scene.base_seq + 1
    drawn = tiles.groups(found.cells, since=since, opened=scene.group)
    left = run.up_to(seq) if run else ()
    shown = left[-LEFT:]
    entries = page_texts.entries_held(
        fold.state.paging, [each.page_id for each in shown]
    )
    places: dict[str, Location] = {
        page_id: entry.full.location for page_id, entry in entries.items()
    }
    texts = page_texts.get_texts(thread, places | tiles.places(drawn))
    return {
        "residency": found,
        "groups": tiles.worded(drawn, texts),
        "run": run,
        "under_way": fold.under_way,
        "left": tiles.gone(shown, entries, texts, at=seq),
        "left_count": len(left),
        "reason": _reason(fold),
        "bar": bars.draw(found.budget, fold.under_way, at=seq),
        "waiting": found.unmapped[:WAITING],
        "warnings": [*warnings(found)],
        "ungrouped": panels.kept(scene.carried(without="group")),
        "unasked": panels.kept(scene.carried(without="left")),
    }


def _reason(fold: Fold) -> EvictionReason | None:
    if fold.run is None or fold.step is None or fold.before_run is None:
        return None
    return eviction_runs.explain(fold.before_run, fold.step, fold.run)


def warnings(found: Residency) -> Iterable[tuple[str, str]]:
    """List states that want a look, each with its reason."""
    budget, refaults = found.budget, found.refaults
    if found.over_budget:
        yield "over budget", "the last turn could not map all that it had to show"
    elif budget.used > budget.settings.high:
        yield "over evict_at", "the next page that comes starts an eviction run"
    if found.thrash_index >= residency.THRASHING:
        yield (
            "thrashing",
            f"{refaults:,} faults in the last 5 turns on pages that had just left",
        )
    elif found.stuck:
        yield "thrashing", "over 85 % of the room is pinned or protected"
    if count := len(found.unmapped):
        large = sum(page.too_large for page in found.unmapped)
        reason = "too large to be mapped" if large == count else "found no room"
        yield "not mapped", f"{count:,} page{'s' if count > 1 else ''} {reason}"


PANEL = Panel(template="inspector/paging/working_set/_panel.html", context=picture)
