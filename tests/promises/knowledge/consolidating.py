"""Consolidation in processes of an instance; outcomes are printed as JSON."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

from django.core.management import execute_from_command_line

from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import pending
from memoryhub.services.access import projects
from memoryhub.services.knowledge import consolidations
from memoryhub.services.threads import threads
from memoryhub.workers import consolidation, leases, model_calls
from tests.cast.factories import append, make_agent, make_project, make_thread, run
from tests.cast.knowing import every
from tests.promises.journal.appender import tell

QUICK = timedelta(seconds=1)


def live_in_talks(people: int, talks: int, exchanges: int) -> None:
    """Make so many people with so many ended talks, each of which names a number."""
    project = make_project("acme")
    projects.set_consolidation(project, auto=True)
    agent, number = make_agent(project), 0
    for person in range(people):
        for talk in range(talks):
            name = f"{person}-{talk}"
            make_thread(agent, name, user_id=f"p-{person}")
            texts = [f"I learnt #{number + n}#." for n in range(exchanges)]
            append(agent, name, *texts)
            run(threads.close(agent=agent, thread=name, reason="completed"))
            number += exchanges


def work(*words: str) -> None:
    """Print a command that does background work with a second in place of a minute.

    A lease ends sooner than the slowest answer comes, and is not renewed by beats: so
    both processes ask the same.
    """
    leases.LEASE = model_calls.AWAY = QUICK
    consolidation.Consolidator.poll_seconds = 0.2
    vars(consolidations)["RETRIES"] = (1, 1, 1)
    execute_from_command_line(["manage.py", *words])


def count_left() -> None:
    """Print the numbers of exchanges that are pending, failed or abandoned."""
    counts = [pending.count(row) for row in Subject.objects.filter(anonymous=False)]
    tell(json.dumps([sum(each) for each in zip(*counts, strict=True)]))


def show() -> None:
    """Print the notes of each exchange, and how often each fact was confirmed."""
    done, failed = Counter[str](), Counter[str]()
    for row in Event.objects.filter(type="exchange.consolidated"):
        noted = json.loads(row.body)
        counted = failed if noted.get("failed") else done
        counted[f"{noted['thread']} {noted['begin']}"] += 1
    facts = Counter[str]()
    for subject in Subject.objects.filter(anonymous=False):
        for fact in every(subject):
            facts[fact.value] += fact.confirmations
    tell(json.dumps({"done": done, "failed": failed, "facts": facts}))
