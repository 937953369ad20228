"""Plans made by hand while agents write: stale plans, and keeping agents out."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from memoryhub.errors import SubjectRestrictedError
from memoryhub.models.erasures import Erasure
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories
from tests.inspector import forgotten
from tests.inspector.conftest import Browser
from tests.inspector.forget.test_privacy_forget import (
    P,
    confirm,
    plan,
    row_of,
    sent_by,
    text_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def officer(browser: Browser) -> Client:
    return browser("officer")


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return forgotten.make_person(agent, "ann")


def test_stale_forget_plan_is_shown_anew(
    officer: Client, ann: Subject, agent: Agent
) -> None:
    path = plan(officer, ann)
    form = sent_by(text_of(officer.get(path)))
    factories.append(agent, "ann-1", "One more thing.")
    stale = officer.post(f"{path}/confirm", form)
    assert stale.status_code == 409
    page = text_of(stale)
    assert "Something was written after this plan was made" in page
    assert "`" not in page.partition("<main")[2]
    assert 'name="typed" value=""' in page
    assert row_of(path).confirmed_at is None
    fresh = sent_by(page)
    assert fresh["typed"] != form["typed"]
    assert fresh["token"] != form["token"]
    assert officer.post(f"{path}/confirm", fresh).status_code == 302
    assert row_of(path).confirmed_at is not None


def test_stale_plan_offers_to_keep_agents_out(
    officer: Client, ann: Subject, agent: Agent
) -> None:
    path = plan(officer, ann)
    assert f'action="{path}/keep-out"' in text_of(officer.get(path))
    factories.append(agent, "ann-1", "One more thing.")
    answer = officer.post(f"{path}/keep-out")
    assert (answer.status_code, answer.headers["Location"]) == (302, path)
    with pytest.raises(SubjectRestrictedError):
        factories.append(agent, "ann-1", "Too late.")
    page = text_of(officer.get(path))
    assert "Agents are kept out" in page
    assert "/keep-out" not in page
    assert confirm(officer, path).status_code == 302
    late = officer.post(f"{path}/keep-out")
    assert late.status_code == 409
    assert "has begun" in text_of(late)


def test_keep_agents_out_tick_is_kept_when_a_plan_is_reused(
    officer: Client, ann: Subject
) -> None:
    form = text_of(officer.get(f"{P}/subjects/{ann.id}/forget"))
    assert 'name="restrict" value="1" checked' in form
    without = text_of(officer.get(f"{P}/subjects/{ann.id}/forget?restrict=0"))
    assert 'name="restrict" value="1">' in without
    path = plan(officer, ann)
    assert not row_of(path).restrict
    assert plan(officer, ann, restrict="1") == path
    assert row_of(path).restrict
    assert Subject.objects.get(id=ann.id).state == "restricted"
    # The first form sent again without the tick: agents stay kept out.
    assert plan(officer, ann) == path
    assert row_of(path).restrict


def test_ended_plan_is_planned_anew_with_its_choices(
    officer: Client, ann: Subject
) -> None:
    fields = {"scope": "record", "thread": "ann-1", "record": "2"}
    path = plan(officer, ann, **fields)
    Erasure.objects.update(expires_at=forgotten.minutes_ago(1))
    again = re.search(r'href="([^"]+)">Plan again', text_of(officer.get(path)))
    assert again is not None
    form = text_of(officer.get(unescape(again[1])))
    for chosen in (
        'value="record" checked',
        'name="thread" list="threads-of" value="ann-1"',
        'value="consent_withdrawn" selected',
        'value="PRIV-7"',
        'name="restrict" value="1">',
    ):
        assert chosen in form, chosen
