"""Whatever sealed text an erasure took, no event brings it back, however deep in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memoryhub.errors import PageUnknownError, ValueErasedError
from memoryhub.journal.rows import tombstones
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.tasks import SetTask, TaskField, UpdateTask
from memoryhub.kernel.paging.page_commands import BeginTurn, FaultPage
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.turns.marks import MarkTurn
from memoryhub.models import Event, Project, Subject, Thread
from memoryhub.queries.paging import pages
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.pages import PageChange
from memoryhub.services.people import subjects
from tests.cast import factories, recordings
from tests.cast.forgetting import forget
from tests.oracles import memory_acts as acts
from tests.oracles.page_acts import act

pytestmark = pytest.mark.django_db
#: Can stand anywhere: as text, as the name of a member, as the id of a page.
TEXT = "ann.smith1987@example.com"
Write = Callable[[Agent, Any], object]


def set_task(field: TaskField, agent: Agent, value: Any) -> object:
    fields = {field: strict_json.dump_stored(value)}
    return act(agent, SetTask(fields=fields), "ann-1")


def new_task(field: TaskField, agent: Agent, value: Any) -> object:
    fields = {field: strict_json.dump_stored(value)}
    return act(agent, UpdateTask(fields=fields), "ann-1")


def hint(agent: Agent, value: Any) -> object:
    thread = factories.get_thread(agent, "ann-1")
    entry = pages.find_current_entry(thread, "old")
    assert entry is not None
    amended = writing.amend_page(
        agent=agent, thread=thread, entry=entry, change=PageChange(hint=value)
    )
    return factories.run(amended)


def make_page(agent: Agent, value: Any, **fields: Any) -> object:
    return factories.make_page(agent, f"p-{uuid4()}", thread="ann-1", **fields)


def description(agent: Agent, value: Any) -> object:
    text = strict_json.dump_stored(value)
    return act(agent, TakeCheckpoint(description=text), "ann-1")


def fault(agent: Agent, value: Any) -> object:
    command = FaultPage(page_id=value, level=0)
    try:
        return factories.run(
            page_faults.fault_page(agent=agent, thread="ann-1", command=command)
        )
    except PageUnknownError:
        return None


def comment(agent: Agent, value: str) -> object:
    text = strict_json.dump_stored(value)
    return act(agent, MarkTurn(turn=1, mark="wrong", comment=text), "ann-1")


#: Ways to write a text, or any JSON that holds one, by the event that seals it.
TEXTS: dict[str, dict[str, Write]] = {
    "page.created": {
        "hint": lambda agent, value: make_page(agent, value, hint=value),
        "content": lambda agent, value: make_page(agent, value, text=value),
    },
    "page.updated": {"hint": hint},
    "fault.refused": {"page": fault},
    "note.added": {"text": partial(acts.add_notes, thread="ann-1")},
    "turn.marked": {"comment": comment},
}
VALUES: dict[str, dict[str, Write]] = {
    "page.created": {
        "meta": lambda agent, value: make_page(agent, value, meta={"about": value}),
        "data": lambda agent, value: make_page(
            agent, value, modality="structured", content={"data": value}
        ),
    },
    "key.set": {
        "value": lambda agent, value: acts.set_key(agent, "k", value, thread="ann-1")
    },
    "task.set": {
        "description": partial(set_task, "description"),
        "data": partial(set_task, "data"),
    },
    "task.updated": {
        "description": partial(new_task, "description"),
        "data": partial(new_task, "data"),
    },
    "checkpoint.taken": {"description": description},
}
WAYS = {
    f"{kind}: {part}": write
    for listed in (TEXTS, VALUES)
    for kind, ways in listed.items()
    for part, write in ways.items()
}
DEEP = {
    f"{kind}: {part}": write
    for kind, ways in VALUES.items()
    for part, write in ways.items()
}
SHAPES: dict[str, Callable[[str], Any]] = {
    "a list": lambda text: [1, [None, text]],
    "a member": lambda text: {"profile": {"mail": text, "age": 39}},
    "a name": lambda text: {"profile": {text: True, "age": 39}},
}


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "ann-1", user_id="ann")
    factories.make_page(agent, "old", thread="ann-1", text="Nothing about anybody.")
    act(agent, SetTask(), "ann-1")
    act(agent, BeginTurn(), "ann-1")
    return subjects.find_or_create(agent.project, "ann")


def test_sealed_text_events_are_all_covered() -> None:
    # Facts are known as a whole, and tried with those.
    facts = {"fact.asserted", "timeline.configured"}
    tried = {*TEXTS, *VALUES, *facts, "run.recorded"}
    assert tried == {*tombstones.TYPES}


def get_newest_seq(thread: Thread) -> int:
    """Return the seq of the newest sealed event."""
    sealed = Event.objects.filter(thread=thread, payload__isnull=False)
    return sealed.filter(type__in=tombstones.TYPES).latest("seq").seq


@pytest.mark.parametrize("way", WAYS)
def test_erased_text_is_refused_in_every_event(
    agent: Agent, ann: Subject, way: str
) -> None:
    WAYS[way](agent, TEXT)
    thread = factories.get_thread(agent, "ann-1")
    seq = get_newest_seq(thread)
    forget(ann, "record", until="rows_erased", thread=thread, seq=seq)
    for again, write in WAYS.items():
        head = factories.get_thread(agent, "ann-1").head_seq
        with pytest.raises(ValueErasedError):
            write(agent, TEXT if "fault" in again else TEXT.upper())
        assert factories.get_thread(agent, "ann-1").head_seq == head, again


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", DEEP)
def test_erased_text_is_refused_inside_structures(
    agent: Agent, ann: Subject, way: str, shape: str
) -> None:
    acts.add_notes(agent, TEXT, thread="ann-1")
    thread = factories.get_thread(agent, "ann-1")
    DEEP[way](agent, SHAPES[shape]("somebody.else@example.com"))
    seq = Event.objects.filter(thread=thread, type="note.added").latest("seq").seq
    forget(ann, "record", until="rows_erased", thread=thread, seq=seq)
    with pytest.raises(ValueErasedError):
        DEEP[way](agent, SHAPES[shape](TEXT))


@pytest.mark.parametrize("way", DEEP)
def test_each_text_of_an_erased_value_stays_out(
    agent: Agent, ann: Subject, way: str
) -> None:
    """Names of members and of types stay allowed, since other values have them too."""
    schema = {"schema_name": "airline.reservation.Passenger"}
    name = "frequent_flyer_number_of_ann"
    value = {**schema, "a": [{name: TEXT}], "b": "short"}
    DEEP[way](agent, value)
    thread = factories.get_thread(agent, "ann-1")
    forget(
        ann, "record", until="rows_erased", thread=thread, seq=get_newest_seq(thread)
    )
    for text in (TEXT, value, {"deep": [value]}):
        with pytest.raises(ValueErasedError):
            acts.set_key(agent, "other", text, thread="ann-1")
    acts.set_key(agent, "other", {**schema, name: "none"}, thread="ann-1")


def test_erased_run_info_is_omitted_from_a_new_import(
    agent: Agent, acme: Project, ann: Subject, tmp_path: Path
) -> None:
    first = recordings.run(0)
    first["info"] = {"task": {"mail": TEXT}}
    path = recordings.array(tmp_path, first)
    recordings.take(acme, path, user_id="ann")
    thread = factories.get_thread(agent, "desk:0:0")
    seq = Event.objects.get(thread=thread, type="run.recorded").seq
    forget(ann, "record", until="rows_erased", thread=thread, seq=seq)
    path = recordings.array(tmp_path, {**first, "task_id": 1}, recordings.run(2))
    job, bad = recordings.take(acme, path, user_id="ann")
    assert (recordings.took(job)[:4], bad) == ((1, 0, 1, 0), [])


def test_message_and_its_levels_may_repeat_an_erased_text(
    agent: Agent, ann: Subject
) -> None:
    acts.add_notes(agent, TEXT, thread="ann-1")
    thread = factories.get_thread(agent, "ann-1")
    forget(
        ann, "record", until="rows_erased", thread=thread, seq=get_newest_seq(thread)
    )
    factories.append(agent, "ann-1", TEXT, {"mail": TEXT})
