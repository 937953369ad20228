"""Folds: the states that the panels of one moment are made from, folded once."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.drawing.scenes import Scene
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import eviction_runs
from memoryhub.queries.paging.eviction_runs import EvictionRun, EvictionStep
from memoryhub.queries.replay import replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A thread as of an event, and what is known of the run that it is in."""

    seq: int
    state: ThreadState
    #: That which the event is of, or the last one before it.
    run: EvictionRun | None
    #: The state before the run, where the event is one of it.
    before_run: ThreadState | None

    @property
    def under_way(self) -> EvictionRun | None:
        """Give the run if the event is one of it."""
        return self.run if self.step else None

    #: Of the pages that leave by the event, the one that is asked about.
    left: str = ""

    @property
    def step(self) -> EvictionStep | None:
        """Give what leaves by the very event: what is asked about, else the first."""
        found = self.run.steps if self.run else ()
        now = [each for each in found if each.seq == self.seq]
        chosen = [each for each in now if each.page_id == self.left]
        return next(iter(chosen or now), None)


def fold(scene: Scene) -> Fold:
    """Fold a thread to its event and, where it is one of a run, to that as well.

    Six queries at most. Raises SeqUnknownError beyond the head.
    """
    thread, seq = scene.thread, scene.seq
    run = eviction_runs.get_run(thread, seq) if seq else None
    first = run.first - 1 if run and run.first <= seq <= run.last else None
    states = replay.states_at(thread, [seq] if first is None else [first, seq])
    return Fold(
        seq=seq,
        state=states[seq].state,
        run=run,
        before_run=None if first is None else states[first].state,
        left=scene.left,
    )
