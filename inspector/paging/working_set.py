"""Panel of the working set: resident pages, pages that left, and why."""

from __future__ import annotations

from collections.abc import Iterable

from inspector.drawing import bars, tiles
from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import panels
from inspector.paging import folds
from inspector.paging.folds import MomentFold
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.state.paging import REFAULT_TURNS
from memoryhub.queries.paging import eviction_runs, page_texts, residency
from memoryhub.queries.paging.eviction_runs import EvictionReason
from memoryhub.queries.paging.residency import Residency
from memoryhub.queries.threads.thresholds import Thresholds

#: Shown pages that just left, and shown pages that wait for room.
LEFT, WAITING = 9, 6


def draw_scene(scene: ThreadScene) -> Context:
    """Draw a scene's working set: resident pages, pages that left, and the budget.

    At most ten queries and a bounded fold, for any number of pages.
    """
    return draw_fold(scene, folds.fold(scene))


def draw_fold(scene: ThreadScene, fold: MomentFold) -> Context:
    """Draw the working set of a fold. Five queries at most."""
    thread, seq, run = scene.thread, scene.seq, fold.run
    found = residency.build_residency(thread, fold.state, causes=False)
    since = found.turn_seq if scene.base_seq is None else scene.base_seq + 1
    drawn = tiles.group_cells(
        found.cells,
        since=since,
        opened=scene.group,
        # A panel that follows the head keeps open what its reader opened.
        closed=scene.at_seq is None,
    )
    left = run.list_up_to(seq) if run else ()
    shown = left[-LEFT:]
    entries = page_texts.list_held_entries(
        fold.state.paging, [each.page_id for each in shown]
    )
    places: dict[str, Location] = {
        page_id: entry.full.location for page_id, entry in entries.items()
    }
    texts = page_texts.get_texts(thread, places | tiles.map_locations(drawn))
    return {
        "residency": found,
        "groups": tiles.add_first_words(drawn, texts),
        "run": run,
        "under_way": fold.under_way,
        "left": tiles.build_departed(shown, entries, texts, at=seq),
        "left_count": len(left),
        "reason": _find_reason(fold),
        "bar": bars.draw(found.budget, fold.under_way, at=seq),
        "waiting": found.unmapped[:WAITING],
        "has_levels": any(cell.level for cell in found.cells),
        "warnings": [*iter_warnings(found, Thresholds.from_project(thread.project))],
        "ungrouped": panels.encode_suffix(
            scene.list_carried_parameters(without="group")
        ),
        "unasked": panels.encode_suffix(scene.list_carried_parameters(without="left")),
    }


def _find_reason(fold: MomentFold) -> EvictionReason | None:
    if fold.run is None or fold.step is None or fold.before_run is None:
        return None
    return eviction_runs.explain_step(fold.before_run, fold.step, fold.run)


def iter_warnings(found: Residency, limits: Thresholds) -> Iterable[tuple[str, str]]:
    """Yield the states that need attention, each with its reason.

    `thrashing` is the verdict that the thread's title shows, by the project's limit.
    """
    budget, refaults = found.budget, found.refaults
    if found.over_budget:
        yield "over budget", "the last turn had no room for all pages it had to show"
    elif budget.used > budget.settings.high:
        yield "over evict_at", "the next new page starts an eviction"
    if refaults > limits.most_refaults:
        lately = f"{refaults:,} faults in the last {REFAULT_TURNS} turns"
        limit = f"limit {limits.most_refaults:,}"
        yield "thrashing", f"{lately} on pages that had just left, {limit}"
    elif found.is_stuck:
        yield "little can leave", "over 85 % of the room is pinned or protected now"
    if count := len(found.unmapped):
        large = sum(page.too_large for page in found.unmapped)
        pages = "1 page was" if count == 1 else f"{count:,} pages were"
        reason = (
            "too large for the working set"
            if large == count
            else "stored outside the working set, as the agent asked or for lack of "
            "room at that time; a fetch brings such a page in"
        )
        yield "not mapped", f"{pages} {reason}"


PANEL = Panel(template="inspector/paging/working_set/_panel.html", context=draw_scene)
