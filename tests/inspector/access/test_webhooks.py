"""Webhooks in the inspector: added, tested, paused and deleted by owners."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from inspector.access.webhooks import OUTCOMES, PROPOSED
from memoryhub.models.projects import Project
from memoryhub.models.webhooks import Webhook
from memoryhub.services.access import webhooks
from tests.inspector.access.test_api_keys import nonce_of

pytestmark = pytest.mark.django_db(databases=["default", "keys"])
PAGE = "/p/acme/webhooks"


def make(client: Client, **fields: object) -> tuple[int, str]:
    form = {"url": "https://hooks.example.com/a", "types": PROPOSED} | fields
    nonce = nonce_of(client, f"{PAGE}/new")
    answer = client.post(f"{PAGE}/new", form | {"nonce": nonce})
    return answer.status_code, answer.content.decode()


def test_secret_is_shown_once(owner: Client) -> None:
    status, page = make(owner)
    found = re.search(r"whsec_[0-9A-Za-z+/]{43}=", page)
    assert status == 201
    assert found
    row = Webhook.objects.get()
    assert row.types.split() == sorted(PROPOSED)
    for path in (PAGE, f"{PAGE}/{row.id}"):
        shown = owner.get(path).content.decode()
        assert "hooks.example.com/a" in shown
        assert found[0] not in shown


def test_refused_form_keeps_what_was_sent(owner: Client) -> None:
    status, page = make(owner, url="http://10.0.0.1/x", types=["task.set"])
    assert status == 422
    assert "MEMORYHUB_WEBHOOK_HOSTS" in page
    assert 'value="http://10.0.0.1/x"' in page
    assert re.findall(r'value="([a-z.]+)" checked', page) == ["task.set"]
    assert make(owner, types=[])[0] == 422


def test_owner_tests_pauses_and_deletes(owner: Client) -> None:
    make(owner)
    path = f"{PAGE}/{Webhook.objects.get().id}"
    owner.post(path, {"test": "1"})
    assert "A test is on its way" in owner.get(path).content.decode()
    owner.post(path, {"pause": "1"})
    assert Webhook.objects.get().paused
    assert "paused" in owner.get(PAGE).content.decode()
    owner.post(path, {"resume": "1"})
    assert not Webhook.objects.get().paused
    owner.post(path, {"delete": "1"})
    assert not Webhook.objects.exists()
    assert owner.get(path).status_code == 404


@pytest.mark.parametrize("outcome", [each for each in OUTCOMES if each != "delivered"])
def test_failing_webhook_shows_why(owner: Client, acme: Project, outcome: str) -> None:
    make(owner)
    row = Webhook.objects.get()
    webhooks.record_result(row, outcome, status=None)
    assert row.retry_at
    assert row.retry_at > timezone.now()
    for path in (PAGE, f"{PAGE}/{row.id}"):
        page = owner.get(path).content.decode()
        assert "failing" in page
        assert OUTCOMES[outcome].replace("'", "&#x27;") in page
