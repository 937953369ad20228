"""Own calls: which messages only call our tools, or bring what these gave. Pure."""

from __future__ import annotations

from collections.abc import Collection

from memoryhub.kernel.levels.tools import OWN, PAGE_SEARCH, RESERVED
from memoryhub.kernel.messages.message import Message

#: Of one message, that are looked at.
MOST_TOOLS = 8


def ids(message: Message) -> set[str] | None:
    """Return the ids of its calls, if it calls our own tools and no others."""
    if not message.calls or any(each.name not in OWN for each in message.calls):
        return None
    return {each.id for each in message.calls if each.id}


def ids_alone(message: Message) -> tuple[str, ...]:
    """Return the ids of its calls, if they are all that it says and only ours."""
    says = message.parts or message.refusal or message.results
    return () if says else tuple(sorted(ids(message) or ()))


def others(message: Message) -> tuple[str, ...]:
    """Return the names of other tools that it calls, at most eight, once each."""
    names = (each.name for each in message.calls)
    found = dict.fromkeys(name for name in names if name and name not in RESERVED)
    return tuple(found)[:MOST_TOOLS]


def answered(message: Message) -> str | None:
    """Return the id of the call that it answers, of several the first."""
    return message.results[0].id if message.results else None


def brings(message: Message, called: Collection[str] = ()) -> bool:
    """Return whether it answers one of our tools, by its name or by these ids."""
    return any(each.name in OWN or each.id in called for each in message.results)


def searches(message: Message) -> bool:
    """Return whether it only searches or fetches, or is what a search has found."""
    called = {each.name for each in message.calls}
    found = any(each.name == PAGE_SEARCH for each in message.results)
    return found or bool(ids_alone(message)) or called == {PAGE_SEARCH}
