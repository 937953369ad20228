from __future__ import annotations

import re

import pytest
from django.test import Client

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import ProjectKey
from memoryhub.models.projects import Project
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.conftest import Browser, signed_in
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db

SCREENS = {
    "/p/acme/": "viewer",
    "/p/acme/threads": "viewer",
    "/p/acme/panels/facets": "viewer",
    "/p/acme/health": "viewer",
    "/p/acme/threads/t-1": "viewer",
    "/p/acme/threads/t-1/slots": "viewer",
    "/p/acme/threads/t-1/slots/0": "viewer",
    "/p/acme/threads/t-1/events/2": "viewer",
    "/p/acme/threads/t-1?view=events": "viewer",
    "/p/acme/threads/t-1/forks": "viewer",
    "/p/acme/threads/t-1/panels/head": "viewer",
    "/p/acme/threads/t-1/slots.csv": "viewer",
    "/p/acme/threads/t-1/events.ndjson": "viewer",
    "/p/acme/threads/t-1/messages.ndjson": "viewer",
    "/p/acme/imports": "viewer",
    "/p/acme/imports.json": "viewer",
    "/p/acme/threads/t-1/retention": "editor",
    "/p/acme/threads/t-1/fork": "editor",
    "/p/acme/threads/t-1/close": "editor",
    "/p/acme/api-keys": "owner",
    "/p/acme/api-keys/new": "owner",
    "/p/acme/settings": "owner",
}
#: Names of projects that are refused; the last is taken.
UNFIT = [
    *("", "  ", "Acme", "a b", "a/b", "../a", "a_b", "a" * 41, "a" * 5_000, "a\0"),
    *("caf\u00e9", "a\nb", "a\r\nSet-Cookie: b", "a\u202e", "\u0661", "<script>x"),
    "zeta",
]
ROLES = ["viewer", "editor", "officer", "owner"]


@pytest.mark.parametrize("role", ROLES)
def test_each_project_screen_opens_for_its_role(
    browser: Browser, agent: Agent, role: str
) -> None:
    factories.append(agent, "t-1", "hello")
    client = browser(role)
    for path, needed in SCREENS.items():
        answer = client.get(path)
        allowed = ROLES.index(role) >= ROLES.index(needed)
        assert answer.status_code == (200 if allowed else 403), path
        if not allowed:
            assert f"role {needed}" in answer.content.decode()


def test_screens_require_a_session(acme: Project, agent: Agent) -> None:
    factories.append(agent, "t-1", "hello")
    for path in SCREENS:
        answer = Client().get(path)
        assert answer.status_code == (401 if "/panels/" in path else 302), path


def test_foreign_project_is_absent_on_every_screen(
    owner: Client, stranger: Agent
) -> None:
    factories.append(stranger, "t-1", "secret")
    for path in SCREENS:
        foreign = owner.get(path.replace("/p/acme", "/p/zeta"))
        absent = owner.get(path.replace("/p/acme", "/p/nobody"))
        assert foreign.status_code == absent.status_code == 404, path
        assert "secret" not in foreign.content.decode()


def test_foreign_thread_is_absent_on_every_screen(
    owner: Client, stranger: Agent
) -> None:
    factories.append(stranger, "t-1", "secret")
    for path in (path for path in SCREENS if "t-1" in path):
        assert owner.get(path).status_code == 404, path


def test_overview_shows_latest_threads_and_health_shows_sums(
    viewer: Client, agent: Agent
) -> None:
    factories.append(agent, "t-1", "hello")
    page = viewer.get("/p/acme/").content.decode()
    assert 'href="/p/acme/threads/t-1"' in page
    memory_acts.set_key(agent, "seat", "12A", thread="t-1")
    health = viewer.get("/p/acme/health").content.decode()
    assert "Open threads" in health
    assert re.search(r">seat</a> \d+ B\s+in t-1<", health)


def test_health_reports_a_stopped_writer_in_words(viewer: Client) -> None:
    page = viewer.get("/p/acme/health").content.decode()
    assert "Not serving:" in page
    assert "The writer of this server process is not running" in page


def test_project_list_is_shown_even_for_one_project(
    owner: Client, viewer: Client
) -> None:
    rail = owner.get("/p/acme/").content.decode().partition("<main")[0]
    assert 'href="/projects" title="All projects"' in rail
    assert 'href="/projects/new"' in owner.get("/projects").content.decode()
    theirs = viewer.get("/projects").content.decode()
    assert 'href="/p/acme/"' in theirs
    assert "/projects/new" not in theirs
    nobody = signed_in(operators.add("nobody"))
    assert nobody.get("/", follow=True).redirect_chain == [("/projects", 302)]
    assert "manage.py create_project" in nobody.get("/projects").content.decode()


def test_new_project_leads_to_connecting_an_agent(
    owner: Client,
) -> None:
    answer = owner.post("/projects/new", {"slug": " night-shift "})
    assert answer.headers["Location"] == "/p/night-shift/connect"
    # The session stays, as an owner's: the form for a first key is there.
    assert "Make the key" in owner.get("/p/night-shift/connect").content.decode()
    made, by = Project.objects.get(slug="night-shift"), operators.find("owner")
    assert by is not None
    entries = AuditEntry.objects.filter(project=made.id, actor_ref=str(by.id))
    noted = entries.order_by("seq").values_list("action", "target_id")
    assert [*noted] == [("project.made", str(made.id)), ("role.changed", str(by.id))]


@pytest.mark.parametrize("slug", UNFIT)
def test_refused_project_name_makes_no_project(
    owner: Client, zeta: Project, slug: str
) -> None:
    rows = (Project.objects, ProjectKey.objects.using("keys"), AuditEntry.objects)
    before = [each.count() for each in rows]
    answer = owner.post("/projects/new", {"slug": slug})
    page = answer.content.decode()
    if slug == "zeta":
        assert (answer.status_code, "Choose another name" in page) == (409, True)
    else:
        assert answer.status_code == 422
        assert "1 to 40 characters of a-z, 0-9 and -" in page
    assert "<script>x" not in page
    assert [each.count() for each in rows] == before
