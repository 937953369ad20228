from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import journal
from memoryhub.errors import (
    InvalidError,
    KeyMissingError,
    ProjectDeletedError,
    Refusal,
    SubjectHeldError,
)
from memoryhub.journal import Address, Birth, Order, importing
from memoryhub.journal.forget import scrub
from memoryhub.kernel.commands import CloseThread, CreateThread, RetireThread
from memoryhub.management import deleting
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.erasures import Erasure, Hold, Receipt
from memoryhub.models.keys import DestroyedProjectKey, ProjectKey, SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_counts
from memoryhub.queries.forget import project_deletions as listed
from memoryhub.services.access import agents, api_keys, operators, projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from memoryhub.services.forget import erasures, ledgers, project_deletions, replays
from memoryhub.services.imports import readmissions
from memoryhub.services.people import holds, subjects
from memoryhub.vault.keys import keys
from memoryhub.vault.proof import ledger, receipts, signing
from memoryhub.workers import deletions
from tests.cast import factories
from tests.cast.forgetting import TEXT, confirm, forget, kept, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Project.State


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann", threads=2)


@pytest.fixture(autouse=True)
def bob(agent: Agent) -> Subject:
    return make_person(agent, "bob")


@pytest.fixture(autouse=True)
def twin(stranger: Agent) -> Subject:
    """The same texts in another project, which all must stay."""
    return make_person(stranger, "ann", threads=2)


def begin(project: Project, **more: str) -> Project:
    asked = {"confirmed": project.slug, "reason": "not_needed", **more}
    return project_deletions.begin(project, **asked)


def finish(project: Project) -> Project:
    return deleting.follow(project, out=io.StringIO())


def actions(project: Project) -> list[tuple[str, int]]:
    rows = AuditEntry.objects.filter(project=project.id, action__startswith="project.")
    return [*rows.order_by("seq").values_list("action", "count")]


def test_all_of_it_goes_and_can_be_proved(
    acme: Project, ann: Subject, twin: Subject
) -> None:
    before, twin_key = kept(twin), keys.project_key(twin.project_id)
    factories.append(factories.make_agent(acme), "nobodys", TEXT)
    counts = listed.get_counts(acme, now=timezone.now())
    assert (counts.people, counts.threads, counts.holds) == (3, 4, 0)
    begin(acme, ticket="LEGAL-42")
    assert finish(acme).state == State.DELETED
    assert acme.deleted_at is not None
    for row in Subject.objects.filter(project=acme):
        assert row.state == Subject.State.ERASED
        assert not any(erasure_counts.count_subject(row.id).values())
    # Nobody was made in the place of the one who is nobody.
    assert Subject.objects.filter(project=acme).count() == 3
    public = signing.public_keys()
    for receipt in Receipt.objects.filter(project=acme):
        assert receipts.verify(receipt.text.encode(), public).valid
    asked = Erasure.objects.filter(project=acme).values_list("reason", "ticket")
    assert [*asked] == [("not_needed", "LEGAL-42")] * 3
    assert actions(acme)[-2:] == [("project.deletion_begun", 3), ("project.deleted", 0)]
    kinds = [str(x.kind) for x in ledger.lines() if x.scope == ledgers.PROJECT]
    assert kinds == ["intent", "done"]
    assert next(ledger.lines()).scope == ledgers.PROJECT
    assert replays.look() == 0
    assert kept(twin) == before
    keys.reset()
    assert keys.project_key(twin.project_id) == twin_key


def test_its_key_is_destroyed_and_not_lost(acme: Project, ann: Subject) -> None:
    begin(acme)
    assert ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    finish(acme)
    assert not ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    assert not SubjectKey.objects.using("keys").filter(project=acme.id).exists()
    with pytest.raises(ProjectDeletedError):
        keys.project_key(acme.id)
    with pytest.raises(ProjectDeletedError):
        subjects.find(acme.id, "ann")
    DestroyedProjectKey.objects.using("keys").all().delete()
    with pytest.raises(KeyMissingError):
        keys.project_key(acme.id)


def test_its_api_keys_end_with_it(acme: Project, zeta: Project) -> None:
    row, key = api_keys.create(acme)
    _, other = api_keys.create(zeta)
    begin(acme)
    now = timezone.now()
    assert agents.find(key, now=now) is None
    assert agents.find(other, now=now) is not None
    assert not ApiKey.objects.filter(project=acme, revoked_at=None).exists()
    told = AuditEntry.objects.filter(action="api_key.revoked", target_id=row.prefix)
    assert told.count() == 1


def test_the_name_and_a_word_are_asked_for(acme: Project) -> None:
    for wrong in (
        {"confirmed": "zeta"},
        {"reason": "because"},
        {"ticket": "ask Ann about it"},
    ):
        with pytest.raises(InvalidError):
            begin(acme, **wrong)
    acme.refresh_from_db()
    assert acme.state == State.ACTIVE
    assert ApiKey.objects.filter(project=acme, revoked_at=None).exists()
    assert [*ledger.lines()] == []


def held(subject: Subject) -> Hold:
    reviewer = Operator.objects.create(username="olga", created_at=timezone.now())
    Membership.objects.create(
        project_id=subject.project_id, operator=reviewer, role="officer"
    )
    return holds.open_hold(
        subject,
        basis="legal_claims",
        reviewer=reviewer,
        expires_at=timezone.now() + timedelta(days=30),
        actor="command",
    )


def test_a_hold_forbids_all_of_it(acme: Project, ann: Subject, bob: Subject) -> None:
    hold, before = held(ann), (kept(ann), kept(bob))
    with pytest.raises(SubjectHeldError) as refused:
        begin(acme)
    assert refused.value.detail == {"holds": 1}
    acme.refresh_from_db()
    assert (acme.state, acme.deletion_at) == (State.ACTIVE, None)
    assert deletions.go_on(timezone.now()) == 0
    assert (kept(ann), kept(bob)) == before
    assert ApiKey.objects.filter(project=acme, revoked_at=None).exists()
    assert not Erasure.objects.exists()
    holds.lift(hold.id, actor="command")
    begin(acme)
    # And none comes any more.
    with pytest.raises(ProjectDeletedError):
        holds.open_hold(
            ann,
            basis="legal_claims",
            reviewer=Operator.objects.get(username="olga"),
            expires_at=timezone.now() + timedelta(days=30),
            actor="command",
        )
    assert finish(acme).state == State.DELETED


def test_said_twice_it_is_the_same(acme: Project) -> None:
    begin(acme, reason="not_needed")
    again = begin(acme, reason="unlawful")
    assert again.deletion_reason == "not_needed"
    finish(acme)
    assert begin(acme).state == State.DELETED
    assert deletions.go_on(timezone.now()) == 0
    assert len(actions(acme)) == 3


# What is late


LATE: dict[str, Callable[[Agent, Project, Subject], object]] = {
    "a subject": lambda agent, acme, ann: subjects.find_or_create(acme.id, "carl"),
    "a thread": lambda agent, acme, ann: factories.make_thread(agent, "new"),
    "a thread of hers": lambda agent, acme, ann: factories.make_thread(
        agent, "hers", user_id="ann"
    ),
    "a message": lambda agent, acme, ann: factories.append(agent, "ann-1", TEXT),
    "a page": lambda agent, acme, ann: factories.make_page(
        agent, "new", thread="ann-1"
    ),
    "an operator's edit": lambda agent, acme, ann: journal.perform(
        Order(
            address=Address(project=acme.id, name="ann-1"),
            command=CloseThread(reason="completed"),
            actor="operator:1",
        )
    ),
    "a worker's": lambda agent, acme, ann: journal.perform(
        Order(
            address=Address(project=acme.id, name="ann-1"),
            command=RetireThread(policy_days=1, idle_days=2),
            actor="worker:retention",
        )
    ),
    "a recorded run": lambda agent, acme, ann: journal.perform(
        Order(
            address=Address(
                project=acme.id,
                name="run",
                birth=Birth(subject=ann.id, command=CreateThread()),
            ),
            command=CreateThread(),
            actor="import",
        )
    ),
    "a bundle": lambda agent, acme, ann: importing.open_all([], ann, actor="command"),
    "an export": lambda agent, acme, ann: exports.begin(ann, actor="command"),
    "an API key": lambda agent, acme, ann: api_keys.create(acme),
    "a new API key for an old": lambda agent, acme, ann: api_keys.rotate(
        ApiKey.objects.get(id=agent.key)
    ),
    "a member": lambda agent, acme, ann: operators.set_role(
        acme, operators.ensure_default(), "owner"
    ),
    "a limit": lambda agent, acme, ann: projects.configure(acme, max_threads=7),
}


def answers(agent: Agent, project: Project, subject: Subject) -> dict[str, str]:
    """What each of them is answered; nothing if it is done."""
    found = {}
    for name, late in LATE.items():
        try:
            late(agent, project, subject)
        except Refusal as refusal:
            found[name] = refusal.code
    return found


def test_nothing_begins_in_it_any_more(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    """By who was let in before: each is looked at again where it writes."""
    begin(acme)
    before = (kept(ann), Subject.objects.count(), Thread.objects.count())
    assert answers(agent, acme, ann) == dict.fromkeys(LATE, "project_deleted")
    assert (kept(ann), Subject.objects.count(), Thread.objects.count()) == before


def test_the_twin_project_takes_it_all(
    stranger: Agent, acme: Project, zeta: Project, twin: Subject
) -> None:
    begin(acme)
    assert answers(stranger, zeta, twin) == {}


def test_nor_once_it_is_deleted(agent: Agent, acme: Project, ann: Subject) -> None:
    begin(acme)
    finish(acme)
    ann.refresh_from_db()
    found = answers(agent, acme, ann)
    # What asks for her herself is told that she is erased.
    hers = dict.fromkeys(("a bundle", "an export"), "subject_erased")
    assert found == dict.fromkeys(LATE, "project_deleted") | hers
    assert not Subject.objects.filter(project=acme).exclude(state="erased").exists()
    assert not ApiKey.objects.filter(project=acme, revoked_at=None).exists()


def test_nobody_comes_back_to_it(acme: Project, ann: Subject) -> None:
    forget(ann)
    begin(acme)
    with pytest.raises(ProjectDeletedError):
        readmissions.readmit(acme.id, "ann", actor="command")


# On the way


def test_only_so_many_are_under_way_at_once(
    acme: Project, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_deletions, "AT_ONCE", 1)
    begin(acme)
    progress = listed.get_progress(acme)
    assert (progress.done, progress.people) == (0, 3)
    for done in range(1, 4):
        assert project_deletions.advance(acme) == 1
        assert project_deletions.advance(acme) == 0
        (row,) = listed.open_erasures(acme)
        while row.state != Erasure.State.COMPLETE:
            row = erasures.advance(row)
        progress = listed.get_progress(acme)
        assert (progress.done, progress.people) == (done, 3)
    assert project_deletions.advance(acme) == 1
    acme.refresh_from_db()
    assert acme.state == State.DELETED


def test_a_plan_of_ours_that_was_left_is_confirmed(acme: Project, ann: Subject) -> None:
    """Killed between the plan and its confirmation; nobody waits for its end."""
    begin(acme)
    left = plan(ann, actor=listed.ACTOR, reason="not_needed")
    project_deletions.advance(acme)
    left.refresh_from_db()
    assert left.state == Erasure.State.FENCED


def test_an_officer_s_plan_is_waited_for(acme: Project, ann: Subject) -> None:
    begin(acme)
    theirs = plan(ann)
    project_deletions.advance(acme)
    theirs.refresh_from_db()
    assert theirs.state == Erasure.State.PLANNED
    confirm(theirs)
    assert finish(acme).state == State.DELETED


def test_an_erasure_under_way_is_not_begun_again(acme: Project, ann: Subject) -> None:
    row = confirm(plan(ann))
    begin(acme)
    assert finish(acme).state == State.DELETED
    assert [*Erasure.objects.filter(subject=ann)] == [row]


def test_one_that_waits_keeps_the_key(
    acme: Project, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(acme)
    with monkeypatch.context() as patch:
        patch.setattr(scrub, "scrub", lambda **_: "reader")
        assert finish(acme).state == State.DELETING
    assert listed.get_progress(acme).waiting_on == ("reader",)
    listed.open_erasures(acme).update(waiting_on="broken", defect="KeyError")
    assert listed.get_progress(acme).waiting_on == ("broken (KeyError)",)
    assert ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    assert finish(acme).state == State.DELETED


def test_its_threads_stay_without_a_name(acme: Project, ann: Subject) -> None:
    """And with their chains, which are walked after each test."""
    begin(acme)
    finish(acme)
    for thread in Thread.objects.filter(project=acme):
        assert thread.status == Thread.Status.ERASED
        assert thread.name.startswith("~")


def test_who_is_forgotten_alone_is_followed_by_nobody_new(
    acme: Project, agent: Agent
) -> None:
    """The anonymous subject has a successor, but for in a project that goes."""
    nobody = subjects.anonymous(acme.id)
    forget(nobody)
    after = subjects.anonymous(acme.id)
    assert after.id != nobody.id
    begin(acme)
    finish(acme)
    with pytest.raises(ProjectDeletedError):
        subjects.anonymous(acme.id)
