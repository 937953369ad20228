"""14 and 15: the thirteen steps of a deletion, with copies made before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.governance.hubs import Hub, ok
from tests.governance.test_scope import remember
from tests.harness.backups import backups
from tests.promises.journal.clients import Client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def write_source(file: Path, user: str, word: str) -> Path:
    """Write the source of the memory: a recorded chat, to be fed again."""
    lines = [
        {"thread": "from-file", "user_id": user, "role": "user", "content": word},
        {"thread": "from-file", "user_id": user, "role": "assistant", "content": "Ok."},
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def feed(hub: Hub, file: Path, project: str = "acme") -> str:
    done = hub.instance.manage("import", file, "--project", hub.slugs[project])
    return done.stdout + done.stderr


def audited(hub: Hub) -> list[dict[str, Any]]:
    printed = hub.instance.managed("audit", "export").splitlines()
    return [json.loads(line) for line in printed]


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(14)
def test_deletion_is_permanent(hub: Hub, tmp_path: Path) -> None:
    """The deletion outlives its source fed again, work, rebuild and restart."""
    words = {"ann": f"w{uuid4().hex}", "bob": f"w{uuid4().hex}"}
    clients = {name: hub.agent("acme", name) for name in words}
    officer = hub.officer("acme")
    places = {name: remember(clients[name], f"t-{name}", words[name]) for name in words}
    files = {
        name: write_source(tmp_path / f"{name}.ndjson", name, words[name])
        for name in words
    }
    for name in words:
        places[name].thread.append("from-file" if name == "ann" else "t-bob")
    feed(hub, files["ann"])
    assert words["ann"] in hub.everything(clients["ann"], places["ann"])

    receipt = hub.forget(officer, "ann")

    anyone = hub.agent("acme")

    def assert_gone() -> None:
        for client in (clients["ann"], anyone):
            assert words["ann"] not in hub.everything(client, places["ann"])
        assert words["bob"] in hub.everything(clients["bob"], places["bob"])

    assert_gone()
    answer = clients["ann"].append("t-ann", words["ann"])
    assert (answer.status, answer.body["code"]) == (410, "subject_erased")
    assert "erased" in feed(hub, files["ann"])
    assert_gone()
    hub.work()
    hub.rebuild()
    assert_gone()
    # Auditable, without what was deleted.
    printed = json.dumps(receipt) + json.dumps(audited(hub))
    assert receipt["erasure"] in printed
    assert words["ann"] not in printed
    hub.restart()
    assert_gone()
    assert words["ann"] not in feed(hub, files["ann"])
    assert_gone()


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(15)
def test_deletion_removes_shared_copies(hub: Hub, tmp_path: Path) -> None:
    """A fork is erased too; the receipt names what another project was given."""
    word = f"w{uuid4().hex}"
    ann, officer = hub.agent("acme", "ann"), hub.officer("acme")
    places = remember(ann, "t-1", word)
    ok(ann.post("/threads/t-1:fork", {"thread": "t-fork"}))
    places.thread.append("t-fork")
    assert ann.get("/threads/t-fork").status == 200
    bundle = exported(hub, officer, "ann", tmp_path / "ann.zip")
    done = hub.instance.manage(
        "import", bundle, "--format", "bundle", "--project", hub.slugs["other"]
    )
    assert done.returncode == 0, done.stderr
    other = hub.agent("other", "ann")
    assert word in hub.everything(other, places)

    receipt = hub.forget(officer, "ann")

    assert word not in hub.everything(ann, places)
    assert ann.get("/threads/t-fork").status == 410
    # The other project was not named: it keeps its copy, and the receipt says who
    # was given one.
    assert word in hub.everything(other, places)
    kinds = [each.partition(":")[0] for each in receipt["recipients"]]
    assert kinds.count("project") == 1
    assert "project:itself" not in receipt["recipients"]
    assert "export" in kinds
    hub.work()
    hub.restart()
    assert word not in hub.everything(ann, places)


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(15)
def test_restored_backup_brings_nothing_back(hub: Hub) -> None:
    """A restored backup is not served before later erasures are done again."""
    words = {"ann": f"w{uuid4().hex}", "bob": f"w{uuid4().hex}"}
    clients = {name: hub.agent("acme", name) for name in words}
    officer = hub.officer("acme")
    places = {name: remember(clients[name], f"t-{name}", words[name]) for name in words}
    # An open connection would prevent the copy.
    hub.maker.kill()
    hub.maker.wait()
    with backups(hub.instance) as kept:
        hub.server.stop()
        kept.take("memory")
        hub.restart()
        hub.forget(officer, "ann")
        hub.server.stop()
        kept.restore("memory")
    hub.restart()
    refused = clients["bob"].get("/threads/t-bob")
    assert (refused.status, refused.body["code"]) == (503, "erasures_to_replay")
    hub.server.stop()
    hub.instance.managed("forget", "--replay")
    hub.restart()
    assert words["ann"] not in hub.everything(clients["ann"], places["ann"])
    assert words["bob"] in hub.everything(clients["bob"], places["bob"])


def exported(hub: Hub, officer: Client, user: str, file: Path) -> Path:
    subject = ok(officer.post("/subjects:resolve", {"user_id": user}))["id"]
    answer = officer.post(f"/subjects/{subject}/export", {})
    assert answer.status == 200
    file.write_bytes(answer.raw)
    return file
