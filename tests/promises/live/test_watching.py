"""P28 under load: many browsers watch one working set while an agent pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.journal.clients import Client
from tests.promises.live.watchers import (
    FRESH_SECONDS,
    Browser,
    Pager,
    Seen,
    ask,
    await_figures,
    prepare_sessions,
    resident_bytes,
    watching,
)

pytestmark = pytest.mark.slow
BROWSERS, PER_SECOND = 50, 10
#: Renders of a thread: a second, and saved up. A text that is older than a second is
#: made anew for who comes late.
MOST_RENDERS, SAVED, LATE = 10, 2, 5
#: Bytes that a process may still grow by after serving for a while.
GROWN_BYTES = 16 * 2**20
LONG = [pytest.mark.nightly, pytest.mark.timeout(600)]


@dataclass(slots=True, kw_only=True)
class Run:
    """Acts on a server, and their views in the browsers of one process."""

    server: Server
    session: str
    pager: Pager
    everybody: list[Browser]
    seen: Seen
    #: Of the hub and of the process's memory, once a second.
    figures: list[dict[str, int]] = field(default_factory=list)

    @property
    def browsers(self) -> list[Browser]:
        return [browser for browser in self.everybody if browser.paints]

    async def note(self) -> None:
        told = await ask(self.server, self.session)
        self.figures.append(told | {"bytes": resident_bytes(self.server)})

    async def catch_up(self) -> None:
        for browser in self.browsers:
            await browser.await_seq(self.pager.seq)

    def delays(self) -> list[float]:
        """Return the seconds from each command's answer until each browser has it."""
        return [
            browser.seconds_behind(seq, since)
            for since, seq in self.pager.done
            for browser in self.browsers
        ]


@pytest.mark.promise("P28", load="50 sockets, 10 paging commands a second, {seconds} s")
@pytest.mark.parametrize("seconds", [7, pytest.param(120, marks=LONG)])
async def test_fifty_browsers_watch_one_working_set(
    instance: Instance, seconds: int
) -> None:
    """One more browser never paints the frames it gets."""
    key, (own, *sessions) = prepare_sessions(instance, BROWSERS + 1)
    seen = Seen()
    with instance.serve(**UNLIMITED) as server, Client(server.port, key) as client:
        pager = Pager.begin(client)
        async with (
            watching(server, sessions, pager.thread, seen=seen) as browsers,
            watching(server, [own], pager.thread, seen=seen, paints=False) as stalled,
        ):
            run = Run(
                server=server,
                session=own,
                pager=pager,
                everybody=browsers + stalled,
                seen=seen,
            )
            await page_for(run, seconds=seconds)
            rendered_once(run)
            reached_everybody(run)
            await never_painted(run, *stalled)
        await nothing_is_left(run, linger=seconds > 60)


@pytest.mark.promise("P28", load="50 sockets on 2 processes, {seconds} s")
@pytest.mark.parametrize("seconds", [pytest.param(10, marks=LONG)])
@pytest.mark.grown
async def test_each_process_renders_for_its_own_browsers(
    instance: Instance, seconds: int
) -> None:
    """A process hears of another's commits and renders them once itself."""
    key, sessions = prepare_sessions(instance, BROWSERS)
    with (
        instance.serve(**UNLIMITED) as one,
        instance.serve(**UNLIMITED) as two,
        Client(one.port, key) as client,
    ):
        pager, near, far = Pager.begin(client), Seen(), Seen()
        async with (
            watching(one, sessions[::2], pager.thread, seen=near) as here,
            watching(two, sessions[1::2], pager.thread, seen=far) as there,
        ):
            runs = [
                Run(
                    server=server,
                    session=sessions[0],
                    pager=pager,
                    everybody=browsers,
                    seen=seen,
                )
                for server, browsers, seen in ((one, here, near), (two, there, far))
            ]
            await page_for(*runs, seconds=seconds)
            for run in runs:
                rendered_once(run)
                reached_everybody(run)
            # They may show different events, but no event differently.
            both = near.texts.keys() & far.texts.keys()
            assert [seq for seq in both if near.texts[seq] != far.texts[seq]] == []


async def page_for(*runs: Run, seconds: int) -> None:
    """Page for so long, and wait until all browsers show the end."""
    (pager,) = {id(run.pager): run.pager for run in runs}.values()
    for run in runs:
        for browser in run.everybody:
            await browser.await_seq(pager.seq)
    for _ in range(seconds):
        await pager.page_steadily(PER_SECOND, per_second=PER_SECOND)
        for run in runs:
            await run.note()
    for run in runs:
        await run.catch_up()
        await run.note()


def rendered_once(run: Run) -> None:
    """Assert that a state was rendered once for all, and that nothing piles up."""
    last = run.figures[-1]
    assert {len(texts) for texts in run.seen.texts.values()} == {1}
    assert last["renders"] - len(run.seen.texts) in range(LATE)
    assert last["pushes"] == sum(len(browser.shown) for browser in run.everybody)
    count = len(run.everybody)
    for told in run.figures:
        assert (told["sockets"], told["threads"]) == (count, 1)
        assert told["frames"] <= 1
        # To each at most a push and a beat.
        assert told["under_way"] <= 2 * count


def reached_everybody(run: Run) -> None:
    """Assert that no event is late on screen, and no page gets more than it paints."""
    assert max(run.delays()) < FRESH_SECONDS
    allowed = SAVED + MOST_RENDERS * run.pager.seconds
    for browser in run.browsers:
        assert run.pager.seconds <= len(browser.shown) <= allowed
        assert all(one < two for (_, one), (_, two) in pairwise(browser.shown))


async def never_painted(run: Run, stalled: Browser) -> None:
    """Assert that one message was under way all along, then the newest state."""
    last = run.pager.seq
    assert len(stalled.shown) == 1
    # It was told that there is more.
    assert stalled.seq < stalled.head <= last
    await stalled.ack()
    await stalled.await_seq(last)
    assert [seq for _, seq in stalled.shown[1:]] == [last]


async def nothing_is_left(run: Run, *, linger: bool) -> None:
    """Assert that nothing is left of closed browsers and of the texts sent to them."""
    server, session = run.server, run.session
    await await_figures(server, session, sockets=0, under_way=0, frames=0)
    if linger:
        warm = run.figures[len(run.figures) // 4]["bytes"]
        assert run.figures[-1]["bytes"] - warm < GROWN_BYTES
        # Listened for a while after its last viewer, and no longer.
        await await_figures(server, session, threads=0)
