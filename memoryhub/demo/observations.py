"""Observations and reflections of the demo's model, by patterns in the messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from memoryhub.kernel.observing import lines
from memoryhub.kernel.observing.lines import ObservationLine

_SLOT: Final = re.compile(
    r"^\[(\d+)\] (\w+)(?: (\S+ \S+))?\n((?:\|.*\n?)+)", re.MULTILINE
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
#: A sentence with a number or a name is worth keeping.
_EXACT: Final = re.compile(r"\d|[^.!?\s] (?!I\b)[A-Z]")
_CALL: Final = re.compile(r"\w+\(\{")
_STATED: Final = "User said: "


def observe(transcript: str) -> dict[str, Any]:
    """Return the observation of a transcript: facts, questions, results of calls."""
    found, called, question = list[dict[str, Any]](), None, ""
    for number, role, at, barred in _SLOT.findall(transcript):
        last, text = int(number), _strip_bars(barred)
        if role == "tool" or _CALL.match(text):
            called = last if called is None else called
            continue
        first = last if called is None or role == "user" else called
        if first < last and found and _is_question(found[-1], first - 1):
            # The line of the result replaces the line of its question.
            first = found.pop()["slots"][0]
        about = {"at": f"{at.replace(' ', 'T')}Z", "slots": [first, last]}
        found += [
            about | each for each in _iter_remarks(role, text, called=first < last)
        ]
        called = None
        end = _SENTENCE.split(text)[-1]
        question = end if role == "user" and end.endswith("?") else ""
    nothing = {"mark": "low", "text": "Nothing was agreed on."}
    return {"lines": found or [nothing], "current_task": question}


def _is_question(line: dict[str, Any], number: int) -> bool:
    return (line["mark"], line["slots"]) == ("medium", [number, number])


def _iter_remarks(role: str, text: str, *, called: bool) -> Iterator[dict[str, str]]:
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
    """Condense a log: lines of one mark and day are joined, low ones dropped.

    `shorter` keeps critical lines only.
    """
    found = lines.read(_strip_bars(log))
    kept = [each for each in found if each.mark == "critical"]
    if not (shorter and kept):
        kept = [each for each in found if each.mark != "low"] or [*found]
    return {"lines": [*_join_lines(kept)]}


def _join_lines(kept: list[ObservationLine]) -> Iterator[dict[str, Any]]:
    def get_kind(line: ObservationLine) -> tuple[str, str]:
        return f"{line.at:%Y-%m-%d}" if line.at else "", line.mark

    for (_, mark), group in groupby(sorted(kept, key=get_kind), key=get_kind):
        same = [*group]
        # The prefix is written once for the group, and each text once.
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


def _strip_bars(text: str) -> str:
    return "\n".join(row.removeprefix("| ") for row in text.rstrip("\n").split("\n"))
