"""P4 beyond the chain itself: a tail that is gone, and a thread that is."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memoryhub.models.threads import Thread
from memoryhub.queries.verify import anchors as standings
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.proof import anchors
from memoryhub.workers.anchors import AnchorsDifferError, anchor_heads, move
from tests.cast.factories import append, get_thread, make_thread
from tests.promises.tampering.damages import Copy, flipped, vanish
from tests.promises.tampering.test_tamper import drop_triggers, reload_thread, undone

pytestmark = [
    pytest.mark.promise("P4"),
    pytest.mark.django_db,
    pytest.mark.no_replay,
    pytest.mark.timeout(600),
]

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ROUNDS = pytest.mark.parametrize(
    "rounds", [4, pytest.param(60, marks=pytest.mark.nightly)], ids=str
)


@pytest.fixture
def thread(agent: Agent) -> Thread:
    """Make a thread that goes on after a copy of it was kept, beside another thread."""
    make_thread(agent, "other")
    append(agent, "other", *range(3))
    make_thread(agent, labels={"a": "x"})
    append(agent, "t-1", *range(5))
    return get_thread(agent)


def lived_on(agent: Agent, thread: Thread, rounds: int) -> list[Copy]:
    """Return copies of the thread over time, the newest of them behind its anchor."""
    copies = []
    for number in range(rounds):
        copies.append(Copy.from_thread(thread))
        append(agent, "t-1", *range(1 + number % 3))
    assert anchor_heads(NOW)
    return copies


@pytest.mark.promise("P4", load="{rounds} × a cut tail whose every row was put back")
@ROUNDS
def test_tail_that_was_cut_without_a_trace_is_found(
    agent: Agent, thread: Thread, rounds: int
) -> None:
    copies = lived_on(agent, thread, rounds)
    whole = reload_thread(thread)
    anchored = {"anchored_seq": whole.head_seq, "anchored_hash": whole.head_hash}
    drop_triggers()
    missed, misplaced = [], []
    for copy in copies:
        with undone():
            copy.put_back(**anchored)
            difference = verify(reload_thread(thread))
            cut = copy.row.head_seq + 1
            if difference is None:
                missed.append(cut)
            elif (difference.seq, difference.what) != (cut, "anchor"):
                misplaced.append((cut, difference))
    assert missed == []
    assert misplaced == []
    assert verify(reload_thread(thread)) is None


@pytest.mark.promise("P4", load="{rounds} × a cut tail with its anchor moved back")
@ROUNDS
def test_anchor_moved_back_with_the_tail_is_found(
    agent: Agent, thread: Thread, rounds: int
) -> None:
    """Nothing in the database shows the change; the anchor's line outside does."""
    copies = lived_on(agent, thread, rounds)
    drop_triggers()
    for copy in copies:
        seq, digest = copy.row.head_seq, bytes(copy.row.head_hash)
        for anchored in (
            {"anchored_seq": 0, "anchored_hash": b""},
            {"anchored_seq": seq, "anchored_hash": digest},
        ):
            with undone():
                copy.put_back(**anchored)
                assert verify(reload_thread(thread)) is None
                assert standings.check_anchors().wrong
                # And no later line blesses it, however the thread goes on.
                append(agent, "t-1", *range(9))
                with pytest.raises(AnchorsDifferError):
                    move(at=NOW)
    assert standings.check_anchors().wrong == ""


def test_anchor_reveals_another_history_of_the_same_length(
    agent: Agent, thread: Thread
) -> None:
    """The thread was cut, and written on with other words up to the same seq."""
    copy = Copy.from_thread(thread)
    append(agent, "t-1", "it was so")
    anchor_heads(NOW)
    whole = reload_thread(thread)
    drop_triggers()
    copy.put_back()
    append(agent, "t-1", "it was otherwise")
    assert verify(reload_thread(thread)) is None
    Thread.objects.filter(id=thread.id).update(
        anchored_seq=whole.head_seq, anchored_hash=whole.head_hash
    )
    difference = verify(reload_thread(thread))
    assert difference is not None
    assert (difference.seq, difference.what) == (whole.head_seq, "anchor")


def test_thread_that_vanished_is_found(agent: Agent, thread: Thread) -> None:
    anchor_heads(NOW)
    assert standings.check_anchors().wrong == ""
    drop_triggers()
    vanish(thread)
    for row in Thread.objects.select_related("subject"):
        assert verify(row) is None
    assert standings.check_anchors().wrong == "threads_missing"
    # One more thread does not make up for it.
    make_thread(agent, "t-1")
    Thread.objects.filter(name="t-1").update(anchored_seq=1, anchored_hash=b"x" * 32)
    assert standings.check_anchors().wrong == "anchors"


def read_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.promise("P4", load="{rounds} × 25 edits of the file of anchors")
@ROUNDS
def test_edited_file_of_anchors_is_found(
    agent: Agent, thread: Thread, rounds: int
) -> None:
    for _ in range(3):
        append(agent, "t-1", "more")
        anchor_heads(NOW)
    path = anchors.path()
    good, whole = path.read_bytes(), read_lines(path)
    chance = random.Random(rounds)  # a seed repeats it
    edits = [flipped(good, chance) for _ in range(25 * rounds)]
    edits += [b"", b"".join(whole[:-1]), b"".join(whole[1:]), good + whole[0]]
    edits += [whole[0] + whole[2], whole[1] + whole[0] + whole[2]]
    for edited in edits:
        path.write_bytes(edited)
        assert standings.check_anchors().wrong, edited
    path.unlink()
    assert standings.check_anchors().wrong
    path.write_bytes(good)
    assert standings.check_anchors().wrong == ""
