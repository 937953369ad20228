"""Export and erasure of somebody with very many records; runs in an instance."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasure_targets
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import exports
from tests.cast import bundled, factories, forgetting
from tests.promises.forget.erasing import erased_of

THREADS = 5
#: Of one batch of messages.
SLOTS = 200


def live_and_go(events: int, scope: str, path: str) -> None:
    """Print the numbers of records before, in the export, and erased."""
    agent = factories.make_agent(projects.create("acme"))
    twin = forgetting.make_person(agent, "bob")
    ann, kept = _remember(agent, events), forgetting.list_records(twin)
    rows = Event.objects.filter(thread__subject=ann)
    sealed = rows.filter(payload__isnull=False)
    told = {"events": rows.count(), "sealed": sealed.count()}
    with Path(path).open("wb") as file:
        file.writelines(exports.begin_export(ann, actor="command").stream())
    given: dict[str, Any] = {"before": clock.now()} if scope == "before" else {}
    row = forgetting.forget(ann, scope, **given)
    told["erased"] = erased_of(row)["events"]
    told["left"] = sum(erasure_targets.count_left(row).values()) + sealed.count()
    told["twin"] = forgetting.list_records(twin) == kept
    sys.stdout.write(json.dumps(told))


def _remember(agent: Agent, events: int) -> Subject:
    for n in range(THREADS):
        name = f"t-{n}"
        factories.make_thread(agent, name, user_id="ann", max_slots=1_000_000)
        for begin in range(0, events // THREADS, SLOTS):
            texts = (f"message {begin + k} of {n}" for k in range(SLOTS))
            factories.append(agent, name, *texts)
    return forgetting.get_subject(agent, "ann")


def exported(path: Path) -> int:
    """Return the number of events in the file of an export."""
    bundle = bundled.open_bundle(path.read_bytes())
    with bundle.open("events.jsonl") as lines:
        return sum(1 for _ in lines)
