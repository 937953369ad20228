from __future__ import annotations

import asyncio
import random
import re
from typing import Any
from uuid import UUID

import pytest
from channels.layers import InMemoryChannelLayer, channel_layers
from django.conf import settings
from django.test import Client

from inspector import BUILD
from inspector.live import hub as hubs
from inspector.live import rendered_panels
from inspector.live.audience import Viewer
from inspector.live.hub import hub
from inspector.live.protocol import LiveHello
from inspector.live.standing import BadgeRights, SocketBadge
from inspector.replay import moments
from memoryhub.models.access.operators import Operator
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.cast import factories
from tests.cast.sockets import Socket, number_of, restart_hub, serving, sign_in

pytestmark = pytest.mark.django_db(transaction=True)


async def open_watching_socket(
    session: str, thread: Thread, *panels: str, seq: int | None = None
) -> Socket:
    """Open a socket for these panels, at the head or as of a seq."""
    socket = Socket(session)
    await socket.open()
    shown = thread.head_seq if seq is None else seq
    await socket.hello({thread.id: (shown, list(panels or ("head",)))})
    return socket


async def say(agent: Agent, *contents: str, thread: str = "t-1") -> int:
    """Append messages; return the seq of the last."""
    new = [factories.make_slot(content) for content in contents]
    receipt = await slots.append(agent=agent, thread=thread, slots=new)
    return receipt.seq


def seq_of(push: str, panel: str) -> int:
    element = re.search(rf'id="{panel}"[^>]* data-seq="(\d+)"', push)
    assert element is not None
    return int(element[1])


async def test_append_is_pushed_to_an_open_page(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    socket = await open_watching_socket(session, thread, "head", "events")
    seq = await say(agent, "three")
    push = await socket.push()
    assert push.startswith('<output id="live-mark" data-n="1"')
    assert seq_of(push, "head") == seq_of(push, "events") == seq
    assert "three" in push
    await socket.leave()


async def test_page_at_the_head_gets_no_push(
    served: None, session: str, agent: Agent, thread: Thread, renders: list[UUID]
) -> None:
    socket = await open_watching_socket(session, thread)
    await hub.look()
    assert renders == []
    await socket.leave()


async def test_pushed_panel_equals_the_fetched_panel(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    """The attribute that says where a push goes is left out."""

    def get(panel: str) -> str:
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = session
        answer = client.get(f"/p/acme/threads/t-1/panels/{panel}")
        assert answer.headers["MH-Panel"] == "1"
        return answer.content.decode()

    await say(agent, "<b>bold</b> & brash", "four")
    for panel in sorted(moments.PUSHED):
        socket = await open_watching_socket(session, thread, panel, seq=0)
        push = await socket.push()
        _, _, pushed = push.partition("</output>")
        assert ' hx-swap-oob="true"' in pushed
        shown = pushed.replace(' hx-swap-oob="true"', "")
        assert shown.strip() == (await read(get, panel)).strip()
        await socket.leave()


async def test_slow_socket_skips_to_the_newest_push(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    socket = await open_watching_socket(session, thread, "events")
    await say(agent, "first")
    unpainted = await socket.push()
    newest = 0
    for number in range(30):
        newest = await say(agent, f"message {number}")
    await hub.look()
    # No push queued up: later messages are heartbeats only.
    viewer = next(iter(hub.audience.viewers))
    assert (viewer.pushes, viewer.credit) == (1, False)
    await socket.ack(unpainted)
    push = await socket.push()
    assert number_of(push) == 2
    assert seq_of(push, "events") == newest
    await socket.leave()


async def test_hidden_page_gets_no_push(
    served: None, session: str, agent: Agent, thread: Thread, renders: list[UUID]
) -> None:
    """A hidden page does not paint or acknowledge, so it costs no render."""
    socket = await open_watching_socket(session, thread)
    await say(agent, "seen")
    push = await socket.push()
    renders.clear()
    seq = await say(agent, "not seen")
    await hub.look()
    assert renders == []
    await socket.ack(push)
    assert seq_of(await socket.push(), "head") == seq
    await socket.leave()


async def test_acknowledgement_of_another_push_gives_no_credit(
    served: None, session: str, agent: Agent, thread: Thread, renders: list[UUID]
) -> None:
    socket = await open_watching_socket(session, thread)
    await say(agent, "seen")
    push = await socket.push()
    await socket.send({"t": "ack", "n": number_of(push) + 1})
    await socket.hello({thread.id: (seq_of(push, "head"), ["head"])})
    assert next(iter(hub.audience.viewers)).credit is False
    await socket.leave()


async def test_stuck_socket_does_not_delay_other_sockets(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    stuck, ends = asyncio.Event(), []

    async def never(text: str) -> None:
        await stuck.wait()

    async def close(code: int) -> None:
        ends.append(code)

    viewer = Viewer(
        badge=SocketBadge(session="s", operator=thread.id, project="acme", near=True),
        standing=BadgeRights(project=thread.project_id),
        send=never,
        close=close,
    )
    hub.audience.admit(viewer)
    want = [{"thread": str(thread.id), "panels": ["head"], "seq": 0}]
    message = {"t": "hello", "v": 1, "build": BUILD, "want": want}
    await hub.greet(viewer, LiveHello.model_validate(message, strict=False))
    socket = await open_watching_socket(session, thread)
    push, seq = "", 0
    for number in range(5):
        seq = await say(agent, f"message {number}")
        push = await socket.push()
        await socket.ack(push)
    assert seq_of(push, "head") == seq
    # The stuck socket got its hello and one push, and no heartbeat.
    await hub.look()
    assert len(viewer._tasks) == 2
    hub.audience.leave(viewer)
    stuck.set()
    await viewer.flush()
    await socket.leave()


async def test_push_renders_once_for_200_viewers(
    served: None, operator: Operator, agent: Agent, thread: Thread, renders: list[UUID]
) -> None:
    keys = [await read(sign_in, operator) for _ in range(4)]
    sockets = [
        await open_watching_socket(key, thread) for key in keys for _ in range(50)
    ]
    await say(agent, "for all")
    pushes = [await socket.push() for socket in sockets]
    assert renders == [thread.id]
    assert len({push.partition("</output>")[2] for push in pushes}) == 1
    for socket in sockets:
        await socket.leave()


async def test_thread_that_moves_during_rendering_reaches_all_viewers(
    served: None,
    session: str,
    agent: Agent,
    thread: Thread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One render serves all viewers, though the thread has moved on since."""
    render = rendered_panels.render

    def moving(thread: UUID, names: set[str]) -> rendered_panels.RenderedPanels:
        done = render(thread, names)
        # As a notice of the next event would.
        hub.audience.watches[thread].head = done.seq + 1
        return done

    monkeypatch.setattr(rendered_panels, "render", moving)
    sockets = [await open_watching_socket(session, thread) for _ in range(5)]
    seq = await say(agent, "for all")
    pushes = [await socket.push() for socket in sockets]
    assert {seq_of(push, "head") for push in pushes} == {seq}
    figures = hub.count_activity()
    assert (figures["renders"], figures["pushes"]) == (1, 5)
    for socket in sockets:
        await socket.leave()


async def test_restarted_hub_resumes_pushing(
    thread: Thread, session: str, agent: Agent, renders: list[UUID]
) -> None:
    async with serving():
        socket = await open_watching_socket(session, thread, "events")
        shown = await say(agent, "before")
        await socket.ack(await socket.push())
    assert await socket.read_closing_code() == 1012
    await socket.leave()
    async with serving():
        seq = await say(agent, "while away")
        # The page comes back with what it shows.
        socket = await open_watching_socket(session, thread, "events", seq=shown)
        push = await socket.push()
        assert seq_of(push, "events") == seq
        await socket.leave()


async def test_lost_notice_is_caught_by_the_next_poll(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    socket = await open_watching_socket(session, thread)
    await channel_layers["default"].flush()
    seq = await say(agent, "unheard")
    await hub.look()
    assert seq_of(await socket.push(), "head") == seq
    await socket.leave()


async def test_idle_thread_sends_heartbeats(
    served: None, session: str, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "LOOK_SECONDS", 0.05)
    await restart_hub()
    socket = await open_watching_socket(session, thread)
    beat = await socket.control("beat")
    assert beat["heads"] == {str(thread.id): thread.head_seq}
    assert beat["mode"] == "doorbell"
    await socket.leave()


@pytest.mark.no_replay  # Anchors written meanwhile are ahead of the restored rows.
async def test_restored_database_resyncs_open_pages(
    served: None, session: str, thread: Thread
) -> None:
    """Check a socket that was open, and one that returns with a newer seq."""
    ahead = await open_watching_socket(session, thread, seq=thread.head_seq + 5)
    assert (await ahead.control("resync"))["why"] == "behind"
    await ahead.leave()
    socket = await open_watching_socket(session, thread)
    rows = Thread.objects.filter(id=thread.id)
    await read(lambda: rows.update(head_seq=thread.head_seq - 1))
    await hub.look()
    assert (await socket.control("resync"))["why"] == "behind"
    await read(lambda: rows.update(head_seq=thread.head_seq))
    await socket.leave()


async def test_page_of_another_build_is_told_to_reload(
    served: None, session: str, agent: Agent, thread: Thread, renders: list[UUID]
) -> None:
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread.id: (0, ["head"])}, build="of yesterday")
    assert (await socket.control("resync"))["why"] == "build"
    await say(agent, "three")
    await hub.look()
    assert renders == []
    await socket.leave()


async def test_socket_can_change_its_panels(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    socket = await open_watching_socket(session, thread, "head")
    await socket.hello({thread.id: (thread.head_seq, ["changed", "head"])})
    await say(agent, "three")
    push = await socket.push()
    assert seq_of(push, "changed") == seq_of(push, "head")
    await socket.leave()


async def test_list_is_notified_of_threads_it_does_not_show(
    served: None, session: str, agent: Agent, thread: Thread
) -> None:
    socket = Socket(session)
    await socket.open()
    await socket.hello({thread.id: (thread.head_seq, ["row"])}, fresh=True)
    before = hub.audience.fresh[thread.project_id]
    await say(agent, "hello", thread="t-new")
    await say(agent, "known")
    push = await socket.push()
    mark = re.search(r'data-fresh="(\d+)"', push)
    assert mark is not None
    assert int(mark[1]) > before
    await socket.leave()


async def test_thread_stays_subscribed_a_while_after_its_last_viewer(
    served: None, session: str, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = await open_watching_socket(session, thread)
    await socket.leave()
    await hub.look()
    assert thread.id in hub.audience.watches
    monkeypatch.setattr(hubs, "LINGER_SECONDS", -1.0)
    await hub.look()
    assert hub.audience.watches == {}
    assert hub.audience.list_groups() == []


class LossyLayer(InMemoryChannelLayer):
    """Channel layer that drops three notices in ten and shuffles the others."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(1)
        self.held: list[tuple[str, dict[str, Any]]] = []

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.held.append((group, message))
        if len(self.held) < 5:
            return
        self.chance.shuffle(self.held)
        for each in self.held:
            if self.chance.random() >= 0.3:
                await super().group_send(*each)
        self.held.clear()


async def test_burst_of_events_loses_no_event(
    thread: Thread, session: str, agent: Agent
) -> None:
    """Each event is shown or named as passed, and the last page is current."""
    async with serving():
        channel_layers.set("default", LossyLayer())
        await restart_hub()
        socket = await open_watching_socket(session, thread, "events")
        writes = asyncio.ensure_future(burst(agent, 2000))
        shown, passed = {*range(1, thread.head_seq + 1)}, set[int]()
        last = thread.head_seq
        while last < thread.head_seq + 2000:
            push = await socket.push()
            rows = [int(seq) for seq in re.findall(r'id="event-(\d+)"', push)]
            assert rows == list(range(rows[0], seq_of(push, "events") + 1))
            passed |= set(range(last + 1, rows[0]))
            shown |= set(rows)
            last = rows[-1]
            await socket.ack(push)
        await writes
        assert shown | passed == set(range(1, last + 1))
        await socket.leave()


async def burst(agent: Agent, count: int) -> None:
    for number in range(0, count, 10):
        await say(agent, *(f"message {each}" for each in range(number, number + 10)))
