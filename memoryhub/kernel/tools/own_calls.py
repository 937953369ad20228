"""Calls of our own tools: messages that only make them or answer them. Pure."""

from __future__ import annotations

from collections.abc import Collection

from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.tools.tools import OWN, PAGE_SEARCH, RESERVED

#: Most tool names returned for one message.
MOST_TOOLS = 8


def list_own_call_ids(message: Message) -> set[str] | None:
    """Return the ids of a message's calls, or None unless it calls only our tools."""
    if not message.calls or any(each.name not in OWN for each in message.calls):
        return None
    return {each.id for each in message.calls if each.id}


def list_lone_call_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of a message's calls, if it has only calls of our tools."""
    says = message.parts or message.refusal or message.results
    return () if says else tuple(sorted(list_own_call_ids(message) or ()))


def list_other_tools(message: Message) -> tuple[str, ...]:
    """Return the names of other tools that a message calls, at most eight."""
    names = (each.name for each in message.calls)
    found = dict.fromkeys(name for name in names if name and name not in RESERVED)
    return tuple(found)[:MOST_TOOLS]


def get_answered_id(message: Message) -> str | None:
    """Return the id of the call that a message answers, the first of several."""
    return message.results[0].id if message.results else None


def has_own_result(message: Message, called: Collection[str] = ()) -> bool:
    """Return whether a message answers one of our tools, by name or by these ids."""
    return any(each.name in OWN or each.id in called for each in message.results)


def is_own_search(message: Message) -> bool:
    """Return whether a message only fetches or searches, or has a search's result."""
    called = {each.name for each in message.calls}
    found = any(each.name == PAGE_SEARCH for each in message.results)
    return found or bool(list_lone_call_ids(message)) or called == {PAGE_SEARCH}
