"""Targets: pages to open and actions to do, by role and place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from django.urls import reverse

from inspector.nouns import NOUNS
from inspector.web.visitors import Visitor
from memoryhub.models.threads import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class PaletteTarget:
    """A line of the palette: title, link, and words that find it."""

    title: str
    #: Kind of target; names its icon.
    kind: str
    href: str = ""
    #: Text beside the title.
    about: str = ""
    #: A theme to choose, instead of a link to follow.
    theme: str = ""
    #: Further words that find the target.
    also: str = ""
    #: Searched words that are marked in the title.
    words: tuple[str, ...] = ()

    @property
    def pieces(self) -> list[tuple[bool, str]]:
        """Split the title into pieces, each with whether it is a searched word.

        A word is marked whole: where it holds three typed letters, begins with two, or
        is the one that was typed.
        """
        found = (
            (_is_found(each, self.words), each) for each in _split_title(self.title)
        )
        return [
            (marked, "".join(each for _, each in pieces))
            for marked, pieces in groupby(found, key=itemgetter(0))
        ]

    def has_words(self, words: tuple[str, ...]) -> bool:
        """Tell whether title and further words contain all of `words`."""
        called = f"{self.title} {self.also}".lower()
        return all(word in called for word in words)


def _split_title(title: str) -> list[str]:
    """Split a title into words and what stands between them."""
    return [each for each in re.split(r"([^\W_]+)", title) if each]


def _is_found(word: str, typed: tuple[str, ...]) -> bool:
    folded = word.lower()
    if not folded.isalnum():
        return False
    return any(
        each == folded
        or (len(each) > 1 and folded.startswith(each))
        or (len(each) > 2 and each in folded)
        # A typed name is of several words.
        or folded in _split_title(each)
        for each in typed
    )


#: Required role, route, title, and further words.
_PAGES = (
    ("viewer", "overview", "Overview", "home project health figures"),
    ("viewer", "threads", "Threads", "conversations list"),
    ("viewer", "imports", "Imports", "recorded runs"),
    ("viewer", "health", "Health", "server parts status"),
    ("viewer", "connect", "Connect", "agent snippet first key"),
    ("viewer", "words", "Keys and words", "help glossary keyboard shortcuts"),
    ("viewer", "subjects", "People", "subjects persons privacy"),
    ("officer", "erasures", "Erasures", "forget privacy"),
    ("officer", "receipts", "Receipts", "proof privacy"),
    ("officer", "holds", "Holds", "legal privacy"),
    ("officer", "audit", "Audit log", "who did what"),
    ("owner", "api-keys", "API keys", "secret token"),
    ("owner", "alerts", "Alerts", "thresholds notices silence mail history"),
    ("owner", "webhooks", "Webhooks", "events deliveries receivers"),
    ("owner", "members", "Members", "operators roles people"),
    ("owner", "settings", "Settings", "retention limits"),
)
#: Actions of editors on a thread: path behind its URL, title, and further words.
_ACTS = (
    ("fork", "Fork {}", "branch copy here"),
    ("checkpoints/take", "Take a checkpoint of {}", "save point here"),
    ("paging/settings", "Change the paging of {}", "budget config settings"),
    ("retention", "Change the retention of {}", "days keep"),
)
#: Further words for a thread's lists; then its views that are not lists.
_LIST_WORDS = {
    "turns": "calls requests",
    "slots": "messages slots chat",
    "events": "journal log",
    "pages": "page table",
    "keys": "variables values working",
    "task": "progress working",
    "checkpoints": "restore",
    "observer": "observations log reflections",
}
#: Pages of the person of a thread: route, title, and further words.
_PERSON_PAGES = (
    ("facts", "Facts of the person of {}", "knowledge memory true"),
    ("blocks", "Blocks of the person of {}", "memory persona"),
    ("episodes", "Episodes of the person of {}", "memory exchanges"),
    ("recall", "Recall of the person of {}", "memory search"),
)
_VIEWS = (
    ("paging", "Paging of {}", "charts rates faults"),
    ("compare", "Compare two moments of {}", "difference diff"),
    ("messages.ndjson", "Export the messages of {}", "download ndjson data"),
    ("events.ndjson", "Export the events of {}", "download ndjson data"),
)
THEMES = ("light", "dark", "auto")


def iter_pages(visitor: Visitor) -> Iterator[PaletteTarget]:
    """Iterate over the project's pages that the visitor may open, and themes."""
    where = {"project": visitor.project.slug}
    for role, route, title, also in _PAGES:
        if visitor.has_role(role):
            href = reverse(route, kwargs=where)
            yield PaletteTarget(
                title=title, kind="go", href=href, also=f"go open {also}"
            )
    also = "go open documentation openapi docs http"
    yield PaletteTarget(
        title="API reference", kind="go", href="/api/v1/docs", also=also
    )
    projects = reverse("projects")
    yield PaletteTarget(
        title="All projects", kind="go", href=projects, also="go switch"
    )
    for theme in THEMES:
        also = "colours light dark mode system"
        yield PaletteTarget(title=f"Theme: {theme}", kind="do", theme=theme, also=also)


def iter_thread_targets(
    visitor: Visitor, thread: Thread, *, at_seq: int | None
) -> Iterator[PaletteTarget]:
    """Iterate over the visitor's actions on a thread, its views, and its person's."""
    where = {"project": visitor.project.slug}
    base = reverse("thread", kwargs={**where, "thread": thread.name})
    acts = _ACTS if visitor.editor else ()
    lists = [
        (
            screen.name,
            f"{screen.title} of {{}}",
            f"{_LIST_WORDS.get(screen.name, '')} {tab}",
        )
        for screen in NOUNS
        if (tab := screen.tab)
    ]
    as_of = {"fork", *(name for name, *_ in lists)}
    for kind, rows in (("do", acts), ("go", (*lists, *_VIEWS))):
        for path, title, also in rows:
            moment = "" if at_seq is None or path not in as_of else f"?at_seq={at_seq}"
            yield PaletteTarget(
                title=title.format(thread.name),
                kind=kind,
                href=f"{base}/{path}{moment}",
                also=f"{kind} {also}",
                about=f"as of event {at_seq:,}" if moment else "",
            )
    for route, title, also in _PERSON_PAGES:
        yield PaletteTarget(
            title=title.format(thread.name),
            kind="go",
            href=reverse(route, kwargs={**where, "subject": thread.subject_id}),
            also=f"go {also}",
        )


def list_matching(
    targets: Iterator[PaletteTarget], words: tuple[str, ...], limit: int
) -> list[PaletteTarget]:
    """List the targets that contain all words, with the words marked in titles."""
    found = [replace(each, words=words) for each in targets if each.has_words(words)]
    # Targets with all words in the title come first.
    return sorted(found, key=lambda each: not _has_words_in_title(each))[:limit]


def _has_words_in_title(target: PaletteTarget) -> bool:
    title = target.title.lower()
    return all(word in title for word in target.words)
