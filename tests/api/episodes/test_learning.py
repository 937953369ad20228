"""Learning over the API: what the language model is asked about, and by whose leave."""

from __future__ import annotations

import pytest

from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.api.client import Client, run
from tests.cast import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=["admin"])[1])


def test_learning_starts_from_now_and_takes_the_backlog_by_consent(
    agent: Agent, acme: Project, admin: Client
) -> None:
    factories.make_thread(agent, "talk", user_id="ann")
    factories.append(agent, "talk", "I like tea.", "I like rye.")
    before = run(admin.get("/learning")).json
    assert (before["ask"], before["since"], before["model"]) == (False, None, None)
    assert before["backlog"]["exchanges"] == 2
    assert before["backlog"]["tokens"] > 2 * 400
    assert before["backlog"]["cost"] is None
    since = run(admin.put("/learning", {"ask": True})).json["since"]
    assert since is not None
    assert run(admin.put("/learning", {"ask": True})).json["since"] == since
    refused = run(admin.put("/learning", {"ask": True, "backlog": 1}))
    assert refused.status == 422
    assert refused.json["errors"][0]["loc"] == ["backlog"]
    assert "wait: 2" in refused.json["detail"]
    asked = run(admin.put("/learning", {"ask": True, "backlog": 2})).json
    assert (asked["since"], asked["backlog"]["exchanges"]) == (None, 0)
    assert run(admin.put("/learning", {"ask": False})).json["ask"] is False
    acme.refresh_from_db()
    assert acme.consolidate == Project.Consolidate.MANUAL


def test_key_of_one_person_has_no_say(acme: Project) -> None:
    ann = subjects.find_or_create(acme.id, "ann")
    key = factories.make_key(acme, scopes=["admin"], subject=ann)[1]
    bound = Client(key=key)
    assert run(bound.get("/learning")).code == "not_found"
    assert run(bound.put("/learning", {"ask": True})).code == "not_found"
