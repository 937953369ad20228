from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memoryhub.models.keys import KekCheck
from memoryhub.models.projects import Project
from memoryhub.queries.verify import privacy_checks
from memoryhub.queries.verify.privacy_checks import PrivacyCheck
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.proof import anchors, ledger, signing
from memoryhub.workers.anchors import move
from tests.inspector import forgotten
from tests.inspector.forgotten import confirm, finish, plan

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def verdicts(
    project: Project, *, after: timedelta = timedelta()
) -> dict[str, PrivacyCheck]:
    found = privacy_checks.list_checks(project, now=timezone.now() + after)
    return {each.name: each for each in found}


def test_privacy_verdict_that_is_not_ok_says_what_to_do(acme: Project) -> None:
    found = verdicts(acme)
    assert len(found) == 8
    assert {each.state for each in found.values()} <= {"ok", "warn", "away", ""}
    wrong = [each for each in found.values() if each.state in {"warn", "away"}]
    assert wrong
    assert all(each.fix for each in wrong)


def test_privacy_checks_find_a_cut_ledger(agent: Agent, acme: Project) -> None:
    finish(confirm(plan(forgotten.make_person(agent, "ann"))))
    good = verdicts(acme)["ledger"]
    assert (good.state, good.figures["lines"]) == ("ok", 2)
    lines = ledger.path().read_bytes().splitlines(keepends=True)
    ledger.path().write_bytes(lines[0])
    cut = verdicts(acme)["ledger"]
    assert (cut.state, cut.text) == ("away", "It ends before what was written.")
    ledger.path().write_bytes(b"{}\n")
    assert verdicts(acme)["ledger"].state == "away"


def test_privacy_checks_find_cut_anchors_and_a_foreign_key(acme: Project) -> None:
    move(at=timezone.now())
    move(at=timezone.now())
    assert {verdicts(acme)[name].state for name in ("anchors", "ledger")} == {"ok"}
    lines = anchors.path().read_bytes().splitlines(keepends=True)
    anchors.path().write_bytes(lines[0])
    cut = verdicts(acme)["anchors"]
    assert (cut.state, cut.text) == ("away", "It ends before what was written.")
    keys = anchors.path().with_name(signing.FILE)
    keys.write_bytes(keys.read_bytes() + b" ")
    assert verdicts(acme)["ledger"].text == "A key beside it is none of ours."


def test_ring_is_well_once_it_is_in_a_backup(acme: Project) -> None:
    checks = KekCheck.objects.using("keys")
    new = verdicts(acme)["backup of the ring"]
    assert (new.state, new.command) == ("", "keys backup FILE")
    checks.update(created_at=timezone.now() - privacy_checks.BACKED_UP_WITHIN)
    assert verdicts(acme)["backup of the ring"].state == "warn"
    KekCheck.objects.using("keys").update(backed_up_at=timezone.now())
    assert verdicts(acme)["backup of the ring"].state == "ok"


def test_privacy_checks_flag_late_erasures_and_late_answers(
    agent: Agent, acme: Project, zeta: Project
) -> None:
    row = confirm(plan(forgotten.make_person(agent, "ann")))
    now = verdicts(acme)
    assert now["unfinished erasures"].state == "ok"
    assert now["answers in 30 days"].state == "ok"
    late = verdicts(acme, after=timedelta(minutes=6))["unfinished erasures"]
    assert (late.state, late.figures["late"]) == ("away", 1)
    assert verdicts(acme, after=24 * DAY)["answers in 30 days"].state == "warn"
    assert verdicts(acme, after=31 * DAY)["answers in 30 days"].state == "away"
    # Another project's checks show nothing.
    other = verdicts(zeta, after=31 * DAY)
    assert other["unfinished erasures"].state == "ok"
    assert other["answers in 30 days"].state == "ok"
    finish(row)
    done = verdicts(acme, after=31 * DAY)
    assert done["unfinished erasures"].state == "ok"
    assert done["answers in 30 days"].state == "ok"
    assert done["last scan"].state == "warn"


def test_verdicts_cost_the_same_however_many_people(
    agent: Agent, acme: Project, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("ann", "bob", "cid"):
        confirm(plan(forgotten.make_person(agent, name)))
    with django_assert_max_num_queries(12):
        verdicts(acme)
