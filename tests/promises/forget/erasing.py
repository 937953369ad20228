"""Erasures that are killed, raced and held up; runs in an instance of its own."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from functools import partial
from typing import Any

from django.core.management import execute_from_command_line

from memoryhub.journal import texts
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts, erasure_targets
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access import projects
from memoryhub.services.forget import erasures
from memoryhub.services.forget.erasures import A_DAY
from memoryhub.services.people import subjects
from memoryhub.vault.proof import ledger
from tests.cast import every_event, factories
from tests.cast.forgetting import confirm, plan
from tests.harness import killing

TEXT = "I would like seat 12A by the window, please, and a vegetarian meal."


def kill_everywhere(scope: str, every: int, memory: str = "some") -> None:
    """Kill an erasure around every n-th of its commits and go on; print the outcome.

    Each is in a project of its own. `ends` are exit codes; `told` are the remains of
    the forgotten subject and of her twin after the work was resumed. With "all" as
    `memory`, hers holds an event of every registered type.
    """
    told, ends = {}, {}
    make = remember_all if memory == "all" else remember
    for slug, end in killing.kills(make, partial(forget, scope=scope), every):
        ends[slug] = end
        if slug != killing.WHOLE:
            ends[f"{slug}-again"] = killing.in_child(partial(_again, slug, scope))
        told[slug] = _told(slug)
    _print({"commits": ends.pop(killing.WHOLE), "ends": ends, "told": told})


def remember(slug: str) -> None:
    """Make a project with ann and a second person: same texts, names and labels."""
    agent = factories.make_agent(projects.create(slug))
    for user_id in ("ann", "bob"):
        for n in range(2):
            name = f"{slug}-{user_id}-{n}"
            factories.make_thread(
                agent, name, user_id=user_id, labels={"channel": "web"}
            )
            factories.append(agent, name, TEXT, f"{TEXT} Thank you, number {n}.")
            factories.make_page(agent, "rules", thread=name, text=TEXT)


def remember_all(slug: str) -> None:
    """Make a project as `remember` does, with an event of every type of ann."""
    remember(slug)
    agent = factories.make_agent(Project.objects.get(slug=slug))
    every_event.remember(agent, "ann", TEXT)


def forget(slug: str, scope: str) -> Erasure:
    """Plan, confirm, and advance up to the receipt."""
    return _finished(confirm(_planned(slug, scope)))


def make_keys(slug: str, erasures: str = "1") -> None:
    """Make a project, its writing key and its forgetting keys; print them as JSON.

    The forgetting keys suffice for as many erasures: a key confirms at most `A_DAY`.
    """
    project = projects.create(slug)
    forgetting = [("subject:forget",)] * math.ceil(int(erasures) / A_DAY)
    keys = [
        factories.make_key(project, scopes=scopes)[1]
        for scopes in (("memory:read", "memory:write"), *forgetting)
    ]
    _print(keys)


def show_left(slug: str) -> None:
    """Print what each subject of a project still holds, and its threads' texts."""
    told = {}
    for row in Subject.objects.filter(project__slug=slug, anonymous=False):
        threads = Thread.objects.filter(subject=row)
        told[str(row.id)] = {
            "state": row.state,
            "left": sum(erasure_counts.count_subject(row.id).values()),
            "threads": sorted({*threads.values_list("status", flat=True)}),
            "slots": sum(threads.values_list("slot_count", flat=True)),
        }
    _print(told)


def show_receipts(slug: str) -> None:
    """Print by subject the erased counts of each place in the receipt."""
    rows = Receipt.objects.filter(erasure__project__slug=slug, n=0)
    rows = rows.select_related("erasure")
    told = {row.erasure.subject_id.hex: erased_of(row.erasure) for row in rows}
    _print(told)


def erased_of(row: Erasure) -> dict[str, int]:
    """Return the erased counts of the receipt, by place."""
    places = json.loads(Receipt.objects.get(erasure=row, n=0).text)["erased"]
    return {place: each["count"] for place, each in places.items() if each["count"]}


def show_parts(slug: str) -> None:
    """Print by erasure its receipt, and the findings from outside."""
    told = {}
    for row in Erasure.objects.filter(project__slug=slug).select_related("subject"):
        events = Event.objects.filter(thread__subject=row.subject)
        sealed = events.filter(payload__isnull=False)
        held = [
            json.dumps(texts.open_payload(row.subject, row.project_id, event))
            for event in sealed
        ]
        receipt = Receipt.objects.get(erasure=row, n=0)
        fenced = json.loads(receipt.text)["fenced"]
        told[str(row.id)] = {
            "subject": row.subject_id.hex,
            "state": row.subject.state,
            "fenced": {place: count for place, count in fenced.items() if count},
            "erased": erased_of(row),
            "gone": events.exclude(erased_by=None).count(),
            "canaries": sum("canary" in text for text in held),
            "own": sorted(text for text in held if "own " in text),
        }
    _print(told)


def _planned(slug: str, scope: str) -> Erasure:
    ann = _require_subject(slug, "ann")
    thread = Thread.objects.filter(subject=ann).order_by("id")[0]
    given: dict[str, Any] = {}
    if scope in ("thread", "record"):
        given["thread"] = thread
    if scope == "before":
        given["before"] = clock.now()
    if scope == "record":
        sealed = Event.objects.filter(thread=thread, payload__isnull=False)
        given["seq"] = sealed.order_by("seq")[0].seq
    return plan(ann, scope, **given)


def _finished(row: Erasure) -> Erasure:
    while row.state != Erasure.State.COMPLETE:
        before = row.state
        row = erasures.advance_erasure(row)
        assert row.state != before, (row.state, row.waiting_on)
    return row


def _again(slug: str, scope: str) -> int:
    """Resume the erasure, as an operator does after a crash, or order it again."""
    rows = Erasure.objects.filter(project__slug=slug, scope=scope)
    row = rows.order_by("created_at").last()
    if row is None or row.confirmed_at is None:
        if row is not None:
            erasures.cancel(row, actor="command")
        forget(slug, scope)
        return 0
    try:
        execute_from_command_line(["manage.py", "forget", "--resume"])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _told(slug: str) -> dict[str, Any]:
    """Read the remains in a fresh process, by rows and ledger alone."""
    return dict(json.loads(killing.told_by_child(partial(_tell, slug))))


def _tell(slug: str) -> str:
    project = Project.objects.get(slug=slug)
    row = Erasure.objects.filter(project=project).latest("created_at")
    line = ErasureLine.from_row(row)
    kinds = [str(each.kind) for each in ledger.iter_lines() if each.erasure == row.id]
    bob = _require_subject(slug, "bob")
    left = erasure_targets.count_left(row)
    return json.dumps(
        {
            "state": row.state,
            "receipts": Receipt.objects.filter(erasure=row).count(),
            "left": sum(left.values()),
            "erased": {place.place: place.erased for place in line.places},
            "fenced": {place.place: place.fenced for place in line.places},
            "ledger": sorted({*kinds}),
            "twin": _digest_texts(bob),
            "twin_counts": erasure_counts.count_subject(bob.id),
        }
    )


def _digest_texts(subject: Subject) -> list[str]:
    """Return digests of all texts that a reader of the memory sees."""
    found = []
    for thread in Thread.objects.filter(subject=subject).order_by("id"):
        rows = Event.objects.filter(thread=thread, payload__isnull=False)
        for seq in rows.order_by("seq").values_list("seq", flat=True):
            plain = texts.open_contents(subject, subject.project_id, thread.id, [seq])
            found.append(hashlib.sha256(json.dumps(plain).encode()).hexdigest())
    return found


def _require_subject(slug: str, user_id: str) -> Subject:
    found = subjects.find(Project.objects.get(slug=slug).id, user_id)
    assert found is not None
    return found


def _print(told: Any) -> None:
    sys.stdout.write(json.dumps(told))
