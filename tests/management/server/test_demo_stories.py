"""The demo for days: many stories, few open threads, short names."""

from __future__ import annotations

from time import sleep

import pytest

from memoryhub.demo import agents, stage
from tests.harness.instances import Instance, Server
from tests.management.server.test_demo import open_threads, threads
from tests.promises.conftest import MAKE_KEY

#: Number of requests, after which most agents are past their first story.
REQUESTS = 1_000


@pytest.mark.usefixtures("sqlite")
@pytest.mark.timeout(180)
def test_demo_stories_leave_few_open_threads_with_short_names(
    shared: Instance, served: Server
) -> None:
    """Play as fast as the server allows."""
    key = shared.call(MAKE_KEY, "demo").strip()
    scopes = "--scopes", "subject:forget"
    keys = dict.fromkeys(stage.WRITERS, key)
    keys[stage.OFFICER] = shared.managed("create_key", "demo", *scopes).strip()
    playing = stage.Stage(
        host="127.0.0.1", port=served.port, keys=keys, seed=1, speed=1e6
    )
    playing.start()
    while sum(playing.accepted.values()) < REQUESTS:
        sleep(0.1)
    playing.stop()
    assert [*playing.trouble] == []
    rows = threads(shared.data)
    assert len(rows) > 15
    # The thread name of a forgotten subject is a digest.
    assert max(len(name) for name in rows if not name.startswith("~")) < 48
    assert len(open_threads(shared.data)) <= len(agents.AGENTS) + 2
