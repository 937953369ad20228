"""Summaries: an event in one line, and the beginning of what was said. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoryhub.kernel.tokens import text_of
from memoryhub.queries.events import EventLine

Body = Mapping[str, Any]
#: Characters of a message that stand in a list.
PREVIEW = 200


def summary(line: EventLine) -> str:
    """What happened, from the body alone: names and numbers."""
    tell = _TELL.get(line.type)
    return tell(line.body) if tell else ""


def preview(line: EventLine) -> str:
    """The beginning of the message on one line; empty if there is none to show."""
    if line.type != "slot.appended" or line.payload is None:
        return ""
    text = text_of(line.payload.get("content"))
    return " ".join(text[: PREVIEW * 4].split())[:PREVIEW]


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
    told = [name for name in _SCOPE if body.get(name)]
    if body.get("labels") is not None:
        told.append(f"{len(body['labels'])} labels")
    return ", ".join(told)


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


_SCOPE = ("agent_type", "agent_instance", "session")
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
    "import.advanced": _import,
}
