"""Position in a feed: what a cut feed waits for, and what ends it."""

from __future__ import annotations

import pytest

from memoryhub_client import Gone, Unavailable, Unreachable, events
from memoryhub_client.transport import MOST_WAIT, FeedPosition

BUSY, GONE = Unavailable(503, {}, 9.0), Gone(410, {}, None)


def test_feed_that_was_open_waits_for_a_hub_that_is_away() -> None:
    position = FeedPosition(events.list_all("talk"))
    position.was_open = True
    pauses = [position.compute_pause(Unreachable()) for _ in range(20)]
    assert max(pauses) <= MOST_WAIT
    assert min(pauses[10:]) >= MOST_WAIT / 2
    assert position.compute_pause(BUSY) == 9.0
    with pytest.raises(Gone):
        position.compute_pause(GONE)


@pytest.mark.parametrize("failure", [Unreachable(), BUSY, GONE])
def test_feed_that_was_never_open_raises_its_failure(failure: Exception) -> None:
    with pytest.raises(type(failure)):
        FeedPosition(events.list_all("talk")).compute_pause(failure)
