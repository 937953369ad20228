"""How the demo's model observes: by patterns, from the messages that it is given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from memoryhub.kernel.observing import lines
from memoryhub.kernel.observing.lines import Line

_SLOT: Final = re.compile(
    r"^\[(\d+)\] (\w+)(?: (\S+ \S+))?\n((?:\|.*\n?)+)", re.MULTILINE
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
#: A sentence with a number or a name in it says something that can be lost.
_EXACT: Final = re.compile(r"\d|[^.!?\s] (?!I\b)[A-Z]")
_CALL: Final = re.compile(r"\w+\(\{")
_STATED: Final = "User said: "


def observe(transcript: str) -> dict[str, Any]:
    """Return what a transcript comes to: facts, questions, and what calls led to."""
    found, called, question = list[dict[str, Any]](), None, ""
    for number, role, at, barred in _SLOT.findall(transcript):
        last, text = int(number), _unbarred(barred)
        if role == "tool" or _CALL.match(text):
            called = last if called is None else called
            continue
        first = last if called is None or role == "user" else called
        if first < last and found and _asks(found[-1], first - 1):
            # What was asked is in what came of it.
            first = found.pop()["slots"][0]
        about = {"at": f"{at.replace(' ', 'T')}Z", "slots": [first, last]}
        found += [about | each for each in _noted(role, text, called=first < last)]
        called = None
        end = _SENTENCE.split(text)[-1]
        question = end if role == "user" and end.endswith("?") else ""
    nothing = {"mark": "low", "text": "Nothing was agreed on."}
    return {"lines": found or [nothing], "current_task": question}


def _asks(line: dict[str, Any], number: int) -> bool:
    return (line["mark"], line["slots"]) == ("medium", [number, number])


def _noted(role: str, text: str, *, called: bool) -> Iterator[dict[str, str]]:
    if called:
        yield {"mark": "done", "text": text}
        return
    for sentence in filter(_EXACT.search, _SENTENCE.split(text)):
        if role != "user":
            yield {"mark": "low", "text": f"{role.capitalize()}: {sentence}"}
        elif sentence.endswith("?"):
            yield {"mark": "medium", "text": f"User asked: {sentence}"}
        else:
            yield {"mark": "critical", "text": f"{_STATED}{sentence}"}


def reflect(log: str, *, shorter: bool) -> dict[str, Any]:
    """Return a log condensed: what is of one mark and day in one line, low ones gone.

    `shorter`: only what is critical.
    """
    found = lines.read(_unbarred(log))
    kept = [each for each in found if each.mark == "critical"]
    if not (shorter and kept):
        kept = [each for each in found if each.mark != "low"] or [*found]
    return {"lines": [*_joined(kept)]}


def _joined(kept: list[Line]) -> Iterator[dict[str, Any]]:
    def kind(line: Line) -> tuple[str, str]:
        return f"{line.at:%Y-%m-%d}" if line.at else "", line.mark

    for (_, mark), group in groupby(sorted(kept, key=kind), key=kind):
        same = [*group]
        # Said once for all of them, and each of them once.
        texts = dict.fromkeys(each.text.removeprefix(_STATED) for each in same)
        prefix = _STATED if same[0].text.startswith(_STATED) else ""
        yield {
            "at": same[0].at.isoformat() if same[0].at else None,
            "mark": mark,
            "text": prefix + " ".join(texts),
            "slots": [
                min(each.first for each in same),
                max(each.end for each in same) - 1,
            ],
        }


def _unbarred(text: str) -> str:
    return "\n".join(row.removeprefix("| ") for row in text.rstrip("\n").split("\n"))
