"""Lost needles: after a hit, an erasure waits until the texts are typed again."""

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


def test_scan_hit_is_stored_with_the_erasure(met: tuple[Erasure, SessionStore]) -> None:
    row, session = met
    assert row.hit_at is not None
    session.delete()
    # The erasure's needles are still there.
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")


def test_scan_without_needles_does_not_end_the_erasure(lost: Erasure) -> None:
    """Scan by day and by night without the lost needles."""
    row = finish(lost)
    night_scans.run_scans()
    row.refresh_from_db()
    assert row.state == State.SCRUBBED
    assert not Receipt.objects.filter(erasure=row).exists()
    # The earlier finding is still reported.
    assert orjson.loads(row.verification)["undeclared"] > 0


def test_scan_of_another_erasure_ends_no_erasure_without_needles(
    lost: Erasure, agent: Agent
) -> None:
    other = forget(make_person(agent, "bob.of.accounts@example.org"))
    lost.refresh_from_db()
    assert (other.state, lost.state) == (State.COMPLETE, State.SCRUBBED)


def test_erasure_goes_on_once_the_user_id_is_typed_again(lost: Erasure) -> None:
    for wrong in ("bob.of.accounts@example.org", "", USER.upper()):
        with pytest.raises(InvalidError):
            collecting.recall_targets(lost, [wrong])
        assert finish(lost).waiting_on == "needles"
    collecting.recall_targets(lost, [USER])
    row = finish(lost)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    told = orjson.loads(row.verification)
    assert (told["undeclared"], told["needles"]["user_id"]) == (0, 1)


def test_user_id_that_is_still_there_is_found_again(lost: Erasure) -> None:
    planted(USER)
    collecting.recall_targets(lost, [USER])
    row = finish(lost)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")


def test_restart_before_any_hit_does_not_delay_the_erasure(agent: Agent) -> None:
    row = confirm(plan(make_person(agent, USER)))
    restart()
    row = finish(row)
    assert (row.state, row.hit_at) == (State.COMPLETE, None)


def test_thread_erasure_goes_on_once_a_text_is_typed(agent: Agent) -> None:
    """Search the erased text alone, since the subject's id is still in use."""
    ann, text = make_person(agent, USER), "I would like seat 12A by the window, please."
    session = planted(text)
    thread = ann.threads.get()
    row = finish(confirm(plan(ann, "thread", thread=thread)))
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    restart()
    session.delete()
    assert finish(row).waiting_on == "needles"
    with pytest.raises(InvalidError):
        collecting.recall_targets(row, ["short"])
    collecting.recall_targets(row, [text])
    assert finish(row).state == State.COMPLETE


def test_wait_text_asks_for_the_user_id(lost: Erasure) -> None:
    said = erasure_waits.render_wait(ErasureLine.from_row(lost))
    assert "type the person's id again" in said
    out = io.StringIO()
    with pytest.raises((CommandError, SystemExit)):
        call_command("scan", stdout=out, stderr=io.StringIO())


def test_forget_needles_command_takes_the_id_and_completes(
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
