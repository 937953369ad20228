"""Runs of other policies and budgets over the references of a thread. Pure.

To first order: without pins, groups, lower levels and precedence, and as if the model
had asked for the same pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from rpds import HashTrieMap

from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.paging.paging_trace import LEAVE, TURN, USE, PagingTrace
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.paging import Frame, Paging, Past, list_values
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.state import ThreadState


class PolicyRun(NamedTuple):
    """Estimated outcome of a policy with a budget, to first order."""

    policy: str
    budget_tokens: int
    #: Pages that were asked for, and that the working set did not hold.
    faults: int = 0
    fault_tokens: int = 0
    evicted: int = 0
    evicted_tokens: int = 0


def run_policy(
    base: ThreadState, trace: PagingTrace, settings: PagingSettings
) -> PolicyRun:
    """Run the steps of a trace from a state on, under other settings."""
    run, turn = PolicyRun(settings.policy, settings.budget_tokens), base.turn_count
    paging = base.paging._replace(settings=settings, history=HashTrieMap())
    run, paging = _make_room(run, paging, 0, turn=turn)
    for clock, step in enumerate(trace.frames, start=base.clock + 1):
        kind, page_id, tokens = step
        if kind == TURN:
            turn += 1
            continue
        frame = paging.frames.get(page_id)
        if kind == LEAVE:
            if frame is not None:
                paging = _remove_frame(paging, frame)
        elif frame is not None:
            frame = frame._replace(
                referenced_seq=clock,
                referenced_turn=turn,
                references=frame.references + 1,
                visited=True,
            )
            paging = paging._replace(frames=paging.frames.insert(page_id, frame))
        elif (entry := trace.entries.get(page_id)) is not None:
            tokens = tokens or weights.weigh_page(entry, 0, recalled=True)
            run, paging = _make_room(run, paging, tokens, turn=turn)
            if kind == USE:
                run = run._replace(
                    faults=run.faults + 1, fault_tokens=run.fault_tokens + tokens
                )
                paging = _note_past(paging, page_id, faulted_turn=turn)
            if paging.used + tokens <= settings.usable:
                paging = _note_past(paging, page_id, back=True)
                frame = Frame(
                    entry=entry,
                    level=0,
                    tokens=tokens,
                    mapped_seq=clock,
                    referenced_seq=clock,
                    referenced_turn=turn,
                    references=1,
                    recalled=False,
                    cause_seq=clock,
                )
                paging = paging._replace(
                    frames=paging.frames.insert(page_id, frame),
                    used=paging.used + tokens,
                )
    return run


def _make_room(
    run: PolicyRun, paging: Paging, tokens: int, *, turn: int
) -> tuple[PolicyRun, Paging]:
    """Run an eviction as the kernel does, with neither pins nor lower levels."""
    settings = paging.settings
    if paging.used + tokens <= settings.high:
        return run, paging
    policy = policies.POLICIES[settings.policy]
    frames = paging.list_oldest_first()
    parts = policies.build_score_parts(frames, paging, turn=turn)
    order = sorted(
        zip(frames, parts, strict=True),
        key=lambda each: (each[1].penalty > 0, policy.frame(each[1])),
    )
    for frame, part in order:
        if paging.used <= settings.low - tokens:
            break
        if policy.has_hand and not part.penalty:
            paging = paging.move_hand(paging.frames[frame.page_id])
        paging = _remove_frame(paging, frame)
        paging = paging._replace(
            history=paging.history.insert(frame.page_id, Past(evicted_turn=turn))
        )
        run = run._replace(
            evicted=run.evicted + 1, evicted_tokens=run.evicted_tokens + frame.tokens
        )
    return run, paging


def _remove_frame(paging: Paging, frame: Frame) -> Paging:
    return paging._replace(
        frames=paging.frames.remove(frame.page_id), used=paging.used - frame.tokens
    )


def _note_past(paging: Paging, page_id: str, **noted: Any) -> Paging:
    past = paging.history.get(page_id)
    if past is None and "back" in noted:
        return paging
    past = (past or Past())._replace(**noted)
    return paging._replace(history=paging.history.insert(page_id, past))


def list_runs(
    base: ThreadState,
    trace: PagingTrace,
    settings: PagingSettings,
    budgets: Iterable[int],
) -> list[PolicyRun]:
    """Run each policy with each budget: the table of what would have been."""
    entries = [frame.entry for frame in list_values(base.paging.frames)]
    entries += [page.entry for page in list_values(base.paging.hot)]
    for entry in (*entries, *base.paging.tlb.held.values()):
        trace.entries.setdefault(entry.page_id, entry)
    return [
        run_policy(
            base,
            trace,
            replace(settings, policy=policy, budget_tokens=budget),  # type: ignore[arg-type]  # a policy's name
        )
        for budget in budgets
        for policy in policies.POLICIES
    ]
