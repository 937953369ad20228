"""The privacy console: look-up, reveal, restriction, legal hold, export."""

from __future__ import annotations

import io
import re
import zipfile
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Hold, Receipt, Tombstone
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from tests.cast import factories, graves
from tests.inspector import forgotten
from tests.inspector.conftest import Browser
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db(transaction=True)
P = "/p/acme"
#: An id that nobody should find in an address, a title or a log.
USER_ID = "mia_li_3668@mail.example"


@pytest.fixture
def officer(browser: Browser) -> Client:
    browser("owner")
    return browser("officer")


@pytest.fixture
def mia(agent: Agent) -> Subject:
    factories.make_thread(agent, "mia-1", user_id=USER_ID)
    factories.append(agent, "mia-1", "Where is my parcel?")
    found = subjects.find(agent.project, USER_ID)
    assert found is not None
    return found


def text_of(answer: Any) -> str:
    text: str = answer.content.decode()
    return text


def get_last_entry(action: str) -> AuditEntry:
    found = AuditEntry.objects.filter(action=action).order_by("-seq").first()
    assert found is not None
    return found


# Finding and revealing


def test_look_up_leads_to_the_subject_id(officer: Client, mia: Subject) -> None:
    answer = officer.post(f"{P}/subjects/look-up", {"user_id": USER_ID})
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{P}/subjects/{mia.id}"
    noted = get_last_entry("subject.looked_up")
    assert (noted.target_id, noted.outcome) == (str(mia.id), "done")


@pytest.mark.parametrize(
    ("user_id", "status"), [("mia_li", 404), ("", 422), (" mia_li", 422), ("<b>", 404)]
)
def test_look_up_of_an_unknown_user_id_is_not_found(
    officer: Client, mia: Subject, user_id: str, status: int
) -> None:
    answer = officer.post(f"{P}/subjects/look-up", {"user_id": user_id})
    assert answer.status_code == status
    assert "Nobody here has that user id" in text_of(answer)
    if status == 404:
        assert get_last_entry("subject.looked_up").outcome == "not_found"


@pytest.mark.no_replay
def test_look_up_of_an_erased_subject_is_audited(officer: Client, mia: Subject) -> None:
    graves.bury_subject(mia)
    sent = {"user_id": USER_ID}
    assert officer.post(f"{P}/subjects/look-up", sent).status_code == 410
    noted = get_last_entry("subject.looked_up")
    assert (noted.target_id, noted.outcome) == (None, "subject_erased")
    assert AuditEntry.objects.filter(action="subject.looked_up").count() == 1


def test_user_id_is_masked_until_it_is_revealed(
    officer: Client, mia: Subject, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{P}/subjects/{mia.id}"
    masked = officer.get(path)
    assert USER_ID not in text_of(masked)
    assert not AuditEntry.objects.filter(action="subject.revealed").exists()
    shown = officer.post(f"{path}/reveal")
    assert shown.status_code == 200
    assert USER_ID in text_of(shown)
    title = re.search("<title>(.*)</title>", text_of(shown))
    assert title is not None
    assert USER_ID not in title[1]
    assert get_last_entry("subject.revealed").target_id == str(mia.id)
    assert officer.get(f"{path}/reveal").status_code == 405
    assert USER_ID not in caplog.text
    assert USER_ID not in str([*AuditEntry.objects.values()])


def test_console_pages_show_no_user_id(
    officer: Client, mia: Subject, agent: Agent
) -> None:
    forgotten.make_hold(mia)
    for path in ("/subjects", f"/subjects/{mia.id}", "/holds", "/erasures"):
        assert USER_ID not in text_of(officer.get(P + path))
    for kind in ("json", "csv", "ndjson"):
        answer: Any = officer.get(f"{P}/subjects.{kind}")
        whole = (
            b"".join(answer.streaming_content) if answer.streaming else answer.content
        )
        assert USER_ID.encode() not in whole
        assert str(mia.id).encode() in whole


def test_look_up_of_an_erased_subject_shows_receipt_and_readmits(
    officer: Client, mia: Subject
) -> None:
    forgotten.finish(forgotten.confirm(forgotten.plan(mia)))
    answer = officer.post(f"{P}/subjects/look-up", {"user_id": USER_ID})
    assert answer.status_code == 410
    assert str(Receipt.objects.get().id) in text_of(answer)
    assert ">Readmit</button>" in text_of(answer)
    here = f"{P}/subjects/readmit"
    again = officer.post(here, {"user_id": USER_ID})
    assert again.status_code == 302
    assert str(mia.id) not in again.headers["Location"]
    page = text_of(officer.get(again.headers["Location"]))
    assert "<dd>2</dd>" in page
    assert get_last_entry("subject.readmitted").outcome == "done"
    assert officer.post(here, {"user_id": USER_ID}).status_code == 409
    assert officer.post(here, {"user_id": "nobody"}).status_code == 409
    assert officer.post(here, {"user_id": "a\nb"}).status_code == 422


def test_subjects_are_listed_by_state_and_page_by_page(
    officer: Client, agent: Agent, mia: Subject
) -> None:
    for n in range(3):
        subjects.find_or_create(agent.project, f"person-{n}")
    first = officer.get(f"{P}/subjects.json?limit=2").json()
    rest = officer.get(f"{P}/subjects.json?limit=200&after={first['next']}").json()
    ids = [each["subject"] for each in (*first["items"], *rest["items"])]
    assert sorted(ids) == sorted(map(str, Subject.objects.values_list("id", flat=True)))
    assert ids == sorted(ids, reverse=True)
    lines = {each["subject"]: each for each in rest["items"]}
    assert lines[str(mia.id)]["threads"] == 1
    assert officer.get(f"{P}/subjects.json?state=erased").json()["items"] == []
    assert officer.get(f"{P}/subjects?state=zz").status_code == 422
    assert (
        officer.get(f"{P}/subjects.json?after={first['next']}&state=active").status_code
        == 400
    )


# Restricting, holding, exporting


def test_restriction_is_set_on_a_basis_and_lifted(
    officer: Client, browser: Browser, mia: Subject
) -> None:
    path = f"{P}/subjects/{mia.id}"
    assert officer.post(f"{path}/restrict", {"basis": "because"}).status_code == 422
    assert officer.post(f"{path}/restrict", {"basis": "claims"}).status_code == 302
    page = text_of(officer.get(path))
    assert "Agents can neither read nor write" in page
    assert browser("viewer").get(f"{P}/threads/mia-1").status_code == 403
    assert officer.post(f"{path}/unrestrict").status_code == 302
    assert officer.post(f"{path}/unrestrict").status_code == 302
    assert Subject.objects.get(id=mia.id).state == "active"


def test_hold_has_a_basis_an_end_and_a_reviewer(
    officer: Client, acme: Project, mia: Subject
) -> None:
    path = f"{P}/subjects/{mia.id}/hold"
    reviewer = operators.find("officer")
    assert reviewer is not None
    assert "officer</option>" in text_of(officer.get(path))
    form = {"basis": "legal_claims", "days": "30", "reviewer": str(reviewer.id)}
    viewer = operators.add("vera")
    operators.set_role(acme, viewer, "viewer")
    for wrong, problem in (
        ({"basis": "x"}, "a basis"),
        ({"days": "0"}, "from 1 to 365"),
        ({"days": "366"}, "from 1 to 365"),
        ({"days": "٣"}, "from 1 to 365"),
        ({"reviewer": str(viewer.id)}, "an officer"),
        ({"reviewer": ""}, "an officer"),
    ):
        answer = officer.post(path, {**form, **wrong})
        assert answer.status_code == 422
        assert problem in text_of(answer)
    assert officer.post(path, form).status_code == 302
    hold = Hold.objects.get()
    lasts = hold.expires_at - hold.opened_at
    assert abs(lasts - timedelta(days=30)) < timedelta(seconds=5)
    for listed in (f"{P}/holds", f"{P}/subjects/{mia.id}"):
        page = text_of(officer.get(listed))
        assert "in force" in page
        assert "legal claims" in page
    assert officer.get(f"{P}/holds.json").json()["items"][0]["reviewer"] == "officer"


def test_hold_is_renewed_from_the_list(officer: Client, mia: Subject) -> None:
    hold = forgotten.make_hold(mia, days=9)
    path = f"{P}/holds/{hold.id}/renew"
    for listed in (f"{P}/holds", f"{P}/subjects/{mia.id}"):
        assert f'href="{path}"' in text_of(officer.get(listed))
    assert 'name="days"' in text_of(officer.get(path))
    for wrong in ("0", "366", "", "x"):
        answer = officer.post(path, {"days": wrong})
        assert answer.status_code == 422
        assert "from 1 to 365" in text_of(answer)
    assert Hold.objects.get().expires_at == hold.expires_at
    assert officer.post(path, {"days": "30"}).status_code == 302
    lasts = Hold.objects.get().expires_at - timezone.now()
    assert timedelta(days=29) < lasts <= timedelta(days=30)
    assert get_last_entry("hold.renewed").target_id == str(hold.id)
    assert get_last_entry("hold.renewed").actor_kind == "operator"


def test_ended_hold_is_not_renewed(officer: Client, mia: Subject) -> None:
    hold = forgotten.make_hold(mia)
    path = f"{P}/holds/{hold.id}/renew"
    officer.post(f"{P}/holds/{hold.id}/lift")
    assert path not in text_of(officer.get(f"{P}/holds"))
    page = text_of(officer.get(path))
    assert "Open a new hold" in page
    assert 'name="days"' not in page
    assert officer.post(path, {"days": "30"}).status_code == 302
    assert Hold.objects.get().expires_at == hold.expires_at
    assert not AuditEntry.objects.filter(action="hold.renewed").exists()


def test_subject_export_lists_its_contents_before_the_download(
    officer: Client, mia: Subject
) -> None:
    path = f"{P}/subjects/{mia.id}/export"
    page = text_of(officer.get(path))
    assert "What is in it" in page
    assert "What is not" in page
    assert not AuditEntry.objects.filter(action="subject.exported").exists()
    answer: Any = officer.post(path)
    assert answer.headers["Content-Type"] == "application/zip"
    assert USER_ID not in answer.headers["Content-Disposition"]
    whole = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    assert whole.testzip() is None
    assert b"Where is my parcel?" in whole.read("events.jsonl")
    assert get_last_entry("subject.exported").target_id == str(mia.id)


def test_subject_export_tells_the_page_that_its_download_begins(
    officer: Client, mia: Subject
) -> None:
    path = f"{P}/subjects/{mia.id}/export"
    form = text_of(officer.get(path))
    assert "data-download" in form
    assert 'data-done="Back to the person">Cancel</a>' in form
    for token, sent in (("m2k9a", ["m2k9a"]), ("", []), ("a; Path=/", [])):
        answer: Any = officer.post(path, {"token": token})
        b"".join(answer.streaming_content)
        begun = [each.value for each in answer.cookies.values() if each["path"] == path]
        assert begun == sent


# Tombstones


def test_value_tombstone_is_found_by_its_value_and_lifted(
    officer: Client, agent: Agent, mia: Subject
) -> None:
    text = "She likes to sit by the window."
    memory_acts.add_notes(agent, text, thread="mia-1")
    graves.bury_values(mia, [("note", text)])
    here, form = f"{P}/tombstones", {"subject": str(mia.id)}
    found = officer.post(here, {**form, "value": text.upper()})
    stone = Tombstone.objects.get(kind="value")
    lift = f"{here}/{stone.id}/lift"
    assert f'href="{lift}"' in text_of(found)
    assert text not in text_of(found)
    other = officer.post(here, {**form, "value": "Something else, just as long."})
    assert "No tombstone keeps this value" in text_of(other)
    assert officer.post(here, {"subject": "x", "value": text}).status_code == 422
    # The page first explains the effect; reading the page lifts nothing.
    page = text_of(officer.get(lift))
    assert "can't be made again" in page
    assert Tombstone.objects.filter(kind="value").exists()
    assert officer.post(lift).status_code == 302
    assert not Tombstone.objects.filter(kind="value").exists()
    assert get_last_entry("tombstone.lifted").target_id == str(stone.id)
    assert officer.post(lift).status_code == 404


def test_tombstone_search_is_audited_whether_found_or_not(
    officer: Client, mia: Subject
) -> None:
    text = "She likes to sit by the window."
    graves.bury_values(mia, [("note", text)])
    here, form = f"{P}/tombstones", {"subject": str(mia.id)}
    for value, outcome in ((text, "done"), ("Something just as long.", "not_found")):
        officer.post(here, {**form, "value": value})
        noted = get_last_entry("tombstone.looked_up")
        assert (noted.target_id, noted.outcome) == (str(mia.id), outcome)
    entries = AuditEntry.objects.filter(action="tombstone.looked_up")
    assert [*entries.order_by("seq").values_list("count", flat=True)] == [1, 0]
    # The list shows no value.
    officer.get(here)
    assert entries.count() == 2


@pytest.mark.no_replay
def test_only_value_tombstones_can_be_lifted(
    officer: Client, agent: Agent, mia: Subject
) -> None:
    graves.bury_thread(factories.get_thread(agent, "mia-1"))
    stone = Tombstone.objects.get(kind="thread")
    lift = f"{P}/tombstones/{stone.id}/lift"
    for ask in (officer.get, officer.post):
        assert ask(lift).status_code == 404
    assert Tombstone.objects.filter(id=stone.id).exists()
    assert lift not in text_of(officer.get(f"{P}/tombstones"))


def test_tombstone_of_another_project_is_not_found(
    officer: Client, zeta: Project
) -> None:
    theirs = subjects.find_or_create(zeta.id, "zoe")
    graves.bury_values(theirs, [("note", "A value that is long enough.")])
    stone = Tombstone.objects.get(kind="value")
    here = f"{P}/tombstones"
    assert officer.get(f"{here}/{stone.id}/lift").status_code == 404
    assert officer.post(f"{here}/{stone.id}/lift").status_code == 404
    sent = {"subject": str(theirs.id), "value": "A value that is long enough."}
    assert officer.post(here, sent).status_code == 404
    assert Tombstone.objects.filter(id=stone.id).exists()


# Roles


def test_privacy_console_is_for_officers(browser: Browser, mia: Subject) -> None:
    browser("owner")
    for role, sees in (("viewer", False), ("editor", False), ("officer", True)):
        client = browser(role)
        page = text_of(client.get(f"{P}/"))
        assert (f'href="{P}/erasures"' in page) is sees
        answer = client.get(f"{P}/subjects.json")
        assert answer.status_code == (200 if sees else 403)
        if not sees:
            assert "role officer" in text_of(answer)


def test_stuck_erasure_turns_the_overview_red(officer: Client, mia: Subject) -> None:
    late = "confirmed more than 5 minutes ago"
    assert late not in text_of(officer.get(f"{P}/"))
    forgotten.confirm(forgotten.plan(mia))
    with time_machine.travel(timezone.now() + timedelta(minutes=6), tick=False):
        page = text_of(officer.get(f"{P}/"))
        assert f"{P}/health#unfinished-erasures" in page
        assert late in page
        verdicts = text_of(officer.get(f"{P}/health/privacy"))
    assert late in verdicts


def test_privacy_verdicts_say_what_to_do(officer: Client, mia: Subject) -> None:
    page = text_of(officer.get(f"{P}/health/privacy"))
    assert "keys backup FILE" in page
    forgotten.finish(forgotten.confirm(forgotten.plan(mia)))
    page = text_of(officer.get(f"{P}/health/privacy"))
    assert "It ends where both databases stand." in page
    assert "It found nothing undeclared." in page
