"""Shortening: the kept part of messages that a request has no room for. Pure.

Each result of parallel calls keeps its own words, and the longest results lose first.
All cut results keep the same number of tokens, half from the beginning and half from
the end. A line between says where to read on. See decision 65.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from memoryhub.kernel.context.contexts import KeptEnds, Ref, Texts
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.opened import get_text as text_at
from memoryhub.kernel.context.tokens import Count, count_fitting
from memoryhub.kernel.messages.message import Message, MessagePart
from memoryhub.kernel.messages.words import list_spans, render_words
from memoryhub.kernel.packing import choosing
from memoryhub.kernel.packing.choosing import Pick, is_from_memory
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import escape_for_string

#: Rounds until the kept text fills the room; each counts the text it would show.
_ROUNDS = 6
#: Tokens that may stay free once a text was cut.
_SPARE = 8


class _CuttableText(NamedTuple):
    """Words that may be cut: of a result, or of a message without results."""

    #: Index of its message among the shortened messages, and of the result in that.
    at: int
    result: int
    words: str
    #: Start of the words among the words of the message.
    start: int
    tokens: int
    #: Tokens of the line that stands for words left out: to leave out fewer saves
    #: nothing.
    line: int


def is_cuttable(choice: Pick) -> bool:
    """Return whether a page stands in the talk as somebody said it."""
    page, talk = choice.candidate, choice.place not in choosing.HEAD
    return talk and choice.cut != 0 and page.level == FULL and not is_from_memory(page)


def list_cuttable(choices: Sequence[Pick], texts: Texts) -> list[int]:
    """List the indexes of choices that may be cut: never calls beside results."""
    return [
        at
        for at, choice in enumerate(choices)
        if is_cuttable(choice) and (len(choices) == 1 or _is_answer(choice, texts))
    ]


def _is_answer(choice: Pick, texts: Texts) -> bool:
    spoken = texts[choice.candidate.location].message
    return bool(spoken.results) or spoken.role == "tool"


def shorten(
    choices: Sequence[Pick],
    room: int,
    *,
    texts: Texts,
    count: Count,
    cost: Callable[[Sequence[Pick]], int],
    least: tuple[int, int],
) -> tuple[tuple[Pick, ...], int] | None:
    """Cut these messages to fit in `room` tokens; return them and their cost.

    Calls stay as they are; only their results are cut. None if a text would keep fewer
    tokens than `least`, alone or beside others. A few times linear in the texts.
    """
    found = [*_list_texts(choices, texts, count)]
    bare = _cut_texts(choices, found, 0, texts, count)
    free = room - cost(bare)
    best: tuple[tuple[Pick, ...], int] | None = None
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
        # Whole texts carry no line, and counts in parts are too high. An excess of less
        # than a token each must lower the level, too.
        free += room - spent if spent <= room else min(room - spent, -len(found))
    return best


def build_excerpt(text: str, kept: KeptEnds, page_id: str) -> str:
    """Return the kept part of a text, with a line in the place of the rest."""
    if kept.head + kept.tail >= len(text):
        return text
    line = _render_line(page_id, kept.begin, kept.end)
    head, tail = text[: kept.head], text[len(text) - kept.tail :]
    return "\n".join(part for part in (head, line, tail) if part)


def _render_line(page_id: str, begin: int, end: int) -> str:
    """Render the line in the place of words left out; it says where to read on."""
    left_out = f"[{page_id}: tokens {begin} to {end} left out;"
    return f"{left_out} offset {begin} reads on]"


def build_message(spoken: Message, kept: Sequence[KeptEnds], page_id: str) -> Message:
    """Return a message cut to its kept parts; its media become lines."""
    whole, found = render_words(spoken), dict(enumerate(spoken.results))
    places = list_spans(spoken)
    for each in kept:
        start, end = places[each.result] if places else (0, len(whole))
        text = build_excerpt(whole[start:end], each, page_id)
        parts = (MessagePart(kind="text", words=text),)
        if not places:
            return replace(spoken, parts=parts, refusal=None)
        found[each.result] = replace(found[each.result], parts=parts)
    return replace(spoken, results=tuple(found.values()))


def read_left(opened: OpenedPage, ref: Ref) -> str:
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


def _list_texts(
    choices: Sequence[Pick], texts: Texts, count: Count
) -> list[_CuttableText]:
    found = list[_CuttableText]()
    for at in list_cuttable(choices, texts):
        page = choices[at].candidate
        spoken = texts[page.location].message
        whole = render_words(spoken)
        line = count(escape_for_string(f"{_render_line(page.page_id, 0, 0)}\n"))
        places = list_spans(spoken) or [(0, len(whole))]
        for result, (start, end) in enumerate(places):
            text = whole[start:end]
            tokens = count(escape_for_string(text))
            found.append(_CuttableText(at, result, text, start, tokens, line))
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
    choices: Sequence[Pick],
    found: Sequence[_CuttableText],
    level: int,
    texts: Texts,
    count: Count,
) -> tuple[Pick, ...]:
    made = [*choices]
    for at, choice in enumerate(choices):
        own = [each for each in found if each.at == at]
        kept = tuple(
            _measure_kept(each, level, texts[choice.candidate.location].message, count)
            for each in own
            if each.tokens > level + each.line
        )
        if not own:
            continue
        if not kept and choosing.has_media(choice, texts):
            # Pictures are dropped before any word.
            kept = (KeptEnds(own[0].result, len(own[0].words), 0, 0, 0),)
        cut = {each.result: each for each in kept}
        characters = sum(
            cut[each.result].head + cut[each.result].tail
            if each.result in cut
            else len(each.words)
            for each in own
        )
        made[at] = choice._replace(cut=characters if kept else None, kept=kept)
    return tuple(made)


def _measure_kept(
    text: _CuttableText, level: int, spoken: Message, count: Count
) -> KeptEnds:
    head = count_fitting(text.words, level // 2, count=count, through=escape_for_string)
    tail = count_fitting(
        text.words,
        level - level // 2,
        count=count,
        through=escape_for_string,
        last=True,
    )
    whole = render_words(spoken)
    behind = text.start + len(text.words) - tail
    # Not later than the end of the beginning, whatever is rounded.
    begin = max(0, count(whole[: text.start + head]) - 1)
    return KeptEnds(text.result, head, tail, begin, count(whole[:behind]))
