"""LoCoMo: whether what was said long ago is found again, by the questions of others.

Long conversations of two people over months, and questions of which it is known in what
messages the answer stands (Maharana et al., Evaluating Very Long-Term Conversational
Memory of LLM Agents, 2024; those of its category 5 have no answer). Each conversation
is a thread, and each question is asked as an agent asks: by `POST …/search`. Beside it
stand what truncation leaves, and SQLite's FTS5 over the same texts. MEMORYHUB_LOCOMO
names the file, which is no part of the product.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import ROOT, Hub, Server, workplace

FIRST = 10
LEAST = 0.72
_NO_ANSWER = 5
_BATCH = 100
_DATED = "%I:%M %p on %d %B, %Y %Z"
_BESIDE = ROOT.parent / "shared" / "data" / "locomo-half.json"


class Spoken(NamedTuple):
    """A message of a conversation."""

    name: str
    sender: str
    text: str
    at: datetime


class Talk(NamedTuple):
    """A conversation, and what is asked of it: a text, and the names of messages."""

    messages: Sequence[Spoken]
    questions: Sequence[tuple[str, set[str]]]


def measure(pace: Pace) -> list[Figure]:
    """Ask the questions of LoCoMo, and count how much of the evidence is found."""
    path = Path(os.environ.get("MEMORYHUB_LOCOMO") or _BESIDE)
    if not path.is_file():
        print("  left out: MEMORYHUB_LOCOMO names no file")
        return []
    talks = [*_talks(json.loads(path.read_text(encoding="utf-8")))]
    talks = talks[:1] if pace.quick else talks
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            ours = [
                each
                for number, talk in enumerate(talks)
                for each in _by_search(server, key, f"/threads/talk-{number}", talk)
            ]
    others = {
        "SQLite's FTS5": [each for talk in talks for each in _by_fts5(talk)],
        "the newest messages": [each for talk in talks for each in _newest(talk)],
    }
    beside = ", ".join(f"{name} {fmean(all_):.3f}" for name, all_ in others.items())
    return [
        Figure(
            question=f"LoCoMo: evidence among the first {FIRST} that search finds",
            value=fmean(ours),
            unit="",
            goal=Goal(least=LEAST),
            behind=f"{len(ours)} questions, {len(talks)} conversations; {beside}",
        )
    ]


def _talks(conversations: list[dict[str, Any]]) -> Iterator[Talk]:
    for each in conversations:
        spoken = [
            message for sitting in each["sessions"] for message in _messages(sitting)
        ]
        names = {message.name for message in spoken}
        questions = [
            (row["question"], {*row["evidence"]} & names)
            for row in each["questions"]
            if row["category"] != _NO_ANSWER
        ]
        yield Talk(spoken, [question for question in questions if question[1]])


def _messages(sitting: dict[str, Any]) -> Iterator[Spoken]:
    at = datetime.strptime(f"{sitting['date_time']} UTC", _DATED).replace(tzinfo=UTC)
    for number, turn in enumerate(sitting["turns"]):
        picture = turn.get("blip_caption")
        text = turn.get("text", "") + (f" [shares {picture}]" if picture else "")
        moment = at + timedelta(seconds=number)
        yield Spoken(turn["dia_id"], turn["speaker"], text, moment)


def _by_search(server: Server, key: str, thread: str, talk: Talk) -> Iterator[float]:
    server.send("PUT", thread, key, {})
    for start in range(0, len(talk.messages), _BATCH):
        batch = [_slot(each) for each in talk.messages[start : start + _BATCH]]
        server.post(f"{thread}/slots:batch", key, {"items": batch})
    for question, evidence in talk.questions:
        body = {"query": question, "limit": FIRST}
        found: Any = server.post(f"{thread}/search", key, body)
        names = {talk.messages[hit["slot"]].name for hit in found["items"]}
        yield len(evidence & names) / len(evidence)


def _slot(message: Spoken) -> dict[str, Any]:
    return {
        "from": message.sender,
        "to": "assistant",
        "type": "chat.user",
        "content": {"role": "user", "content": message.text},
        "agent_at": message.at.isoformat(),
    }


def _by_fts5(talk: Talk) -> Iterator[float]:
    line = sqlite3.connect(":memory:")
    line.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    texts = [(f"{each.sender} {each.text}",) for each in talk.messages]
    line.executemany("INSERT INTO t(x) VALUES (?)", texts)
    for question, evidence in talk.questions:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = line.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid DESC LIMIT ?",
            (words, FIRST),
        )
        names = {talk.messages[row - 1].name for (row,) in rows}
        yield len(evidence & names) / len(evidence)


def _newest(talk: Talk) -> Iterator[float]:
    names = {each.name for each in talk.messages[-FIRST:]}
    for _, evidence in talk.questions:
        yield len(evidence & names) / len(evidence)
