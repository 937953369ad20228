"""Forgetting by hand: from the form over the plan to the receipt, page by page."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import orjson
import pytest
from django.test import Client

from inspector.access.access import SIGNED_IN
from memoryhub.management import following
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.activity import RefusalCount
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from tests.inspector import forgotten
from tests.inspector.conftest import Browser

pytestmark = pytest.mark.django_db(transaction=True)
P = "/p/acme"
FORM = {"scope": "subject", "reason": "consent_withdrawn", "ticket": "PRIV-7"}
#: Addresses of ann's records that somebody may have kept.
PERMALINKS = (
    "/threads/ann-2",
    "/threads/ann-2/events/2",
    "/threads/ann-2/slots",
    "/threads/ann-2/slots/0",
    "/threads/ann-2/keys/seat",
    "/threads/ann-2/notes",
    "/threads/ann-2/pages/slot-0",
    "/threads/ann-2?view=events",
)


@pytest.fixture
def officer(browser: Browser) -> Client:
    browser("owner")
    return browser("officer")


@pytest.fixture
def ann(agent: Agent) -> Subject:
    """Make ann with two threads, and bob with the same words."""
    forgotten.make_person(agent, "bob")
    return forgotten.make_person(agent, "ann")


def text_of(answer: Any) -> str:
    text: str = answer.content.decode()
    return text


def begin(client: Client, subject: Subject, **fields: str) -> Any:
    """Send the form that begins a plan."""
    return client.post(f"{P}/subjects/{subject.id}/forget", {**FORM, **fields})


def plan(client: Client, subject: Subject, **fields: str) -> str:
    """Make a plan; return its address."""
    answer = begin(client, subject, **fields)
    assert answer.status_code == 302, text_of(answer)
    return str(answer.headers["Location"])


def sent_by(page: str) -> dict[str, str]:
    """Return the fields of a plan's form with the confirming words typed."""
    token = re.search(r'name="token" value="([^"]+)"', page)
    typed = re.search(r"Type <code>(forget \d+)</code>", page)
    assert token is not None
    assert typed is not None
    return {"token": token[1], "typed": typed[1]}


def confirm(client: Client, path: str) -> Any:
    return client.post(f"{path}/confirm", sent_by(text_of(client.get(path))))


def row_of(path: str) -> Erasure:
    return Erasure.objects.get(id=path.rpartition("/")[2])


def test_forget_end_to_end(
    officer: Client, browser: Browser, ann: Subject, agent: Agent
) -> None:
    """Check that plan and receipt agree, and that each permalink is 410 and names the
    receipt.
    """
    path = plan(officer, ann)
    page = text_of(officer.get(path))
    before = ErasureLine.from_row(row_of(path))
    assert f"Erases {before.count} rows of 2 threads. Cannot be undone." in page
    assert page.index("Kept, and why") < page.index("Type <code>")
    assert page.index("Out of reach") < page.index("Type <code>")
    answer = confirm(officer, path)
    assert answer.status_code == 302
    assert answer.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert answer.headers["Location"] == path
    assert "every 1s" in text_of(officer.get(path))
    done = forgotten.finish(row_of(path))
    assert done.state == "complete"
    receipt = Receipt.objects.get()
    says = orjson.loads(receipt.text)
    planned = {each.place: each.erase for each in before.places if each.erase}
    assert says["planned"] == says["fenced"] == planned
    assert {p: part["count"] for p, part in says["erased"].items()} == planned
    page = text_of(officer.get(path))
    assert "every 1s" not in page
    assert f"{P}/receipts/{receipt.id}" in page
    viewer = browser("viewer")
    for link in PERMALINKS:
        gone, seen = officer.get(P + link), viewer.get(P + link)
        assert (gone.status_code, seen.status_code) == (410, 410), link
        assert f'href="{P}/receipts/{receipt.id}"' in text_of(gone), link
        assert str(receipt.id)[-8:] in text_of(seen), link
        assert f"{P}/receipts" not in text_of(seen), link
    gone = officer.get(f"{P}/subjects/{ann.id}")
    assert gone.status_code == 410
    assert "The person was forgotten" in text_of(gone)
    assert "Keeps what was erased from coming back" in text_of(gone)
    # The twin's threads are unchanged.
    for link in PERMALINKS:
        assert officer.get(P + link.replace("ann", "bob")).status_code == 200


def test_receipt_page_says_why_planned_and_fenced_differ(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    thread = Thread.objects.filter(subject=ann, home=False)[0]
    RefusalCount.objects.create(
        project=ann.project,
        thread=thread,
        minutes=60,
        at=clock.now(),
        code="subject_restricted",
        count=1,
    )
    confirm(officer, path)
    forgotten.finish(row_of(path))
    page = text_of(officer.get(f"{P}/receipts/{Receipt.objects.get().id}"))
    assert "Planned and fenced differ in refusal counts:" in page


def test_receipt_is_shown_downloaded_and_verified(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    confirm(officer, path)
    forgotten.finish(row_of(path))
    receipt = Receipt.objects.get()
    page = text_of(officer.get(f"{P}/receipts/{receipt.id}"))
    assert "badge ok" in page
    assert "Planned and fenced differ" not in page
    assert "what this server holds is gone" in page
    assert "with how long each remains" in page
    assert "Found, as others use it too</dt><dd>" in page
    backups = orjson.loads(receipt.text)["residue"][0]
    for shown in (page, text_of(officer.get(f"{P}/subjects/{ann.id}"))):
        assert "Names of threads, agents, sessions, labels," in shown
        assert f"Until {backups['until']}" in shown
    whole = text_of(officer.get(f"{P}/receipts/{receipt.id}/download"))
    assert whole == receipt.text
    verify = f"{P}/receipts/verify"
    indented = orjson.dumps(orjson.loads(whole), option=orjson.OPT_INDENT_2).decode()
    for right in (whole, indented, indented.replace("\n", "\r\n")):
        good = officer.post(verify, {"text": right})
        assert good.status_code == 200
        assert "<b>Valid.</b>" in text_of(good)
    for wrong, why in (
        (whole.replace('"scope":"subject"', '"scope":"thread"'), "was changed"),
        (whole.replace('"v":', '"v":1,"v":'), "unique keys"),
        ('{"v":1}', "neither a receipt nor"),
        (whole.replace(orjson.loads(whole)["key_id"], "x"), "no key of this instance"),
        ("<script>alert(1)</script>", "t be read as a receipt"),
    ):
        bad = officer.post(verify, {"text": wrong})
        assert bad.status_code == 422
        assert why in text_of(bad), wrong
        assert "<script>alert" not in text_of(bad)
        assert "<b>Valid.</b>" not in text_of(bad)


def test_forget_form_sent_twice_makes_one_erasure(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    assert plan(officer, ann) == path
    form = sent_by(text_of(officer.get(path)))
    first = officer.post(f"{path}/confirm", form)
    again = officer.post(f"{path}/confirm", form)
    assert (first.status_code, again.status_code) == (302, 302)
    forgotten.finish(row_of(path))
    late = officer.post(f"{path}/confirm", form)
    assert late.status_code == 302
    assert Erasure.objects.count() == 1
    assert Receipt.objects.count() == 1


def test_second_plan_is_refused_while_one_is_open(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    other = begin(officer, ann, reason="mistake")
    assert other.status_code == 409
    assert f'href="{path}"' in text_of(other)
    assert officer.post(f"{path}/cancel").status_code == 302
    assert plan(officer, ann, reason="mistake") != path


@pytest.mark.parametrize("typed", ["", "forget", "forget 1", "Forget {n}", "{n}"])
def test_confirming_requires_the_typed_count(
    officer: Client, ann: Subject, typed: str
) -> None:
    path = plan(officer, ann)
    form = sent_by(text_of(officer.get(path)))
    wrong = typed.replace("{n}", form["typed"].partition(" ")[2])
    answer = officer.post(f"{path}/confirm", {**form, "typed": wrong})
    assert answer.status_code == 409
    assert "not the plan" in text_of(answer)
    assert "Clear-Site-Data" not in answer.headers
    assert row_of(path).confirmed_at is None


def test_forged_plan_token_confirms_nothing(officer: Client, ann: Subject) -> None:
    path = plan(officer, ann)
    form = sent_by(text_of(officer.get(path)))
    answer = officer.post(f"{path}/confirm", {**form, "token": "x" * 64})
    assert answer.status_code == 422
    assert row_of(path).confirmed_at is None


def test_empty_plan_cannot_be_confirmed(officer: Client, ann: Subject) -> None:
    path = plan(officer, ann, scope="before", before="2001-01-01T00:00")
    page = text_of(officer.get(path))
    assert "Nothing to erase" in page
    assert "Type <code>" not in page
    assert "notice good" not in page
    form = {"token": "", "typed": "forget 0"}
    assert officer.post(f"{path}/confirm", form).status_code in (409, 422)
    assert Receipt.objects.count() == 0


def test_legal_hold_stops_the_erasure_and_says_so(
    officer: Client, ann: Subject
) -> None:
    hold = forgotten.make_hold(ann)
    path = plan(officer, ann)
    assert "1 in force" in text_of(officer.get(path))
    assert confirm(officer, path).status_code == 302
    page = text_of(officer.get(path))
    assert "A hold is in force" in page
    assert "every 1s" not in page
    assert "badge ok" not in page
    assert Subject.objects.get(id=ann.id).state == "restricted"
    assert officer.get(f"{P}/threads/ann-1").status_code == 200
    assert officer.post(f"{P}/holds/{hold.id}/lift").status_code == 302
    assert officer.post(f"{P}/holds/{hold.id}/lift").status_code == 302
    assert officer.post(f"{path}/cancel").status_code == 302
    assert row_of(path).state == "cancelled"


def test_erased_record_keeps_its_place_and_names_the_receipt(
    officer: Client, ann: Subject
) -> None:
    fields = {"scope": "record", "thread": "ann-1", "record": "2"}
    path = plan(officer, ann, **fields)
    confirm(officer, path)
    forgotten.finish(row_of(path))
    receipt = Receipt.objects.get()
    slot = officer.get(f"{P}/threads/ann-1/slots/0")
    assert slot.status_code == 410
    assert f"{P}/receipts/{receipt.id}" in text_of(slot)
    listed = officer.get(f"{P}/threads/ann-1/slots")
    assert listed.status_code == 200
    assert f"receipt {str(receipt.id)[-8:]}" in text_of(listed)
    assert forgotten.TEXTS[0] not in text_of(listed)
    assert forgotten.TEXTS[1] in text_of(listed)
    assert "PX-7" in text_of(officer.get(f"{P}/threads/ann-2/slots"))
    event = text_of(officer.get(f"{P}/threads/ann-1/events/2"))
    assert f"{P}/receipts/{receipt.id}" in event


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"scope": "everything"}, "Choose what to forget"),
        ({"reason": ""}, "a reason from the list"),
        ({"reason": "because <b>"}, "a reason from the list"),
        ({"ticket": "see her mail"}, "capital letters"),
        ({"scope": "thread", "thread": "bob-1"}, "has no thread with this name"),
        ({"scope": "thread", "thread": "nobody"}, "has no thread with this name"),
        (
            {"scope": "record", "thread": "ann-1", "record": "x"},
            "no event with this number",
        ),
        (
            {"scope": "record", "thread": "ann-1", "record": "99"},
            "no event with this number",
        ),
        ({"scope": "before", "before": ""}, "a time in the past"),
        ({"scope": "before", "before": "2999-01-01T00:00"}, "a time in the past"),
    ],
)
def test_invalid_forget_form_is_shown_again(
    officer: Client, ann: Subject, fields: dict[str, str], problem: str
) -> None:
    answer = begin(officer, ann, **fields)
    assert answer.status_code == 422
    assert problem in text_of(answer)
    assert "because <b>" not in text_of(answer)
    assert Erasure.objects.count() == 0


def test_erasure_acts_require_a_recent_sign_in_but_reads_do_not(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    form = sent_by(text_of(officer.get(path)))
    session = officer.session
    session[SIGNED_IN] = forgotten.minutes_ago(61).isoformat()
    session.save()
    assert officer.get(path).status_code == 200
    for act in (f"{path}/confirm", f"{path}/cancel"):
        answer = officer.post(act, form)
        assert answer.status_code == 302
        assert "why=old" in answer.headers["Location"]
    assert row_of(path).confirmed_at is None
    assert row_of(path).state == "planned"


def test_erasure_panel_equals_its_part_of_the_page(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    confirm(officer, path)
    panel = officer.get(f"{path}/panels/erasure")
    assert panel.headers["MH-Panel"] == "1"
    shown = re.search(
        r'<section id="erasure".*?</section>', text_of(officer.get(path)), re.DOTALL
    )
    assert shown is not None
    part, _, heading = text_of(panel).partition('<h1 id="erasure-heading"')
    assert shown[0].strip() == part.strip()
    assert heading.startswith(' hx-swap-oob="true">Being forgotten')
    assert officer.get(f"{path}/panels/other").status_code == 404


def test_erasure_steps_are_audited_with_their_actor(
    officer: Client, ann: Subject
) -> None:
    path = plan(officer, ann)
    confirm(officer, path)
    forgotten.finish(row_of(path))
    done = AuditEntry.objects.filter(action__startswith="erasure.").order_by("seq")
    words = [*done.values_list("action", flat=True)]
    assert words[0] == "erasure.planned"
    assert words[-1] == "erasure.complete"
    planned = done[0]
    assert (planned.actor_kind, planned.target_id) == (
        "operator",
        path.rpartition("/")[2],
    )


def test_held_erasure_shows_no_current_step(officer: Client, agent: Agent) -> None:
    town = forgotten.make_town(agent)
    held = text_of(officer.get(f"{P}/erasures/{town.held.id}"))
    assert "A hold is in force" in held
    assert 'aria-current="step"' not in held
    moving = text_of(officer.get(f"{P}/erasures/{town.under_way.id}"))
    assert "At work:" in moving
    assert "data-since" in moving
    assert "At work:" not in held
    assert moving.count('aria-current="step"') == 1


def test_failed_erasure_step_names_its_error_everywhere(
    officer: Client, agent: Agent
) -> None:
    row = forgotten.make_town(agent).under_way
    Erasure.objects.filter(id=row.id).update(
        waiting_on="broken", defect="IntegrityError"
    )
    assert "broken: IntegrityError" in text_of(officer.get(f"{P}/erasures"))
    shown = text_of(officer.get(f"{P}/erasures/{row.id}"))
    assert "defect of this server (IntegrityError)" in shown
    assert re.search(r'"notice bad"\s+role="status"><b>Stopped', shown)
    Erasure.objects.filter(id=row.id).update(waiting_on="reader", defect="")
    passing = text_of(officer.get(f"{P}/erasures/{row.id}"))
    assert re.search(r'"notice"\s+role="status"><b>Waiting', passing)
    assert "goes on by itself" in passing
    Erasure.objects.filter(id=row.id).update(
        waiting_on="broken", defect="IntegrityError"
    )
    table = b"".join(officer.get(f"{P}/erasures.csv")).decode()
    found = {each["erasure"]: each for each in csv.DictReader(io.StringIO(table))}
    assert found[str(row.id)]["defect"] == "IntegrityError"
    line = ErasureLine.from_row(
        Erasure.objects.select_related("subject").get(id=row.id)
    )
    told = following.render_progress(line)
    assert "broken: IntegrityError" in told
    assert "waits for" not in told
