"""What an officer is told while an erasure waits: what for, and what to do."""

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


def status(row: Erasure) -> str:
    out = io.StringIO()
    call_command("forget", "status", str(row.id), stdout=out)
    return out.getvalue()


def test_what_a_scan_found_is_told_in_words_and_what_ends_it(agent: Agent) -> None:
    """On the screen and by the command; never what was found. It goes on by itself."""
    ann = make_person(agent, USER)
    session = SessionStore()
    session["seen"] = USER
    session.save()
    row = finish(confirm(plan(ann)))
    line = ErasureLine.of(row)
    assert (row.state, line.waiting_on) == ("scrubbed", "store")
    assert "rows" in line.undeclared
    for told in (forgetting.progress(line).waiting, status(row)):
        assert "such as sessions" in told
        assert "`manage.py scan` tells each place" in told
        assert USER not in told
    session.delete()
    row = finish(row)
    assert (row.state, row.waiting_on) == ("complete", "")
    assert erasure_waits.wait_text(ErasureLine.of(row)) == ""
    assert "waits" not in status(row)


def test_an_operator_who_is_called_so_holds_nothing_up(agent: Agent) -> None:
    """The account is staff's. The receipt says that the name was met there."""
    ann = make_person(agent, USER)
    operators.add(USER)
    row = finish(confirm(plan(ann)))
    assert (row.state, row.waiting_on) == ("complete", "")
    assert '"standing":"others"' in Receipt.objects.get(erasure=row, n=0).text


def test_every_word_is_told_as_a_sentence(agent: Agent) -> None:
    line = ErasureLine.of(plan(make_person(agent, "ann")))
    assert erasure_waits.wait_text(line) == ""
    for word, said in erasure_waits.WAITING.items():
        assert erasure_waits.wait_text(replace(line, waiting_on=word)) == said.format(
            defect=None
        )
    store = replace(line, waiting_on="store", undeclared=("log", "server_wal"))
    assert "in log files; server_wal." in erasure_waits.wait_text(store)
    assert erasure_waits.wait_text(replace(line, state="held")).startswith("A hold")
