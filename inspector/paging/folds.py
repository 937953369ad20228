"""States that the panels of one moment share, folded once."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.drawing.scenes import ThreadScene
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import eviction_runs
from memoryhub.queries.paging.eviction_runs import EvictionRun, EvictionStep
from memoryhub.queries.replay import replay


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentFold:
    """State of a thread as of an event, with the eviction run at that event."""

    seq: int
    state: ThreadState
    #: Run that holds the event, or the last run before it.
    run: EvictionRun | None
    #: State before the run, if the event is part of the run.
    before_run: ThreadState | None

    @property
    def under_way(self) -> EvictionRun | None:
        """Run that the event is part of, or None."""
        return self.run if self.step else None

    #: Page whose eviction the visitor asks about; empty for the first of the event.
    left: str = ""

    @property
    def step(self) -> EvictionStep | None:
        """Eviction by this very event: of the page asked about, else the first."""
        found = self.run.steps if self.run else ()
        now = [each for each in found if each.seq == self.seq]
        chosen = [each for each in now if each.page_id == self.left]
        return next(iter(chosen or now), None)


def fold(scene: ThreadScene) -> MomentFold:
    """Fold a thread to its event and, if that is part of a run, to the run's start too.

    Six queries at most. Raises SeqUnknownError beyond the head.
    """
    return fold_run(scene, find_run(scene))


def find_run(scene: ThreadScene) -> EvictionRun | None:
    """Find the run that holds the scene's event, or the last one before it."""
    return eviction_runs.get_run(scene.thread, scene.seq) if scene.seq else None


def fold_run(scene: ThreadScene, run: EvictionRun | None) -> MomentFold:
    """Fold as `fold` does, with the run that `find_run` found."""
    thread, seq = scene.thread, scene.seq
    first = run.first - 1 if run and run.first <= seq <= run.last else None
    states = replay.load_states_at(thread, [seq] if first is None else [first, seq])
    return MomentFold(
        seq=seq,
        state=states[seq].state,
        run=run,
        before_run=None if first is None else states[first].state,
        left=scene.left,
    )
