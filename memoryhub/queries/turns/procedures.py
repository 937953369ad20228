"""Procedures of a thread: its recorded calls, opened, and their patterns. Never writes.

See decision 84.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from memoryhub.journal import texts
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.guards.calls import normalize_name
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.paging.page_commands import NewPage
from memoryhub.kernel.state.pages import build_procedure_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.kernel.turns.calls import NewProcedure, RecordCall
from memoryhub.kernel.turns.procedures import (
    PastCall,
    ToolProcedures,
    build_procedures,
    render_section,
)
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns.guards import OPENED, SMALL_BYTES
from memoryhub.vault.keys import blind_index, keys

#: Newest messages of the user that are opened as goals.
GOALS = 50


def list_procedures(thread: Thread, state: ThreadState) -> tuple[ToolProcedures, ...]:
    """List the patterns of each tool, as of a state. `thread` comes with its subject.

    Of a tool, the newest 200 calls of up to 16 KiB count. Clocks are given as seqs, ≤ 0
    for calls that a fork inherits. At most four queries.
    """
    return build_procedures(
        [
            replace(
                call,
                clock=state.to_seq(call.clock),
                goal_clock=state.to_seq(call.goal_clock),
            )
            for call in list_past_calls(thread, state)
        ]
    )


def list_past_calls(
    thread: Thread, state: ThreadState, *, tool: str | None = None
) -> list[PastCall]:
    """Open the recorded calls, oldest first; of one tool by its digest, or of all."""
    taken = Counter[str]()
    chosen = []
    for number in range(len(state.calls) - 1, -1, -1):
        call = state.calls[number]
        if tool in (None, call.tool) and call.bytes <= SMALL_BYTES:
            taken[call.tool] += 1
            if taken[call.tool] <= OPENED:
                chosen.append((number, call))
    goals = [*dict.fromkeys(call.goal for _, call in chosen if call.goal)][:GOALS]
    clocks = [call.clock for _, call in chosen]
    opened = texts.open_events(thread, state, [*clocks, *goals])
    heard = {n: _render_goal(opened[n].content) for n in goals}
    found = []
    for number, call in reversed(chosen):
        content = opened[call.clock].content
        if content:
            found.append(
                PastCall(
                    clock=call.clock,
                    number=number,
                    tool=normalize_name(content["tool"]),
                    arguments=content["arguments"],
                    outcome=call.outcome,
                    error=content.get("error", ""),
                    duration_ms=call.duration_ms,
                    goal_clock=call.goal,
                    goal=heard.get(call.goal, ""),
                )
            )
    return found


def add_procedure(
    thread: Thread, state: ThreadState, command: RecordCall
) -> RecordCall:
    """Return the command with the page that its call leads to, if it leads to one.

    The queries of `list_procedures`, and two of the page table.
    """
    name = normalize_name(command.tool)
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    digest = blind_index.digest_lookup(key, "call", name).hex()
    if command.outcome == "cancelled" or all(e.tool != digest for e in state.calls):
        # One call makes no pattern.
        return command
    earlier = list_past_calls(thread, state, tool=digest)
    user = state.paging.last_user
    goal = user.seq if user else 0
    heard = texts.open_events(thread, state, [goal]) if goal else {}
    call = PastCall(
        clock=state.clock + 1,
        number=len(state.calls),
        tool=name,
        arguments=command.arguments,
        outcome=command.outcome,
        error=command.error or "",
        duration_ms=command.duration_ms,
        goal_clock=goal,
        goal=_render_goal(heard[goal].content) if goal else "",
    )
    before = build_procedures(earlier)
    (after,) = build_procedures([*earlier, call])
    if not after.lessons:
        return command
    page = _build_page(thread, _choose_page_id(state, digest), after)
    made = NewProcedure(
        page=page,
        sources=tuple(n for n in after.source_clocks if n <= state.clock),
        is_news=not before or before[0].lessons != after.lessons,
    )
    return replace(command, procedure=made)


def _render_goal(content: object) -> str:
    if not isinstance(content, dict):
        return ""
    return render_content_words(content.get("content"))


def _choose_page_id(state: ThreadState, digest: str) -> str:
    """Choose the id of the tool's page; an erased page's id is not used again."""
    table, number = StoredPageTable(state, ProjectedRows()), 1
    while table.is_deleted(build_procedure_id(digest, number)):
        number += 1
    return build_procedure_id(digest, number)


def _build_page(thread: Thread, page_id: str, found: ToolProcedures) -> NewPage:
    content = {"text": render_section(found)}
    opened = OpenedPage(
        page_id=page_id, type="procedure", modality="text", content=content
    )
    measured = measuring.measure_page(
        opened, sent=None, tokenizer=tokenizers.get_for_thread(thread)
    )
    return NewPage(
        page_id=page_id,
        type="procedure",
        modality="text",
        payload=strict_json.dump_stored({"content": content}),
        tokens=measured.tokens,
        cost=measured.cost,
        bytes=len(strict_json.dump_stored(content)),
        counted_by=measured.counted_by,
        map=False,
    )
