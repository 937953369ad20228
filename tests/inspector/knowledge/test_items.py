"""Items of a subject, as pages show and change them in the home thread."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.memory import items as reading
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import items
from tests.cast import factories, forgetting
from tests.cast.factories import run
from tests.inspector.paged import text_of

pytestmark = pytest.mark.django_db


def test_items_are_shown_by_the_subject_and_changed_in_its_home_thread(
    owner: Client, agent: Agent
) -> None:
    factories.make_thread(agent, user_id="ann")
    ann = forgetting.get_subject(agent, "ann")
    act = items.put_item(
        agent=agent, subject=ann, namespace="trips:oslo", key="seat", value="12A"
    )
    run(act)
    base = f"/p/acme/threads/mh.home.{ann.id}"
    assert f"{base}/keys" in text_of(owner, f"/p/acme/subjects/{ann.id}")
    for path in ("/panels/working-memory", "/keys"):
        page = text_of(owner, base + path)
        assert "trips:oslo:seat" in page
        assert "12A" in page
        assert "Clear all" not in page
    sent = {"value": '"12B"', "expiry": "never", "version": "2"}
    key = f"{base}/keys/trips:oslo:seat"
    assert owner.post(f"{key}/set", sent).status_code == 302
    assert "12B" in text_of(owner, key)
    plain = {"key": "seat", "value": "1", "expiry": "never"}
    refused = owner.post(f"{base}/add-key", plain)
    assert "labels and a key" in refused.content.decode()
    assert len(reading.list_items(find_home(ann)).items) == 1
