"""P13: after a hit only a scan that looked for the same again gives a receipt."""

from __future__ import annotations

import json
import re
import signal
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.cast.lost_needles import USER
from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.clear.test_nothing_in_the_clear import wal_file
from tests.promises.forget.test_forget_complete import declared, files_of, in_clear
from tests.promises.journal.clients import Client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLACE = "tests.cast.lost_needles"
WAIT_SECONDS = 60


def guess(server: Server) -> int:
    """Type the person's id at every page's sign-in form, as an anonymous client."""
    line = HTTPConnection("127.0.0.1", server.port, timeout=30)
    line.request("GET", "/sign-in")
    answer = line.getresponse()
    cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
    found = re.search(r'csrfmiddlewaretoken" value="(\w+)"', answer.read().decode())
    assert found is not None
    words = ("username", "password", "code", "next", "anything")
    form = {"csrfmiddlewaretoken": found[1], **dict.fromkeys(words, USER)}
    headers = {
        "Cookie": cookie,
        "User-Agent": USER,
        "Content-Type": "application/x-www-form-urlencoded",
    }
    at = f"/sign-in?{urlencode({'next': f'/p/acme/threads?q={USER}'})}"
    line.request("POST", at, urlencode(form), headers)
    status = line.getresponse().status
    line.close()
    return status


def told(client: Client, erasure: str) -> dict[str, Any]:
    answer = client.get(f"/erasures/{erasure}")
    assert answer.status == 200, answer
    return dict(answer.body)


def await_state(client: Client, erasure: str, word: str) -> dict[str, Any]:
    """Wait until the erasure waits for this, and return it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := told(client, erasure))["waiting_on"] != word:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


@pytest.mark.promise("P13", load="a hit, a kill, guesses at the sign-in form")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "stop"])
def test_scan_with_a_hit_gives_a_receipt_only_after_a_repeat(
    instance: Instance, tmp_path: Path, end: signal.Signals
) -> None:
    writing, forgetting = json.loads(
        instance.call("tests.promises.forget.erasing:make_keys", "acme")
    )
    began = wal_file(instance)
    instance.call(f"{PLACE}:plant")
    with instance.serve(**UNLIMITED) as server:
        with Client(server.port, writing) as client:
            client.put("/threads/t-1", {"user_id": USER})
            assert client.append("t-1", "seat 12A").status == 201
            subject = client.post("/subjects:resolve", {"user_id": USER}).body["id"]
        assert guess(server) == 422
        with Client(server.port, forgetting) as client:
            body = {"scope": "subject", "reason": "test"}
            plan = client.post(f"/subjects/{subject}/erasures", body).body
            confirming = {word: plan[word] for word in ("plan_token", "count")}
            client.post(f"/erasures/{plan['id']}:confirm", confirming)
            assert guess(server) == 422
            await_state(client, plan["id"], "store")
        server.process.send_signal(end)
        server.process.wait(timeout=30)
    instance.call(f"{PLACE}:remove")
    with instance.serve(**UNLIMITED) as server:
        with Client(server.port, forgetting) as client:
            found = await_state(client, plan["id"], "needles")
            assert guess(server) == 422
            assert found["state"] == "scrubbed"
            assert client.get(f"/erasures/{plan['id']}/receipt").status == 409
        scanned = instance.manage("scan")
        assert (scanned.returncode, "1 erasures wait" in scanned.stderr) == (1, True)
        said = instance.manage("forget", "needles", plan["id"], stdin=f"{USER}\n")
        assert (said.returncode, "complete" in said.stdout) == (0, True), said
        with Client(server.port, forgetting) as client:
            receipt = client.get(f"/erasures/{plan['id']}/receipt").body
        assert guess(server) == 422
        server.kill()
    looked = receipt["verification"]
    assert (looked["undeclared"], looked["needles"]["user_id"]) == (0, 1)
    files = files_of(instance, tmp_path / "all", since=began)
    # What the test itself had put into a row, PostgreSQL keeps a while.
    kept = [path for path in files if not declared(path)]
    assert in_clear({USER}, kept) == set()
    instance.managed("verify", "--all")
