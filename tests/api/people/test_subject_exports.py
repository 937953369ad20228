"""Exports over the API: who gets one, how many at once, and how one ends."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from zipfile import BadZipFile

import pytest
from django.conf import settings

from memoryhub.api.handler import build_application
from memoryhub.api.http import limits
from memoryhub.journal import writer
from memoryhub.journal.writing.uses import uses
from memoryhub.models import Project, Subject
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.server.leases import Lease
from memoryhub.queries.threads.readers import readers
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.people import subjects
from tests.api.client import Client, run
from tests.cast import bundled, factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def officer(acme: Project) -> Client:
    return Client(key=factories.make_key(acme, scopes=["subject:export"])[1])


@pytest.fixture
def ann(agent: Agent, acme: Project) -> Subject:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "She is allergic to nuts.")
    return subjects.find_or_create(acme.id, "ann")


def ask(client: Client, subject: Any, **options: Any) -> Any:
    return run(client.post(f"/subjects/{subject}/export", {}, **options))


def test_bundle_is_streamed(officer: Client, ann: Subject) -> None:
    answer = ask(officer, ann.id)
    assert answer.status == 200
    assert answer.header("content-type") == "application/zip"
    name = f'attachment; filename="memoryhub-{ann.id}.zip"'
    assert answer.header("content-disposition") == name
    assert answer.header("content-length") is None
    assert b"allergic" in bundled.open_bundle(answer.body).read("events.jsonl")
    assert not Lease.objects.exists()


def test_markdown_is_streamed_on_request(officer: Client, ann: Subject) -> None:
    sent = officer.post(f"/subjects/{ann.id}/export", {"format": "markdown"})
    answer = run(sent)
    name = f'attachment; filename="memoryhub-{ann.id}-markdown.zip"'
    assert answer.header("content-disposition") == name
    assert b"allergic" in bundled.open_bundle(answer.body).read("threads/t-1.md")
    assert AuditEntry.objects.filter(action="subject.exported").count() == 1


def test_export_is_audited_and_counted(officer: Client, ann: Subject) -> None:
    ask(officer, ann.id)
    (entry,) = AuditEntry.objects.filter(action="subject.exported")
    assert (entry.target_kind, entry.target_id) == ("subject", str(ann.id))
    assert (entry.actor_kind, entry.count) == ("agent", 2)
    assert entry.subject is not None
    uses.flush()
    assert DailyUse.objects.get(subject=ann, key__prefix=entry.actor_ref).reads == 1


@pytest.mark.parametrize("state", ["erasing", "erased"])
def test_export_of_an_erased_subject_is_gone(
    officer: Client, ann: Subject, state: str
) -> None:
    Subject.objects.filter(id=ann.id).update(state=state)
    answer = ask(officer, ann.id)
    Subject.objects.filter(id=ann.id).update(state="active")
    assert (answer.status, answer.code) == (410, "subject_erased")
    assert not AuditEntry.objects.filter(action="subject.exported").exists()


def test_export_of_a_restricted_subject_is_allowed(
    officer: Client, ann: Subject
) -> None:
    Subject.objects.filter(id=ann.id).update(state="restricted", basis="claims")
    bundle = bundled.open_bundle(ask(officer, ann.id).body)
    Subject.objects.filter(id=ann.id).update(state="active")
    subject = bundled.manifest(bundle)["subject"]
    assert (subject["state"], subject["basis"]) == ("restricted", "claims")


@pytest.mark.parametrize("body", [{"a": 1}, {"format": "html"}, [], None])
def test_export_with_a_body_content_is_refused(
    officer: Client, ann: Subject, body: object
) -> None:
    sent = run(officer.post(f"/subjects/{ann.id}/export", body))
    assert sent.status in (415, 422)
    assert not AuditEntry.objects.filter(action="subject.exported").exists()


def test_third_concurrent_export_of_a_project_is_busy(
    officer: Client, ann: Subject, zeta: Project
) -> None:
    held = [exports.begin_export(ann, actor="command") for _ in range(2)]
    answer = ask(officer, ann.id)
    assert (answer.status, answer.code) == (409, "export_busy")
    elsewhere = subjects.find_or_create(zeta.id, "bob")
    exports.begin_export(elsewhere, actor="command").close()
    held[0].close()
    assert ask(officer, ann.id).status == 200
    assert AuditEntry.objects.filter(target_id=str(ann.id)).count() == 3


def test_eleventh_export_of_a_day_is_refused(officer: Client, ann: Subject) -> None:
    for _ in range(settings.EXPORTS_PER_DAY):
        exports.begin_export(ann, actor="command").close()
    answer = ask(officer, ann.id)
    assert (answer.status, answer.code) == (429, "rate")
    assert int(answer.header("retry-after")) > 23 * 3600
    assert not Lease.objects.exists()


def are_places_free() -> bool:
    """Tell whether every place is free again, soon."""
    until = time.monotonic() + 10
    while Lease.objects.exists() and time.monotonic() < until:
        pass
    return not Lease.objects.exists()


@pytest.mark.django_db(transaction=True)
async def test_client_that_leaves_frees_its_export_place(
    served: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves in the middle of a bundle, and the bundle's production ends."""
    monkeypatch.setattr(exports, "PIECE_BYTES", 1)
    project = await asyncio.to_thread(Project.objects.get)
    _, key = await asyncio.to_thread(
        factories.make_key, project, scopes=["subject:export"]
    )
    ann = await asyncio.to_thread(subjects.find_or_create, project.id, "ann")
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1)
    left = asyncio.Event()
    body = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if body:
            return body.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    scope = Client(key=key)._build_scope(
        "POST",
        f"/subjects/{ann.id}/export",
        [("content-type", "application/json")],
        ("localhost",),
    )
    app = build_application(None)  # type: ignore[arg-type]  # the lean handler serves it
    task = asyncio.ensure_future(app(scope, receive, sent.put))
    assert (await sent.get())["status"] == 200
    assert (await sent.get())["body"].startswith(b"PK\3\4")
    held = await asyncio.to_thread(Lease.objects.count)
    left.set()
    await asyncio.wait_for(task, 10)
    assert held == 1
    # Its place is given back by whoever was making the next piece.
    assert await asyncio.to_thread(are_places_free)
    assert limits.account.streams == {}
    assert writer.is_running
    assert readers.is_running


def test_export_of_a_subject_erased_meanwhile_is_broken_off(
    officer: Client, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 134 of the bad inputs: the stream ends without its directory."""
    begin = exports.begin_export_async

    async def begun_then_erased(*args: Any, **options: Any) -> None:
        await begin(*args, **options)
        Subject.objects.filter(id=ann.id).update(epoch=ann.epoch + 1)

    monkeypatch.setattr(exports, "begin_export_async", begun_then_erased)
    answer = ask(officer, ann.id)
    assert answer.status == 200
    with pytest.raises(BadZipFile):
        bundled.open_bundle(answer.body)
    assert not Lease.objects.exists()
