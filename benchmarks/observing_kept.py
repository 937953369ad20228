"""Kept: whether rules, wishes and files said long ago are still in a request.

A thread observes without a model. Into the recorded runs, and into conversations of
LoCoMo, statements are put at each depth: a rule and a wish, each behind a greeting or
below other lines, and calls that write files. A turn begins for every twenty messages.
A statement counts where its sentence, or each of its paths, stands in the request of a
question that asks for nothing; nothing is brought along unasked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import locomo, messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.recall import slot

#: What frames and the log may take together; a fifth more is reserved beside it.
WINDOWS = (6_000, 16_000, 32_000)
#: Messages between a statement and the question.
DEPTHS = (10, 30, 100, 300, 1_000, 2_000, 5_000)
QUICK = (10, 100, 300)
TOGETHER = 20
LEAST = 95
_RULES = (
    "Never deploy to the harbour cluster on a Friday.",
    "Always answer the Brandt family in Danish.",
    "Do not call the lighthouse before nine.",
    "From now on round all invoices to ten crowns.",
    "You must ask Odile before you cancel a ferry.",
    "Don't ever share the Kestrel ledger with guests.",
    "Make sure that the orchard report is in metric units.",
)
_WISHES = (
    "I prefer the cabin on the quiet side.",
    "We decided against the hotel and take the cottage.",
    "I'm allergic to walnuts.",
    "My favourite seat is by the stove.",
    "I would rather travel by the night train.",
    "We changed our mind, the wedding is in Tromsø instead.",
    "I'd like the tickets printed on paper.",
)
_OPENINGS = (
    "Good morning,\n\n{}",
    "Thanks, that helps a lot.\nOne more thing. {}",
    "<system-reminder>The list is empty.</system-reminder>\nHello!\n{}",
    "```\nTraceback\n```\nThat was the export. {}",
)


class Statement(NamedTuple):
    """Statement put into a thread, so many messages before its end."""

    kind: str
    depth: int
    said: Sequence[messages.Message]
    texts: Sequence[str]


def measure(pace: Pace) -> list[Figure]:
    """Put statements into long threads and look for them in the next request."""
    depths = QUICK if pace.quick else DEPTHS
    windows = WINDOWS[: 1 if pace.quick else None]
    found = dict[int, list[tuple[Statement, bool]]]()
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            for window in windows:
                found[window] = [
                    each
                    for number, said in enumerate(list_fillers())
                    for each in _play(
                        server,
                        key,
                        f"kept-{window}-{number}",
                        said,
                        window=window,
                        depths=depths,
                    )
                ]
    return [_build_figure(window, each) for window, each in found.items()]


def _build_figure(window: int, found: Sequence[tuple[Statement, bool]]) -> Figure:
    by_kind = defaultdict[str, list[bool]](list)
    for statement, stands in found:
        by_kind[statement.kind].append(stands)
    deepest = max(statement.depth for statement, _ in found)
    return Figure(
        question=f"rules, wishes and written files that stand in a request up to "
        f"{deepest:,} messages later, observing without a model, window of {window:,} "
        "tokens",
        value=100 * sum(stands for _, stands in found) / len(found),
        unit=" %",
        goal=Goal(least=LEAST),
        behind=f"{len(found)} statements: "
        + ", ".join(f"{kind} {sum(e)} of {len(e)}" for kind, e in by_kind.items()),
    )


def list_fillers() -> list[Sequence[messages.Message]]:
    """List filler messages: the recorded runs, and conversations of LoCoMo."""
    runs = [each for each in messages.messages() if each["role"] != "system"]
    talks = [
        {
            "role": "user" if each.sender == talk.messages[0].sender else "assistant",
            "content": each.text,
        }
        for talk in locomo.talks()
        for each in talk.messages
    ]
    return [each for each in (runs, talks) if each]


def list_statements(depths: Sequence[int]) -> Iterator[Statement]:
    """Yield statements of each kind at each depth, the deepest first."""
    for number, depth in enumerate(sorted(depths, reverse=True)):
        opening = _OPENINGS[number % len(_OPENINGS)]
        for kind, every in (("rules", _RULES), ("wishes", _WISHES)):
            text = every[number % len(every)]
            said = [{"role": "user", "content": opening.format(text)}]
            yield Statement(kind, depth, said, (text,))
        paths = [f"src/part{'abcdefgh'[number]}/{name}.py" for name in ("main", "form")]
        yield Statement("files", depth, [*_write_files(number, paths)], paths)


def _write_files(number: int, paths: Sequence[str]) -> Iterator[messages.Message]:
    for place, path in enumerate(paths):
        arguments = json.dumps({"path": path, "content": "x = 1\n" * 40})
        function = {"name": "write_file", "arguments": arguments}
        call = {"id": f"w{number}-{place}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call["id"], "content": "ok"}


def build_talk(
    filler: Sequence[messages.Message], depths: Sequence[int]
) -> list[messages.Message]:
    """Build a conversation of filler with the statements in it."""
    length = max(depths)
    # The same again, where it is shorter than that.
    said = [filler[n % len(filler)] for n in range(length)]
    talk = list[messages.Message]()
    by_depth = defaultdict[int, list[Statement]](list)
    for statement in list_statements(depths):
        by_depth[statement.depth].append(statement)
    for left in range(length, 0, -1):
        # Between a call and its result nobody speaks.
        talk += [m for each in by_depth.pop(left, ()) for m in each.said]
        talk.append(said[length - left])
    return talk


def _play(
    server: Server,
    key: str,
    name: str,
    filler: Sequence[messages.Message],
    *,
    window: int,
    depths: Sequence[int],
) -> Iterator[tuple[Statement, bool]]:
    thread = f"/threads/{name}"
    sizes = {"budget_tokens": window * 6 // 5, "reserved_tokens": window // 5}
    config = {**sizes, "recall": "off", "observe": True, "max_slots": 100_000}
    server.send("PUT", thread, key, {"config": config})
    talk = build_talk(filler, depths)
    for start in range(0, len(talk), TOGETHER):
        items = [slot(dict(each)) for each in talk[start : start + TOGETHER]]
        server.post(f"{thread}/turns", key, {"items": items})
    asked = {"role": "user", "content": "What now?"}
    turn: Any = server.post(f"{thread}/turns", key, {"items": [slot(asked)]})
    text = json.dumps(turn["request"], ensure_ascii=False)
    for statement in list_statements(depths):
        yield statement, all(each in text for each in statement.texts)
