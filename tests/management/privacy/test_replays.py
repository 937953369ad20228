"""Replays after a restore: nothing is served until erasures are repeated."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from memoryhub.asgi import Http, SocketRouter
from memoryhub.errors import SubjectErasedError
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.keys import DestroyedKey, SubjectKey
from memoryhub.models.projects import Instance as Installed
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.forget import erasures
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people import subjects
from memoryhub.vault.proof import ledger
from tests.cast import factories
from tests.harness.backups import Backups, backups
from tests.harness.instances import Instance

HERE = "tests.management.privacy.test_replays"
SLUG, USER = "acme", "customer-7"
POSTGRES = "postgresql" in settings.DATABASES["default"]["ENGINE"]
#: Databases are copied more slowly than files: similar cases run nightly.
later = pytest.mark.nightly if POSTGRES else pytest.mark.slow
#: Seconds of waiting; the server checks every ten seconds.
NOTICED_SECONDS = 30


def remember() -> None:
    """Make a subject with a thread, and a twin. Runs in the instance."""
    agent = factories.make_agent(projects.create(SLUG))
    for user in (USER, "twin"):
        factories.make_thread(agent, f"of-{user}", user_id=user)
        factories.append(agent, f"of-{user}", "seat 12A", "and a salad")


def forget(scope: str) -> None:
    """Erase up to the receipt. Runs in the instance."""
    thread = Thread.objects.get(name=f"of-{USER}")
    given: dict[str, Any] = {"thread": thread} if scope == "thread" else {}
    row = erasures.plan(
        thread.subject, scope=scope, reason="test", actor="command", **given
    )
    count = json.loads(row.planned)["count"]
    row = erasures.confirm(
        row, token=erasures.build_token(row), count=count, actor="command"
    )
    while row.state != Erasure.State.COMPLETE:
        row = erasures.advance_erasure(row)
        assert not row.waiting_on, row.waiting_on


def tell() -> None:
    """Print the state of the instance as JSON. Runs in the instance."""
    rows = Erasure.objects.order_by("id")
    sys_out(
        {
            "subjects": sorted(Subject.objects.values_list("state", flat=True)),
            "threads": sorted(Thread.objects.values_list("status", flat=True)),
            "erasures": [[str(row.id), row.state] for row in rows],
            "receipts": [
                json.loads(row.text)["reason"] for row in Receipt.objects.all()
            ],
            "keys": SubjectKey.objects.using("keys").count(),
            "destroyed": DestroyedKey.objects.using("keys").count(),
            "ledger": [line.kind for line in ledger.iter_lines()],
            "applied": Installed.objects.get().ledger_n,
        }
    )


def sys_out(value: dict[str, Any]) -> None:
    print(json.dumps(value))  # noqa: T201 # to the process that asked


def figures_of(instance: Instance) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(instance.call(f"{HERE}:tell").splitlines()[-1])
    return found


@pytest.fixture
def kept(instance: Instance) -> Iterator[Backups]:
    with backups(instance) as made:
        yield made


@pytest.fixture
def remembering(instance: Instance) -> Instance:
    instance.call(f"{HERE}:remember")
    return instance


def ask(port: int, path: str) -> tuple[int, str]:
    line = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


@pytest.mark.promise("P14")
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "scope", ["subject", pytest.param("thread", marks=pytest.mark.nightly)]
)
def test_erasure_is_replayed_from_the_ledger_after_a_restore(
    remembering: Instance, kept: Backups, scope: str
) -> None:
    """A backup from before an erasure is held back, and erased once more."""
    before = figures_of(remembering)
    kept.take("memory", "keys")
    remembering.call(f"{HERE}:forget", scope)
    done = figures_of(remembering)
    kept.restore("memory", "keys")
    assert figures_of(remembering)["threads"] == before["threads"] == ["open", "open"]

    for words in (("worker",), ("create_project", "zeta")):
        refused = remembering.manage(*words)
        assert refused.returncode == 1
        assert "erasures_to_replay" in refused.stderr
    with remembering.serve() as server:
        assert ask(server.port, "/health/live")[0] == 200
        for path in ("/", "/health/ready", "/api/v1/threads", "/static/app.css"):
            status, text = ask(server.port, path)
            assert status == 503, path
            assert "erasures_to_replay" in text
        remembering.managed("forget", "--replay")
        # The server notices by itself.
        until = time.monotonic() + NOTICED_SECONDS
        while (found := ask(server.port, "/health/ready"))[0] != 200:
            assert time.monotonic() < until, found
    again = figures_of(remembering)
    for name in ("subjects", "threads", "keys", "destroyed"):
        assert again[name] == done[name], name
    assert again["erasures"] == done["erasures"]
    assert again["receipts"] == ["test"]
    assert again["ledger"] == ["intent", "done", "replayed"]
    # A second replay finds nothing to do.
    remembering.managed("forget", "--replay")
    assert figures_of(remembering) == again
    remembering.managed("anchor", "--anew")
    remembering.managed("verify", "--all")


@pytest.mark.promise("P14")
@pytest.mark.timeout(240)
def test_restored_keys_alone_are_refused_until_the_replay(
    remembering: Instance, kept: Backups
) -> None:
    """The restored key of the subject could open remaining data."""
    kept.take("keys")
    remembering.call(f"{HERE}:forget", "subject")
    done = figures_of(remembering)
    kept.restore("keys")
    assert figures_of(remembering)["destroyed"] == 0
    refused = remembering.manage("worker")
    assert "erasures_to_replay" in refused.stderr
    remembering.managed("forget", "--replay")
    again = figures_of(remembering)
    assert again["keys"] == done["keys"]
    assert again["destroyed"] == 1
    assert again["receipts"] == done["receipts"] == ["test"]
    assert again["ledger"] == ["intent", "done", "replayed"]


@later
@pytest.mark.promise("P14")
@pytest.mark.timeout(240)
def test_restored_memory_alone_is_erased_without_the_subject_key(
    remembering: Instance, kept: Backups
) -> None:
    kept.take("memory")
    remembering.call(f"{HERE}:forget", "subject")
    done = figures_of(remembering)
    kept.restore("memory")
    remembering.managed("forget", "--replay")
    again = figures_of(remembering)
    for name in ("subjects", "threads", "keys", "destroyed"):
        assert again[name] == done[name], name


@later
@pytest.mark.promise("P14")
@pytest.mark.timeout(240)
def test_erased_subject_unknown_to_the_backup_stays_out(
    instance: Instance, kept: Backups
) -> None:
    """The subject was made and erased after the backup; its user id stays dead."""
    instance.call(f"{HERE}:make_project")
    kept.take("memory", "keys")
    instance.call(f"{HERE}:come_and_go")
    kept.restore("memory", "keys")
    instance.managed("forget", "--replay")
    instance.call(f"{HERE}:require_refused")


@later
@pytest.mark.promise("P14")
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("half", "later", "restored"),
    [
        ("tombstoned", "subject", ["memory"]),
        pytest.param("", "subject", ["memory"], marks=pytest.mark.nightly),
        pytest.param(
            "rows_erased", "thread", ["memory", "keys"], marks=pytest.mark.nightly
        ),
    ],
)
def test_backup_amid_two_erasures_replays_both(
    remembering: Instance, kept: Backups, half: str, later: str, restored: list[str]
) -> None:
    """Erase a record, then the whole; neither replay blocks the other."""
    if half:
        remembering.call(f"{HERE}:forget_a_record", half)
    kept.take(*restored)
    remembering.call(f"{HERE}:forget_a_record", "complete")
    remembering.call(f"{HERE}:forget", later)
    kept.restore(*restored)
    remembering.managed("forget", "--replay")
    again = figures_of(remembering)
    assert [state for _, state in again["erasures"]] == ["complete"] * (1 + bool(half))
    assert again["threads"] == ["erased", "open"]
    assert again["destroyed"] == int(later == "subject")
    # The worker starts, and no replay is left.
    remembering.managed("anchor", "--anew")
    remembering.managed("verify", "--all")


def forget_a_record(until: str) -> None:
    """Erase a record up to this state; begin unless begun. Runs in the instance."""
    row = Erasure.objects.first()
    if row is None:
        thread = Thread.objects.get(name=f"of-{USER}")
        row = erasures.plan(
            thread.subject,
            scope="record",
            thread=thread,
            seq=2,
            reason="test",
            actor="command",
        )
        count = json.loads(row.planned)["count"]
        token = erasures.build_token(row)
        row = erasures.confirm(row, token=token, count=count, actor="command")
    while row.state != until:
        row = erasures.advance_erasure(row)
        assert not row.waiting_on, row.waiting_on


def make_project() -> None:
    """Make the project. Runs in the instance."""
    projects.create(SLUG)


def come_and_go() -> None:
    """Make a subject with a thread, and erase both. Runs in the instance."""
    agent = factories.make_agent(Project.objects.get(slug=SLUG))
    factories.make_thread(agent, f"of-{USER}", user_id=USER)
    forget("subject")


def require_refused() -> None:
    """Check that the erased user id is refused. Runs in the instance."""
    project = Project.objects.get(slug=SLUG)
    with pytest.raises(SubjectErasedError):
        subjects.find_or_create(project.id, USER)
    assert subjects.find_or_create(project.id, "twin").state == Subject.State.ACTIVE


# In this process: the gate before the application


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "waiting", 2)


async def replies(
    app: Any, scope: dict[str, Any], message: dict[str, Any]
) -> list[Any]:
    line: Any = ApplicationCommunicator(app, scope)  # type: ignore[no-untyped-call]  # asgiref's
    await line.send_input(message)
    await line.wait(timeout=10)
    found = []
    while not line.output_queue.empty():
        found.append(await line.receive_output())
    return found


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("it went further")


def http(path: str, method: str = "GET") -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
    }


@pytest.mark.parametrize("method", ["GET", "POST", "BREW"])
@pytest.mark.parametrize("path", ["/", "/health/ready", "/static/x", "/nowhere"])
async def test_no_page_is_served_before_the_replay(
    held_back: None, path: str, method: str
) -> None:
    start, body = await replies(
        Http(nobody), http(path, method), {"type": "http.request"}
    )
    assert start["status"] == 503
    assert body["body"].startswith(b"erasures_to_replay: ")


@pytest.mark.parametrize("method", ["GET", "PUT", "BREW"])
@pytest.mark.parametrize("path", ["/api/v1/threads", "/api/nowhere", "/api"])
async def test_no_agent_is_served_before_the_replay(
    held_back: None, path: str, method: str
) -> None:
    """The request is refused before its key or anything else is looked at."""
    start, body, *_ = await replies(
        Http(nobody), http(path, method), {"type": "http.request"}
    )
    assert start["status"] == 503
    problem = json.loads(body["body"])
    assert problem["code"] == "erasures_to_replay"


@pytest.mark.parametrize("path", ["/ws/v1/agent", "/ws/live/acme"])
async def test_no_socket_is_served_before_the_replay(
    held_back: None, path: str
) -> None:
    scope = {"type": "websocket", "path": path, "headers": []}
    found = await replies(
        SocketRouter(browsers=nobody), scope, {"type": "websocket.connect"}
    )
    assert found == [
        {"type": "websocket.accept"},
        {"type": "websocket.close", "code": 1013},
    ]


async def test_liveness_is_answered_before_the_replay(held_back: None) -> None:
    passed = []

    async def django(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["path"])

    await replies(Http(django), http("/health/live"), {"type": "http.request"})
    assert passed == ["/health/live"]


async def test_requests_are_served_when_no_replay_is_due() -> None:
    for path in ("/", "/health/ready"):
        with pytest.raises(AssertionError, match="it went further"):
            await replies(Http(nobody), http(path), {"type": "http.request"})
