"""Summaries: an event in one line, and the beginning of what was said. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memoryhub.kernel.memory.checkpoint_events import COUNTED
from memoryhub.kernel.messages.words import content_words
from memoryhub.queries.threads.events import EventLine

Body = Mapping[str, Any]
#: Characters of a message that stand in a list.
PREVIEW = 200
#: Names of a longer list that are shown.
_SHOWN = 4
NamedKind = Literal["turn", "page", "checkpoint", "parent", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSummary:
    """Hold a summary that is cut where it names what has a page of its own."""

    before: str
    kind: NamedKind
    name: str
    #: Of a turn its number, of a checkpoint its clock, of a parent the event's seq; 0
    #: of what came with the event itself.
    number: int
    after: str


def turn_of(line: EventLine) -> int | None:
    """Give the turn that the event began, or packed the request of."""
    body: Body = line.body
    turn: int | None = body.get(_TURNS.get(line.type, ""))
    return turn


def named(line: EventLine) -> NamedSummary:
    """Word an event, and set off the turn, page, checkpoint or parent it names."""
    text, body = summary(line), line.body
    kind, name, number = _naming(line.type, body)
    # What an event is about stands first; what it goes back to stands last.
    cut = text.rpartition if kind == "checkpoint" and number else text.partition
    before, found, after = cut(name) if name else ("", "", "")
    if not found:
        return NamedSummary(before=text, kind="", name="", number=0, after="")
    return NamedSummary(before=before, kind=kind, name=name, number=number, after=after)


def _naming(event_type: str, body: Body) -> tuple[NamedKind, str, int]:
    if event_type in _TURNS:
        turn = body[_TURNS[event_type]]
        return "turn", f"turn {turn}", turn
    if event_type in _OF_CHECKPOINTS:
        return "checkpoint", f"checkpoint {body['target']}", body["target"]
    if event_type == "checkpoint.taken":
        return "checkpoint", str(body.get("name") or ""), 0
    if event_type == "thread.forked":
        return "parent", f"event {body['parent_seq']:,}", body["parent_seq"]
    first, *_ = body.get("page_ids") or (body.get("page_id"),)
    return "page", str(first or ""), 0


def summary(line: EventLine) -> str:
    """What happened, from the body alone: names and numbers."""
    return of_body(line.type, line.body)


def of_body(event_type: str, body: Body) -> str:
    """What an event of that type says, with a body that holds no content."""
    tell = _TELL.get(event_type)
    return tell(body) if tell else _figures(event_type, body)


def preview(line: EventLine) -> str:
    """The beginning of the message on one line; empty if there is none to show."""
    if line.type == "fact.asserted" and line.payload:
        claim = (line.payload[name] for name in ("entity", "predicate", "value"))
        return beginning(" ".join(claim))
    field = "content" if line.type == "slot.appended" else "text"
    if line.payload is None or field not in line.payload:
        return ""
    return beginning(line.payload[field])


def beginning(content: Any) -> str:
    """Cut the text of a content to what one line has room for."""
    return " ".join(content_words(content)[: PREVIEW * 4].split())[:PREVIEW]


def _figures(event_type: str, body: Body) -> str:
    """What counts in it: each figure with its name, and a count of what it is about."""
    noun = event_type.partition(".")[0].removesuffix("s")
    return ", ".join(
        _counted(figure, noun) if name == "count" else f"{figure:,} {name}"
        for name, figure in body.items()
        if type(figure) is int and (figure or name == "count")
    )


def _slot(body: Body) -> str:
    return f"#{body['index']} {body['from']} → {body['to']}"


def _turn(body: Body) -> str:
    return f"turn {body['n']}"


def _created(body: Body) -> str:
    levels = [body[name] for name in _SCOPE if body.get(name)]
    return " / ".join(levels) or "no scope"


def _forked(body: Body) -> str:
    return f"from event {body['parent_seq']:,} of its parent, depth {body['depth']}"


def _described(body: Body) -> str:
    parts = [name for name in _SCOPE if body.get(name)]
    if body.get("labels") is not None:
        parts.append(f"{len(body['labels'])} labels")
    return ", ".join(parts)


def _configured(body: Body) -> str:
    return ", ".join(f"{name} {value}" for name, value in body["config"].items())


def _closed(body: Body) -> str:
    return str(body["reason"])


def _retired(body: Body) -> str:
    return f"idle {body['idle_days']} days, policy {body['policy_days']}"


def _run(body: Body) -> str:
    reward = f", reward {body['reward']:g}" if body.get("reward") is not None else ""
    return f"format {body['format']}, {body['messages']:,} messages{reward}"


def _import(body: Body) -> str:
    return f"{body['count']:,} messages in"


def _page(body: Body) -> str:
    return f"{body['page_id']} {body['type']}, {_counted(body['tokens'] or 0, 'token')}"


def _updated(body: Body) -> str:
    return f"{body['page_id']} version {body['version']}"


def _compressed(body: Body) -> str:
    made = ", ".join(f"~{each['level']} {each['tokens']:,}" for each in body["levels"])
    return f"{body['page_id']} {made} by {body['producer']}"


def _mapped(body: Body) -> str:
    tokens = _counted(body["tokens"], "token")
    return f"{body['page_id']} {_level(body['level'])}, {tokens}"


def _faulted(body: Body) -> str:
    came = "" if body["promoted"] else ", not mapped"
    return f"{_mapped(body)}, {body['reason']}, from {body['tier_before']}{came}"


def _refused(body: Body) -> str:
    return f"{body.get('page_id') or 'an unknown page'} {body['refusal']}"


def _evicted(body: Body) -> str:
    kept = body.get("score")
    score = "" if kept is None else f", keep {kept:.2f}"
    way = f"{body['tier_before']} → {body['tier_after']}"
    return f"{body['page_id']} {way}, {body['cause']}{score}"


def _summarise_evictions(body: Body) -> str:
    if "page_id" in body:
        return _evicted(body)
    first, more = body["page_ids"][0], len(body["page_ids"]) - 1
    less = f"{_counted(sum(body['tokens']), 'token')} less"
    return f"{first} and {_counted(more, 'page')} more L0 → L1, {body['cause']}, {less}"


def _lowered(body: Body) -> str:
    saved = body["tokens_before"] - body["tokens"]
    way = f"{_level(body['level_before'])} → {_level(body['level'])}"
    return f"{body['page_id']} {way}, {_counted(saved, 'token')} less"


def _packed(body: Body) -> str:
    tokens = _counted(body["tokens"], "token")
    return f"turn {body['turn']}, {tokens} of {body['budget']:,}"


def _dropped(body: Body) -> str:
    what = body.get("page_id") or body.get("tier") or "all"
    return f"{what}, {body['dropped']:,} dropped"


def _key_set(body: Body) -> str:
    text = f"{body['key']}, {body['bytes']:,} bytes"
    return f"{text}, {_until(body)}" if body.get("expires_at") else text


def _key_retimed(body: Body) -> str:
    return f"{body['key']}, {_until(body)}"


def _until(body: Body) -> str:
    until = body.get("expires_at")
    return f"until {until[:19].replace('T', ' ')}" if until else "never expires"


def _expired(body: Body) -> str:
    return _listed([each["key"] for each in body["keys"]])


def _erased(body: Body) -> str:
    count = len(body["seqs"])
    return f"{_counted(count, 'value')} of {_listed(body['seqs'])}, {body['reason']}"


def _forgotten(body: Body) -> str:
    count, reason = body["records"], body["reason"].replace("_", " ")
    return f"{_counted(count, 'record')}, {reason}"


def _listed(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = len(items) - _SHOWN
    text = ", ".join(str(item) for item in items[:_SHOWN])
    return f"{text} and {more:,} more" if more > 0 else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _task(body: Body) -> str:
    parts = [str(body["status"])] if body.get("status") else []
    parts += [*body.get("fields", ())]
    parts += [f"no {field}" for field in body.get("cleared", ())]
    return ", ".join(parts).replace("_", " ") or "heartbeat"


def _taken(body: Body) -> str:
    name = body.get("name") or ("automatic" if body.get("auto") else "no name")
    touched = body.get("touched")
    moved = "" if touched is None else f", {touched:,} touched"
    held = [
        _counted(body[figure], figure.removesuffix("s"))
        for figure in COUNTED
        if type(body.get(figure)) is int
    ]
    return ", ".join([name, *held]) + moved


def _restored(body: Body) -> str:
    parts = ", ".join(body["parts"])
    moved = f"{body.get('set', 0):,} set, {body.get('removed', 0):,} removed"
    return f"{parts} of checkpoint {body['target']}; {moved}"


def _target(body: Body) -> str:
    return f"checkpoint {body['target']}"


def _level(level: int) -> str:
    return f"~{level}" if level else "full"


def _named(body: Body) -> str:
    return str(body["page_id"])


_SCOPE = ("agent_type", "agent_instance", "session")
#: By events of turns, where their bodies have the number.
_TURNS = {"turn.began": "n", "turn.packed": "turn"}
_OF_CHECKPOINTS = ("checkpoint.restored", "checkpoint.deleted")


def _exchange(body: Body) -> str:
    where = f"slots {body['begin']:,} to {body['to'] - 1:,}"
    if body.get("failed"):
        return f"nothing learnt of {where} yet: {body['failed']}"
    return f"{body['learnt']:,} learnt of {where}"


def _failed(body: Body) -> str:
    where = f"slots {body['begin']:,} to {body['end'] - 1:,}"
    return f"{body['role']}, {where}: {body['failure'].replace('_', ' ')}"


def _paused(body: Body) -> str:
    return "by hand" if body["by_hand"] else "an agent observes for itself"


_TELL: dict[str, Callable[[Body], str]] = {
    "slot.appended": _slot,
    "turn.began": _turn,
    "thread.created": _created,
    "thread.forked": _forked,
    "thread.described": _described,
    "thread.configured": _configured,
    "thread.closed": _closed,
    "thread.reopened": lambda _: "takes agent writes again",
    "thread.retired": _retired,
    "run.recorded": _run,
    "exchange.consolidated": _exchange,
    "exchange.retried": lambda body: f"from slot {body['begin']:,} on, once more",
    "import.advanced": _import,
    "observer.failed": _failed,
    "observer.paused": _paused,
    "observer.resumed": lambda _: "goes on",
    "page.created": _page,
    "page.updated": _updated,
    "page.compressed": _compressed,
    "page.mapped": _mapped,
    "page.faulted": _faulted,
    "fault.refused": _refused,
    "page.referenced": _named,
    "page.evicted": _evicted,
    "pages.evicted": _summarise_evictions,
    "page.lowered": _lowered,
    "page.pinned": _named,
    "page.unpinned": _named,
    "page.deleted": _named,
    "turn.packed": _packed,
    "tools.set": lambda body: _counted(body["tools"], "tool"),
    "tlb.invalidated": _dropped,
    "tlb.flushed": _dropped,
    "key.set": _key_set,
    "key.retimed": _key_retimed,
    "key.deleted": lambda body: str(body["key"]),
    "keys.expired": _expired,
    "values.erased": _erased,
    "records.erased": _forgotten,
    "thread.erased": _forgotten,
    "task.set": _task,
    "task.updated": _task,
    "task.cleared": lambda _: "no task any more",
    "fact.asserted": lambda body: f"by {body['origin']}",
    "fact.retracted": lambda body: f"{len(body['seqs'])} as {body['reason']}",
    "timeline.configured": lambda body: body.get("cardinality") or "as derived",
    "checkpoint.taken": _taken,
    "checkpoint.restored": _restored,
    "checkpoint.deleted": _target,
}
