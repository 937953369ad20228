"""Targets: pages one may go to and things one may do, by role and place. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.urls import reverse

from inspector.nouns import NOUNS
from inspector.web.visitors import Visitor


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Hold what a line of the palette is called and where it leads."""

    title: str
    #: What kind of thing it is; names its picture.
    kind: str
    href: str = ""
    #: What is said beside the title.
    about: str = ""
    #: A theme that is chosen, instead of a link that is followed.
    theme: str = ""
    #: What else it is found by.
    also: str = ""
    #: Words of which the title shows where they stand in it.
    words: tuple[str, ...] = ()

    @property
    def pieces(self) -> list[tuple[bool, str]]:
        """Cut the title into pieces; of each tell whether it is one of the words."""
        folded, pieces, at = self.title.lower(), list[tuple[bool, str]](), 0
        while found := _next_word(folded, self.words, at):
            begin, end = found
            pieces += [(False, self.title[at:begin]), (True, self.title[begin:end])]
            at = end
        return [piece for piece in [*pieces, (False, self.title[at:])] if piece[1]]

    def fits(self, words: tuple[str, ...]) -> bool:
        """Tell whether each of the words stands in what it is called."""
        called = f"{self.title} {self.also}".lower()
        return all(word in called for word in words)


def _next_word(text: str, words: tuple[str, ...], at: int) -> tuple[int, int] | None:
    found = [(text.find(word, at), -len(word)) for word in words]
    there = [(begin, length) for begin, length in found if begin >= 0]
    if not there:
        return None
    begin, length = min(there)
    return begin, begin - length


#: By the role they need: route, title, and other words for it.
_PAGES = (
    ("viewer", "overview", "Overview", "home project health figures"),
    ("viewer", "threads", "Threads", "conversations list"),
    ("viewer", "imports", "Imports", "recorded runs"),
    ("viewer", "health", "Health", "server parts status"),
    ("viewer", "connect", "Connect", "agent snippet first key"),
    ("viewer", "words", "Keys and words", "help glossary keyboard shortcuts"),
    ("officer", "subjects", "Subjects", "people persons privacy"),
    ("officer", "erasures", "Erasures", "forget privacy"),
    ("officer", "receipts", "Receipts", "proof privacy"),
    ("officer", "holds", "Holds", "legal privacy"),
    ("officer", "audit", "Audit log", "who did what"),
    ("owner", "api-keys", "API keys", "secret token"),
    ("owner", "members", "Members", "operators roles people"),
    ("owner", "settings", "Settings", "retention limits"),
)
#: Of a thread: what its address ends in, title, other words; first what editors do.
_ACTS = (
    ("fork", "Fork {}", "branch copy here"),
    ("checkpoints/take", "Take a checkpoint of {}", "save point here"),
    ("paging/settings", "Change the paging of {}", "budget config settings"),
    ("retention", "Change the retention of {}", "days keep"),
)
#: Other words for lists of a thread, and views of it that are no lists.
_ALSO = {
    "turns": "calls requests",
    "slots": "messages slots chat",
    "events": "journal log",
    "pages": "page table",
    "keys": "variables values working",
    "task": "progress working",
    "checkpoints": "restore",
    "observer": "observations log reflections",
}
_VIEWS = (
    ("paging", "Paging of {}", "charts rates faults"),
    ("compare", "Compare two moments of {}", "difference diff"),
    ("messages.ndjson", "Export the messages of {}", "download ndjson data"),
    ("events.ndjson", "Export the events of {}", "download ndjson data"),
)
THEMES = ("light", "dark", "auto")


def iter_pages(visitor: Visitor) -> Iterator[Target]:
    """Yield the project's pages that the visitor may open, and themes."""
    where = {"project": visitor.project.slug}
    for role, route, title, also in _PAGES:
        if visitor.allows(role):
            href = reverse(route, kwargs=where)
            yield Target(title=title, kind="go", href=href, also=f"go open {also}")
    also = "go open documentation openapi docs http"
    yield Target(title="API reference", kind="go", href="/api/v1/docs", also=also)
    projects = reverse("projects")
    yield Target(title="All projects", kind="go", href=projects, also="go switch")
    for theme in THEMES:
        also = "colours light dark mode system"
        yield Target(title=f"Theme: {theme}", kind="do", theme=theme, also=also)


def iter_thread_targets(
    visitor: Visitor, thread: str, *, at_seq: int | None
) -> Iterator[Target]:
    """Yield what the visitor may do with a thread, then its views."""
    base = reverse("thread", kwargs={"project": visitor.project.slug, "thread": thread})
    acts = _ACTS if visitor.editor else ()
    lists = [
        (screen.name, f"{screen.title} of {{}}", f"{_ALSO.get(screen.name, '')} {tab}")
        for screen in NOUNS
        if (tab := screen.tab)
    ]
    as_of = {"fork", *(name for name, *_ in lists)}
    for kind, rows in (("do", acts), ("go", (*lists, *_VIEWS))):
        for path, title, also in rows:
            moment = "" if at_seq is None or path not in as_of else f"?at_seq={at_seq}"
            yield Target(
                title=title.format(thread),
                kind=kind,
                href=f"{base}/{path}{moment}",
                also=f"{kind} {also}",
                about=f"as of event {at_seq:,}" if moment else "",
            )


def fitting(
    targets: Iterator[Target], words: tuple[str, ...], limit: int
) -> list[Target]:
    """List the targets in whose names all of the words stand, with those marked."""
    found = [replace(each, words=words) for each in targets if each.fits(words)]
    # Whose title has all of them comes before what is only also called so.
    return sorted(found, key=lambda each: not _titled(each))[:limit]


def _titled(target: Target) -> bool:
    title = target.title.lower()
    return all(word in title for word in target.words)
