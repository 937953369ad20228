"""18: recall returns exactly the requested number of records, however many exist."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from memoryhub.kernel.context import tokens
from tests.governance.hubs import Hub, ok
from tests.promises.journal.clients import Client, build_slot

pytestmark = pytest.mark.timeout(120)

MATCHES = 60
#: Tokens of a request, and of what it may bring along.
BUDGET, ROOM = 4_000, 400
FILLER = "Nothing of any use was said about the weather of the day. " * 6


def told(client: Client, word: str) -> str:
    """Tell more matches than are ever requested, as messages and facts."""
    config = {"budget_tokens": BUDGET, "reserved_tokens": 800, "recall_tokens": ROOM}
    body = {"user_id": "ann", "config": config}
    subject: str = ok(client.put("/threads/t-1", body))["subject_id"]
    for n in range(MATCHES):
        ok(client.append("t-1", f"{n}: the {word} {'is moored far out. ' * 12}"))
    facts = [
        {"entity": "user", "predicate": f"{word} {n}", "value": f"{n} {FILLER}"}
        for n in range(MATCHES)
    ]
    ok(client.post(f"/subjects/{subject}/facts:batch", {"items": facts}))
    return subject


@pytest.mark.governance(18)
@pytest.mark.parametrize("most", [1, 5, 50])
def test_recall_gives_exactly_as_many_as_are_asked_for(hub: Hub, most: int) -> None:
    client, word = hub.agent("acme"), f"w{uuid4().hex}"
    subject = told(client, word)
    for kinds in ([], ["message"], ["fact"]):
        asked = {"query": word, "kinds": kinds, "limit": most}
        found = ok(client.post(f"/subjects/{subject}/recall", asked))
        assert len(found["items"]) == most, kinds
        assert found["total"] >= MATCHES
        assert all(len(each["excerpt"]) <= 240 for each in found["items"])


@pytest.mark.governance(18)
def test_request_brings_no_more_than_its_room(hub: Hub) -> None:
    """Some of sixty matches are recalled, and the request keeps to its budget."""
    client, word = hub.agent("acme"), f"w{uuid4().hex}"
    told(client, word)
    for n in range(40):
        ok(client.append("t-1", f"{n} {FILLER}"))
    asking = build_slot(f"Where is the {word}?")
    turn = ok(client.post("/threads/t-1/turns", {"slots": [asking]}))
    (section,) = list_recalled(turn["request"])
    assert 1 <= section.count(f"the {word} is moored") < MATCHES
    assert turn["tokens"] <= BUDGET
    assert tokens.estimate_tokens(section) <= ROOM


def list_recalled(request: dict[str, Any]) -> list[str]:
    """Return the recalled texts of a turn, as the model is given them."""
    said = request["messages"]
    found = {
        call["id"]
        for message in said
        for call in message.get("tool_calls", ())
        if call["function"]["name"] == "page_search"
    }
    return [each["content"] for each in said if each.get("tool_call_id") in found]
