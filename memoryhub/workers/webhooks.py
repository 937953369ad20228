"""Webhooks in the background: events are sent to receivers, each thread's in order.

One process at a time sends, under a lease. The rows hold the whole state: an attempt
that a crash interrupts is made once more, so a receiver gets each event at least once.
See decision 76.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from django.db import connections

from memoryhub.errors import KeyMissingError
from memoryhub.models.keys import WebhookKey
from memoryhub.models.server.clock import clock
from memoryhub.models.webhooks import Webhook, WebhookQueue
from memoryhub.queries.access import webhooks as queries
from memoryhub.services.access import alerts, webhooks
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.workers.leases import HeldLease
from memoryhub.workers.loops import WorkerLoop

LEASE: Final = "webhooks"
POLL_SECONDS: Final = 1.0
#: Webhooks of one round, and how many of them are sent to at once.
WEBHOOKS, CALLS = 100, 4
#: Time after which a round begins no other delivery.
ROUND: Final = timedelta(seconds=10)
#: Events between two writes of a queue's position: at most these are sent again after
#: a crash.
EVENTS: Final = 20
TEST: Final = "webhook.test"


def _load_client() -> Any:
    # Its HTTP client is loaded only where a webhook has something to send.
    return import_module("memoryhub.services.access.deliveries")


@dataclass(slots=True, kw_only=True)
class WebhookSender:
    """Worker that sends waiting events in rounds, until it is stopped."""

    clock: Callable[[], datetime] = clock.now
    #: Seconds of one delivery; None: the client's own limit.
    seconds: float | None = None
    _lease: HeldLease = field(init=False)
    _loop: WorkerLoop = field(init=False)

    def __post_init__(self) -> None:
        self._lease = HeldLease(name=LEASE)
        self._loop = WorkerLoop(
            name="webhooks",
            worker=LEASE,
            work=self._run_and_close,
            pause=lambda: POLL_SECONDS,
        )

    def start(self) -> None:
        """Loop in a thread of its own."""
        self._loop.start()

    def stop(self) -> None:
        """Finish the deliveries in flight. The writer must still run."""
        self._loop.stop()

    def run_round(self) -> int:
        """Send what is due, if the lease is ours; return how many were delivered.

        Looks before it takes the lease: an idle worker writes nothing.
        """
        if clock.is_skewed or maintenance.waiting:
            return 0
        found = queries.list_due(self.clock(), limit=WEBHOOKS)
        mails = queries.list_notices(None, now=self.clock(), limit=EVENTS)
        if not (found or mails) or not self._lease.take():
            return 0
        until = self.clock() + ROUND
        try:
            with (
                self._lease.keep_beating(),
                ThreadPoolExecutor(CALLS, thread_name_prefix="webhook") as pool,
            ):
                done = sum(pool.map(lambda each: self._send(each, until), found))
                if mails:
                    send = import_module("memoryhub.services.access.alert_mails")
                    done += send.send_due(mails, now=self.clock())
                return done
        finally:
            self._lease.release()

    def _run_and_close(self) -> None:
        try:
            self.run_round()
        finally:
            connections.close_all()

    def _should_stop(self, until: datetime) -> bool:
        lost = self._loop.stopped.is_set() or self._lease.lost.is_set()
        return lost or self.clock() >= until

    def _send(self, webhook: UUID, until: datetime) -> int:
        """Send to one webhook until a failure or its end; return the deliveries."""
        try:
            # Read anew, since another process may have sent before we had the lease.
            row = Webhook.objects.select_related("project").filter(id=webhook).first()
            if row is None or self._should_stop(until):
                return 0
            try:
                secret = webhooks.open_secret(row)
            except (KeyMissingError, WebhookKey.DoesNotExist):
                webhooks.record_result(row, "no_secret", status=None)
                return 0
            client = _load_client()
            seconds = self.seconds or client.TRY_SECONDS
            with client.Receiver(row.url, secret, seconds=seconds) as receiver:
                return self._send_all(row, receiver, until)
        finally:
            connections.close_all()

    def _send_all(self, row: Webhook, receiver: Any, until: datetime) -> int:
        done = 0
        if row.test_at is not None:
            message = f"test_{row.id.hex}_{int(row.test_at.timestamp())}"
            body = _load_client().build_body(
                TEST, row.test_at, project=row.project.slug
            )
            result = receiver.deliver(message, body)
            webhooks.record_result(row, result.outcome, status=result.status)
            done = int(not row.failures)
        if not row.paused and (not row.retry_at or row.retry_at <= self.clock()):
            done += self._send_notices(row, receiver, until)
        while not row.paused and (not row.retry_at or row.retry_at <= self.clock()):
            queue = queries.find_next_queue(row.id, now=self.clock())
            if queue is None or self._should_stop(until):
                break
            done += self._send_thread(row, queue, receiver, until)
            if row.failures:
                break
        return done

    def _send_notices(self, row: Webhook, receiver: Any, until: datetime) -> int:
        """Send what is due of alerts, until a failure; return the deliveries."""
        done = 0
        notices = queries.list_notices(row.id, now=self.clock(), limit=EVENTS)
        for each in notices:
            if self._should_stop(until):
                break
            body = _load_client().build_body(
                each.kind, each.made_at, **alerts.build_data(row.project, each)
            )
            result = receiver.deliver(f"alert_{each.id.hex}", body)
            webhooks.record_result(
                row, result.outcome, status=result.status, notice=each
            )
            if row.failures:
                break
            done += 1
        return done

    def _send_thread(
        self, row: Webhook, queue: WebhookQueue, receiver: Any, until: datetime
    ) -> int:
        """Send a thread's next events in order; return how many were delivered."""
        types = frozenset(row.types.split())
        events = queries.list_events(queue, types, limit=EVENTS)
        # A pool of few connections waits for no receiver.
        connections.close_all()
        done, sent, result = 0, queue.sent_seq, None
        for seq, kind, at in events:
            if self._should_stop(until):
                break
            body = _load_client().build_body(
                kind,
                at,
                project=row.project.slug,
                thread_id=str(queue.thread_id),
                seq=seq,
            )
            result = receiver.deliver(f"evt_{queue.thread_id.hex}_{seq}", body)
            if result.outcome != webhooks.DELIVERED:
                break
            done, sent = done + 1, seq
        if done == len(events) < EVENTS:
            sent = queue.head_seq
        if result is None and not events:
            webhooks.skip(queue, sent)
        elif result is not None:
            webhooks.record_result(
                row, result.outcome, status=result.status, queue=queue, sent_seq=sent
            )
        return done
