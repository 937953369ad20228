"""Webhooks: what may be created, and the audit entries of each act."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from memoryhub.errors import InvalidError, ProjectDeletedError
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import WebhookKey
from memoryhub.models.projects import Project
from memoryhub.models.webhooks import Webhook
from memoryhub.services.access import webhooks
from memoryhub.services.forget import project_deletions

pytestmark = pytest.mark.django_db(databases=["default", "keys"])


def make(project: Project, **changes: Any) -> tuple[Webhook, str]:
    given = {"url": "https://hooks.example.com/", "types": ["task.set"]} | changes
    return webhooks.create(project, **given, actor="command")


def test_secret_is_wrapped_and_returned_once(acme: Project) -> None:
    row, shown = make(acme, types=["task.set", "fact.asserted", "task.set"])
    secret = base64.b64decode(shown.removeprefix("whsec_"), validate=True)
    assert webhooks.open_secret(row) == secret
    assert len(secret) == webhooks.SECRET_BYTES
    wrapped = bytes(WebhookKey.objects.using("keys").get().wrapped)
    assert secret not in wrapped
    assert row.types == "fact.asserted task.set"


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"types": []}, "types"),
        ({"types": ["task.gone"]}, "types"),
        ({"url": "http://hooks.example.com/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://hooks.example.com/" + "a" * 500}, "url"),
    ],
)
def test_invalid_webhook_is_refused(
    acme: Project, changes: dict[str, Any], loc: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        make(acme, **changes)
    assert refused.value.loc == loc
    assert not Webhook.objects.exists()


def test_project_has_ten_webhooks_at_most(acme: Project) -> None:
    for _ in range(webhooks.MOST):
        make(acme)
    with pytest.raises(InvalidError):
        make(acme)
    assert WebhookKey.objects.using("keys").count() == webhooks.MOST


def test_acts_are_audited(acme: Project) -> None:
    row, _ = make(acme)
    webhooks.set_paused(row, paused=True, actor="command")
    webhooks.set_paused(row, paused=False, actor="command")
    webhooks.request_test(row, actor="command")
    webhooks.delete(row, actor="command")
    entries = AuditEntry.objects.filter(target_id=str(row.id)).order_by("seq")
    words = ("made", "paused", "resumed", "tested", "deleted")
    assert [*entries.values_list("action", flat=True)] == [
        f"webhook.{word}" for word in words
    ]


def test_deleted_project_ends_its_webhooks(acme: Project) -> None:
    make(acme)
    project_deletions.begin_deletion(acme, confirmed="acme", reason="test")
    assert not Webhook.objects.exists()
    assert not WebhookKey.objects.using("keys").exists()
    assert AuditEntry.objects.filter(action="webhook.deleted").count() == 1
    with pytest.raises(ProjectDeletedError):
        make(acme)
