"""Home threads: made by a write of knowledge, and by nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import IntegrityError, transaction

from memoryhub.errors import (
    HomeTakenError,
    HomeThreadError,
    InvalidError,
    NotFoundError,
    SubjectErasedError,
    SubjectRestrictedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import CloseThread, Command
from memoryhub.kernel.context import tokens
from memoryhub.kernel.knowledge.blocks import WriteBlock
from memoryhub.kernel.paging.page_commands import NewPage
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_targets
from memoryhub.queries.threads import catalogue, retention
from memoryhub.queries.threads import threads as listing
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import homes
from memoryhub.services.people import restrictions, subjects
from memoryhub.services.threads import threads
from memoryhub.services.turns import turns
from tests.cast import bundled, factories, forgetting
from tests.cast.factories import run
from tests.services.acts import fork

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann")
    return forgetting.get_subject(agent, "ann")


def build_page(text: str, page_id: str = "persona") -> NewPage:
    size = tokens.estimate_tokens(text)
    payload = f'{{"content":{{"text":"{text}"}}}}'.encode()
    return NewPage(
        page_id=page_id,
        type="block",
        modality="text",
        payload=payload,
        tokens=size,
        cost=size + 8,
        bytes=len(payload),
        map=False,
    )


def write(
    agent: Agent, subject: Subject, text: str = "Ann flies often."
) -> OrderReceipt:
    command = WriteBlock(page=build_page(text))
    return run(homes.submit(agent=agent, subject=subject, command=command))


def get_home(subject: Subject) -> Thread:
    rows = Thread.objects.select_related("subject", "project")
    return rows.get(subject=subject, home=True, name=f"mh.home.{subject.id}")


def test_first_write_makes_the_home_thread(agent: Agent, ann: Subject) -> None:
    made, again = write(agent, ann), write(agent, ann, "Ann flies at night.")
    assert (made.created, again.created) == (True, False)
    assert made.thread == again.thread == get_home(ann).id
    types = Event.objects.filter(thread=made.thread).order_by("seq")
    assert [*types.values_list("type", flat=True)] == [
        "thread.created",
        "page.created",
        "page.updated",
    ]


def test_subject_has_one_home_thread(agent: Agent, ann: Subject) -> None:
    write(agent, ann)
    row = get_home(ann)
    row.pk, row.name = None, "another"
    with pytest.raises(IntegrityError), transaction.atomic():
        Thread.objects.bulk_create([row])
    nobody = subjects.get_anonymous(agent.project)
    assert write(agent, nobody).thread != get_home(ann).id


def test_home_thread_refuses_foreign_commands(agent: Agent, ann: Subject) -> None:
    """Refuse every command except those of knowledge, and change nothing."""
    head = write(agent, ann).seq
    name = get_home(ann).name
    refused: list[Any] = [
        lambda: factories.append(agent, name, "hello"),
        lambda: factories.make_page(agent, "p", thread=name),
        lambda: run(turns.begin_turn(agent=agent, thread=name, new=turns.NewTurn())),
        lambda: fork(agent, name, "fork"),
        lambda: run(threads.close(agent=agent, thread=name, reason="completed")),
        lambda: run(
            threads.amend(agent=agent, thread=name, scope=ScopeLabels(session="s"))
        ),
    ]
    for act in refused:
        with pytest.raises(HomeThreadError):
            act()
    assert get_home(ann).head_seq == head
    for taken in (f"mh.home.{agent.anonymous}", "mh.home.x"):
        with pytest.raises(InvalidError):
            factories.append(agent, taken, "hello")
        with pytest.raises(InvalidError):
            fork(agent, "t-1", taken)


def test_home_thread_is_neither_counted_nor_listed(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    Project.objects.update(max_threads=1, retention_idle_days=0)
    write(agent, ann)
    acme.refresh_from_db()
    assert acme.thread_count == 1
    now = get_home(ann).last_event_at + timedelta(seconds=1)
    seen = listing.list_threads(acme.id).items
    assert [each.name for each in seen] == ["t-1"]
    found = catalogue.list_threads(acme, terms=(), now=now).items
    assert [each.name for each in found] == ["t-1"]
    due = retention.filter_due(acme, at=now)
    assert "t-1" in {each.name for each in due}
    assert get_home(ann).name not in {each.name for each in due}


def test_home_thread_is_read_by_its_subjects_keys_alone(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    write(agent, ann)
    name = get_home(ann).name
    own = factories.make_agent(acme, subject=ann)
    assert listing.get_thread(acme.id, name, bound=own.bound).id == get_home(ann).id
    stranger = subjects.find_or_create(acme.id, "bob")
    with pytest.raises(NotFoundError):
        listing.get_thread(acme.id, name, bound=stranger.id)
    with pytest.raises(NotFoundError):
        write(factories.make_agent(acme, subject=stranger), ann)
    assert write(own, ann, "Hers.").thread == get_home(ann).id


def test_home_thread_of_a_restricted_or_erased_subject_refuses_agents(
    agent: Agent, ann: Subject
) -> None:
    write(agent, ann)
    restrictions.restrict_subject(ann.id, basis="claims", actor="command")
    with pytest.raises(SubjectRestrictedError):
        write(agent, ann)
    forgetting.forget(ann, until="caches_purged")
    with pytest.raises(SubjectErasedError):
        write(agent, ann)


def test_erased_home_thread_is_made_anew(agent: Agent, ann: Subject) -> None:
    first = write(agent, ann).thread
    forgetting.forget(ann, "thread", thread=get_home(ann), until="caches_purged")
    again = write(agent, ann, "Ann flies at night.")
    assert again.created
    assert again.thread != first


def test_knowledge_of_a_retired_thread_stays_in_the_home_thread(
    agent: Agent, ann: Subject
) -> None:
    """Keep what a retired thread taught; other erasures take the knowledge along."""
    factories.make_thread(agent, "t-2", user_id="ann")
    first = factories.append(agent, "t-2", "I fly at night.")
    thread = factories.get_thread(agent, "t-2")
    receipt = write(agent, ann, "Ann flies at night.")
    made = thread.derivations.create(
        source_seq=first.seq, derived_thread=receipt.thread, derived_seq=receipt.seq
    )
    taught = (receipt.thread, receipt.seq, receipt.seq)
    assert erasure_closures.list_derived(thread) == [taught]
    assert erasure_closures.list_derived(thread, taught=False) == []
    plan = forgetting.plan(ann, "thread", thread=thread, reason="retention")
    assert erasure_targets.list_ranges(orjson.loads(plan.targets)) == []
    # No event records this derivation, as facts do.
    made.delete()


def test_home_thread_is_imported_from_a_bundle(
    agent: Agent, acme: Project, zeta: Project, ann: Subject
) -> None:
    write(agent, ann)
    forgetting.forget(ann, "thread", thread=get_home(ann), until="caches_purged")
    write(agent, ann, "Ann flies at night.")
    data = bundled.export(ann)
    taken = bundled.take(data, zeta)
    there = subjects.find_or_create(zeta.id, "ann")
    assert there.id == taken.subject
    assert get_home(there).status == "open"
    zeta.refresh_from_db()
    assert zeta.thread_count == 1
    assert bundled.take(data, zeta).is_repeat
    with pytest.raises(HomeTakenError):
        bundled.take(bundled.export(there), zeta)


def test_foreign_command_makes_no_home_thread(agent: Agent, ann: Subject) -> None:
    command: Command = CloseThread()
    with pytest.raises(HomeThreadError):
        run(homes.submit(agent=agent, subject=ann, command=command))
    assert not Thread.objects.filter(home=True).exists()
