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
from memoryhub.journal import Address, NewThread, Order, importing
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
from tests.cast.forgetting import TEXT, confirm, forget, list_records, make_person, plan

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
    """Make the same texts in another project, which must all stay."""
    return make_person(stranger, "ann", threads=2)


def begin(project: Project, **more: str) -> Project:
    asked = {"confirmed": project.slug, "reason": "not_needed", **more}
    return project_deletions.begin_deletion(project, **asked)


def finish(project: Project) -> Project:
    return deleting.follow(project, out=io.StringIO())


def actions(project: Project) -> list[tuple[str, int]]:
    rows = AuditEntry.objects.filter(project=project.id, action__startswith="project.")
    return [*rows.order_by("seq").values_list("action", "count")]


def test_deleted_project_is_erased_with_receipts(
    acme: Project, ann: Subject, twin: Subject
) -> None:
    before, twin_key = list_records(twin), keys.get_project_key(twin.project_id)
    factories.append(factories.make_agent(acme), "nobodys", TEXT)
    counts = listed.get_counts(acme, now=timezone.now())
    assert (counts.people, counts.threads, counts.holds) == (3, 4, 0)
    begin(acme, ticket="LEGAL-42")
    assert finish(acme).state == State.DELETED
    assert acme.deleted_at is not None
    for row in Subject.objects.filter(project=acme):
        assert row.state == Subject.State.ERASED
        assert not any(erasure_counts.count_subject(row.id).values())
    # No new anonymous subject was made.
    assert Subject.objects.filter(project=acme).count() == 3
    public = signing.list_public_keys()
    for receipt in Receipt.objects.filter(project=acme):
        assert receipts.verify(receipt.text.encode(), public).valid
    asked = Erasure.objects.filter(project=acme).values_list("reason", "ticket")
    assert [*asked] == [("not_needed", "LEGAL-42")] * 3
    assert actions(acme)[-2:] == [("project.deletion_begun", 3), ("project.deleted", 0)]
    kinds = [str(x.kind) for x in ledger.iter_lines() if x.scope == ledgers.PROJECT]
    assert kinds == ["intent", "done"]
    assert next(ledger.iter_lines()).scope == ledgers.PROJECT
    assert replays.fence_and_count() == 0
    assert list_records(twin) == before
    keys.reset()
    assert keys.get_project_key(twin.project_id) == twin_key


def test_key_of_a_deleted_project_is_destroyed_and_not_lost(
    acme: Project, ann: Subject
) -> None:
    begin(acme)
    assert ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    finish(acme)
    assert not ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    assert not SubjectKey.objects.using("keys").filter(project=acme.id).exists()
    with pytest.raises(ProjectDeletedError):
        keys.get_project_key(acme.id)
    with pytest.raises(ProjectDeletedError):
        subjects.find(acme.id, "ann")
    DestroyedProjectKey.objects.using("keys").all().delete()
    with pytest.raises(KeyMissingError):
        keys.get_project_key(acme.id)


def test_api_keys_of_a_deleted_project_are_revoked(
    acme: Project, zeta: Project
) -> None:
    row, key = api_keys.create(acme)
    _, other = api_keys.create(zeta)
    begin(acme)
    now = timezone.now()
    assert agents.find(key, now=now) is None
    assert agents.find(other, now=now) is not None
    assert not ApiKey.objects.filter(project=acme, revoked_at=None).exists()
    told = AuditEntry.objects.filter(action="api_key.revoked", target_id=row.prefix)
    assert told.count() == 1


def test_project_deletion_needs_the_name_and_a_reason(acme: Project) -> None:
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
    assert [*ledger.iter_lines()] == []


def open_hold(subject: Subject) -> Hold:
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


def test_hold_forbids_a_project_deletion(
    acme: Project, ann: Subject, bob: Subject
) -> None:
    hold, before = open_hold(ann), (list_records(ann), list_records(bob))
    with pytest.raises(SubjectHeldError) as refused:
        begin(acme)
    assert refused.value.detail == {"holds": 1}
    acme.refresh_from_db()
    assert (acme.state, acme.deletion_at) == (State.ACTIVE, None)
    assert deletions.advance_all(timezone.now()) == 0
    assert (list_records(ann), list_records(bob)) == before
    assert ApiKey.objects.filter(project=acme, revoked_at=None).exists()
    assert not Erasure.objects.exists()
    holds.lift_hold(hold.id, actor="command")
    begin(acme)
    # No further hold is accepted.
    with pytest.raises(ProjectDeletedError):
        holds.open_hold(
            ann,
            basis="legal_claims",
            reviewer=Operator.objects.get(username="olga"),
            expires_at=timezone.now() + timedelta(days=30),
            actor="command",
        )
    assert finish(acme).state == State.DELETED


def test_project_deletion_begun_twice_is_one(acme: Project) -> None:
    begin(acme, reason="not_needed")
    again = begin(acme, reason="unlawful")
    assert again.deletion_reason == "not_needed"
    finish(acme)
    assert begin(acme).state == State.DELETED
    assert deletions.advance_all(timezone.now()) == 0
    assert len(actions(acme)) == 3


# Late acts


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
                birth=NewThread(subject=ann.id, command=CreateThread()),
            ),
            command=CreateThread(),
            actor="import",
        )
    ),
    "a bundle": lambda agent, acme, ann: importing.open_all([], ann, actor="command"),
    "an export": lambda agent, acme, ann: exports.begin_export(ann, actor="command"),
    "an API key": lambda agent, acme, ann: api_keys.create(acme),
    "a new API key for an old": lambda agent, acme, ann: api_keys.rotate(
        ApiKey.objects.get(id=agent.key)
    ),
    "a member": lambda agent, acme, ann: operators.set_role(
        acme, operators.ensure_default(), "owner"
    ),
    "a limit": lambda agent, acme, ann: projects.configure(acme, max_threads=7),
}


def list_refusals(agent: Agent, project: Project, subject: Subject) -> dict[str, str]:
    """Return the refusal code of each late act that is refused."""
    found = {}
    for name, late in LATE.items():
        try:
            late(agent, project, subject)
        except Refusal as refusal:
            found[name] = refusal.code
    return found


def test_project_being_deleted_refuses_every_late_act(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    """Refuse acts of agents who were let in before, at each place that writes."""
    begin(acme)
    before = (list_records(ann), Subject.objects.count(), Thread.objects.count())
    assert list_refusals(agent, acme, ann) == dict.fromkeys(LATE, "project_deleted")
    assert (
        list_records(ann),
        Subject.objects.count(),
        Thread.objects.count(),
    ) == before


def test_other_project_takes_every_late_act(
    stranger: Agent, acme: Project, zeta: Project, twin: Subject
) -> None:
    begin(acme)
    assert list_refusals(stranger, zeta, twin) == {}


def test_deleted_project_refuses_every_late_act(
    agent: Agent, acme: Project, ann: Subject
) -> None:
    begin(acme)
    finish(acme)
    ann.refresh_from_db()
    found = list_refusals(agent, acme, ann)
    # Acts on the subject itself are told that the subject is erased.
    hers = dict.fromkeys(("a bundle", "an export"), "subject_erased")
    assert found == dict.fromkeys(LATE, "project_deleted") | hers
    assert not Subject.objects.filter(project=acme).exclude(state="erased").exists()
    assert not ApiKey.objects.filter(project=acme, revoked_at=None).exists()


def test_project_being_deleted_readmits_nobody(acme: Project, ann: Subject) -> None:
    forget(ann)
    begin(acme)
    with pytest.raises(ProjectDeletedError):
        readmissions.readmit_subject(acme.id, "ann", actor="command")


# Progress


def test_project_deletion_runs_a_limited_number_of_erasures(
    acme: Project, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_deletions, "AT_ONCE", 1)
    begin(acme)
    progress = listed.get_progress(acme)
    assert (progress.done, progress.people) == (0, 3)
    for done in range(1, 4):
        assert project_deletions.advance_deletion(acme) == 1
        assert project_deletions.advance_deletion(acme) == 0
        (row,) = listed.select_open_erasures(acme)
        while row.state != Erasure.State.COMPLETE:
            row = erasures.advance_erasure(row)
        progress = listed.get_progress(acme)
        assert (progress.done, progress.people) == (done, 3)
    assert project_deletions.advance_deletion(acme) == 1
    acme.refresh_from_db()
    assert acme.state == State.DELETED


def test_own_plan_left_by_a_crash_is_confirmed(acme: Project, ann: Subject) -> None:
    """Confirm a plan of ours after a crash between plan and confirmation."""
    begin(acme)
    left = plan(ann, actor=listed.ACTOR, reason="not_needed")
    project_deletions.advance_deletion(acme)
    left.refresh_from_db()
    assert left.state == Erasure.State.FENCED


def test_project_deletion_waits_for_an_officers_plan(
    acme: Project, ann: Subject
) -> None:
    begin(acme)
    theirs = plan(ann)
    project_deletions.advance_deletion(acme)
    theirs.refresh_from_db()
    assert theirs.state == Erasure.State.PLANNED
    confirm(theirs)
    assert finish(acme).state == State.DELETED


def test_erasure_under_way_is_not_begun_again(acme: Project, ann: Subject) -> None:
    row = confirm(plan(ann))
    begin(acme)
    assert finish(acme).state == State.DELETED
    assert [*Erasure.objects.filter(subject=ann)] == [row]


def test_waiting_erasure_keeps_the_project_key(
    acme: Project, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(acme)
    with monkeypatch.context() as patch:
        patch.setattr(scrub, "scrub", lambda **_: "reader")
        assert finish(acme).state == State.DELETING
    assert listed.get_progress(acme).waiting_on == ("reader",)
    listed.select_open_erasures(acme).update(waiting_on="broken", defect="KeyError")
    assert listed.get_progress(acme).waiting_on == ("broken (KeyError)",)
    assert ProjectKey.objects.using("keys").filter(project=acme.id).exists()
    assert finish(acme).state == State.DELETED


def test_threads_of_a_deleted_project_stay_without_a_name(
    acme: Project, ann: Subject
) -> None:
    """Keep the threads' chains too, which are verified after each test."""
    begin(acme)
    finish(acme)
    for thread in Thread.objects.filter(project=acme):
        assert thread.status == Thread.Status.ERASED
        assert thread.name.startswith("~")


def test_deleted_project_gets_no_new_anonymous_subject(
    acme: Project, agent: Agent
) -> None:
    """Replace an erased anonymous subject, except in a project being deleted."""
    nobody = subjects.get_anonymous(acme.id)
    forget(nobody)
    after = subjects.get_anonymous(acme.id)
    assert after.id != nobody.id
    begin(acme)
    finish(acme)
    with pytest.raises(ProjectDeletedError):
        subjects.get_anonymous(acme.id)
