from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from memoryhub import distribution
from memoryhub.demo import model
from memoryhub.demo.stage import OFFICER, WRITERS, Stage, count_stories
from memoryhub.management import logs, start
from memoryhub.management.serving import address, server
from memoryhub.management.terminal import Command as Base
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys, operators, projects

PROJECT = "demo"
#: Data folder of the demo; never the configured one.
FOLDER = distribution.DEMO_DIR
#: Settings of the configured instance, removed from the demo's environment.
_CONFIGURED = ("DATABASE_URL", "KEYS_DATABASE_URL", "REDIS_URL", "MEMORYHUB_KEK_FILE")
#: Prefix of model settings: the demo never sends invented messages to a real model.
_MODEL = "MEMORYHUB_MODEL_"
ONCE_SECONDS, ONCE_SPEED = 120.0, 12.0
#: Seconds to wait for agents that have not written yet, on a busy machine.
PATIENCE_SECONDS = 60.0


class Command(Base):
    help = (
        "Show MemoryHub at work: a server with seven simulated agents that keep "
        "writing, and after 50 seconds the erasure of somebody they write about, in a "
        "data folder of its own. Its model answers by patterns, on loopback: no "
        "network, no account."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--host", default="127.0.0.1", help="address (default: 127.0.0.1)")
        add("--port", type=int, default=8000, help="port, 0 for any (default: 8000)")
        add("--keep", action="store_true", help="go on with the last demo's memory")
        add("--seed", type=int, default=1, help="what the agents say (default: 1)")
        add("--speed", type=float, default=1.0, help="how fast they talk (default: 1)")
        add("--for", type=float, dest="seconds", help="stop after so many seconds")
        add(
            "--once",
            action="store_true",
            help="play two minutes fast, check that everybody could write, and stop",
        )

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        if options["speed"] <= 0:
            self.end("--speed must be more than 0.")
        start.refuse_public(host)
        folder = FOLDER.resolve()
        with server.bind(host, port) as bound:
            if not _is_in_folder(folder):
                # The port is bound first, so that a running demo keeps its folder.
                self.restart_in_folder(folder, keep=options["keep"])
            start.prepare()
            self.run_demo(bound, **options)

    def restart_in_folder(self, folder: Path, *, keep: bool) -> None:
        """Run this command again with the settings of the demo's own folder."""
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        own = {
            name: text
            for name, text in os.environ.items()
            if name not in _CONFIGURED and not name.startswith(_MODEL)
        }
        own["MEMORYHUB_DATA"] = str(folder)
        own |= model.build_environment()
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.argv], own)  # noqa: S606  # ourselves

    def run_demo(self, bound: socket.socket, **options: Any) -> None:
        once = options["once"]
        speed = options["speed"] * (ONCE_SPEED if once else 1)
        seconds = options["seconds"]
        if seconds is None and once:
            seconds = ONCE_SECONDS / speed
        stage = _build_stage(bound, seed=options["seed"], speed=speed)
        lines = list(self.iter_welcome(bound))
        logs.configure()

        def announce_server() -> None:
            address.note_address(server.build_url(bound))
            self.say("\n".join(lines))
            stage.start()

        running = server.build_server(listening=announce_server)

        def end_demo() -> None:
            patience = PATIENCE_SECONDS if once else 0
            while stage.silent and patience > 0 and not stage.stopped.wait(1):
                patience -= 1
            _stop_demo(stage, running)

        ended = threading.Timer(seconds or 0, end_demo)
        if seconds is not None:
            ended.start()
        with suppress(KeyboardInterrupt), model.serve_model(settings.MODEL):
            running.run(sockets=[bound])
        ended.cancel()
        stage.stop()
        self.print_report(stage, strict=once)

    def iter_welcome(self, bound: socket.socket) -> Iterator[str]:
        url = server.build_url(bound)
        yield f"The demo runs at {url}, with its data in {FOLDER}."
        token = operators.make_link(operators.ensure_default())
        minutes = operators.LINK_MINUTES
        yield f"Sign in, once, within {minutes} minutes: {url}/sign-in/{token}"
        again = f"MEMORYHUB_DATA={FOLDER} {distribution.build_command()} signin"
        yield f"For another link: {again}"
        yield "Stop it with Ctrl-C."

    def print_report(self, stage: Stage, *, strict: bool) -> None:
        accepted = stage.accepted
        counts = ", ".join(f"{name} {count}" for name, count in accepted.items())
        self.say(f"Requests that were taken: {counts or 'none'}.")
        if strict and (stage.trouble or stage.silent or not accepted):
            found = [*stage.trouble] or [f"{name}: silent" for name in stage.silent]
            self.end(f"The demo had trouble: {'; '.join(found[:5]) or 'no agent'}")


def _is_in_folder(folder: Path) -> bool:
    configured = any(os.environ.get(name) for name in _CONFIGURED)
    foreign = settings.MODEL is not None and settings.MODEL.name != model.NAME
    return folder == settings.DATA_DIR and not configured and not foreign


def _build_stage(bound: socket.socket, *, seed: int, speed: float) -> Stage:
    """Build the agents' stage, with a project and new keys of this run."""
    project = Project.objects.filter(slug=PROJECT).first()
    project = project or projects.create(PROJECT)
    projects.set_consolidation(project, auto=settings.MODEL is not None)
    operators.ensure_default()
    run = ApiKey.objects.filter(project=project, name=OFFICER).count() + 1
    keys = {name: api_keys.create(project, name=name)[1] for name in WRITERS}
    forgetting = ("subject:forget",)
    _, keys[OFFICER] = api_keys.create(project, name=OFFICER, scopes=forgetting)
    host, port = bound.getsockname()[:2]
    threads = Thread.objects.filter(project=project, home=False)
    open_now = threads.filter(status=Thread.Status.OPEN)
    left: defaultdict[str, list[str]] = defaultdict(list)
    for agent, thread in open_now.values_list("agent_type", "name"):
        left[agent or ""].append(thread)
    return Stage(
        host=host,
        port=port,
        keys=keys,
        seed=seed,
        speed=speed,
        run=run,
        counts=count_stories(threads.values_list("name", flat=True)),
        left=left,
    )


def _stop_demo(stage: Stage, running: server.Server) -> None:
    stage.stop()
    running.stop()
