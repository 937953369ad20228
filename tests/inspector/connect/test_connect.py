"""The Connect page without scripts: from a key to the first event."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inspector.access.access import SIGNED_IN
from inspector.connect import snippets
from inspector.templatetags.units import mark_code
from memoryhub.errors import ThreadFullError
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.activity import RefusalCount
from memoryhub.models.projects import Project
from memoryhub.services.access import agents, api_keys
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db

HERE = "/p/acme/connect"
#: Before any test.
SINCE = "2001-01-01T00:00:00+00:00"


def read_text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def nonce_of(client: Client) -> str:
    found = re.search(r'name="nonce" value="([^"]+)"', read_text(client.get(HERE)))
    assert found is not None
    return found[1]


def make(client: Client, name: str = "desk-agent") -> Any:
    return client.post(f"{HERE}/key", {"name": name, "nonce": nonce_of(client)})


def test_key_made_on_connect_page_is_shown_once_and_works(
    owner: Client, acme: Project
) -> None:
    answer = make(owner)
    assert answer.status_code == 201
    found = api_keys.KEY_PATTERN.search(read_text(answer))
    assert found is not None
    row = ApiKey.objects.get()
    assert (row.name, row.project, row.scopes) == (
        "desk-agent",
        acme,
        "memory:read memory:write",
    )
    assert api_keys.is_valid_key(row, found[0], now=timezone.now())
    again = read_text(owner.get(HERE))
    assert found[0] not in again
    assert "desk-agent" in again


def test_key_form_sent_twice_makes_one_key(owner: Client) -> None:
    form = {"name": "desk", "nonce": nonce_of(owner)}
    assert owner.post(f"{HERE}/key", form).status_code == 201
    assert owner.post(f"{HERE}/key", form).status_code == 302
    assert ApiKey.objects.count() == 1


def list_current_steps(page: str) -> list[str]:
    return re.findall(r'<li class="(\w+) at">', page)


def test_step_is_done_only_by_a_key_made_on_the_page(
    owner: Client, agent: Agent
) -> None:
    page = read_text(owner.get(HERE))
    assert "Other agents of this project have keys" in page
    assert list_current_steps(page) == ["make"]
    made = read_text(make(owner, "desk"))
    assert '<li class="make done">' in made
    assert list_current_steps(made) == ["send"]


@pytest.mark.parametrize("name", ["", "two words", "x" * 65])
def test_invalid_key_name_is_refused_in_words(owner: Client, name: str) -> None:
    answer = make(owner, name)
    assert answer.status_code == 422
    assert "A name holds letters" in read_text(answer)
    assert ApiKey.objects.count() == 0


@pytest.mark.parametrize("role", ["viewer", "editor", "officer"])
def test_snippets_are_for_all_roles_but_keys_for_owners(
    browser: Browser, role: str
) -> None:
    browser("owner")
    client = browser(role)
    page = read_text(client.get(HERE))
    assert "Ask an owner of" in page
    assert "urllib.request" in page
    assert client.post(f"{HERE}/key", {"name": "desk"}).status_code == 403
    assert ApiKey.objects.count() == 0


def test_old_sign_in_cannot_make_keys(owner: Client) -> None:
    session = owner.session
    session[SIGNED_IN] = (timezone.now() - timedelta(minutes=61)).isoformat()
    session.save()
    answer = owner.post(f"{HERE}/key", {"name": "desk"})
    assert (answer.status_code, "why=old" in answer.headers["Location"]) == (302, True)
    assert owner.get(HERE).status_code == 200


def test_every_snippet_names_the_address(owner: Client) -> None:
    page = read_text(owner.get(HERE, headers={"host": "127.0.0.1:8123"}))
    parts = re.findall(r'<pre id="code-(\w+)"\s*>(.*?)</pre>', page, re.DOTALL)
    assert [name for name, _ in parts] == ["py", "ts", "curl", "lg", "mcp"]
    for name, part in parts:
        route = "mcp" if name == "mcp" else "api/v1/threads/"
        assert f"http://127.0.0.1:8123/{route}" in part, name
        assert "HOST" not in part


def test_card_waits_until_a_thread_begins(owner: Client, agent: Agent) -> None:
    opened = timezone.now().isoformat()
    waits = owner.get(f"{HERE}/heard", {"since": opened})
    assert "Waiting for the first event" in read_text(waits)
    assert 'hx-trigger="refresh, every 4s"' in read_text(waits)
    factories.append(agent, "t-1", "Is NL 482 on time?")
    heard = owner.get(f"{HERE}/heard", {"since": opened})
    assert heard.headers["MH-Panel"] == "1"
    page = read_text(heard)
    assert "Is NL 482 on time?" in page
    assert 'data-live="events"' in page
    assert 'hx-trigger="refresh, every 4s"' not in page
    assert 'href="/p/acme/threads/t-1"' in page


def heard(client: Client) -> str:
    return read_text(client.get(f"{HERE}/heard", {"since": timezone.now().isoformat()}))


def test_card_waits_only_for_the_key_made_on_the_page(
    owner: Client, agent: Agent
) -> None:
    secret = api_keys.KEY_PATTERN.search(read_text(make(owner)))
    assert secret is not None
    found = agents.find(secret[0], now=timezone.now())
    assert found is not None
    factories.append(agent, "of-another", "Where is my bag?")
    waits = heard(owner)
    assert "Waiting for desk-agent" in waits
    assert "The key works" in waits
    assert "of-another" not in waits
    factories.append(found.agent, "first-flight", "Is NL 482 on time?")
    factories.append(agent, "of-another", "Where is it now?")
    for page in (heard(owner), read_text(owner.get(HERE))):
        assert "first-flight</a> has begun" in page
        assert "Where is my bag?" not in page


def test_card_finds_a_thread_older_than_the_key(owner: Client, agent: Agent) -> None:
    factories.append(agent, "t-1", "Where is my bag?")
    secret = api_keys.KEY_PATTERN.search(read_text(make(owner)))
    assert secret is not None
    found = agents.find(secret[0], now=timezone.now())
    assert found is not None
    assert "Waiting for desk-agent" in heard(owner)
    factories.append(found.agent, "t-1", "Is NL 482 on time?")
    assert "t-1</a> is written to" in heard(owner)


def test_shell_line_is_shown_with_the_key(owner: Client) -> None:
    page = read_text(make(owner))
    secret = api_keys.KEY_PATTERN.search(page)
    assert secret is not None
    assert f"export</span> MEMORYHUB_KEY={secret[0]}</pre>" in page


def test_no_line_of_a_snippet_is_cut() -> None:
    for snippet in snippets.list_snippets("http://127.0.0.1:8000"):
        assert max(map(len, snippet.text.splitlines())) <= 70, snippet.name


def test_card_content_is_audited_but_waiting_is_not(
    owner: Client, agent: Agent
) -> None:
    owner.get(f"{HERE}/heard", {"since": SINCE})
    assert not AuditEntry.objects.filter(action="content.read").exists()
    factories.append(agent, "t-1", "Is NL 482 on time?")
    owner.get(f"{HERE}/heard", {"since": SINCE})
    read = AuditEntry.objects.get(action="content.read")
    assert read.target_id == str(factories.get_thread(agent).id)


def test_reload_shows_the_thread_that_began(owner: Client, agent: Agent) -> None:
    factories.append(agent, "t-1", "Is NL 482 on time?")
    assert "has begun" in read_text(owner.get(HERE, {"since": SINCE}))
    page = read_text(owner.get(HERE))
    assert "Waiting for a new thread" in page
    assert "Newest thread" in page


def test_card_lists_no_refusals_of_others_before_a_key_was_made(
    owner: Client, agent: Agent, acme: Project
) -> None:
    factories.append(agent, "t-1", "Where is my bag?")
    now = timezone.now().replace(second=0, microsecond=0)
    RefusalCount.objects.create(
        project=acme, minutes=1, at=now, code="subject_erased", count=3
    )
    page = read_text(owner.get(f"{HERE}/heard", {"since": timezone.now().isoformat()}))
    assert "Waiting for a new thread" in page
    assert "subject_erased" not in page


def test_card_lists_refusals_with_their_reasons(
    owner: Client, acme: Project, zeta: Project
) -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    for project, code, at in (
        (acme, "thread_full", now),
        (acme, "no_room", now - timedelta(minutes=2)),
        (zeta, "stale", now),
    ):
        RefusalCount.objects.create(
            project=project, minutes=1, at=at, code=code, count=3
        )
    page = read_text(owner.get(f"{HERE}/heard", {"since": timezone.now().isoformat()}))
    reason = html.unescape(
        mark_code((ThreadFullError.__doc__ or "").partition("\n")[0])
    )
    assert f"Refused 3 times: <code>thread_full</code> {reason}" in page
    assert "no_room" not in page
    assert "stale" not in page
    # Nobody has used the key that the page waits for, so these are of others.
    make(owner)
    assert "thread_full" not in heard(owner)


def test_invalid_since_time_is_refused(owner: Client) -> None:
    assert owner.get(f"{HERE}/heard", {"since": "soon"}).status_code == 422
    assert owner.get(f"{HERE}/heard").status_code == 422
    assert owner.get(f"{HERE}/other", {"since": SINCE}).status_code == 404


def test_thread_of_a_restricted_subject_is_hidden_from_viewers(
    browser: Browser, agent: Agent
) -> None:
    browser("owner")
    thread = factories.make_thread(agent, user_id="ann")
    thread.subject.state = "restricted"
    thread.subject.save(update_fields=["state"])
    since = {"since": SINCE}
    assert "Waiting" in read_text(browser("viewer").get(f"{HERE}/heard", since))
    assert "has begun" in read_text(browser("officer").get(f"{HERE}/heard", since))


def test_empty_project_leads_to_the_connect_page(owner: Client) -> None:
    for path in ("/p/acme/", "/p/acme/threads"):
        assert f'href="{HERE}"' in read_text(owner.get(path))
