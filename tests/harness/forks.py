"""Processes that are forked from one which has imported all that a server imports.

A start of `manage.py` takes 1.8 s of CPU, nearly all of it imports. A fork of a process
that has done them is ready at once, and from there on a process like any other: its own
settings, signals, files and connections; what kills it kills nothing else. Whatever the
surroundings change before settings are read (a preload, the seed of hashes, single
sign-on) starts anew instead, see `fits`; so does everything at night, and where there
is no fork.

The process that is forked runs `python -m tests.harness.forks` and takes orders from a
socket, each with files for stdin, stdout, stderr and a pipe: by that a keeper, which is
forked for each process, tells its number and, in the end, its status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol, Self

ROOT = Path(__file__).resolve().parent.parent.parent
MANAGE = str(ROOT / "manage.py")
ORDER_BYTES = 2**16
#: Read when modules are imported, not when settings are asked for.
EARLY = {
    *("MEMORYHUB_DEBUG", "MEMORYHUB_EXPIRY_INTERVAL_SECONDS"),
    *("MEMORYHUB_SSO_ISSUER", "MEMORYHUB_SSO_CLIENT_ID", "MEMORYHUB_SSO_MFA"),
    *("MEMORYHUB_SSO_CLIENT_SECRET", "MEMORYHUB_SSO_CLIENT_SECRET_FILE"),
}
#: In the surroundings of one process, or of all tests: 1 starts it anew.
COLD = "MEMORYHUB_TEST_COLD"
#: How the names begin that orders may differ in otherwise.
LATE = (
    *("MEMORYHUB_", "DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL", "DJANGO_"),
    *("PYTEST_", "PYTHONUNBUFFERED"),
)


class Forked:
    """Process that was forked to order; as far as tests go, a `subprocess.Popen`."""

    def __init__(self, order: Mapping[str, Any], files: Sequence[int]) -> None:
        """Order a fork with `files` as stdin, stdout and stderr; -1 is a pipe to us."""
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        given = [*files]
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if files[number] == subprocess.PIPE:
                ends = os.pipe()
                ours, given[number] = ends[:: -1 if number == 0 else 1]
                mode = "w" if number == 0 else "r"
                setattr(self, name, os.fdopen(ours, mode, encoding="utf-8"))
            elif files[number] == subprocess.STDOUT:
                given[number] = given[1]
        self._reports, telling = os.pipe()
        words = json.dumps(order).encode()
        socket.send_fds(_forker(), [words], [*given, telling])
        for fd in {telling, *(g for g, f in zip(given, files, strict=True) if f < 0)}:
            os.close(fd)
        self.pid = int.from_bytes(os.read(self._reports, 4), "little")
        assert self.pid, "what forks has ended"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipes and wait for the process, as a block of `subprocess` does."""
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                pipe.close()
        self.wait()

    def poll(self) -> int | None:
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, or minus the number of an ending signal."""
        status = self._read_status(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("forked", timeout)
        return status

    def _read_status(self, timeout: float | None) -> int | None:
        if (
            self.returncode is None
            and select.select([self._reports], [], [], timeout)[0]
        ):
            report = os.read(self._reports, 4)
            os.close(self._reports)
            assert report, "its keeper has ended before it"
            self.returncode = int.from_bytes(report, "little", signed=True)
        return self.returncode

    def communicate(
        self, text: str | None = None, /, timeout: float | None = None
    ) -> tuple[str, str]:
        """Write, read to both ends, wait."""
        if self.stdin is not None and not self.stdin.closed:
            # A process may end without having read all its input.
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(text or "")
        with ThreadPoolExecutor(2) as threads:
            reading = threads.map(_drain, (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                # Or the threads would read on.
                self.kill()
                raise
            out, errors = reading
        return out, errors

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            # It may have ended, and its keeper may not have told so yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _drain(pipe: IO[str] | None) -> str:
    """Return the rest of the pipe; "" where it is absent or was read before."""
    if pipe is None or pipe.closed:
        return ""
    with pipe:
        return pipe.read()


class Process(AbstractContextManager["Process"], Protocol):
    """Part of `subprocess.Popen[str]` that tests use, however it was started."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | Any: ...
    @property
    def stdin(self) -> IO[str] | None: ...
    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def stderr(self) -> IO[str] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def communicate(
        self, text: str | None = None, /, timeout: float | None = None
    ) -> tuple[str, str]: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


def start(
    words: Sequence[str],
    *,
    call: Sequence[Any] = (),
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.STDOUT,
) -> Process:
    """Run `manage.py` with these words; or `call`, a function's place and arguments.

    stdin, stdout and stderr are what `subprocess` takes, as text. Returns at once.
    """
    files = (stdin, stdout, stderr)
    if can_fork(env):
        with Path(os.devnull).open("r+b") as null:
            given = [null.fileno() if f == subprocess.DEVNULL else f for f in files]
            order = {"words": ["manage.py", *words], "call": call, "env": {**env}}
            return Forked(order, given)
    if call:
        code = "from tests.harness import forks; forks.call(*{call!r})"
        words = ("shell", "--verbosity", "0", "-c", code.format(call=call))
    return subprocess.Popen(
        [sys.executable, MANAGE, *words],
        cwd=ROOT,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
    )


def can_fork(env: Mapping[str, str]) -> bool:
    """Tell whether a fork equals a start in these surroundings."""
    if not hasattr(os, "fork") or "1" in (env.get(COLD), os.environ.get(COLD)):
        return False
    return EARLY.isdisjoint(env) and _others(env) == _others(os.environ)


def _others(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in env if not name.startswith(LATE)}


@cache
def _forker() -> socket.socket:
    """Return the line to the forking process, which ends when this one does."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.set_inheritable(False)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno())],
            cwd=ROOT,
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


# In the process that forks


@dataclass(frozen=True, slots=True)
class Order:
    words: Sequence[str]
    call: Sequence[Any]
    env: Mapping[str, str]

    def follow(self) -> None:
        """Follow an order in the forked process, as if started so."""
        os.environ.clear()
        os.environ.update(self.env)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
        os.umask(0o077)
        sys.argv = [*self.words]
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through="PYTHONUNBUFFERED" in self.env)  # type: ignore[union-attr]  # real files
        renew_settings()
        if self.call:
            call(*self.call)
        else:
            runpy.run_path(MANAGE, run_name="__main__")


def call(function: str, *arguments: Any) -> None:
    """Call `module:function`."""
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*arguments)


def preload() -> None:
    """Import what commands and servers import, and leave no thread behind."""
    import django  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    pages = importlib.import_module("inspector.loader").MODULES
    ours = ("memoryhub.asgi", "memoryhub.urls", "tests.cast.factories")
    for module in (*ours, *pages):
        importlib.import_module(module)
    commands = importlib.import_module("memoryhub.management.commands")
    for found in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{found.name}")
    # It builds the application from settings: each process has its own.
    del sys.modules["memoryhub.asgi"]
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def renew_settings() -> None:
    """Read the environment again, and drop all values of the old one."""
    from django.conf import settings  # noqa: PLC0415
    from django.core.files.storage import storages  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    module = importlib.reload(sys.modules["memoryhub.settings"])
    for name in filter(str.isupper, vars(module)):
        # One by one: applications have added defaults of theirs.
        setattr(settings, name, getattr(module, name))
    vars(connections).clear()
    connections.__init__()  # type: ignore[misc]  # none is open: as it was made
    vars(storages).clear()
    storages.__init__()  # type: ignore[misc]  # else cold storage is the parent's


def await_order(line: socket.socket) -> Order | None:
    """Return in each forked process with its order; return None in the end."""
    while True:
        words, files, _, _ = socket.recv_fds(line, ORDER_BYTES, 4)
        if not words:
            return None
        if not os.fork():
            line.close()
            return keep(Order(**json.loads(words)), files)
        for fd in {*files}:
            os.close(fd)


def keep(order: Order, files: Sequence[int]) -> Order:
    """Fork once more: the keeper reports the process and ends with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, telling = files
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        for fd in {*files}:
            os.close(fd)
        return order
    os.write(telling, pid.to_bytes(4, "little"))
    for fd in {*standard}:
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os.write(telling, code.to_bytes(4, "little", signed=True))
    os._exit(0)


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    preload()
    # Keepers are nobody's concern once they have told.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = await_order(line)
    if order is not None:
        order.follow()


if __name__ == "__main__":
    main()
