"""Hubs: MemoryHub's server in a process of its own, on data of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: A question to a process inside an instance, by its name and arguments.
Ask = Callable[..., Any]
ROOT = Path(__file__).resolve().parent.parent
PROJECT = "bench"
START_SECONDS = 60
#: Nothing of the operator's own instance reaches ours. A hub keeps its bytecode, as an
#: installed one does: to compile the sources takes a third of a start.
_OURS = (
    *("MEMORYHUB_", "DJANGO_", "DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL"),
    "PYTHONDONTWRITEBYTECODE",
)
#: One key sends everything here, so its limits would be what is measured.
_UNLIMITED = {
    "MEMORYHUB_KEY_REQUESTS_PER_SECOND": "1000000",
    "MEMORYHUB_KEY_BURST": "1000000",
    "MEMORYHUB_KEY_BYTES_PER_DAY": str(2**50),
}
MANAGE = (sys.executable, str(ROOT / "manage.py"))


@contextmanager
def workplace() -> Iterator[Path]:
    """Yield a fresh folder beside the data: a temporary folder may lie in memory."""
    place = ROOT / "var" / "benchmarks"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """Instance: its data, and how to run commands and servers on it."""

    data: Path
    env: Mapping[str, str]
    #: The checkout whose code runs it.
    root: Path = ROOT

    @classmethod
    def fresh(cls, folder: Path, *, root: Path = ROOT, **env: str) -> Hub:
        """Return an empty instance under this folder; nothing is made yet."""
        (folder / "data").mkdir(mode=0o700, parents=True)
        return cls.at(folder, root=root, **env)

    @classmethod
    def at(cls, folder: Path, *, root: Path = ROOT, **env: str) -> Hub:
        """Return the instance that was made under this folder."""
        data = folder / "data"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
        given = {"MEMORYHUB_DATA": str(data), **_UNLIMITED, **env}
        return cls(data=data, env={**inherited, **given}, root=root)

    @property
    def program(self) -> Sequence[str]:
        """`manage.py` of the checkout, run by its own interpreter."""
        if self.root == ROOT:
            return MANAGE
        python = self.root / ".venv" / "bin" / "python"
        return (str(python), str(self.root / "manage.py"))

    def manage(self, *words: str) -> str:
        """Run a command of `manage.py`, which must succeed; return its output."""
        return self.run([*self.program, *words])

    def call(self, function: str, **arguments: object) -> str:
        """Run `module:function` inside the instance. Arguments are plain values.

        What it says of its progress is passed on.
        """
        module, _, name = function.partition(":")
        code = f"import {module} as m; m.{name}(**{arguments!r})"
        return self.run(
            [*self.program, "shell", "--verbosity", "0", "-c", code], heard=True
        )

    @contextmanager
    def converse(self, function: str) -> Iterator[Ask]:
        """Run `module:function` in a process that is asked and answers by JSON."""
        module, _, name = function.partition(":")
        code = f"import {module} as m; m.{name}()"
        with subprocess.Popen(
            [*self.program, "shell", "--verbosity", "0", "-c", code],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            asked, told = process.stdin, process.stdout

            def ask(*question: Any) -> Any:
                asked.write(json.dumps(question) + "\n")
                asked.flush()
                return json.loads(told.readline())

            yield ask
            # The end of its input ends it.
            asked.close()

    def timed(self, *words: str) -> float:
        """Run `manage` and return the seconds it took, start included."""
        start = time.perf_counter()
        self.manage(*words)
        return time.perf_counter() - start

    def run(self, command: Sequence[str], *, heard: bool = False) -> str:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if heard else subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr or ''}")
        return done.stdout

    @contextmanager
    def serve(
        self, program: Sequence[str] | None = None, *, port: int = 0
    ) -> Iterator[Server]:
        """Run a server, on any free port; it is drained and stopped with the block."""
        port = port or _free_port()
        log = self.data.parent / "server.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*(program or self.program), "serve", "--port", str(port)],
                cwd=self.root,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        server = Server(process=process, port=port)
        try:
            server.await_answer(log)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()

    def key(self) -> str:
        """Make a project and return its key; the tables must be there."""
        self.manage("create_project", PROJECT)
        return self.manage("create_key", PROJECT).split()[-1]

    def size(self) -> int:
        """Return the bytes of the databases, with the log of newest commits folded in.

        Nothing may have them open.
        """
        for database in self.data.glob("*.sqlite3"):
            with closing(sqlite3.connect(database)) as line:
                line.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(path.stat().st_size for path in self.data.rglob("*.sqlite3*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int

    def await_answer(self, log: Path) -> None:
        """Wait until the server has served a request."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._answers():
                return
            time.sleep(0.01)
        raise RuntimeError(f"the server did not start: {log.read_text()[-4000:]}")

    def _answers(self) -> bool:
        line = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            line.request("GET", "/health/live")
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()

    def post(self, path: str, key: str, body: object) -> object:
        return self.send("POST", path, key, body)

    def send(self, method: str, path: str, key: str, body: object) -> object:
        """Send one request that must be served."""
        line = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/json",
            }
            line.request(method, f"/api/v1{path}", json.dumps(body), headers)
            answer = line.getresponse()
            text = answer.read()
        finally:
            line.close()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {text!r}")
        return json.loads(text)

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the process since its start, if known."""
        # Linux's number of another process' CPU clock, whose ticks are nanoseconds.
        number = (~self.process.pid << 3) | 2
        try:
            return time.clock_gettime(number)
        except (AttributeError, OSError):
            return None

    def memory_bytes(self) -> int | None:
        """Return the bytes of memory that are resident now, if known."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        except OSError:
            return None
        return int(pages.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port
