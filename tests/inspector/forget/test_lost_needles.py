"""Lost needles of a scan: the scan repeats when somebody types a needle."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers.erasures import Eraser
from tests.cast.lost_needles import USER, lose

pytestmark = pytest.mark.django_db(transaction=True)


def test_needle_typed_at_the_console_resumes_the_erasure(
    agent: Agent, acme: Project, owner: Client
) -> None:
    lost = lose(agent)
    where = {"project": acme.slug, "erasure": lost.id}
    page = reverse("erasure", kwargs=where)
    shown = owner.get(page).content.decode()
    assert "The user id that the person had" in shown
    act = reverse("erasure-needles", kwargs=where)
    refused = owner.post(act, {"user_id": "bob"})
    assert refused.status_code == 422
    assert "not the user id of the erased person" in refused.content.decode()
    assert owner.post(act, {"user_id": USER}).status_code == 302
    # Another process may be the eraser, but only this process has the needle.
    Eraser().run_round()
    lost.refresh_from_db()
    assert lost.state == "complete"
    assert "The user id that the person had" not in owner.get(page).content.decode()
