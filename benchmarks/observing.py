"""Observing: whether what is referred to later is still in a request.

The recorded runs follow one another in threads of 500 messages, under a window of 6,000
tokens; a turn begins before each answer. An identifier is a word of letters and digits.
It counts where an answer or a user says one that nobody has said for twenty messages,
and is looked for where it stood before: among the request's messages, in its log of
observations, and by one search for it. The same without observing, and with the newest
messages that fit. Nothing is brought along unasked, so that each part speaks for
itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.recall import slot

LONG = 500
#: What frames and the log may take together, and what rules and hints take beside it.
WINDOW, RESERVED = 6_000, 2_000
#: Messages that an identifier was not said for.
LATER = 20
LEAST, POINTS = 95, 30
#: What a message takes of a window beside its text.
FRAMING = 12
_WORD = re.compile(r"[A-Za-z0-9]+(?:[_:./@-][A-Za-z0-9]+)*")
_DIGIT, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
#: Characters of an identifier, and what one search shows.
SHORTEST, SHOWN = 5, 10
_LOG = re.compile("<VM:LOG>.*?</VM:LOG>", re.DOTALL)


class Reference(NamedTuple):
    """Identifier that is said again, and the places where it was found by then."""

    #: The message that says it, and the one that did so last.
    at: int
    last: int
    raw: bool
    log: bool
    search: bool
    #: It is among the newest messages that fit.
    newest: bool = False

    @property
    def since(self) -> int:
        return self.at - self.last

    @property
    def shown(self) -> bool:
        return self.raw or self.log

    @property
    def found(self) -> bool:
        return self.shown or self.search


def measure(pace: Pace) -> list[Figure]:
    """Find what answers refer to, with observing and without."""
    threads = [*_threads()][: 1 if pace.quick else None]
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            on, off = (
                [
                    reference
                    for number, said in enumerate(threads)
                    for reference in _play(
                        server, key, f"{observe}-{number}", said, observe=observe
                    )
                ]
                for observe in (True, False)
            )
    return [*_figures(on, off, len(threads))]


def _figures(
    on: Sequence[Reference], off: Sequence[Reference], threads: int
) -> Iterator[Figure]:
    far = [each for each in on if each.since >= LATER]
    without = [each for each in off if each.since >= LATER]
    where = f"{threads} threads of {LONG} {messages.source()} messages"
    found, newest = _share(far, "found"), _share(far, "newest")
    yield Figure(
        question=f"identifiers unsaid for {LATER} messages that are shown or found by "
        f"one search, observing without a model, window of {WINDOW:,} tokens",
        value=found,
        unit=" %",
        goal=Goal(least=LEAST),
        behind=f"{len(far)} in {where}; without observing "
        f"{_share(without, 'found'):.1f} %",
    )
    yield Figure(
        question="points of it over the newest messages that fit",
        value=found - newest,
        unit="",
        goal=Goal(least=POINTS),
        behind=f"{newest:.1f} % stand in those",
    )
    for least in (LATER, LATER // 2):
        seen, bare = ([r for r in each if r.since >= least] for each in (on, off))
        yield Figure(
            question=f"of {len(seen)} unsaid for {least} messages, those in the request"
            " or its log alone",
            value=_share(seen, "shown"),
            unit=" %",
            behind=f"among messages {_share(seen, 'raw'):.1f} %, in the log "
            f"{_share(seen, 'log'):.1f} %; without observing "
            f"{_share(bare, 'shown'):.1f} %, the newest messages "
            f"{_share(seen, 'newest'):.1f} %",
        )


def _share(references: Sequence[Reference], part: str) -> float:
    return 100 * fmean(bool(getattr(each, part)) for each in references)


def _threads() -> Iterator[Sequence[messages.Message]]:
    """Yield 500 messages in a row; the one prompt of all runs is said once."""
    prompt, *_ = every = messages.messages()
    rest = [each for each in every if each["role"] != "system"]
    for start in range(0, len(rest) - LONG + 2, LONG - 1):
        yield [prompt, *rest[start : start + LONG - 1]]


def _play(
    server: Server,
    key: str,
    name: str,
    said: Sequence[messages.Message],
    *,
    observe: bool,
) -> Iterator[Reference]:
    """Say all messages in a thread, with a turn before each answer."""
    thread = f"/threads/{name}"
    sizes = {"budget_tokens": WINDOW + RESERVED, "reserved_tokens": RESERVED}
    config = {**sizes, "recall": "off", "observe": observe}
    server.send("PUT", thread, key, {"config": config})
    places, found, begun = defaultdict[str, list[int]](list), list[Reference](), 0
    always = _identifiers(said[0])
    for at, message in enumerate(said):
        if message["role"] != "assistant":
            continue
        items = [slot(dict(each)) for each in said[begun:at]]
        turn: Any = server.post(f"{thread}/turns", key, {"items": items})
        raw, log = _shown(turn["request"], said[begun:at])
        for word, (place, last) in _wanted(said, begun, at, places).items():
            if word not in always and place - last >= LATER // 2:
                seen = word in raw, word in log
                earlier = {each for each in places[word] if each <= last}
                hit = any(seen) or _hit(server, key, thread, word, earlier)
                found.append(Reference(place, last, *seen, search=hit))
        begun = at
    tokens = [*_tokens(server, key, thread)]
    for each in found:
        yield each._replace(newest=_first_that_fits(tokens, each.at) <= each.last)


def _wanted(
    said: Sequence[messages.Message],
    begun: int,
    at: int,
    places: dict[str, list[int]],
) -> dict[str, tuple[int, int]]:
    """Return what a turn's users or its answer refer to: by whom, and who said it last.

    Notes where each identifier of these messages stands.
    """
    wanted = dict[str, tuple[int, int]]()
    for place in range(begun + 1 if begun else 0, at + 1):
        for word in _identifiers(said[place]):
            if places[word] and said[place]["role"] != "tool":
                wanted.setdefault(word, (place, places[word][-1]))
            places[word].append(place)
    return wanted


def _shown(
    request: dict[str, Any], new: Sequence[messages.Message]
) -> tuple[set[str], set[str]]:
    """Return the identifiers of a request's messages, and those of its log.

    A user's newest message is left out: it is the one that refers.
    """
    just = [each["content"] for each in new if each["role"] == "user"]
    lists = {
        call["id"]
        for each in request["messages"]
        for call in each.get("tool_calls") or ()
        if call["function"]["name"] == "page_list"
    }
    raw, log = set[str](), set[str]()
    for each in request["messages"]:
        if each.get("tool_call_id") in lists or each["content"] in just:
            continue
        text = each["content"] or ""
        for logged in _LOG.findall(text) if each["role"] == "system" else ():
            log |= _words(logged)
            text = text.replace(logged, "")
        raw |= _identifiers({**each, "content": text})
    return raw, log


def _hit(server: Server, key: str, thread: str, word: str, earlier: set[int]) -> bool:
    body = {"query": word, "limit": SHOWN}
    hits: Any = server.post(f"{thread}/search", key, body)
    return any(hit["slot"] in earlier for hit in hits["items"])


def _tokens(server: Server, key: str, thread: str) -> Iterator[int]:
    """Yield the tokens of each message, as the hub counts them."""
    path = f"{thread}/slots?limit=200"
    part: Any = server.send("GET", path, key, {})
    yield from (each["tokens"] for each in part["items"])
    while after := part["next"]:
        part = server.send("GET", f"{path}&after={after}", key, {})
        yield from (each["tokens"] for each in part["items"])


def _first_that_fits(tokens: Sequence[int], at: int) -> int:
    """Return the oldest of the newest earlier messages that fit beside the prompt."""
    left = WINDOW - tokens[0] - FRAMING
    for place in reversed(range(1, at)):
        left -= tokens[place] + FRAMING
        if left < 0:
            return place + 1
    return 0


def _identifiers(message: messages.Message) -> set[str]:
    """Return words of letters and digits in a message's text and calls."""
    calls = message.get("tool_calls") or ()
    texts = [message.get("content") or "", *(c["function"]["arguments"] for c in calls)]
    return {word for text in texts for word in _words(text)}


def _words(text: str) -> set[str]:
    words = (found for found in _WORD.findall(text) if len(found) >= SHORTEST)
    return {word for word in words if _DIGIT.search(word) and _LETTER.search(word)}
