"""The conversation of a request: messages, and pages that memory brings in.

Pure. Each message keeps its author's role. A page from memory, or one without a
speaker, stands as the result of a call of `page_fault`: the text has a tool's
authority, never more. See decisions 47 and 56.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from memoryhub.kernel.context.contexts import KeptEnds
from memoryhub.kernel.context.lines import CUT, render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.messages import media, steps, writing
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.message import Medium, Message, Vendor
from memoryhub.kernel.messages.pieces import Json
from memoryhub.kernel.messages.writing import PlainMessage, ShownMessage
from memoryhub.kernel.packing import shortening
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import escape_for_string
from memoryhub.kernel.tools import own_calls
from memoryhub.kernel.tools.tools import OWN, PAGE_FAULT

LEVELS = ("full", "excerpt", "summary", "one line")
_SPEAKERS = ("user", "assistant", "tool")

#: Media that may stand in a text, each with its weight in tokens.
Media = Sequence[tuple[Medium, int]]


@dataclass(slots=True)
class ShownPage:
    """A page as it stands in a conversation."""

    #: The page at FULL, which names the speaker and the call that it answers.
    opened: OpenedPage
    #: Seq of the event that put the page there; seed of the ids of our own calls.
    seq: int
    level: int = FULL
    #: The page at its level, when that is not FULL.
    lower: OpenedPage | None = None
    #: Characters kept; None for all.
    cut: int | None = None
    part: tuple[int, int] | None = None
    #: Whether memory brought the page, whoever said its text first.
    recalled: bool = False
    #: Same meaning as `Ref.kept`.
    kept: tuple[KeptEnds, ...] = ()
    #: The spoken message; None for a page that memory brings.
    message: Message | None = field(init=False)

    def __post_init__(self) -> None:
        found = None if _is_from_memory(self) else self.opened.message
        self.message = found if found and found.role in _SPEAKERS else None
        if self.message and self.kept:
            page_id = self.opened.page_id
            self.message = shortening.build_message(self.message, self.kept, page_id)

    @property
    def text(self) -> str:
        """Remaining text of the page."""
        text = render_shown_text(self.lower or self.opened, level=self.level)
        if self.part is not None:
            return text[slice(*self.part)]
        # All words are kept of a message that lost only its pictures.
        kept = self.cut is None or self.cut >= len(text)
        return text if kept else text[: self.cut] + CUT

    @property
    def is_whole(self) -> bool:
        return self.level == FULL and self.cut is None and self.part is None

    @property
    def media(self) -> Media:
        """Media the page shows beside words."""
        return (
            [*media.iter_weights(self.message)]
            if self.message and self.is_whole
            else ()
        )


def get_plain(opened: OpenedPage) -> PlainMessage | None:
    """Return a spoken page as plain text, if the page is nothing else."""
    return None if opened.slot is None else opened.plain


def render(
    pages: Sequence[ShownPage | PlainMessage],
    vendor: Vendor,
    *,
    ids: RequestIds,
    running: bool = False,
    detailed: bool = True,
) -> list[list[str]]:
    """Render the messages as JSON, a list for each page; some pages have none.

    `ids` are the ids of the whole request; `running` says whether the pages are its
    exchange. Not `detailed`: as `pack/2` wrote them.
    """
    found: list[list[str]] = [[] for _ in pages]
    spoken = list[int]()
    for at, page in enumerate(pages):
        if isinstance(page, PlainMessage) or page.message is not None:
            spoken.append(at)
            continue
        _write_spoken(
            pages, spoken, found, vendor, ids, running=running, detailed=detailed
        )
        thoughts = (
            list_reasoning(pages[spoken[-1]], vendor, detailed=detailed)
            if running and spoken
            else ()
        )
        spoken = []
        found[at] = _render_fetched(page, vendor, ids, thoughts)
    _write_spoken(pages, spoken, found, vendor, ids, running=running, detailed=detailed)
    return found


def iter_groups(
    pages: Sequence[ShownPage | PlainMessage],
) -> Iterator[Sequence[ShownPage | PlainMessage]]:
    """Yield each page; tool calls together with the results that follow at once.

    Pages that nobody says are yielded alone.
    """
    start = 0
    while start < len(pages):
        talk = list[Message | PlainMessage]()
        for at in range(start, len(pages)):
            page = pages[at]
            spoken = page if isinstance(page, PlainMessage) else page.message
            if spoken is None:
                break
            talk.append(spoken)
        for first, last in writing.iter_groups(talk):
            yield pages[start + first : start + last]
        end = start + len(talk)
        if end < len(pages):
            yield pages[end : end + 1]
        start = end + 1


def list_tools(pages: Iterable[ShownPage | PlainMessage]) -> set[str]:
    """Return the names of the tools that messages call."""
    others = (each for each in pages if isinstance(each, ShownPage))
    calls = (each.message.calls for each in others if each.message)
    return {call.name for part in calls for call in part if call.name}


def list_reasoning(
    page: ShownPage | PlainMessage, vendor: Vendor, *, detailed: bool = True
) -> list[Json]:
    """Return the reasoning of a message that contains only calls of our tools.

    Without its calls such a message is empty: its reasoning stands with the fetched
    pages.
    """
    if isinstance(page, PlainMessage) or page.message is None or not page.is_whole:
        return []
    if not own_calls.list_lone_call_ids(page.message):
        return []
    message = page.message if detailed else steps.remove_details(page.message)
    return writing.list_signed_thoughts(message, vendor)


def weigh(text: str, media: Media, count: Count) -> int:
    """Count the tokens of a text in which `media` may stand; base64 is not counted."""
    tokens = 0
    for medium, weight in media:
        if medium.base64 and (times := text.count(medium.base64)):
            text = text.replace(medium.base64, "")
            tokens += weight * times
        elif (found := medium.url or medium.file_id) and escape_for_string(
            found
        ) in text:
            tokens += weight
    return tokens + count(text)


def render_fetched_text(page: ShownPage) -> str:
    """Render a tool's message about a page: a line about the page, then its text."""
    opened = page.opened
    what = LEVELS[page.level]
    if page.part is not None:
        what = "characters {:,} to {:,}".format(*page.part)
    return f"page {opened.page_id} · {opened.type} · {what}\n\n{page.text}"


def _write_spoken(
    pages: Sequence[ShownPage | PlainMessage],
    spoken: Sequence[int],
    found: list[list[str]],
    vendor: Vendor,
    ids: RequestIds,
    *,
    running: bool,
    detailed: bool,
) -> None:
    """Write a run of spoken messages, each into the list of its page."""
    talk = [pages[at] for at in spoken]
    answered = {
        result.id
        for page in talk
        if isinstance(page, ShownPage) and page.message
        for result in page.message.results
    }
    shown = [
        page
        if isinstance(page, PlainMessage)
        else _build_shown(page, answered, running=running)
        for page in talk
    ]
    written = writing.write(shown, vendor, ids=ids, detailed=detailed)
    for at, texts in zip(spoken, written, strict=True):
        found[at] = texts


def _build_shown(
    page: ShownPage, answered: set[str | None], *, running: bool
) -> ShownMessage:
    assert page.message is not None, "what nobody says memory brings"
    return ShownMessage(
        message=_drop_unanswered_calls(page.message, answered),
        seed=str(page.seq),
        text=None if page.is_whole or page.kept else _render_shortened(page),
        thoughts=running,
        media=not page.kept,
    )


def _drop_unanswered_calls(message: Message, answered: set[str | None]) -> Message:
    """Return a message without the calls of our tools that nothing answers.

    The pages fetched by a dropped call are shown by themselves, unless a message holds
    them.
    """
    calls = message.calls
    if all(each.name not in OWN or each.id in answered for each in calls):
        return message
    left = (each for each in calls if each.name not in OWN or each.id in answered)
    return replace(message, calls=tuple(left))


def _render_shortened(page: ShownPage) -> str:
    return f"[{page.opened.page_id}, shortened]\n{page.text}"


def _render_fetched(
    page: ShownPage, vendor: Vendor, ids: RequestIds, thoughts: Sequence[Json]
) -> list[str]:
    arguments = {"page_id": page.opened.page_id, "target_level": page.level}
    seed = f"{page.seq} {page.level} {page.part}"
    text = render_fetched_text(page)
    return writing.write_call(
        PAGE_FAULT,
        arguments,
        text,
        seed=seed,
        vendor=vendor,
        ids=ids,
        thoughts=thoughts,
    )


def _is_from_memory(page: ShownPage) -> bool:
    return page.recalled or page.part is not None or page.opened.slot is None
