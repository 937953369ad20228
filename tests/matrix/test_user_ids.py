"""User ids: all entry points accept and refuse the same ids."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client as Browser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.errors import BadBundleError, NameTakenError
from memoryhub.kernel.text import user_ids
from memoryhub.models.access.api_keys import MEMORY_SCOPES, SUBJECT_SCOPES
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.api import client as api
from tests.api.client import Client
from tests.cast import bundled, factories
from tests.cast.recordings import run
from tests.inspector.access.test_api_keys import nonce_of
from tests.inspector.conftest import make_member, signed_in

pytestmark = pytest.mark.django_db
#: Candidate ids with blanks, line ends and invisible characters.
LETTERS = st.sampled_from("a7Zü🙂|+/@.:*% \t\n\r\x00\x85\xa0\u200b\u2028\u202e\ufeff")
TEXTS = st.text(LETTERS, min_size=1, max_size=6)


@dataclass(slots=True)
class Hub:
    """A project with every entry point that takes a user id."""

    project: Project
    agent: Client
    eraser: Client
    owner: Browser
    officer: Browser
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    #: Bundle of ann; `take_bundle` replaces the user id.
    bundle: bytes

    def asks(self, who: Client, path: str, text: str) -> bool:
        answer = api.run(who.post(path, {"user_id": text}))
        assert answer.status in {200, 404, 409, 422, 400}
        return answer.status not in {400, 422}

    def manages(self, *words: str, typed: str) -> bool:
        """Return whether the command accepts the user id on its standard input."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
        err = io.StringIO()
        with suppress(SystemExit):
            call_command(*words, stdout=io.StringIO(), stderr=err, no_color=True)
        return "takes a person's id" not in err.getvalue()

    def posts(self, who: Browser, path: str, text: str, **form: Any) -> bool:
        where = f"/p/{self.project.slug}{path}"
        answer = who.post(where, {"user_id": text, **form})
        assert answer.status_code in {201, 302, 404, 409, 422}
        return answer.status_code != 422

    def imports(self, value: object) -> bool:
        file = self.folder / f"{uuid4()}.json"
        file.write_text(json.dumps(value) + "\n")
        words = ("import", str(file), "--project", self.project.slug, "--source", "s")
        out = io.StringIO()
        with suppress(SystemExit):
            call_command(*words, "--json", stdout=out, stderr=io.StringIO())
        return bool(json.loads(out.getvalue())["complete"])


def put(hub: Hub, text: str) -> bool:
    answer = api.run(hub.agent.put("/threads/t-1", {"user_id": text}))
    return answer.status == 201


def make_key(hub: Hub, text: str) -> bool:
    nonce = nonce_of(hub.owner, f"/p/{hub.project.slug}/api-keys/new")
    form = {"scopes": ["memory:read"], "days": "90", "nonce": nonce}
    return hub.posts(hub.owner, "/api-keys/new", text, **form)


def make_key_by_command(hub: Hub, text: str) -> bool:
    return hub.manages("create_key", hub.project.slug, "--user-id", typed=text)


def import_run(hub: Hub, text: str) -> bool:
    return hub.imports([run(user_id=text)])


def import_line(hub: Hub, text: str) -> bool:
    line = {"role": "user", "content": "hello", "thread": "t-9", "user_id": text}
    return hub.imports(line)


def import_about(hub: Hub, text: str) -> bool:
    file = hub.folder / f"{uuid4()}.json"
    file.write_text(json.dumps([run(7)]))
    words = ("import", str(file), "--project", hub.project.slug, "--user-id")
    return hub.manages(*words, typed=text)


def take_bundle(hub: Hub, text: str) -> bool:
    data = bundled.sign_bundle(
        hub.bundle, lambda manifest: manifest["subject"].update(user_id=text)
    )
    try:
        bundled.take(data, hub.project)
    except BadBundleError:
        return False
    except NameTakenError:
        return True
    return True


WRITES = (
    *(put, make_key, make_key_by_command, import_run, import_line, import_about),
    take_bundle,
)


def look_ups(hub: Hub, text: str) -> dict[str, bool]:
    """Return by entry point whether its look-up accepts the user id."""
    slug, target = hub.project.slug, str(hub.folder / f"{uuid4()}.zip")
    of = ("--project", slug)
    return {
        "resolve": hub.asks(hub.agent, "/subjects:resolve", text),
        "search": hub.asks(hub.agent, "/threads:search", text),
        "readmit": hub.asks(hub.eraser, "/subjects:readmit", text),
        "show": hub.manages("subject", "show", *of, typed=text),
        "lift": hub.manages("subject", "unrestrict", *of, typed=text),
        "readmit by command": hub.manages("subject", "readmit", *of, typed=text),
        "forget": hub.manages("forget", "plan", *of, "--reason", "test", typed=text),
        "export": hub.manages("export", slug, "-o", target, "--quiet", typed=text),
        "console": hub.posts(hub.officer, "/subjects/look-up", text),
        "readmit there": hub.posts(hub.officer, "/subjects/readmit", text),
    }


@pytest.fixture
def build(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Hub]:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "hello")
    bundle = bundled.export(subjects.find_or_create(agent.project, "ann"))

    def make_hub() -> Hub:
        project = factories.make_project(f"p{uuid4().hex[:12]}")
        # Owners first: without one a project takes nobody else.
        owner, officer = (make_member(project, role) for role in ("owner", "officer"))
        return Hub(
            project=project,
            agent=Client(key=factories.make_key(project)[1]),
            eraser=Client(key=factories.make_key(project, scopes=SUBJECT_SCOPES)[1]),
            owner=signed_in(owner),
            officer=signed_in(officer),
            folder=tmp_path,
            monkeypatch=monkeypatch,
            bundle=bundle,
        )

    return make_hub


@pytest.mark.slow
@settings(max_examples=8)
@given(text=TEXTS)
@example(text="Ann Smith, née Li")
@example(text="auth0|5f7c+ann@example.com")
@example(text="ann\nsmith")
@example(text=" ann")
@example(text="*%")
@example(text="x" * 257)
def test_every_entry_point_takes_the_same_user_ids(
    build: Callable[[], Hub], text: str
) -> None:
    hub, taken = build(), user_ids.is_valid(text)
    assert {*look_ups(hub, text).values()} == {taken}
    assert {write(hub, text) for write in WRITES} == {taken}
    assert {*look_ups(hub, text).values()} == {taken}
    assert Subject.objects.filter(project=hub.project).count() == 1 + taken


#: Ids of a former version, which accepted any text.
OLD = ("ann\nsmith", " ann ", "a\u2028b")


@pytest.mark.parametrize("text", OLD)
def test_subject_with_an_old_user_id_is_still_found(
    build: Callable[[], Hub], text: str
) -> None:
    hub = build()
    subject = hold(hub.project, text)
    assert {*look_ups(hub, text).values()} == {True}
    assert put(hub, text)
    assert Thread.objects.get(project=hub.project).subject_id == subject.id


@pytest.mark.parametrize("text", OLD)
def test_bound_key_learns_nothing_of_other_user_ids(
    build: Callable[[], Hub], text: str
) -> None:
    hub = build()
    hold(hub.project, text)
    own = subjects.find_or_create(hub.project.id, "bob")
    for scopes, path in ((MEMORY_SCOPES, "resolve"), (SUBJECT_SCOPES, "readmit")):
        key = factories.make_key(hub.project, scopes=scopes, subject=own)[1]
        answers = [
            api.run(Client(key=key).post(f"/subjects:{path}", {"user_id": each}))
            for each in (text, f"{text}\n")
        ]
        assert answers[0].comparable == answers[1].comparable


def hold(project: Project, text: str) -> Subject:
    """Make a subject of that id, without validating the id."""
    return subjects.insert_subject(subjects.prepare_subject(project.id, text))
