"""What a scan had found in the clear is looked for again, whatever went meanwhile."""

from __future__ import annotations

import io
from collections.abc import Iterator

import orjson
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import CommandError, call_command

from memoryhub.errors import InvalidError
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.queries.forget import erasure_waits
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import night_scans
from memoryhub.services.scan import collecting
from tests.cast.forgetting import confirm, finish, forget, make_person, plan
from tests.cast.lost_needles import USER, lose, meet, planted, restart

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    restart()


@pytest.fixture
def met(agent: Agent) -> tuple[Erasure, SessionStore]:
    return meet(agent)


@pytest.fixture
def lost(agent: Agent) -> Erasure:
    return lose(agent)


def test_a_hit_is_a_fact_of_the_row(met: tuple[Erasure, SessionStore]) -> None:
    row, session = met
    assert row.hit_at is not None
    session.delete()
    # Its needles are still there.
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")


def test_no_scan_without_the_needles_ends_it(lost: Erasure) -> None:
    """Neither by day nor by night, nor beside another's."""
    row = finish(lost)
    night_scans.run()
    row.refresh_from_db()
    assert row.state == State.SCRUBBED
    assert not Receipt.objects.filter(erasure=row).exists()
    # What it had found is still told.
    assert orjson.loads(row.verification)["undeclared"] > 0


def test_anothers_scan_does_not_end_it(lost: Erasure, agent: Agent) -> None:
    other = forget(make_person(agent, "bob.of.accounts@example.org"))
    lost.refresh_from_db()
    assert (other.state, lost.state) == (State.COMPLETE, State.SCRUBBED)


def test_it_goes_on_once_the_id_is_typed_again(lost: Erasure) -> None:
    for wrong in ("bob.of.accounts@example.org", "", USER.upper()):
        with pytest.raises(InvalidError):
            collecting.recall(lost, [wrong])
        assert finish(lost).waiting_on == "needles"
    collecting.recall(lost, [USER])
    row = finish(lost)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    told = orjson.loads(row.verification)
    assert (told["undeclared"], told["needles"]["user_id"]) == (0, 1)


def test_what_is_still_there_is_found_again(lost: Erasure) -> None:
    planted(USER)
    collecting.recall(lost, [USER])
    row = finish(lost)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")


def test_a_restart_before_any_hit_is_no_reason_to_wait(agent: Agent) -> None:
    row = confirm(plan(make_person(agent, USER)))
    restart()
    row = finish(row)
    assert (row.state, row.hit_at) == (State.COMPLETE, None)


def test_of_a_thread_a_text_is_typed(agent: Agent) -> None:
    """Who is alive is not looked for; what was erased of her is."""
    ann, text = make_person(agent, USER), "I would like seat 12A by the window, please."
    session = planted(text)
    thread = ann.threads.get()
    row = finish(confirm(plan(ann, "thread", thread=thread)))
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    restart()
    session.delete()
    assert finish(row).waiting_on == "needles"
    with pytest.raises(InvalidError):
        collecting.recall(row, ["short"])
    collecting.recall(row, [text])
    assert finish(row).state == State.COMPLETE


def test_it_says_what_to_do(lost: Erasure) -> None:
    said = erasure_waits.wait_text(ErasureLine.of(lost))
    assert "type the person's id again" in said
    out = io.StringIO()
    with pytest.raises((CommandError, SystemExit)):
        call_command("scan", stdout=out, stderr=io.StringIO())


def test_the_command_takes_it_and_follows(
    lost: Erasure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(text: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        out = io.StringIO()
        call_command("forget", "needles", str(lost.id), stdout=out)
        return out.getvalue()

    with pytest.raises(SystemExit):
        typed("bob\n")
    assert "complete" in typed(f"{USER}\n")
