"""Views of others while a subject is forgotten; runs in an instance of its own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import orjson

from memoryhub.journal.log import log
from memoryhub.journal.texts import texts
from memoryhub.kernel.replay import evolve
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state_json import to_json
from memoryhub.models.events import Event
from memoryhub.models.keys import SubjectKey
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import contexts
from tests.cast import bundled
from tests.promises.journal.appender import tell


def look(folder: str) -> None:
    """Export every subject to a file each; print the replays and random bytes.

    Exports hold neither each thread's replay nor sealed content's and keys' bytes.
    """
    people = {}
    for subject in Subject.objects.exclude(state=Subject.State.ERASED):
        bundled.saved(subject, Path(folder) / f"{subject.id}.zip")
        rows = Thread.objects.filter(subject=subject).select_related("subject")
        people[str(subject.id)] = {
            "replays": {row.name: _replayed(row) for row in rows},
            "random": _random(subject),
        }
    tell(json.dumps(people))


def _replayed(thread: Thread) -> list[str]:
    """Return digests of the journal's states, and of each turn's request."""
    state, states = log.build_origin(thread), hashlib.sha256(thread.head_hash)
    for row in log.iter_rows(thread.id):
        recorded = log.to_recorded(row)
        state = evolve(state, recorded)
        # Each state in full would be most of the test's time.
        if isinstance(recorded.event, TurnPacked) or state.seq == thread.head_seq:
            states.update(orjson.dumps(to_json(state)))
    return [states.hexdigest(), *_requests(thread)]


def _requests(thread: Thread) -> list[str]:
    """Assemble each turn's request from the database alone."""
    texts.clear()
    found = []
    for turn in range(1, thread.turn_count + 1):
        recorded = contexts.get_recorded_turn(thread, turn)
        request = contexts.require_request(
            contexts.reassemble_request(thread, recorded)
        )
        found.append(hashlib.sha256(request).hexdigest())
        assert found[-1] == recorded.sha256
    return found


def _random(subject: Subject) -> list[str]:
    """Return nonces of sealed content and first bytes of wrapped keys, in hex."""
    events = Event.objects.filter(thread__subject=subject, payload__isnull=False)
    sealed = [bytes(row) for row in events.values_list("payload", flat=True) if row]
    keys = SubjectKey.objects.filter(subject=subject.id)
    wrapped = [bytes(row) for row in keys.values_list("wrapped", flat=True)]
    return [*(row[3:15].hex() for row in sealed), *(row[:12].hex() for row in wrapped)]
