from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from inspector.access.access import SIGNED_IN
from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.queries.threads import retention
from memoryhub.queries.turns import prices
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import retention as worker
from memoryhub.workers.overview import unhealthy
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.oracles.memory_acts import lasting, new_key, set_keys

pytestmark = pytest.mark.django_db
SETTINGS, THREADS = "/p/acme/settings", "/p/acme/threads"
DAY = timedelta(days=1)
#: As a thread of nobody in particular is made.
UNCHANGED = '{"blocks":false}'


@pytest.fixture
def idling(agent: Agent) -> None:
    """Make threads last active 40, 25 and 5 days ago."""
    for days in (40, 25, 5):
        with time_machine.travel(timezone.now() - days * DAY, tick=False):
            factories.make_thread(agent, f"idle-{days}")


def list_counts(answer: Any) -> list[int]:
    return [each.count for each in answer.context["idle"].horizons]


def get_saved_days() -> int | None:
    return Project.objects.get(slug="acme").retention_idle_days


def test_retention_keeps_every_thread_by_default(owner: Client, idling: None) -> None:
    answer = owner.get(SETTINGS)
    assert list_counts(answer) == [0, 0, 0]
    assert "kept for ever" in answer.content.decode()


def test_retention_policy_previews_the_threads_to_retire(
    owner: Client, idling: None
) -> None:
    answer = owner.get(SETTINGS, {"retention_idle_days": "30"})
    page = answer.content.decode()
    assert list_counts(answer) == [1, 2, 3]
    assert "Retires <b>1 thread</b> within the hour" in page
    assert "erases what is in it for ever. Cannot be undone." in page
    assert f'href="{THREADS}/idle-40"' in page
    assert get_saved_days() is None


def test_each_retention_count_links_to_its_list(owner: Client, idling: None) -> None:
    """The list and its exports apply the days that are not saved yet."""
    page = owner.get(SETTINGS, {"retention_idle_days": "30"}).content.decode()
    for days, names in ((0, {"idle-40"}), (7, {"idle-40", "idle-25"})):
        path = f"{THREADS}?q=due%3A{days}d&amp;retention_idle_days=30"
        assert path in page
        answer = owner.get(path.replace("&amp;", "&"))
        assert {line.name for line in answer.context["listed"]} == names
        assert "This is not saved" in answer.content.decode()
        for _, url in answer.context["exported"]:
            assert "retention_idle_days=30" in url
    assert owner.get(f"{THREADS}?q=due:7d").context["listed"] == ()


def test_retention_policy_is_saved_as_previewed(
    owner: Client, agent: Agent, idling: None
) -> None:
    form = {"retention_idle_days": "30", "was": "", "due": "1"}
    answer = owner.post(SETTINGS, form)
    assert (answer.status_code, answer.headers["Location"]) == (
        302,
        f"{SETTINGS}?saved=retention#retention",
    )
    assert get_saved_days() == 30
    assert list_counts(owner.get(SETTINGS)) == [1, 2, 3]
    assert worker.retire(timezone.now()) == 1
    assert factories.get_thread(agent, "idle-40").status == "retired"
    assert list_counts(owner.get(SETTINGS)) == [0, 1, 2]


@pytest.mark.parametrize(
    "moved", [{}, {"due": "1"}, {"was": "", "due": "0"}, {"was": "7", "due": "1"}]
)
def test_stale_retention_preview_is_shown_anew(
    owner: Client, idling: None, moved: dict[str, str]
) -> None:
    answer = owner.post(SETTINGS, {"retention_idle_days": "30", **moved})
    assert answer.status_code == 409
    assert list_counts(answer) == [1, 2, 3]
    assert "has changed since you looked" in answer.content.decode()
    assert 'name="due" value="1"' in answer.content.decode()
    assert get_saved_days() is None


def test_settings_form_sent_twice_has_one_effect(owner: Client, idling: None) -> None:
    form = {"retention_idle_days": "90", "was": "", "due": "0"}
    assert owner.post(SETTINGS, form).status_code == 302
    assert owner.post(SETTINGS, form).status_code == 409
    assert get_saved_days() == 90


def test_retention_policy_is_removed(
    owner: Client, acme: Project, idling: None
) -> None:
    projects.set_retention(acme, idle_days=10)
    page = owner.get(SETTINGS, {"retention_idle_days": ""}).content.decode()
    assert "Keep for ever</button>" in page
    form = {"retention_idle_days": "", "was": "10", "due": "0"}
    assert owner.post(SETTINGS, form).status_code == 302
    assert get_saved_days() is None


@pytest.mark.parametrize("days", ["0", "-1", "36501", "1e2", "٣", "x" * 40, "1.5"])
def test_invalid_retention_days_are_refused(
    owner: Client, idling: None, days: str
) -> None:
    query = {"retention_idle_days": days}
    for answer in (owner.get(SETTINGS, query), owner.post(SETTINGS, query)):
        assert answer.status_code == 422
        assert "a number from 1 to 36,500" in answer.content.decode()
    assert owner.get(THREADS, query).status_code == 422
    assert get_saved_days() is None


def test_project_limits_are_saved(owner: Client, acme: Project) -> None:
    assert owner.post(SETTINGS, {"max_threads": " 12 "}).status_code == 302
    acme.refresh_from_db()
    assert (acme.max_threads, acme.create_on_write) == (12, False)
    form = {"max_threads": "13", "create_on_write": "on"}
    assert owner.post(SETTINGS, form).status_code == 302
    acme.refresh_from_db()
    assert (acme.max_threads, acme.create_on_write) == (13, True)


@pytest.mark.parametrize("limit", ["", "0", "-1", "10000001", "9" * 40, "many"])
def test_invalid_project_limit_is_shown_again(
    owner: Client, acme: Project, limit: str
) -> None:
    answer = owner.post(SETTINGS, {"max_threads": limit})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "from 1 to 10,000,000" in page
    assert f'value="{limit}"' in page
    acme.refresh_from_db()
    assert (acme.max_threads, acme.create_on_write) == (100_000, True)


def get_key_lifetimes() -> tuple[int | None, int | None]:
    row = Project.objects.get(slug="acme")
    return row.default_ttl_seconds, row.expired_value_grace_seconds


def test_key_lifetimes_are_saved(owner: Client) -> None:
    assert 'value="86400"' in owner.get(SETTINGS).content.decode()
    for ttl, grace, saved_as in (
        (" 3600 ", "0", (3600, 0)),
        ("", "", (None, None)),
        ("60", "31536000", (60, 31_536_000)),
    ):
        form = {"default_ttl_seconds": ttl, "expired_value_grace_seconds": grace}
        answer = owner.post(SETTINGS, form)
        assert (answer.status_code, answer.headers["Location"]) == (
            302,
            f"{SETTINGS}?saved=lifetimes#lifetimes",
        )
        assert get_key_lifetimes() == saved_as


@pytest.mark.parametrize(
    ("ttl", "grace", "problem"),
    [
        ("0", "0", "from 1 to 31,536,000"),
        ("1.5", "0", "from 1 to 31,536,000"),
        ("9" * 40, "0", "from 1 to 31,536,000"),
        ("60", "-1", "from 0 to 31,536,000"),
        ("60", "31536001", "from 0 to 31,536,000"),
    ],
)
def test_invalid_key_lifetimes_are_shown_again(
    owner: Client, acme: Project, ttl: str, grace: str, problem: str
) -> None:
    form = {"default_ttl_seconds": ttl, "expired_value_grace_seconds": grace}
    answer = owner.post(SETTINGS, form)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert problem in page
    assert f'value="{ttl}"' in page
    assert get_key_lifetimes() == (None, 86_400)


def test_grace_change_that_erases_values_needs_a_confirmation(
    owner: Client, agent: Agent
) -> None:
    with time_machine.travel(timezone.now() - DAY / 2, tick=False):
        set_keys(agent, *(new_key(f"k{n}", expiry=lasting(DAY / 4)) for n in range(3)))
    form = {"default_ttl_seconds": "", "expired_value_grace_seconds": "60"}
    for sure in ({}, {"sure": "0"}):
        answer = owner.post(SETTINGS, {**form, **sure})
        assert answer.status_code == 409
        assert "Erases <b>3 values</b>" in answer.content.decode()
        assert 'name="sure" value="60"' in answer.content.decode()
        assert get_key_lifetimes() == (None, 86_400)
    assert owner.post(SETTINGS, {**form, "sure": "60"}).status_code == 302
    assert get_key_lifetimes() == (None, 60)
    # Values due already by the saved grace need no confirmation.
    assert owner.post(SETTINGS, form).status_code == 302


@pytest.mark.parametrize("role", ["viewer", "editor", "officer"])
def test_settings_are_for_owners_only(browser: Browser, role: str) -> None:
    client = browser(role)
    form = {"retention_idle_days": "30", "was": "", "due": "0"}
    for answer in (client.get(SETTINGS), client.post(SETTINGS, form)):
        assert answer.status_code == 403
        assert "role owner" in answer.content.decode()
    assert get_saved_days() is None
    assert SETTINGS not in client.get("/p/acme/").content.decode()


def test_old_sign_in_can_read_but_not_save_settings(owner: Client) -> None:
    session = owner.session
    session[SIGNED_IN] = (timezone.now() - timedelta(minutes=61)).isoformat()
    session.save()
    assert owner.get(SETTINGS, {"retention_idle_days": "30"}).status_code == 200
    form = {"retention_idle_days": "30", "was": "", "due": "0"}
    answer = owner.post(SETTINGS, form)
    assert answer.status_code == 302
    assert "why=old" in answer.headers["Location"]
    assert get_saved_days() is None


@pytest.mark.parametrize("size", [1, 30])
def test_settings_page_costs_the_same_at_any_size(
    owner: Client, agent: Agent, size: int, django_assert_max_num_queries: Any
) -> None:
    for n in range(size):
        factories.make_thread(agent, f"t-{n}")
    owner.get(SETTINGS)
    with django_assert_max_num_queries(6):
        assert owner.get(SETTINGS, {"retention_idle_days": "1"}).status_code == 200


def test_thread_page_says_when_the_thread_retires(
    browser: Browser, acme: Project, idling: None
) -> None:
    client, path = browser("editor"), f"{THREADS}/idle-25/retention"
    assert "kept for ever" in client.get(path).content.decode()
    projects.set_retention(acme, idle_days=30)
    answer = client.get(path)
    day = answer.context["due_at"].strftime("%Y-%m-%d")
    assert f"due on {day}" in answer.content.decode()
    projects.set_retention(acme, idle_days=20)
    assert "due now" in client.get(path).content.decode()


def test_thread_can_have_its_own_retention_days(
    browser: Browser, agent: Agent, acme: Project, idling: None
) -> None:
    projects.set_retention(acme, idle_days=30)
    client, path = browser("editor"), f"{THREADS}/idle-25/retention"
    answer = client.post(path, {"retention_idle_days": "40"})
    assert (answer.status_code, answer.headers["Location"]) == (302, path)
    row = factories.get_thread(agent, "idle-25")
    row.project = Project.objects.get(slug="acme")
    # Saving is activity, so the days begin anew.
    assert row.last_active_at is not None
    assert retention.get_due_at(row) == row.last_active_at + 40 * DAY
    assert row.last_active_at > timezone.now() - DAY
    assert 'value="40"' in client.get(path).content.decode()
    assert client.post(path, {"retention_idle_days": ""}).status_code == 302
    assert factories.get_thread(agent, "idle-25").config == UNCHANGED


def test_only_owners_shorten_the_retention_of_a_thread(
    browser: Browser, agent: Agent, acme: Project
) -> None:
    factories.make_thread(agent)
    projects.set_retention(acme, idle_days=30)
    path, form = f"{THREADS}/t-1/retention", {"retention_idle_days": "29"}
    editor, owner = browser("editor"), browser("owner")
    answer = editor.post(path, form)
    assert answer.status_code == 422
    assert "Only owners" in answer.content.decode()
    assert factories.get_thread(agent).config == UNCHANGED
    assert owner.post(path, form).status_code == 302
    page = owner.get(path).content.decode()
    assert "erased for ever" in page
    assert "Only owners" not in page
    assert "erased for ever" in owner.get(SETTINGS).content.decode()


def test_retention_days_of_a_thread_have_bounds(browser: Browser, agent: Agent) -> None:
    factories.make_thread(agent)
    client, path = browser("editor"), f"{THREADS}/t-1/retention"
    answer = client.post(path, {"retention_idle_days": "0"})
    assert answer.status_code == 422
    assert 'value="0"' in answer.content.decode()
    assert factories.get_thread(agent).config == UNCHANGED


def test_retired_thread_takes_no_retention_days(
    browser: Browser, agent: Agent, acme: Project, idling: None
) -> None:
    projects.set_retention(acme, idle_days=30)
    worker.retire(timezone.now())
    client, path = browser("editor"), f"{THREADS}/idle-40/retention"
    page = client.get(path).content.decode()
    assert "This thread is retired" in page
    assert 'name="retention_idle_days"' not in page
    answer = client.post(path, {"retention_idle_days": "40"})
    assert answer.status_code == 410


def test_thread_flags_link_to_their_lists(
    viewer: Client, agent: Agent, acme: Project, idling: None
) -> None:
    projects.set_retention(acme, idle_days=30)
    factories.make_thread(agent, "brim", max_slots=10)
    factories.append(agent, "brim", *("hello" for _ in range(9)))
    unhealthy.look(timezone.now())
    leading = {
        "due": viewer.get("/p/acme/health"),
        "full": viewer.get("/p/acme/"),
    }
    assert leading["due"].context["due"] == 2
    spread = viewer.get("/p/acme/panels/facets").context["spread"]
    flags = next(facet for facet in spread.facets if facet.key == "flag")
    assert {each.value: each.count for each in flags.choices} == {"due": 2, "full": 1}
    for flag, names in (("due", {"idle-40", "idle-25"}), ("full", {"brim"})):
        assert f"{THREADS}?q=flag%3A{flag}" in leading[flag].content.decode()
        listed = viewer.get(f"{THREADS}?q=flag:{flag}").context["listed"]
        assert {line.name for line in listed} == names
    assert "messages over 90 % full" in viewer.get(THREADS).content.decode()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("due:0d", {"idle-40"}),
        ("due:<=1w", None),
        ("due:7d", {"idle-40", "idle-25"}),
        ("due:>7d", {"idle-5"}),
        ("due:1d..30d", {"idle-25", "idle-5"}),
        ("due:7d,>20d", {"idle-40", "idle-25", "idle-5"}),
        ("-due:7d", {"idle-5"}),
        ("-flag:due", {"idle-5"}),
        ("flag:due,full", {"idle-40", "idle-25"}),
        ("flag:dew", None),
    ],
)
def test_thread_search_finds_threads_due_for_retirement(
    viewer: Client, acme: Project, idling: None, query: str, names: set[str] | None
) -> None:
    projects.set_retention(acme, idle_days=30)
    answer = viewer.get(THREADS, {"q": query})
    if names is None:
        assert answer.status_code == 422
        return
    assert {line.name for line in answer.context["listed"]} == names


def test_due_list_cursor_expires_with_its_policy(
    viewer: Client, acme: Project, idling: None
) -> None:
    projects.set_retention(acme, idle_days=30)
    due = viewer.get(f"{THREADS}?q=due:7d&limit=1").context["more"]
    plain = viewer.get(f"{THREADS}?limit=1").context["more"]
    assert viewer.get(f"{THREADS}?{due}").status_code == 200
    projects.set_retention(acme, idle_days=20)
    assert viewer.get(f"{THREADS}?{due}").status_code == 400
    assert viewer.get(f"{THREADS}?{plain}").status_code == 200


def test_observer_instructions_are_saved_up_to_a_limit(owner: Client) -> None:
    told = {
        "observer_instructions": " Keep <b>order numbers</b>. ",
        "reflector_instructions": "Join what is done.",
    }
    owner.post(SETTINGS, told)
    kept = Project.objects.get(slug="acme")
    assert kept.observer_instructions == "Keep <b>order numbers</b>."
    assert kept.reflector_instructions == "Join what is done."
    text = owner.get(SETTINGS).content.decode()
    assert "Keep &lt;b&gt;order numbers" in text
    assert "Join what is done.</textarea>" in text
    for name in told:
        answer = owner.post(SETTINGS, {**told, name: "é" * 4_097})
        assert answer.status_code == 422
        assert "at most 8 KiB" in answer.content.decode()
    kept.refresh_from_db()
    assert kept.observer_instructions.startswith("Keep")


def test_consolidation_backlog_requires_its_count_confirmed(
    owner: Client, agent: Agent, acme: Project
) -> None:
    factories.make_thread(agent, "talk", user_id="ann")
    factories.append(agent, "talk", "I like tea.", "I like rye.")
    page = owner.get(SETTINGS).content.decode()
    assert "reads exchanges from now on, newest" in page
    assert "Exchanges</dt>" not in page
    page = owner.get(SETTINGS, {"backlog": "count"}).content.decode()
    assert "Exchanges</dt><dd>2</dd>" in page
    sent = {"consolidate": "auto", "backlog": "1"}
    answer = owner.post(SETTINGS, sent)
    assert answer.status_code == 422
    assert "More exchanges wait" in answer.content.decode()
    assert owner.post(SETTINGS, {**sent, "backlog": "2"}).status_code == 302
    acme.refresh_from_db()
    assert (acme.consolidate, acme.consolidate_since) == ("auto", None)
    page = owner.get(SETTINGS).content.decode()
    assert "reads all exchanges" in page
    assert owner.post(SETTINGS, {**sent, "backlog": "x"}).status_code == 422


def test_prices_are_saved_and_refused_as_typed(owner: Client) -> None:
    sent = {
        "currency": "EUR",
        "model": ["large", "small", ""],
        "price": ["2.5", "0.4", ""],
        "cached": ["0.25", "", ""],
        "answers": ["10", "", ""],
    }
    answer = owner.post(SETTINGS, sent)
    assert (answer.status_code, answer["Location"]) == (
        302,
        f"{SETTINGS}?saved=prices#prices",
    )
    page = owner.get(SETTINGS, {"saved": "prices"}).content.decode()
    form = page[page.index('<h2 id="prices">') :]
    assert form.index('role="status">Saved.') < form.index("<form")
    assert page.count("Saved.") == 1
    assert 'data-label="Cached input"' in form
    table = prices.get_table(Project.objects.get(slug="acme"))
    assert (table.own, table.currency) == (True, "EUR")
    assert table.models == {
        "large": Price(price=2.5, cached=0.25, answers=10),
        "small": Price(price=0.4),
    }
    page = owner.get(SETTINGS).content.decode()
    assert 'value="large"' in page
    assert 'value="0.25"' in page
    assert page.count('name="cached" value=""') == 3
    for wrong, marked in (
        ({"price": ["-1", "0.4", ""]}, "Price of input 1"),
        ({"price": ["1e9", "0.4", ""]}, "Price of input 1"),
        ({"price": ["2.5", "", ""]}, "Price of input 2"),
        ({"cached": ["0.25", "abc", ""]}, "Price of cached input 2"),
        ({"answers": ["10,5", "", ""]}, "Price of output 1"),
        ({"model": ["large", "large", ""]}, "Model 2"),
        ({"model": ["<b>" * 40, "small", ""]}, "Model 1"),
        ({"currency": "moneymoney"}, ""),
    ):
        answer = owner.post(SETTINGS, {**sent, **wrong})
        assert answer.status_code == 422
        assert "name of its own" in answer.content.decode()
        assert "<b><b>" not in answer.content.decode()
        of = f'aria-label="{marked}"' if marked else 'size="8"'
        form = answer.content.decode()
        wrong_input = f'{of} aria-invalid="true" aria-describedby="prices-problem"'
        assert wrong_input in " ".join(form.split())
        assert form.count('aria-invalid="true"') == 1
    assert prices.get_table(Project.objects.get(slug="acme")) == table
    assert owner.post(SETTINGS, {"currency": "EUR"}).status_code == 302
    assert not prices.get_table(Project.objects.get(slug="acme")).own
    page = owner.get(SETTINGS, {"saved": "prices"}).content.decode()
    assert "the server's prices and currency hold" in page
