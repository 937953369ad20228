"""Two PostgreSQL servers under Patroni, of which the tests kill the primary.

Needs Debian's packages postgresql, patroni, etcd-server and pgbouncer. The three
services listen on free ports of the loopback, as an unprivileged user.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

from tests.harness import parts
from tests.harness.instances import free_port

PROGRAMS = ("patroni", "etcd", "pgbouncer")
#: Seconds for a cluster to have a primary and a synchronous standby.
READY_SECONDS = 90
#: Seconds for Patroni to answer; a switchover is answered when it is done.
ANSWER_SECONDS = 60
#: Settings of Patroni's. A dead primary is trusted for `ttl` seconds, which may
#: be no less than 20, nor than `loop_wait` + 2 × `retry_timeout`.
SETTINGS: dict[str, object] = {"ttl": 20, "loop_wait": 5, "retry_timeout": 5}
SETTINGS |= {"synchronous_mode": True, "postgresql": {"use_pg_rewind": True}}
LOCAL = "127.0.0.1"
POOLER = """
[databases]
* = host={local} port={port}
[pgbouncer]
listen_addr = {local}
listen_port = {pooler_port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = session
default_pool_size = 40
server_login_retry = 1
ignore_startup_parameters = options
"""


@dataclass(slots=True, kw_only=True)
class Node:
    """PostgreSQL server with the Patroni that runs it and a PgBouncer before it."""

    name: str
    folder: Path
    programs: Path
    etcd_port: int
    port: int = field(default_factory=free_port)
    pooler_port: int = field(default_factory=free_port)
    rest_port: int = field(default_factory=free_port)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start the node unless it runs; the first makes the cluster, others join."""
        if self._running:
            return
        if not self.folder.exists():
            self._configure()
        for words in (
            [_find("patroni"), "patroni.json"],
            [_find("pgbouncer"), "pgbouncer.ini"],
        ):
            log = self.folder / f"{Path(words[0]).name}.log"
            self._running.append(parts.postgres_program(words, log))

    def kill(self) -> None:
        """Kill all processes of the node, as a power failure would."""
        ours = [child.pid for child in self._running]
        with suppress(OSError, ValueError):
            told = (self.folder / "data" / "postmaster.pid").read_text()
            ours.append(int(told.split()[0]))
        for pid in [*ours, *_list_children(ours)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for child in self._running:
            child.wait()
        self._running.clear()

    def is_primary(self) -> bool:
        return self._ask("/primary")

    def is_synchronous(self) -> bool:
        """Return whether the node is a standby that commits wait for."""
        return self._ask("/synchronous")

    def hand_over(self) -> None:
        """Make the standby the primary, as an operator does before an upgrade."""
        assert self._ask("/switchover", json.dumps({"leader": self.name}))

    def _ask(self, path: str, body: str | None = None) -> bool:
        line = HTTPConnection(LOCAL, self.rest_port, timeout=ANSWER_SECONDS)
        try:
            line.request("POST" if body else "GET", path, body)
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()

    def _configure(self) -> None:
        self.folder.mkdir(mode=0o755)
        names = {"local": LOCAL, "port": self.port, "pooler_port": self.pooler_port}
        names["folder"] = self.folder
        (self.folder / "users.txt").write_text('"postgres" ""\n')
        (self.folder / "pgbouncer.ini").write_text(POOLER.format(**names))
        (self.folder / "patroni.json").write_text(json.dumps(self._describe()))
        _give(self.folder)

    def _describe(self) -> dict[str, object]:
        """Return Patroni's configuration."""
        rest, server = f"{LOCAL}:{self.rest_port}", f"{LOCAL}:{self.port}"
        user = {"username": "postgres"}
        return {
            "scope": "hub",
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"{LOCAL}:{self.etcd_port}"},
            "bootstrap": {
                "dcs": SETTINGS,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": server,
                "connect_address": server,
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(self.programs),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": user, "replication": user},
                "pg_hba": [
                    "local all all trust",
                    f"host all all {LOCAL}/32 trust",
                    f"host replication all {LOCAL}/32 trust",
                ],
                "parameters": {"unix_socket_directories": str(self.folder)},
            },
            "watchdog": {"mode": "off"},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    nodes: tuple[Node, Node]

    @property
    def url(self) -> str:
        """The URL of a database on whichever node takes writes, for libpq."""
        return (
            f"postgres://postgres@/memoryhub?{self._build_hosts(pooled=False)}"
            "&target_session_attrs=read-write"
        )

    def build_hub_url(self, url: str, *, pooled: bool) -> str:
        """Return the URL by which a hub reaches the database of a URL for libpq."""
        return f"{url.partition('?')[0]}?{self._build_hosts(pooled=pooled)}"

    def _build_hosts(self, *, pooled: bool) -> str:
        ports = [each.pooler_port if pooled else each.port for each in self.nodes]
        return f"host={LOCAL},{LOCAL}&port={ports[0]},{ports[1]}"

    def await_ready(self) -> Node:
        """Wait for a primary with a synchronous standby; return the primary."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            for one, other in (self.nodes, self.nodes[::-1]):
                if one.is_primary() and other.is_synchronous():
                    return one
            time.sleep(0.2)
        logs = [each.folder / "patroni.log" for each in self.nodes]
        raise AssertionError("\n".join(map(parts.last_words, filter(_exists, logs))))


@contextmanager
def run_cluster() -> Iterator[Cluster]:
    """Run a cluster with a synchronous standby; end all of its processes after it.

    Raises MissingPartError if a program is not installed.
    """
    programs = _find_programs()
    with parts.temporary_folder() as folder:
        _give(folder)
        etcd_port = free_port()
        made = [
            Node(
                name=name, folder=folder / name, programs=programs, etcd_port=etcd_port
            )
            for name in ("one", "two")
        ]
        cluster = Cluster(nodes=(made[0], made[1]))
        etcd = parts.postgres_program(
            _build_etcd(folder, etcd_port), folder / "etcd.log"
        )
        try:
            for node in cluster.nodes:
                node.start()
            cluster.await_ready()
            yield cluster
        finally:
            for node in cluster.nodes:
                node.kill()
            etcd.kill()
            etcd.wait()


def _build_etcd(folder: Path, port: int) -> list[str]:
    client, peer = f"http://{LOCAL}:{port}", f"http://{LOCAL}:{free_port()}"
    options = {"--listen-client-urls": client, "--advertise-client-urls": client}
    options |= {"--listen-peer-urls": peer, "--initial-advertise-peer-urls": peer}
    options |= {"--initial-cluster": f"default={peer}"}
    options |= {"--data-dir": str(folder / "etcd")}
    return [_find("etcd"), *(word for pair in options.items() for word in pair)]


def _find_programs() -> Path:
    """Return the folder of the newest server that Debian has installed."""
    for name in PROGRAMS:
        _find(name)
    found = [*Path("/usr/lib/postgresql").glob("*/bin/pg_rewind")]
    if not found:
        raise parts.MissingPartError("install Debian's package postgresql.")
    return max(found, key=lambda each: int(each.parts[-3])).parent


def _find(name: str) -> str:
    found = shutil.which(name, path=f"{parts.search_path()}{os.pathsep}/usr/sbin")
    if found is None:
        raise parts.MissingPartError(f"install Debian's package of {name}.")
    return found


def _give(folder: Path) -> None:
    """Let the unprivileged user own the folder and what it contains."""
    folder.chmod(0o755)
    if parts.as_root():
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, parts.UNPRIVILEGED)


def _list_children(pids: list[int]) -> list[int]:
    """Return the processes that these have started."""
    found: list[int] = []
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            found += map(int, text.split())
    return found


def _exists(path: Path) -> bool:
    return path.exists()
