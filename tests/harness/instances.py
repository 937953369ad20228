"""Instances of their own for tests that need processes: commands, servers, kills.

Each has a fresh data folder and, where this run is on PostgreSQL, two fresh databases
on the same server. Nothing of the test's own databases is touched.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.core.management import call_command

from memoryhub.vault.keys import keyring
from memoryhub.vault.proof import signing
from tests.harness import forks, parts
from tests.harness.forks import Process

START_SECONDS = 60
COMMAND_SECONDS = 110

#: For servers that tests write to faster than one key may.
UNLIMITED = {
    "MEMORYHUB_KEY_REQUESTS_PER_SECOND": "100000",
    "MEMORYHUB_KEY_BURST": "100000",
}

#: Of the surroundings of tests; what an instance is given is given on purpose.
_OURS = ("MEMORYHUB_", "DJANGO_", "DATABASE_URL", "KEYS_DATABASE_URL", "PYTEST_")


class Server:
    """Running `manage.py serve`, and its end."""

    def __init__(self, process: Process, *, port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def kill(self) -> None:
        """Kill the server as a power failure would; it can catch nothing."""
        self.process.kill()
        self.process.wait(timeout=30)

    def stop(self) -> int:
        """Ask the server to stop, as an operator does; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def await_health(self, log: Path) -> None:
        """Wait until the server answers; fail with its last words if it ends."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._healthy():
                return
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        self.kill()
        raise AssertionError(f"the server did not start:\n{log.read_text()[-4000:]}")

    def _healthy(self) -> bool:
        line = HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            line.request("GET", "/health/live")
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Data folder, its databases, and the environment that names them."""

    folder: Path
    env: Mapping[str, str]
    #: Of its servers: what they wrote to stdout and stderr, all starts in one file.
    log: Path
    urls: tuple[str, ...] = field(default=())
    #: What one of its commands may take.
    seconds: int = COMMAND_SECONDS

    @property
    def data(self) -> Path:
        return Path(self.env["MEMORYHUB_DATA"])

    def manage(
        self, *words: object, stdin: str | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `manage.py` to its end, whatever its exit code."""
        given = [str(word) for word in words]
        with forks.start(
            given,
            env={**self.env, **env},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                out, errors = process.communicate(stdin or "", self.seconds)
            finally:
                process.kill()
        assert process.returncode is not None
        return subprocess.CompletedProcess(given, process.returncode, out, errors)

    def managed(self, *words: object, **env: str) -> str:
        """Run `manage.py`, which must succeed; return its output."""
        done = self.manage(*words, **env)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def awaited(self, *words: object, seconds: int) -> str:
        """Run a management command that takes long, otherwise as `managed` does."""
        with self.begin(*words) as process:
            out, _ = process.communicate(timeout=seconds)
        assert process.returncode == 0, f"{words}: {out}"
        return out

    def begin(self, *words: object) -> Process:
        """Run `manage.py` while something else happens; a block ends with its end."""
        return forks.start([str(word) for word in words], env=self.env)

    @contextmanager
    def start(self, function: str, *arguments: object, **env: str) -> Iterator[Process]:
        """Call `module:function` in its own process, with Django set up there.

        Arguments are plain values. The process's output can be read; the process ends
        with the block.
        """
        with forks.start(
            (),
            call=(function, *arguments),
            env={**self.env, **env},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def call(self, function: str, *arguments: object, **env: str) -> str:
        """Run a function to its successful end and return its output."""
        with self.start(function, *arguments, **env) as process:
            out, errors = process.communicate(timeout=self.seconds)
        assert process.returncode == 0, errors
        return out

    def prepare(self) -> None:
        """Copy tables and a key ring from the run's model, which is made once."""
        prepared = model()
        shutil.copytree(prepared.data, self.data, dirs_exist_ok=True)
        for source, url in zip(prepared.urls, self.urls, strict=True):
            parts.copy(source, url)

    @contextmanager
    def serve(
        self, *words: object, port: int | str = 0, **env: str
    ) -> Iterator[Server]:
        """Run `manage.py serve` on a free port, healthy; end it with the block."""
        chosen = int(port) or free_port()
        with self.log.open("ab") as log:
            process = forks.start(
                ["serve", f"--port={chosen}", *map(str, words)],
                env={**self.env, **env},
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        server = Server(process, port=chosen)
        try:
            server.await_health(self.log)
            yield server
        finally:
            if process.poll() is None:
                server.kill()


@contextmanager
def instance(folder: Path, **env: str) -> Iterator[Instance]:
    """Yield a fresh instance under `folder`, on the engine of this run, still empty.

    `env` adds to its environment. Its databases are dropped after the block.
    """
    made = _described(folder, _databases(f"memoryhub_{secrets.token_hex(6)}"), env)
    created = [url for url in made.urls if parts.create(url)]
    try:
        yield made
    finally:
        for url in created:
            parts.drop(url)


@contextmanager
def prepare_instance(folder: Path, **env: str) -> Iterator[Instance]:
    """Yield an instance with its tables and its key ring."""
    with instance(folder, **env) as made:
        made.prepare()
        yield made


def _described(
    folder: Path, urls: Mapping[str, str], env: Mapping[str, str]
) -> Instance:
    data = folder / "data"
    data.mkdir(parents=True, mode=0o700, exist_ok=True)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_OURS)
    }
    given = {"MEMORYHUB_DATA": str(data), "PYTHONUNBUFFERED": "1", **urls}
    given |= {"MEMORYHUB_BALLAST_MIB": "1", **env}
    return Instance(
        folder=folder,
        env={**inherited, **given},
        log=folder / "server.log",
        urls=tuple(urls.values()),
    )


@cache
def model() -> Instance:
    """Return the run's model instance, which other databases are copied from."""
    folder = _run()
    made = _described(folder / "model", _databases(_model_name(folder)), {})
    with (folder / "model.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The ring is written last.
        if not (made.data / "kek.json").exists():
            for url in made.urls:
                parts.create(url)
            made.call("tests.harness.instances:make_tables")
    return made


def drop_model() -> None:
    """Drop the model's databases, at the end of a run."""
    for url in _databases(_model_name(_run())).values():
        parts.drop(url)


def _run() -> Path:
    """Return the folder of this run, which all of its processes know."""
    return Path(os.environ["MEMORYHUB_TEST_FOLDER"])


def _model_name(folder: Path) -> str:
    return folder.name.replace("-", "_")


def build_database_url(url: str, name: str) -> str:
    """Return the URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def make_tables() -> None:
    """Migrate both databases; make a ring and the first key. Runs in the instance."""
    call_command("migrate", verbosity=0)
    call_command("migrate", database="keys", verbosity=0)
    keyring.prepare(empty=True)
    signing.prepare()


def _databases(name: str) -> dict[str, str]:
    """Return URLs of two databases by this name, there or not; none on SQLite."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        return {}
    return {
        "DATABASE_URL": build_database_url(url, name),
        "KEYS_DATABASE_URL": build_database_url(url, f"{name}_keys"),
    }
