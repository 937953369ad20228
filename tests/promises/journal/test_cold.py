"""Cold storage: a process killed at any commit of a move loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.harness.instances import Instance, free_port
from tools import bootstrap

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield variables that name a storage: a folder, or a bucket of a server with S3.

    The server runs in an environment of its own: it is no part of the project.
    """
    if request.param == "folder":
        yield {}
        return
    uv, python = bootstrap.find_uv(), tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", tmp_path / "venv"], check=True)
    install = [uv, "pip", "install", "-q", "--python", python, "moto[server]>=5,<6"]
    subprocess.run([*map(str, install)], check=True)
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([python.with_name("moto_server"), "-p", port]) as server:
        try:
            until = time.monotonic() + 60
            while not has_bucket(f"{url}/cold"):
                assert time.monotonic() < until
                time.sleep(0.2)
            yield {
                "MEMORYHUB_COLD_STORAGE": "s3://cold/hub",
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": "any",
                "AWS_SECRET_ACCESS_KEY": "any",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
        finally:
            server.terminate()


def has_bucket(address: str) -> bool:
    try:
        return httpx2.put(address).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False


@pytest.mark.promise("P1", load="killed around each commit of a move out and back")
def test_killed_move_loses_no_payload(
    instance: Instance, storage: dict[str, str]
) -> None:
    with instance.start(
        "tests.promises.journal.moving:kill_everywhere", **storage
    ) as process:
        out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = json.loads(out.splitlines()[-1])
    told = found["told"]
    whole = told.pop("whole")
    assert json.loads(whole["seen"]) == [f"Message {n}." for n in range(20)]
    assert {each["end"] for each in told.values()} == {-signal.SIGKILL}
    # The row of the object, the references, the payloads.
    assert len(told) >= 6
    for slug, each in told.items():
        assert each["seen"] == whole["seen"], slug
        assert (each["again"], each["rows"]) == (0, "[20, 20, 0]"), slug
    assert found["left"] == []
