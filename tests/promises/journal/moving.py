"""Moves to cold storage and back that are killed; runs in an instance of its own."""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings

from memoryhub.journal import cold
from memoryhub.models.cold import ColdObject
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.threads import threads
from memoryhub.vault.keys import cold_payloads
from tests.cast import factories
from tests.harness import killing
from tests.replay import assert_replays
from tests.services.acts import list_contents


def kill_everywhere() -> None:
    """Kill a move out, back and away around each of its commits; print the outcomes.

    Each is in a project of its own: what readers got after the kill, and the rows after
    the work was done again.
    """
    told: dict[str, Any] = {}
    for slug, end in killing.kills(prepare, move_both_ways, 1):
        seen = killing.told_by_child(partial(read, slug))
        again = killing.in_child(partial(move_both_ways, slug=slug))
        rows = killing.told_by_child(partial(digest_rows, slug))
        told[slug] = {"end": end, "seen": seen, "again": again, "rows": rows}
    left = killing.told_by_child(lambda: json.dumps(cold_payloads.list_names()))
    sys.stdout.write(json.dumps({"told": told, "left": json.loads(left)}))


def prepare(slug: str) -> None:
    agent = factories.make_agent(projects.create(slug))
    factories.make_thread(agent, slug)
    factories.append(agent, slug, *(f"Message {n}." for n in range(20)))
    factories.run(threads.close(agent=agent, thread=slug, reason="completed"))


def move_both_ways(slug: str) -> None:
    later = clock.now() + timedelta(days=settings.BACKUP_DAYS + 1)
    cold.tidy(clock.now())
    cold.move_thread(_get_thread(slug))
    objects = ColdObject.objects.filter(thread__project__slug=slug)
    cold.return_objects([*objects.values_list("id", flat=True)])
    cold.tidy(later)


def read(slug: str) -> str:
    thread = _get_thread(slug)
    assert_replays(thread)
    return json.dumps(list_contents(thread))


def digest_rows(slug: str) -> str:
    """Return how many payloads rows hold, and how many have their digests."""
    rows = Event.objects.filter(thread=_get_thread(slug), payload__isnull=False)
    found = [
        hashlib.sha256(payload).digest() == bytes(digest)
        for payload, digest in rows.values_list("payload", "payload_digest")
        if payload is not None and digest is not None
    ]
    objects = ColdObject.objects.filter(thread__project__slug=slug).count()
    return json.dumps([len(found), sum(found), objects])


def _get_thread(slug: str) -> Thread:
    return Thread.objects.select_related("subject").get(project__slug=slug, home=False)
