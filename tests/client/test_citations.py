"""Citations with real clients: warnings, feedback, and the quality of memory."""

from __future__ import annotations

import pytest

from memoryhub_client import Invalid, NotFound, pages, slots, turns, working_set
from tests.client.conftest import Hub
from tests.client.test_client import message_slot


def test_answer_with_citations_is_read_warned_of_and_rated(hub: Hub) -> None:
    text = {"text": "Class Q can be changed once."}
    page = {"type": "artifact", "modality": "text", "page_id": "fares"}
    hub.send(pages.create("talk", content=text, **page))  # type: ignore[arg-type]  # one page's fields
    hub.send(turns.begin("talk", items=[message_slot("Can I change class Q?")]))
    answer = message_slot("Once [ref: fares, q-7].")
    answer["type"] = "chat.assistant"
    sent = hub.send(slots.append("talk", answer, idempotency_key="one"))
    assert sent["unknown_refs"] == ["q-7"]
    assert hub.send(slots.append("talk", answer, idempotency_key="one")) == sent
    thanks = message_slot("Thanks. [ref: nobody]")
    begun = hub.send(turns.begin("talk", items=[answer, thanks]))
    assert begun["unknown_refs"] == ["q-7"]

    rated = hub.send(turns.rate("talk", 1, corrected=False, cited=["fares", "none"]))
    assert (rated["turn"], rated["corrected"]) == (1, False)
    assert (rated["cited"], rated["unknown_refs"]) == (["fares"], ["none"])
    quality = hub.send(working_set.get_paging("talk"))["quality"]
    assert (quality["citations"], quality["unknown_citations"]) == (4, 2)
    assert 0 < quality["effective_tokens"] < 1
    # Nothing was recalled, so there is no sample.
    assert quality["recall_success"] is None
    with pytest.raises(NotFound):
        hub.send(turns.rate("talk", 9, corrected=True))
    with pytest.raises(Invalid):
        hub.send(turns.rate("talk", 1, cited=[f"p{n}" for n in range(33)]))
