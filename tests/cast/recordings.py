"""Recorded runs for tests: files of them, and the results of imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from memoryhub.journal import texts
from memoryhub.kernel.formats import formats
from memoryhub.kernel.formats.records import BadRecord
from memoryhub.kernel.formats.transcripts import ImportOptions, Item
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.imports.imports import Import
from memoryhub.services.people import subjects


def build_message(
    text: str = "hello", role: str = "user", **more: Any
) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def run(
    task: int | str = 0,
    trial: int = 0,
    *,
    messages: Any = 2,
    user_id: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Build a run of so many messages, or of these; user and assistant take turns."""
    if isinstance(messages, int):
        messages = [
            build_message(f"message {n} of {task}", "assistant" if n % 2 else "user")
            for n in range(messages)
        ]
    info = {"task": {"user_id": user_id}, "cost": 0.25}
    known = {"task_id": task, "trial": trial, "reward": 1.0, "info": info}
    return {**known, "traj": messages, **more}


def bookings(count: int) -> list[dict[str, Any]]:
    """Build so many exchanges, one booking each; every third returns to an old one.

    A tool gives back a long text about the booking, which soon has to leave a small
    context, and is fetched back when its id is named again.
    """
    talk = [build_message("You book journeys. " * 20, "system")]
    for n in range(count):
        booking = f"BK{1000 + (n if n % 3 else n // 3)}"
        call = {"name": "find_booking", "arguments": json.dumps({"id": booking})}
        calls = [{"id": f"c{n}", "type": "function", "function": call}]
        details = f"{booking}: " + f"seat {n}, one bag, window. " * 40
        talk += [
            build_message(f"What about {booking}?"),
            {"role": "assistant", "content": None, "tool_calls": calls},
            build_message(details, "tool", tool_call_id=f"c{n}"),
            build_message(f"Number {n} is fine.", "assistant"),
        ]
    return talk


def array(folder: Path, *runs: Any, name: str = "desk.json") -> Path:
    """Write a file of the format `runs`, on one line."""
    path = folder / name
    path.write_text(json.dumps(runs, ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(folder: Path, *messages: Any, name: str = "desk.jsonl") -> Path:
    """Write a file of the format `chat`."""
    path = folder / name
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in messages)
    path.write_text(text, encoding="utf-8")
    return path


def items(path: Path, *, form: str = "auto", **options: Any) -> Iterator[Item]:
    asked = ImportOptions(**{"source": path.stem, **options})
    return formats.read([path.read_bytes()], options=asked, format_name=form)[1]


def take(
    project: Project,
    path: Path,
    *,
    skip_bad: bool = False,
    dry_run: bool = False,
    budget: int | None = None,
    **options: Any,
) -> tuple[Import, list[BadRecord]]:
    """Import a file; return the finished job and the bad records."""
    job = Import(project, skip_bad=skip_bad, dry_run=dry_run, budget=budget)
    steps = list(job.import_items(items(path, **options)))
    return job, [step for step in steps if isinstance(step, BadRecord)]


def took(job: Import) -> tuple[int, int, int, int, int]:
    counts = job.counts
    return counts.runs, counts.present, counts.erased, counts.skipped, counts.slots


def find(project: Project, name: str) -> Thread:
    """Return the thread of that name, with its subject."""
    rows = Thread.objects.select_related("subject")
    return rows.get(project=project, name=name)


def open_contents(thread: Thread) -> list[Any]:
    """Return the contents of a thread's slots, in order."""
    seqs = [*thread.slots.order_by("index").values_list("seq", flat=True)]
    opened = texts.open_contents(thread.subject, thread.project_id, thread.id, seqs)
    return [opened[seq]["content"] for seq in seqs]


def dump(project: Project) -> list[dict[str, Any]]:
    """Return an import's records without ids, times, nonces and keyed values."""
    rows = Thread.objects.filter(project=project).select_related("subject")
    return [
        {
            "name": row.name,
            "user_id": subjects.open_user_id(row.subject),
            "scope": [row.agent_type, row.agent_instance, row.session],
            "labels": json.loads(row.labels),
            "counts": [row.head_seq, row.slot_count, row.turn_count, row.token_count],
            "slots": [*row.slots.order_by("index").values_list("seq", "from_name")],
            "events": [_open_event(row, event) for event in _list_events(row)],
        }
        for row in rows.order_by("name")
    ]


def _list_events(thread: Thread) -> Iterable[Event]:
    return Event.objects.filter(thread=thread).order_by("seq")


def _open_event(thread: Thread, row: Event) -> list[Any]:
    body = json.loads(row.body)
    keyed = "subject", "digest", "tools"
    body = {name: body[name] for name in body if name not in keyed}
    content = texts.open_payload(thread.subject, thread.project_id, row)
    if content and body.get("recall"):
        # The request says of what it brings along at what minute it was said.
        content.pop("sha256", None)
    return [row.seq, row.type, row.actor, body, content]


def types(thread: Thread) -> list[str]:
    """Return the types of a thread's events, in order."""
    return [*thread.events.order_by("seq").values_list("type", flat=True)]
