"""Turns whose request lacked the best match for the question. Never writes.

Judged when asked for, and stored nowhere: one turn costs a fold from a snapshot and a
search of its thread, some 40 ms of CPU and 20 queries.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.models.threads import Thread
from memoryhub.queries.turns import exchanges, matches, turns
from memoryhub.queries.turns.turns import TurnLine


def list_lacking_turns(thread: Thread, lines: Sequence[TurnLine]) -> list[TurnLine]:
    """List those of these turns that end an exchange and lacked the best match.

    `lines` are newest first, without a gap. `thread` comes with its subject.
    """
    last = exchanges.list_last_turns(thread, lines)
    return [line for line in last if is_best_match_missing(thread, line.n)]


def is_best_match_missing(thread: Thread, n: int) -> bool:
    """Tell whether the best match for a turn's question was not in its request.

    False for a request that was never recorded. `thread` comes with its subject.
    """
    shown = turns.get_context(thread, n)
    if shown is None:
        return False
    exchange = exchanges.get_exchange(thread, shown.state, n)
    best = matches.get_matches(thread, shown, exchange).items
    return bool(best) and best[0].standing == "out"
