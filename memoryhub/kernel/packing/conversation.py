"""The conversation of a request: what was said, and what memory brings into it.

Pure. Each message stays one of who wrote it. What comes out of memory, and what nobody
speaks, stands as the result of a call of `page_fault`: it speaks with a tool's
authority, never with more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from memoryhub.kernel.levels import own_calls
from memoryhub.kernel.levels.contexts import Kept
from memoryhub.kernel.levels.lines import CUT, shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.levels.tools import OWN, PAGE_FAULT
from memoryhub.kernel.messages import media, writing
from memoryhub.kernel.messages.ids import Ids
from memoryhub.kernel.messages.message import Medium, Message, Vendor
from memoryhub.kernel.messages.pieces import Json
from memoryhub.kernel.messages.writing import Plain, Shown
from memoryhub.kernel.packing import shortening
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import in_string

LEVELS = ("full", "excerpt", "summary", "one line")
_SPEAKERS = ("user", "assistant", "tool")

#: Media that may stand in a text, and what each weighs.
Media = Sequence[tuple[Medium, int]]


@dataclass(slots=True)
class ShownPage:
    """A page as it stands in a conversation."""

    #: At FULL, which tells who said it and which call it answers.
    opened: Opened
    #: Of the event that put it there: what makes ids of calls that are ours.
    seq: int
    level: int = FULL
    #: The same at its level, when that is not FULL.
    lower: Opened | None = None
    #: Characters kept; None for all.
    cut: int | None = None
    part: tuple[int, int] | None = None
    #: It came out of memory, whoever said it once.
    recalled: bool = False
    #: As in `Ref`.
    kept: tuple[Kept, ...] = ()
    #: What somebody says; None for what memory brings.
    message: Message | None = field(init=False)

    def __post_init__(self) -> None:
        found = None if _from_memory(self) else self.opened.message
        self.message = found if found and found.role in _SPEAKERS else None
        if self.message and self.kept:
            page_id = self.opened.page_id
            self.message = shortening.build_message(self.message, self.kept, page_id)

    @property
    def text(self) -> str:
        """What is left of its text."""
        text = shown_text(self.lower or self.opened, level=self.level)
        if self.part is not None:
            return text[slice(*self.part)]
        # Of a message that only its pictures have left all words are kept.
        kept = self.cut is None or self.cut >= len(text)
        return text if kept else text[: self.cut] + CUT

    @property
    def whole(self) -> bool:
        return self.level == FULL and self.cut is None and self.part is None

    @property
    def media(self) -> Media:
        """What it shows beside words."""
        return [*media.weights(self.message)] if self.message and self.whole else ()


def plain(opened: Opened) -> Plain | None:
    """Return how a page that somebody said stands whole, if it is just a text."""
    return None if opened.slot is None else opened.plain


def messages(
    pages: Sequence[ShownPage | Plain],
    vendor: Vendor,
    *,
    ids: Ids,
    running: bool = False,
) -> list[list[str]]:
    """Return the messages' JSON, a list for each page; some pages have none.

    `ids` are those of the whole request; `running` is its exchange.
    """
    found: list[list[str]] = [[] for _ in pages]
    spoken = list[int]()
    for at, page in enumerate(pages):
        if isinstance(page, Plain) or page.message is not None:
            spoken.append(at)
            continue
        _write(pages, spoken, found, vendor, ids, running=running)
        thoughts = unsaid(pages[spoken[-1]], vendor) if running and spoken else ()
        spoken = []
        found[at] = _fetched(page, vendor, ids, thoughts)
    _write(pages, spoken, found, vendor, ids, running=running)
    return found


def groups(
    pages: Sequence[ShownPage | Plain],
) -> Iterator[Sequence[ShownPage | Plain]]:
    """Yield each page; calls of tools together with the results that follow at once.

    Of pages that somebody says, and those that nobody does each alone.
    """
    start = 0
    while start < len(pages):
        talk = list[Message | Plain]()
        for at in range(start, len(pages)):
            page = pages[at]
            spoken = page if isinstance(page, Plain) else page.message
            if spoken is None:
                break
            talk.append(spoken)
        for first, last in writing.groups(talk):
            yield pages[start + first : start + last]
        end = start + len(talk)
        if end < len(pages):
            yield pages[end : end + 1]
        start = end + 1


def called(pages: Iterable[ShownPage | Plain]) -> set[str]:
    """Return the names of the tools that messages call."""
    others = (each for each in pages if isinstance(each, ShownPage))
    calls = (each.message.calls for each in others if each.message)
    return {call.name for part in calls for call in part if call.name}


def unsaid(page: ShownPage | Plain, vendor: Vendor) -> list[Json]:
    """Return the thoughts of a message that only calls our tools.

    It is no message without its calls: they stand with what the calls have brought.
    """
    if isinstance(page, Plain) or page.message is None or not page.whole:
        return []
    alone = own_calls.ids_alone(page.message)
    return writing.signed(page.message, vendor) if alone else []


def weigh(text: str, media: Media, count: Count) -> int:
    """Count the tokens of a text in which these may stand; base64 is none of it."""
    tokens = 0
    for medium, weight in media:
        if medium.base64 and (times := text.count(medium.base64)):
            text = text.replace(medium.base64, "")
            tokens += weight * times
        elif (found := medium.url or medium.file_id) and in_string(found) in text:
            tokens += weight
    return tokens + count(text)


def fetched_text(page: ShownPage) -> str:
    """Write what a tool's message says of a page: a line about it, then its text."""
    opened = page.opened
    what = LEVELS[page.level]
    if page.part is not None:
        what = "characters {:,} to {:,}".format(*page.part)
    return f"page {opened.page_id} · {opened.type} · {what}\n\n{page.text}"


def _write(
    pages: Sequence[ShownPage | Plain],
    spoken: Sequence[int],
    found: list[list[str]],
    vendor: Vendor,
    ids: Ids,
    *,
    running: bool,
) -> None:
    """Write what is said in a row, each into the list of its page."""
    talk = [pages[at] for at in spoken]
    answered = {
        result.id
        for page in talk
        if isinstance(page, ShownPage) and page.message
        for result in page.message.results
    }
    shown = [
        page if isinstance(page, Plain) else _shown(page, answered, running=running)
        for page in talk
    ]
    for at, texts in zip(spoken, writing.write(shown, vendor, ids=ids), strict=True):
        found[at] = texts


def _shown(page: ShownPage, answered: set[str | None], *, running: bool) -> Shown:
    assert page.message is not None, "what nobody says memory brings"
    return Shown(
        message=_without_own(page.message, answered),
        seed=str(page.seq),
        text=None if page.whole or page.kept else _shortened(page),
        thoughts=running,
        media=not page.kept,
    )


def _without_own(message: Message, answered: set[str | None]) -> Message:
    """A message without calls of ours that nothing answers.

    What they have brought is shown by itself, unless a message says it.
    """
    calls = message.calls
    if all(each.name not in OWN or each.id in answered for each in calls):
        return message
    left = (each for each in calls if each.name not in OWN or each.id in answered)
    return replace(message, calls=tuple(left))


def _shortened(page: ShownPage) -> str:
    return f"[{page.opened.page_id}, shortened]\n{page.text}"


def _fetched(
    page: ShownPage, vendor: Vendor, ids: Ids, thoughts: Sequence[Json]
) -> list[str]:
    arguments = {"page_id": page.opened.page_id, "target_level": page.level}
    seed = f"{page.seq} {page.level} {page.part}"
    text = fetched_text(page)
    return writing.call(
        PAGE_FAULT,
        arguments,
        text,
        seed=seed,
        vendor=vendor,
        ids=ids,
        thoughts=thoughts,
    )


def _from_memory(page: ShownPage) -> bool:
    return page.recalled or page.part is not None or page.opened.slot is None
