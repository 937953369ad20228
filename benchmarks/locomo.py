"""LoCoMo: whether what was said long ago is found again, by the questions of others.

Long conversations of two people over months, and questions of which it is known in what
messages the answer stands (Maharana et al., Evaluating Very Long-Term Conversational
Memory of LLM Agents, 2024; those of its category 5 have no answer). Each conversation
is a thread, and each question is asked as an agent asks: by `POST …/search`, and as the
user's message of a turn, of whose request only what the turn brings along unasked
counts. Beside it stand what truncation leaves, and SQLite's FTS5 over the same texts.
Then it is told again with a thread for each session, all of one person, and asked in a
new thread of that person. MEMORYHUB_LOCOMO names the file, which is no part of the
product.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import ROOT, Hub, Server, workplace

FIRST = 10
LEAST = 0.72
#: By the tokens that a turn may bring along: the evidence that must be among them.
BROUGHT = {1_000: 0.77, 4_000: 0.89}
#: Of the sessions that the messages found are of.
SESSIONS = (5, 10)
#: Points of a hundred that may be lost when each session is a thread of its own.
LOST = 2
#: Of the questions that turns are asked across threads: one in so many.
SAMPLED, QUICK = 8, 40
#: What one search shows at most.
_SHOWN = 50
_NO_ANSWER = 5
#: Tokens of what stands around a message.
_FRAMING = 12
_BATCH = 100
_DATED = "%I:%M %p on %d %B, %Y %Z"
_BESIDE = ROOT.parent / "shared" / "data" / "locomo-half.json"


_SLOT = re.compile(r"^slot-(\d+) · ", re.MULTILINE)
#: Messages in the order of a ranking, and the names of those to be found.
Ranked = tuple[Sequence["Spoken"], set[str]]


class Spoken(NamedTuple):
    """Message of a conversation."""

    #: `D3:12`: the twelfth of the third session.
    name: str
    sender: str
    text: str
    at: datetime

    @property
    def session(self) -> str:
        return _session(self.name)


class Talk(NamedTuple):
    """Conversation and its questions: a text, and the names of messages."""

    messages: Sequence[Spoken]
    questions: Sequence[tuple[str, set[str]]]


class Telling(NamedTuple):
    """Conversation as written: the thread to ask in, and the places of messages."""

    path: str
    talk: Talk
    #: By thread and slot.
    places: Mapping[tuple[str, int], Spoken]


def measure(pace: Pace) -> list[Figure]:
    """Ask the questions of LoCoMo, and count how much of the evidence is found."""
    found = talks()[: 1 if pace.quick else None]
    if not found:
        return []
    every = QUICK if pace.quick else SAMPLED
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            threads = [(f"talk-{number}", talk) for number, talk in enumerate(found)]
            ours, across = (
                [
                    ranked
                    for thread, talk in threads
                    for ranked in _by_search(
                        server, key, tell(server, key, thread, talk)
                    )
                ]
                for tell in (_tell, _tell_by_sessions)
            )
            brought = {
                room: [
                    [*_by_turn(server, key, thread, talk, room=room)]
                    for thread, talk in threads
                ]
                for room in BROUGHT
            }
            elsewhere = {
                room: [
                    share
                    for thread, talk in threads
                    for share in _across(server, key, thread, talk, room, every=every)
                ]
                for room in BROUGHT
            }
    sampled = {
        room: (shares, [each for talk in brought[room] for each in talk[::every]])
        for room, shares in elsewhere.items()
    }
    return [
        *_figures(found, ours, brought),
        *(_apart(across, ours, first) for first in SESSIONS),
        *(_apart_by_turn(*two, room) for room, two in sampled.items()),
    ]


def _figures(
    talks: Sequence[Talk],
    ours: Sequence[Ranked],
    brought: Mapping[int, Sequence[Sequence[float]]],
) -> Iterator[Figure]:
    """Yield the shares found in one thread, beside those that others find."""
    others = {
        "SQLite's FTS5": [each for talk in talks for each in _by_fts5(talk)],
        "the newest messages": [each for talk in talks for each in newest(talk)],
    }

    def beside(room: int | None = None) -> str:
        means = (
            f"{name} {fmean(share(each, room) for each in ranked):.3f}"
            for name, ranked in others.items()
        )
        return ", ".join(means)

    yield Figure(
        question=f"LoCoMo: evidence among the first {FIRST} that search finds",
        value=fmean(share(each, None) for each in ours),
        unit="",
        goal=Goal(least=LEAST),
        behind=f"{len(ours)} questions, {len(talks)} conversations; {beside()}",
    )
    for room, found in brought.items():
        yield Figure(
            question=f"LoCoMo: evidence in a recall of {room:,} tokens",
            value=fmean(share for talk in found for share in talk),
            unit="",
            goal=Goal(least=BROUGHT[room]),
            behind=f"in as many tokens: {beside(room)}",
        )
    for most in SESSIONS:
        yield _session_figure(ours, others, most)


def _apart(across: Sequence[Ranked], one: Sequence[Ranked], first: int) -> Figure:
    """Measure the loss of a search when each session is a thread."""
    found, whole = (
        fmean(share(each, None, first=first) for each in ranked)
        for ranked in (across, one)
    )
    some, every = (
        " against ".join(
            f"{fmean(_sessions(each, first)[which] for each in ranked):.3f}"
            for ranked in (across, one)
        )
        for which in (0, 1)
    )
    return Figure(
        question="LoCoMo, a thread for each session: points of the evidence among the "
        f"first {first} that this costs",
        value=100 * (whole - found),
        unit="",
        goal=Goal(most=LOST),
        behind=f"{found:.3f} by recall in a new thread of the same person, "
        f"{whole:.3f} by search in one thread; a session of the evidence {some}, all "
        f"of its sessions {every}",
    )


def _apart_by_turn(across: Sequence[float], one: Sequence[float], room: int) -> Figure:
    """Measure the loss of what turns bring along."""
    found, whole = fmean(across), fmean(one)
    return Figure(
        question="LoCoMo, a thread for each session: points of the evidence in a "
        f"recall of {room:,} tokens that this costs",
        value=100 * (whole - found),
        unit="",
        goal=Goal(most=LOST),
        behind=f"{found:.3f} in a new thread of the same person, {whole:.3f} in one "
        f"thread; {len(one)} of the questions",
    )


def _session_figure(
    ours: Sequence[Ranked], others: Mapping[str, Sequence[Ranked]], most: int
) -> Figure:
    """Measure sessions in the order of their best message, as others count them."""

    def told(ranked: Sequence[Ranked]) -> tuple[float, float]:
        found = [_sessions(each, most) for each in ranked]
        return fmean(some for some, _ in found), fmean(every for _, every in found)

    some, every = told(ours)
    rest = "; ".join(
        f"{name} {any_:.3f}, {all_:.3f}"
        for name, (any_, all_) in ((n, told(each)) for n, each in others.items())
    )
    return Figure(
        question=f"LoCoMo: a session of the evidence among the first {most}",
        value=some,
        unit="",
        behind=f"all of its sessions: {every:.3f}; {rest}",
    )


def talks() -> Sequence[Talk]:
    """Read the conversations; none without the file."""
    path = Path(os.environ.get("MEMORYHUB_LOCOMO") or _BESIDE)
    if not path.is_file():
        print("  left out: MEMORYHUB_LOCOMO names no file")
        return ()
    return [*_talks(json.loads(path.read_text(encoding="utf-8")))]


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


def _tell(server: Server, key: str, thread: str, talk: Talk) -> Telling:
    _write(server, key, thread, talk.messages)
    places = {(thread, at): each for at, each in enumerate(talk.messages)}
    return Telling(f"/threads/{thread}/search", talk, places)


def _tell_by_sessions(server: Server, key: str, name: str, talk: Talk) -> Telling:
    """Write each session into a thread of its own, and ask in one behind them."""
    about, places = {"user_id": f"person-{name}"}, dict[tuple[str, int], Spoken]()
    for session, said in groupby(talk.messages, lambda each: each.session):
        thread, spoken = f"{name}-{session}", [*said]
        _write(server, key, thread, spoken, **about)
        places |= {(thread, at): each for at, each in enumerate(spoken)}
    _write(server, key, f"{name}-new", (), **about)
    return Telling(f"/threads/{name}-new/recall", talk, places)


def _write(
    server: Server, key: str, thread: str, said: Sequence[Spoken], **about: str
) -> None:
    # Nothing of it stands in a request unless something brings it there.
    made = {**about, "config": {"map_slots": False}}
    server.send("PUT", f"/threads/{thread}", key, made)
    for start in range(0, len(said), _BATCH):
        batch = [_slot(each) for each in said[start : start + _BATCH]]
        server.post(f"/threads/{thread}/slots:batch", key, {"items": batch})


def _by_search(server: Server, key: str, told: Telling) -> Iterator[Ranked]:
    for question, evidence in told.talk.questions:
        body = {"query": question, "limit": _SHOWN}
        found: Any = server.post(told.path, key, body)
        places = [(hit["thread"], hit["slot"]) for hit in found["items"]]
        yield [told.places[place] for place in places], evidence


def _by_turn(
    server: Server, key: str, thread: str, talk: Talk, *, room: int
) -> Iterator[float]:
    config = {"map_slots": False, "recall_tokens": room}
    for number, (question, evidence) in enumerate(talk.questions):
        # In a fork: no question may find another one.
        fork = f"{thread}-{room}-{number}"
        forked = {"thread": fork, "config": config}
        server.post(f"/threads/{thread}:fork", key, forked)
        texts = _brought(server, key, fork, question)
        slots = {int(slot) for text in texts for slot in _SLOT.findall(text)}
        names = {talk.messages[slot].name for slot in slots}
        yield len(evidence & names) / len(evidence)


def _across(
    server: Server, key: str, name: str, talk: Talk, room: int, *, every: int
) -> Iterator[float]:
    """Ask turns in a new thread, each of a person whose sessions were threads."""
    config = {"map_slots": False, "recall": "subject", "recall_tokens": room}
    for number, (question, evidence) in [*enumerate(talk.questions)][::every]:
        # Of a person who is told all of it: no question may find another one.
        person = f"{name}-{room}-{number}"
        _tell_by_sessions(server, key, person, talk)
        made = {"user_id": f"person-{person}", "config": config}
        server.send("PUT", f"/threads/{person}-asked", key, made)
        # Texts of other threads stand there without an id.
        text = "\n\n".join([*_brought(server, key, f"{person}-asked", question), ""])
        names = {each.name for each in talk.messages if f"\n{each.text}\n\n" in text}
        yield len(evidence & names) / len(evidence)


def _brought(server: Server, key: str, thread: str, question: str) -> list[str]:
    """Begin a turn with a question; return the texts that come along with it."""
    asked = {"from": "user", "to": "assistant", "type": "chat.user"}
    asked["content"] = {"role": "user", "content": question}  # type: ignore[assignment]
    begun: Any = server.post(f"/threads/{thread}/turns", key, {"items": [asked]})
    said = begun["request"]["messages"]
    return [each["content"] for each in said if each["role"] == "tool"]


def _slot(message: Spoken) -> dict[str, Any]:
    return {
        "from": message.sender,
        "to": "assistant",
        "type": "chat.assistant",
        "content": {"role": "assistant", "content": message.text},
        "agent_at": message.at.isoformat(),
    }


def _by_fts5(talk: Talk) -> Iterator[Ranked]:
    line = sqlite3.connect(":memory:")
    line.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    texts = [(f"{each.sender} {each.text}",) for each in talk.messages]
    line.executemany("INSERT INTO t(x) VALUES (?)", texts)
    for question, evidence in talk.questions:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = line.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid DESC", (words,)
        )
        yield [talk.messages[row - 1] for (row,) in rows], evidence


def newest(talk: Talk) -> Iterator[Ranked]:
    for _, evidence in talk.questions:
        yield talk.messages[::-1], evidence


def share(ranked: Ranked, room: int | None, *, first: int = FIRST) -> float:
    """Return the share of evidence among the first, or in so many tokens of them.

    A token is four characters, as for those who publish such figures.
    """
    messages, evidence = ranked
    names, left = set[str](), room or 0
    for each in messages if room else messages[:first]:
        left -= max(1, len(f"{each.sender}: {each.text}") // 4) + _FRAMING
        if room and left < 0:
            break
        names.add(each.name)
    return len(evidence & names) / len(evidence)


def _sessions(ranked: Ranked, most: int) -> tuple[bool, bool]:
    """Tell whether one session of the evidence is among the first, and whether all."""
    messages, evidence = ranked
    first = [*dict.fromkeys(each.session for each in messages)][:most]
    wanted = {*map(_session, evidence)}
    return not wanted.isdisjoint(first), wanted <= {*first}


def _session(name: str) -> str:
    return name.partition(":")[0]
