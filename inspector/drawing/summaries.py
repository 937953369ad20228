"""Summaries: an event in one line, and the beginning of its message. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.kernel.memory.nouns import MOVED_FIELDS
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.queries.threads.events import ThreadEventLine

Body = Mapping[str, Any]
#: Characters of a message that lists show.
PREVIEW_CHARS = 200
#: Names that a summary shows of a longer list.
_MAX_ITEMS = 4
NamedKind = Literal["turn", "page", "checkpoint", "parent", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSummary:
    """A summary split around the name of something that has a page of its own."""

    before: str
    kind: NamedKind
    name: str
    #: A turn's number, a checkpoint's clock or a parent event's seq; 0 for a page, and
    #: for a checkpoint taken by the event itself.
    number: int
    after: str


def find_turn(line: ThreadEventLine) -> int | None:
    """Return the turn that the event began or packed; None for other events."""
    body: Body = line.body
    turn: int | None = body.get(_TURN_FIELDS.get(line.type, ""))
    return turn


def summarise_with_name(line: ThreadEventLine, *, inherited: int = 0) -> NamedSummary:
    """Summarise an event, and split around its turn, page, checkpoint or parent."""
    text, body = summarise_event(line, inherited=inherited), line.body
    kind, name, number = _find_name(line.type, body, inherited)
    # The subject of an event is named first; the checkpoint restored is named last.
    cut = text.rpartition if kind == "checkpoint" and number else text.partition
    before, found, after = cut(name) if name else ("", "", "")
    if not found:
        return NamedSummary(before=text, kind="", name="", number=0, after="")
    return NamedSummary(before=before, kind=kind, name=name, number=number, after=after)


def _find_name(
    event_type: str, body: Body, inherited: int
) -> tuple[NamedKind, str, int]:
    if event_type in _TURN_FIELDS:
        turn = body[_TURN_FIELDS[event_type]]
        return "turn", f"turn {turn}", turn
    if event_type in _CHECKPOINT_EVENTS:
        return "checkpoint", _name_checkpoint(body, inherited), body["target"]
    if event_type == "checkpoint.taken":
        return "checkpoint", str(body.get("name") or ""), 0
    if event_type == "thread.forked":
        return "parent", f"event {body['parent_seq']:,}", body["parent_seq"]
    first, *_ = body.get("page_ids") or (body.get("page_id"),)
    return "page", str(first or ""), 0


def summarise_event(line: ThreadEventLine, *, inherited: int = 0) -> str:
    """Summarise an event from its body alone: names and numbers, no content.

    `inherited` is the clock of the last event that the thread inherits: bodies name a
    checkpoint by its clock, pages by its number in the thread.
    """
    text = summarise_body(line.type, line.body)
    if line.type in _CHECKPOINT_EVENTS and inherited:
        was, now = (_name_checkpoint(line.body, n) for n in (0, inherited))
        return text.replace(was, now, 1)
    return text


def summarise_body(event_type: str, body: Body) -> str:
    """Summarise a body of that event type; bodies hold no content."""
    tell = _SUMMARISERS.get(event_type)
    return tell(body) if tell else _render_figures(event_type, body)


def build_preview(line: ThreadEventLine) -> str:
    """Build one line of the event's text; empty if nothing can be shown."""
    if line.type == "fact.asserted" and line.payload:
        claim = (line.payload[name] for name in ("entity", "predicate", "value"))
        return cut_to_preview(" ".join(claim))
    field = "content" if line.type == "slot.appended" else "text"
    if line.payload is None or field not in line.payload:
        return ""
    return cut_to_preview(line.payload[field])


def cut_to_preview(content: Any) -> str:
    """Render a content as text, cut to one line of `PREVIEW_CHARS` characters."""
    return " ".join(render_content_words(content)[: PREVIEW_CHARS * 4].split())[
        :PREVIEW_CHARS
    ]


def _render_figures(event_type: str, body: Body) -> str:
    """Render the integers of a body with their names, and `count` with its noun."""
    noun = event_type.partition(".")[0].removesuffix("s")
    return ", ".join(
        _render_count(figure, noun) if name == "count" else f"{figure:,} {name}"
        for name, figure in body.items()
        if type(figure) is int and (figure or name == "count")
    )


def _summarise_slot(body: Body) -> str:
    return f"#{body['index']} {body['from']} → {body['to']}"


def _summarise_turn(body: Body) -> str:
    return f"turn {body['n']}"


def _summarise_creation(body: Body) -> str:
    levels = [body[name] for name in _SCOPE if body.get(name)]
    return " / ".join(levels) or "no labels"


def _summarise_fork(body: Body) -> str:
    return f"from event {body['parent_seq']:,} of its parent, depth {body['depth']}"


def _summarise_description(body: Body) -> str:
    parts = [name for name in _SCOPE if body.get(name)]
    if body.get("labels") is not None:
        parts.append(f"{len(body['labels'])} labels")
    return ", ".join(parts)


def _summarise_config(body: Body) -> str:
    return ", ".join(f"{name} {value}" for name, value in body["config"].items())


def _summarise_closing(body: Body) -> str:
    return str(body["reason"])


def _summarise_retirement(body: Body) -> str:
    return f"idle {body['idle_days']} days, policy {body['policy_days']}"


def _summarise_run(body: Body) -> str:
    reward = f", reward {body['reward']:g}" if body.get("reward") is not None else ""
    return f"format {body['format']}, {body['messages']:,} messages{reward}"


def _summarise_import(body: Body) -> str:
    return f"{body['count']:,} messages imported"


def _summarise_page(body: Body) -> str:
    tokens = _render_count(body["tokens"] or 0, "token")
    return f"{body.get('name') or body['page_id']} {body['type']}, {tokens}"


def _summarise_update(body: Body) -> str:
    called = body.get("name") or body["page_id"]
    if body.get("renamed_from"):
        called = f"{body['renamed_from']} renamed to {called},"
    written = f"{called} version {body['version']}"
    if (line := body.get("inserted")) is None:
        return written
    where = f"after line {line:,}" if line else "at the top"
    return f"{written}, text inserted {where}"


def _summarise_compression(body: Body) -> str:
    made = ", ".join(f"~{each['level']} {each['tokens']:,}" for each in body["levels"])
    return f"{body['page_id']} {made} by {body['producer']}"


def _summarise_mapping(body: Body) -> str:
    tokens = _render_count(body["tokens"], "token")
    return f"{body['page_id']} {_render_level(body['level'])}, {tokens}"


def _summarise_fault(body: Body) -> str:
    came = "" if body["promoted"] else ", not mapped"
    mapping = _summarise_mapping(body)
    return f"{mapping}, {body['reason']}, from {body['tier_before']}{came}"


def _summarise_refusal(body: Body) -> str:
    return f"{body.get('page_id') or 'an unknown page'} {body['refusal']}"


def _summarise_eviction(body: Body) -> str:
    kept = body.get("score")
    score = "" if kept is None else f", keep {kept:.2f}"
    way = f"{body['tier_before']} → {body['tier_after']}"
    return f"{body['page_id']} {way}, {body['cause']}{score}"


def _summarise_evictions(body: Body) -> str:
    if "page_id" in body:
        return _summarise_eviction(body)
    first, more = body["page_ids"][0], len(body["page_ids"]) - 1
    less = f"{_render_count(sum(body['tokens']), 'token')} less"
    others = _render_count(more, "page")
    return f"{first} and {others} more L0 → L1, {body['cause']}, {less}"


def _summarise_citations(body: Body) -> str:
    # In the history of a page the event tells of that page alone.
    if "page_id" in body:
        return f"the answer cites {body['page_id']}"
    pages, unknown = len(body["page_ids"]), body["unknown"]
    text = f"slot {body['slot']:,} cites {_render_count(pages, 'page')}"
    return f"{text}, {_render_count(unknown, 'id')} of no page" if unknown else text


def _summarise_rating(body: Body) -> str:
    if "page_id" in body:
        return f"the answer relied on {body['page_id']}"
    corrected: bool | None = body.get("corrected")
    verdict = "corrected" if corrected else "not corrected"
    pages = len(body["page_ids"])
    words = [] if corrected is None else [verdict]
    words += [f"relied on {_render_count(pages, 'page')}"] if pages else []
    return f"turn {body['rated']:,}, {', '.join(words) or 'feedback withdrawn'}"


def _summarise_mark(body: Body) -> str:
    return f"turn {body['turn']:,}, {body['mark'] or 'mark removed'}"


def _summarise_lowering(body: Body) -> str:
    saved = body["tokens_before"] - body["tokens"]
    way = f"{_render_level(body['level_before'])} → {_render_level(body['level'])}"
    return f"{body['page_id']} {way}, {_render_count(saved, 'token')} less"


def _summarise_call(body: Body) -> str:
    verdict = body.get("verdict")
    judged = f", guard: {verdict}" if verdict else ""
    return f"{body['kind']}: {body['outcome']}{judged}"


def _summarise_packing(body: Body) -> str:
    tokens = _render_count(body["tokens"], "token")
    return f"turn {body['turn']}, {tokens} of {body['budget']:,}"


def _summarise_invalidation(body: Body) -> str:
    what = body.get("page_id") or body.get("tier") or "all"
    return f"{what}, {body['dropped']:,} dropped"


def _summarise_key_set(body: Body) -> str:
    text = f"{body['key']}, {body['bytes']:,} bytes"
    return f"{text}, {_render_expiry(body)}" if body.get("expires_at") else text


def _summarise_key_retimed(body: Body) -> str:
    return f"{body['key']}, {_render_expiry(body)}"


def _render_expiry(body: Body) -> str:
    until = body.get("expires_at")
    return f"until {until[:19].replace('T', ' ')}" if until else "never expires"


def _summarise_expired_keys(body: Body) -> str:
    return _join_first([each["key"] for each in body["keys"]])


def _summarise_erased_values(body: Body) -> str:
    count = len(body["seqs"])
    values = _render_count(count, "value")
    return f"{values} of {_join_first(body['seqs'])}, {body['reason']}"


def _summarise_erased_records(body: Body) -> str:
    count, reason = body["records"], body["reason"].replace("_", " ")
    return f"{_render_count(count, 'record')}, {reason}"


def _join_first(items: Sequence[object]) -> str:
    """Render the first `_MAX_ITEMS` items, and the number of further items."""
    more = len(items) - _MAX_ITEMS
    text = ", ".join(str(item) for item in items[:_MAX_ITEMS])
    return f"{text} and {more:,} more" if more > 0 else text


def _render_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _summarise_task(body: Body) -> str:
    parts = [str(body["status"])] if body.get("status") else []
    parts += [*body.get("fields", ())]
    parts += [f"no {field}" for field in body.get("cleared", ())]
    return ", ".join(parts).replace("_", " ") or "heartbeat"


def _summarise_checkpoint(body: Body) -> str:
    name = body.get("name") or ("automatic" if body.get("auto") else "no name")
    touched = body.get("touched")
    moved = "" if touched is None else f", {touched:,} touched"
    held = [
        _render_count(body[figure], figure.removesuffix("s"))
        for figure in COUNTED
        if type(body.get(figure)) is int
    ]
    return ", ".join([name, *held]) + moved


def _summarise_restore(body: Body) -> str:
    parts = ", ".join(body["parts"])
    moved = [f"keys: {body.get('set', 0):,} set, {body.get('removed', 0):,} removed"]
    moved += [
        f"{name}: {body[name]:,} changed" for name in MOVED_FIELDS if body.get(name)
    ]
    return f"{parts} of {_name_checkpoint(body)}; {'; '.join(moved)}"


def _name_checkpoint(body: Body, inherited: int = 0) -> str:
    return f"checkpoint {body['target'] - inherited}"


def _render_level(level: int) -> str:
    return f"~{level}" if level else "full"


def _name_page(body: Body) -> str:
    return str(body["page_id"])


_SCOPE = ("agent_type", "agent_instance", "session")
#: Field of the body that holds the turn's number, by event type.
_TURN_FIELDS = {"turn.began": "n", "turn.packed": "turn"}
_CHECKPOINT_EVENTS = ("checkpoint.restored", "checkpoint.deleted")


def _summarise_exchange(body: Body) -> str:
    where = f"slots {body['begin']:,} to {body['to'] - 1:,}"
    if body.get("failed"):
        return f"nothing learnt from {where} yet: {body['failed']}"
    return f"{body['learnt']:,} learnt from {where}"


def _summarise_failure(body: Body) -> str:
    where = f"slots {body['begin']:,} to {body['end'] - 1:,}"
    return f"{body['role']}, {where}: {body['failure'].replace('_', ' ')}"


def _summarise_instructions(body: Body) -> str:
    whose = "the thread's own" if body.get("digest") else "the project's again"
    return f"{body['role']}: {whose}"


def _summarise_pause(body: Body) -> str:
    return "by hand" if body["by_hand"] else "an agent does its own observing"


_SUMMARISERS: dict[str, Callable[[Body], str]] = {
    "slot.appended": _summarise_slot,
    "slot.struck": lambda body: f"message {body['index']:,} taken out of lists",
    "turn.began": _summarise_turn,
    "thread.created": _summarise_creation,
    "thread.forked": _summarise_fork,
    "thread.described": _summarise_description,
    "thread.configured": _summarise_config,
    "thread.closed": _summarise_closing,
    "thread.reopened": lambda _: "accepts agent writes again",
    "thread.retired": _summarise_retirement,
    "run.recorded": _summarise_run,
    "exchange.consolidated": _summarise_exchange,
    "exchange.retried": lambda body: f"asked again, from slot {body['begin']:,}",
    "exchange.requested": lambda body: f"to be asked now, slot {body['begin']:,}",
    "import.advanced": _summarise_import,
    "observer.failed": _summarise_failure,
    "observer.paused": _summarise_pause,
    "observer.resumed": lambda _: "resumed",
    "observer.instructed": _summarise_instructions,
    "page.created": _summarise_page,
    "page.updated": _summarise_update,
    "page.compressed": _summarise_compression,
    "page.mapped": _summarise_mapping,
    "page.faulted": _summarise_fault,
    "fault.refused": _summarise_refusal,
    "page.referenced": _name_page,
    "page.evicted": _summarise_eviction,
    "pages.evicted": _summarise_evictions,
    "pages.cited": _summarise_citations,
    "turn.marked": _summarise_mark,
    "turn.rated": _summarise_rating,
    "page.lowered": _summarise_lowering,
    "page.pinned": _name_page,
    "page.unpinned": _name_page,
    "page.deleted": _name_page,
    "turn.packed": _summarise_packing,
    "call.recorded": _summarise_call,
    "tools.set": lambda body: _render_count(body["tools"], "tool"),
    "tlb.invalidated": _summarise_invalidation,
    "tlb.flushed": _summarise_invalidation,
    "prefetch.cleared": lambda body: _render_count(body["tools"], "tool"),
    "key.set": _summarise_key_set,
    "key.retimed": _summarise_key_retimed,
    "key.deleted": lambda body: str(body["key"]),
    "keys.expired": _summarise_expired_keys,
    "values.erased": _summarise_erased_values,
    "records.erased": _summarise_erased_records,
    "thread.erased": _summarise_erased_records,
    "task.set": _summarise_task,
    "task.updated": _summarise_task,
    "task.cleared": lambda _: "task cleared",
    "fact.asserted": lambda body: f"by {body['origin']}",
    "fact.retracted": lambda body: f"{len(body['seqs'])} as {body['reason']}",
    "timeline.configured": lambda body: body.get("cardinality") or "as derived",
    "checkpoint.taken": _summarise_checkpoint,
    "checkpoint.restored": _summarise_restore,
    "checkpoint.deleted": _name_checkpoint,
}
