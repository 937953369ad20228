"""Reasons shown to an officer while an erasure waits, and what to do about them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command

from inspector.web import forgetting
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.queries.forget import erasure_waits
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from tests.cast.forgetting import confirm, finish, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)

USER = "ann.of.accounts@example.org"


def print_status(row: Erasure) -> str:
    out = io.StringIO()
    call_command("forget", "status", str(row.id), stdout=out)
    return out.getvalue()


def test_erasure_wait_names_the_places_that_the_scan_found(agent: Agent) -> None:
    """Screen and command name the places, never the text; the erasure goes on alone."""
    ann = make_person(agent, USER)
    session = SessionStore()
    session["seen"] = USER
    session.save()
    row = finish(confirm(plan(ann)))
    line = ErasureLine.from_row(row)
    assert (row.state, line.waiting_on) == ("scrubbed", "store")
    assert "rows" in line.undeclared
    for told in (forgetting.build_progress(line).waiting, print_status(row)):
        assert "such as sessions" in told
        assert "`manage.py scan` tells each place" in told
        assert USER not in told
    session.delete()
    row = finish(row)
    assert (row.state, row.waiting_on) == ("complete", "")
    assert erasure_waits.render_wait(ErasureLine.from_row(row)) == ""
    assert "waits" not in print_status(row)


def test_operator_named_like_the_user_delays_no_erasure(agent: Agent) -> None:
    """The account is staff's. The receipt says that the scan met the name there."""
    ann = make_person(agent, USER)
    operators.add(USER)
    row = finish(confirm(plan(ann)))
    assert (row.state, row.waiting_on) == ("complete", "")
    assert '"standing":"others"' in Receipt.objects.get(erasure=row, n=0).text


def test_every_wait_reason_has_a_sentence(agent: Agent) -> None:
    line = ErasureLine.from_row(plan(make_person(agent, "ann")))
    assert erasure_waits.render_wait(line) == ""
    for word, said in erasure_waits.WAITING.items():
        assert erasure_waits.render_wait(replace(line, waiting_on=word)) == said.format(
            defect=None
        )
    store = replace(line, waiting_on="store", undeclared=("log", "server_wal"))
    assert "in log files; server_wal." in erasure_waits.render_wait(store)
    assert erasure_waits.render_wait(replace(line, state="held")).startswith("A hold")
