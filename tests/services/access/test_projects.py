from __future__ import annotations

import pytest

from memoryhub.errors import (
    InvalidError,
    NameTakenError,
    NotFoundError,
    ProjectFullError,
    Refusal,
)
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.models.keys import ProjectKey, SubjectKey
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import threads
from tests.cast.factories import (
    append,
    get_thread,
    make_agent,
    make_project,
    make_thread,
)
from tests.cast.factories import run as finish

pytestmark = pytest.mark.django_db

NO_SCOPE, NO_LIMITS = ScopeLabels(), ThreadConfig()


def list_names(project: Project) -> list[str]:
    rows = Thread.objects.filter(project=project).order_by("name")
    return [row.name for row in rows]


def test_project_is_made_with_key_stats_and_anonymous_subject() -> None:
    made = projects.create("beta", max_threads=7)
    assert Project.objects.get(slug="beta").max_threads == 7
    assert ProjectKey.objects.using("keys").filter(project=made.id).exists()
    assert ProjectStats.objects.get(project=made).open_threads == 0
    nobody = Subject.objects.get(project=made)
    assert nobody.anonymous
    assert nobody.subject_ref is None
    assert nobody.external_id is None
    assert SubjectKey.objects.using("keys").filter(subject=nobody.id).count() == 1


def test_project_slug_is_unique(acme: Project) -> None:
    with pytest.raises(NameTakenError):
        projects.create("acme")
    assert Project.objects.get(slug="acme").id == acme.id
    assert Subject.objects.filter(project__slug="acme").count() == 1


def test_project_slugs_are_compared_by_bytes(acme: Project) -> None:
    assert projects.create("Acme").id != acme.id
    assert projects.create("acme-").id != acme.id


@pytest.mark.parametrize("limit", [0, -1, 10_000_001])
def test_thread_limit_out_of_bounds_is_refused(limit: int) -> None:
    with pytest.raises(InvalidError) as refusal:
        projects.create("beta", max_threads=limit)
    assert refusal.value.loc == "max_threads"
    assert not Project.objects.filter(slug="beta").exists()


@pytest.mark.parametrize("limit", [0, -1, 10_000_001])
def test_thread_limit_is_never_configured_out_of_bounds(
    acme: Project, limit: int
) -> None:
    with pytest.raises(InvalidError):
        projects.configure(acme, max_threads=limit)
    assert Project.objects.get(id=acme.id).max_threads == 100_000


def test_full_project_evicts_no_thread_for_a_new_one() -> None:
    agent = make_agent(make_project("small", max_threads=2))
    append(agent, "a", "first of a", "second of a")
    append(agent, "b", "first of b")
    before = [*Thread.objects.order_by("name").values("name", "head_seq", "head_hash")]
    for _ in range(3):
        with pytest.raises(ProjectFullError):
            append(agent, "c", "no room")
        with pytest.raises(ProjectFullError):
            make_thread(agent, "c")
    after = [*Thread.objects.order_by("name").values("name", "head_seq", "head_hash")]
    assert after == before
    assert [slot.index for slot in get_thread(agent, "a").slots.all()] == [0, 1]


def test_fork_counts_against_the_thread_limit() -> None:
    agent = make_agent(make_project("small", max_threads=2))
    append(agent, "a", "x")
    parent = get_thread(agent, "a")

    def fork(name: str) -> None:
        command = threads.build_fork(
            parent, 1, scope=NO_SCOPE, labels=None, config=NO_LIMITS
        )
        finish(threads.fork(agent=agent, name=name, command=command))

    fork("b")
    with pytest.raises(ProjectFullError):
        fork("c")
    assert Project.objects.get(slug="small").thread_count == 2


def test_refused_write_counts_no_thread(agent: Agent, acme: Project) -> None:
    closed = make_thread(agent, "t-1")
    finish(threads.close(agent=agent, thread=closed.name, reason="completed"))
    before = Project.objects.get(id=acme.id).thread_count
    with pytest.raises(Refusal):
        append(agent, "t-1", "x")
    assert Project.objects.get(id=acme.id).thread_count == before == 1


def test_lower_thread_limit_removes_nothing_and_higher_makes_room() -> None:
    project = make_project("small", max_threads=5)
    agent = make_agent(project)
    for name in ("a", "b", "c"):
        append(agent, name, "x")
    projects.configure(project, max_threads=2)
    assert list_names(project) == ["a", "b", "c"]
    append(agent, "a", "there is room in what exists")
    with pytest.raises(ProjectFullError):
        append(agent, "d", "x")
    projects.configure(project, max_threads=4)
    append(agent, "d", "x")
    assert list_names(project) == ["a", "b", "c", "d"]


def test_write_makes_no_thread_where_the_project_forbids_it() -> None:
    agent = make_agent(make_project("strict", create_on_write=False))
    with pytest.raises(NotFoundError):
        append(agent, "t-1", "x")
    make_thread(agent, "t-1")
    append(agent, "t-1", "x")
    assert Thread.objects.count() == 1


def test_projects_share_thread_names_and_nothing_else(
    agent: Agent, stranger: Agent
) -> None:
    append(agent, "t-1", "of acme")
    append(stranger, "t-1", "of zeta", "and more")
    mine, theirs = get_thread(agent), get_thread(stranger)
    assert mine.id != theirs.id
    assert (mine.slot_count, theirs.slot_count) == (1, 2)


def test_omitted_project_setting_stays(acme: Project) -> None:
    projects.configure(acme, create_on_write=False)
    projects.configure(acme, max_threads=7)
    row = Project.objects.get(id=acme.id)
    assert (row.max_threads, row.create_on_write) == (7, False)


def test_retention_policy_is_set_and_removed(acme: Project) -> None:
    for days in (30, 1, 36_500, None):
        projects.set_retention(acme, idle_days=days)
        assert Project.objects.get(id=acme.id).retention_idle_days == days


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_retention_days_have_bounds(acme: Project, days: int) -> None:
    with pytest.raises(InvalidError) as refusal:
        projects.set_retention(acme, idle_days=days)
    assert refusal.value.loc == "retention_idle_days"
    assert Project.objects.get(id=acme.id).retention_idle_days is None


@pytest.mark.parametrize(
    ("ttl", "grace"), [(1, 0), (31_536_000, 31_536_000), (None, None)]
)
def test_key_lifetime_and_value_grace_are_set(
    acme: Project, ttl: int | None, grace: int | None
) -> None:
    projects.set_lifetimes(acme, default_ttl_seconds=ttl, grace_seconds=grace)
    row = Project.objects.get(id=acme.id)
    saved = (row.default_ttl_seconds, row.expired_value_grace_seconds)
    assert saved == (ttl, grace)


@pytest.mark.parametrize(
    ("ttl", "grace", "loc"),
    [
        (0, 0, "default_ttl_seconds"),
        (-1, 0, "default_ttl_seconds"),
        (31_536_001, 0, "default_ttl_seconds"),
        (1, -1, "expired_value_grace_seconds"),
        (1, 31_536_001, "expired_value_grace_seconds"),
    ],
)
def test_key_lifetime_and_value_grace_have_bounds(
    acme: Project, ttl: int, grace: int, loc: str
) -> None:
    with pytest.raises(InvalidError) as refusal:
        projects.set_lifetimes(acme, default_ttl_seconds=ttl, grace_seconds=grace)
    assert refusal.value.loc == loc
    row = Project.objects.get(id=acme.id)
    saved = (row.default_ttl_seconds, row.expired_value_grace_seconds)
    assert saved == (None, 86_400)
