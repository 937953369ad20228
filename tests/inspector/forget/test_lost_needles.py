"""What a scan had found is looked for again once somebody types it at the console."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers.erasures import Eraser
from tests.cast.lost_needles import USER, lose

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_console_takes_it_and_the_eraser_goes_on(
    agent: Agent, acme: Project, owner: Client
) -> None:
    lost = lose(agent)
    where = {"project": acme.slug, "erasure": lost.id}
    page = reverse("erasure", kwargs=where)
    shown = owner.get(page).content.decode()
    assert "The person's id, as it was before" in shown
    act = reverse("erasure-needles", kwargs=where)
    refused = owner.post(act, {"user_id": "bob"})
    assert refused.status_code == 422
    assert "not the id of the person" in refused.content.decode()
    assert owner.post(act, {"user_id": USER}).status_code == 302
    # Of several processes this one may not be the eraser; it alone can look.
    Eraser().round()
    lost.refresh_from_db()
    assert lost.state == "complete"
    assert "as it was before" not in owner.get(page).content.decode()
