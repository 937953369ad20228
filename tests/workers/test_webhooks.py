"""Webhooks: signed ids, in order per thread, at least once, to public hosts alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from memoryhub.models.keys import WebhookKey
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.webhooks import Webhook, WebhookQueue
from memoryhub.services.access import webhooks
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import sweeping
from memoryhub.workers import webhooks as sending
from memoryhub.workers.webhooks import WebhookSender
from tests.cast.erasings import end
from tests.cast.factories import append, get_thread, make_project, make_thread
from tests.cast.receiver import WebhookReceiver, receiving

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "keys"])

TYPES = ("slot.appended", "thread.created", "thread.erased")


@pytest.fixture
def receiver(settings: Any) -> Iterator[WebhookReceiver]:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    with receiving() as running:
        yield running


@pytest.fixture
def secret(acme: Project, receiver: WebhookReceiver) -> str:
    return make(acme, receiver.url)


def make(project: Project, url: str) -> str:
    return webhooks.create(project, url=url, types=TYPES, actor="command")[1]


def later(seconds: float) -> WebhookSender:
    return WebhookSender(clock=lambda: clock.now() + timedelta(seconds=seconds))


def get_webhook() -> Webhook:
    return Webhook.objects.get()


def test_delivery_is_signed_and_holds_ids_only(
    agent: Agent, receiver: WebhookReceiver, secret: str
) -> None:
    append(agent, "t-1", "I like tea.")
    assert WebhookSender().run_round() == 2
    assert receiver.is_signed(secret, 0)
    assert receiver.is_signed(secret, 1)
    assert not receiver.is_signed("whsec_" + "A" * 43 + "=", 1)
    thread = get_thread(agent)
    assert receiver.messages[1] == {
        "type": "slot.appended",
        "timestamp": receiver.messages[1]["timestamp"],
        "data": {"project": "acme", "thread_id": str(thread.id), "seq": 2},
    }
    assert receiver.headers[1]["webhook-id"] == f"evt_{thread.id.hex}_2"
    assert not WebhookQueue.objects.exists()
    assert get_webhook().outcome == "delivered"
    assert WebhookSender().run_round() == 0


def test_thread_is_sent_in_order_and_again_after_failures(
    agent: Agent, receiver: WebhookReceiver, secret: str
) -> None:
    for name in ("t-1", "t-2"):
        append(agent, name, *map(str, range(25)))
    bad = str(get_thread(agent, "t-1").id)

    def refuse_fifth(message: dict[str, Any]) -> int:
        data = message["data"]
        return 500 if (data["thread_id"], data["seq"]) == (bad, 5) else 200

    receiver.reply = refuse_fifth
    assert WebhookSender().run_round() == 4
    assert (get_webhook().outcome, get_webhook().status, get_webhook().failures) == (
        "refused",
        500,
        1,
    )
    assert WebhookSender().run_round() == 0
    # The other thread is not held up.
    assert later(6).run_round() > 20
    receiver.reply = lambda _: 200
    later(60).run_round()
    good = receiver.seqs.pop(str(get_thread(agent, "t-2").id))
    assert good == sorted({*good})
    assert receiver.seqs[bad] == sorted(receiver.seqs[bad])
    assert {*receiver.seqs[bad]} == {*good}
    ids = [each["webhook-id"] for each in receiver.headers]
    # An event that is sent again has the same id.
    assert ids.count(f"evt_{get_thread(agent, 't-1').id.hex}_5") >= 2


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(0, "timeout"), (1, "timeout"), (302, "redirected"), (307, "redirected")],
)
@pytest.mark.usefixtures("secret")
def test_hang_trickle_and_redirect_are_failures(
    agent: Agent, receiver: WebhookReceiver, status: int, outcome: str
) -> None:
    receiver.reply = lambda _: status
    append(agent, "t-1", "hello")
    began = time.monotonic()
    assert WebhookSender(seconds=0.5).run_round() == 0
    assert time.monotonic() - began < 5
    assert get_webhook().outcome == outcome
    assert receiver.paths == ["/"]
    assert WebhookQueue.objects.get().sent_seq == 0


@pytest.mark.usefixtures("secret")
def test_backoff_grows_to_an_hour_and_never_ends(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.reply = lambda _: 503
    append(agent, "t-1", "hello")
    pauses = []
    for _ in range(14):
        Webhook.objects.update(retry_at=None)
        WebhookQueue.objects.update(due_at=clock.now())
        assert WebhookSender().run_round() == 0
        found = get_webhook()
        assert found.retry_at
        assert found.tried_at
        pauses.append(found.retry_at - found.tried_at)
    assert pauses[:3] == [timedelta(seconds=n) for n in (5, 10, 20)]
    assert pauses[-1] == timedelta(hours=1)
    receiver.reply = lambda _: 200
    assert later(3_601).run_round() == 2
    assert get_webhook().failures == 0


@pytest.mark.usefixtures("secret")
def test_private_address_is_refused_when_sent(
    agent: Agent, receiver: WebhookReceiver, settings: Any
) -> None:
    append(agent, "t-1", "hello")
    settings.WEBHOOK_HOSTS = []
    assert WebhookSender().run_round() == 0
    assert get_webhook().outcome == "private"
    assert receiver.messages == []


@pytest.mark.usefixtures("secret")
def test_erased_thread_sends_only_its_erasure(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    thread = make_thread(agent, "t-1", user_id="ann")
    append(agent, "t-1", "hello")
    end(thread)
    WebhookSender().run_round()
    assert [each["type"] for each in receiver.messages] == ["thread.erased"]
    assert not WebhookQueue.objects.filter(thread=thread).exists()


@pytest.mark.usefixtures("secret")
def test_event_written_during_a_delivery_is_sent(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    append(agent, "t-1", "one")

    def write_another(message: dict[str, Any]) -> int:
        if message["data"]["seq"] == 2 and len(receiver.messages) == 2:
            append(agent, "t-1", "two")
        return 200

    receiver.reply = write_another
    WebhookSender().run_round()
    WebhookSender().run_round()
    head = get_thread(agent).head_seq
    (seqs,) = receiver.seqs.values()
    assert seqs[-1] == head
    assert seqs == sorted({*seqs})
    assert not WebhookQueue.objects.exists()


@pytest.mark.usefixtures("secret")
def test_second_process_waits_for_the_lease(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    append(agent, "t-1", "hello")

    def answer_late(_: dict[str, Any]) -> int:
        time.sleep(1)
        return 200

    receiver.reply = answer_late
    senders = [WebhookSender() for _ in range(2)]
    done: list[int] = []
    both = [
        threading.Thread(target=lambda each=each: done.append(each.run_round()))
        for each in senders
    ]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(done) == [0, 2]
    assert len(receiver.messages) == 2


@pytest.mark.usefixtures("secret")
def test_paused_webhook_waits_and_takes_tests(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    webhooks.set_paused(get_webhook(), paused=True, actor="command")
    append(agent, "t-1", "hello")
    assert WebhookSender().run_round() == 0
    webhooks.request_test(get_webhook(), actor="command")
    assert WebhookSender().run_round() == 1
    assert receiver.messages[0]["type"] == sending.TEST
    assert get_webhook().test_at is None
    webhooks.set_paused(get_webhook(), paused=False, actor="command")
    assert WebhookSender().run_round() == 2


def test_deleted_webhook_leaves_nothing(
    agent: Agent, acme: Project, receiver: WebhookReceiver, secret: str
) -> None:
    append(agent, "t-1", "hello")
    webhooks.delete(get_webhook(), actor="command")
    assert not WebhookKey.objects.using("keys").exists()
    assert not Project.objects.get(id=acme.id).has_webhooks
    assert WebhookSender().run_round() == 0
    assert sweeping.delete_webhook_queues(clock.now()) == 1
    assert not WebhookQueue.objects.exists()
    append(agent, "t-1", "unheard")
    assert not WebhookQueue.objects.exists()
    assert receiver.messages == []
    assert secret.startswith("whsec_")


def test_other_projects_events_are_not_queued(
    agent: Agent, receiver: WebhookReceiver
) -> None:
    make(make_project("other"), receiver.url)
    append(agent, "t-1", "hello")
    assert not WebhookQueue.objects.exists()
