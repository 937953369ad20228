"""Shortening: what is kept of messages that a request has no room for. Pure.

Of the results of parallel calls each keeps its own words, and the longest lose first:
all that are cut keep the same number of tokens, half of them from the beginning and
half from the end. A line between says where to read on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from memoryhub.kernel.levels.contexts import Kept, Ref, Texts
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.opened import text as text_at
from memoryhub.kernel.levels.tokens import Count, fitting
from memoryhub.kernel.messages.message import Message, Part
from memoryhub.kernel.messages.words import list_spans, words
from memoryhub.kernel.packing import choosing
from memoryhub.kernel.packing.choosing import Choice, brought
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import in_string

#: Rounds until what is kept fills the room; each counts what it would show.
_ROUNDS = 6
#: Tokens that may stay free once something was cut.
_SPARE = 8


class _Text(NamedTuple):
    """Words that may be cut: of a result, or of a message without any."""

    #: Place of its message among those shortened, and of the result in that.
    at: int
    result: int
    words: str
    #: Where they begin among the words of the message.
    start: int
    tokens: int


def is_cuttable(choice: Choice) -> bool:
    """Return whether a page stands in the talk as somebody said it."""
    page, talk = choice.candidate, choice.place not in choosing.HEAD
    return talk and choice.cut != 0 and page.level == FULL and not brought(page)


def list_cuttable(choices: Sequence[Choice], texts: Texts) -> list[int]:
    """Return the places of those that may be cut: never calls, beside their results."""
    return [
        at
        for at, choice in enumerate(choices)
        if is_cuttable(choice) and (len(choices) == 1 or _is_answer(choice, texts))
    ]


def _is_answer(choice: Choice, texts: Texts) -> bool:
    spoken = texts[choice.candidate.location].message
    return bool(spoken.results) or spoken.role == "tool"


def shorten(
    choices: Sequence[Choice],
    room: int,
    *,
    texts: Texts,
    count: Count,
    cost: Callable[[Sequence[Choice]], int],
    least: tuple[int, int],
) -> tuple[tuple[Choice, ...], int] | None:
    """Cut these messages to what `room` tokens hold; return them and their cost.

    Of calls and what they gave back the calls stay as they are. None if one of them
    would keep fewer tokens than `least`, alone or beside others. A few times linear in
    the texts.
    """
    found = [*_list_texts(choices, texts, count)]
    bare = _cut_texts(choices, found, 0, texts, count)
    free = room - cost(bare)
    best: tuple[tuple[Choice, ...], int] | None = None
    rounds = 0
    while rounds < _ROUNDS or best is None:
        rounds += 1
        level = _share_room([each.tokens for each in found], free)
        if level < least[len(found) > 1]:
            break
        made = _cut_texts(choices, found, level, texts, count)
        spent = cost(made)
        if spent <= room and (best is None or spent > best[1]):
            best = made, spent
        if 0 <= room - spent <= _SPARE:
            break
        # Whole ones carry no line, and counts in parts are too high. Too much by less
        # than a token each must lower the level, too.
        free += room - spent if spent <= room else min(room - spent, -len(found))
    return best


def build_excerpt(text: str, kept: Kept, page_id: str) -> str:
    """Return what is left of a text, with a line in the place of the rest."""
    if kept.head + kept.tail >= len(text):
        return text
    line = f"[{page_id}: tokens {kept.begin} to {kept.end} left out;"
    line += f" offset {kept.begin} reads on]"
    head, tail = text[: kept.head], text[len(text) - kept.tail :]
    return "\n".join(part for part in (head, line, tail) if part)


def build_message(spoken: Message, kept: Sequence[Kept], page_id: str) -> Message:
    """Return a message of which only so much is kept; its media are lines."""
    whole, found = words(spoken), dict(enumerate(spoken.results))
    places = list_spans(spoken)
    for each in kept:
        start, end = places[each.result] if places else (0, len(whole))
        text = build_excerpt(whole[start:end], each, page_id)
        parts = (Part(kind="text", words=text),)
        if not places:
            return replace(spoken, parts=parts, refusal=None)
        found[each.result] = replace(found[each.result], parts=parts)
    return replace(spoken, results=tuple(found.values()))


def read_left(opened: Opened, ref: Ref) -> str:
    """Return the words that a ref shows of a page."""
    whole = text_at(opened, level=ref.level) or ""
    if not ref.kept:
        return whole[: ref.cut]
    found, kept = list[str](), {each.result: each for each in ref.kept}
    for n, (start, end) in enumerate(list_spans(opened.message) or [(0, len(whole))]):
        text, each = whole[start:end], kept.get(n)
        if each is not None and each.head + each.tail < len(text):
            text = f"{text[: each.head]}\n{text[len(text) - each.tail :]}"
        found.append(text)
    return "\n".join(found)


def _list_texts(choices: Sequence[Choice], texts: Texts, count: Count) -> list[_Text]:
    found = list[_Text]()
    for at in list_cuttable(choices, texts):
        spoken = texts[choices[at].candidate.location].message
        whole = words(spoken)
        places = list_spans(spoken) or [(0, len(whole))]
        for result, (start, end) in enumerate(places):
            text = whole[start:end]
            found.append(_Text(at, result, text, start, count(in_string(text))))
    return found


def _share_room(sizes: Sequence[int], room: int) -> int:
    """Return the most tokens that each may keep so that all fit into the room."""
    left, level = room, 0
    for n, size in enumerate(sorted(sizes)):
        level = left // (len(sizes) - n)
        if size > level:
            return level
        left -= size
    return level + left if sizes else 0


def _cut_texts(
    choices: Sequence[Choice],
    found: Sequence[_Text],
    level: int,
    texts: Texts,
    count: Count,
) -> tuple[Choice, ...]:
    made = [*choices]
    for at, choice in enumerate(choices):
        own = [each for each in found if each.at == at]
        kept = tuple(
            _measure_kept(each, level, texts[choice.candidate.location].message, count)
            for each in own
            if each.tokens > level
        )
        if not own:
            continue
        if not kept and choosing.has_media(choice, texts):
            # Pictures leave before any word does.
            kept = (Kept(own[0].result, len(own[0].words), 0, 0, 0),)
        cut = {each.result: each for each in kept}
        characters = sum(
            cut[each.result].head + cut[each.result].tail
            if each.result in cut
            else len(each.words)
            for each in own
        )
        made[at] = choice._replace(cut=characters if kept else None, kept=kept)
    return tuple(made)


def _measure_kept(text: _Text, level: int, spoken: Message, count: Count) -> Kept:
    head = fitting(text.words, level // 2, count=count, through=in_string)
    tail = fitting(
        text.words, level - level // 2, count=count, through=in_string, last=True
    )
    whole = words(spoken)
    behind = text.start + len(text.words) - tail
    # No later than where the beginning ends, whatever is rounded.
    begin = max(0, count(whole[: text.start + head]) - 1)
    return Kept(text.result, head, tail, begin, count(whole[:behind]))
