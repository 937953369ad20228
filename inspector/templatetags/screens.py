"""Tags for a thread's tabs and views, and for exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import template
from django.template import Context
from django.urls import reverse

from inspector.lists.screens import TABS, Screen
from inspector.nouns import NOUNS
from inspector.web import exports
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.queries.nouns import FILES

register = template.Library()

#: Views of a tab that are not lists, by the path behind the thread's address: views
#: before the tab's lists, and views after.
_FIRST_VIEWS = {
    "replay": {"": "Replay"},
    "paging": {"paging": "Charts"},
    "memory": {"memory": "Overview"},
}
_LAST_VIEWS = {
    "turns": {"prefix": "Prefixes"},
    "branches": {"compare": "Compare", "forks": "Forks"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTab:
    """A tab of a thread with the title of each view by path; it leads to the first."""

    name: str
    views: dict[str, str]
    current: bool

    @property
    def path(self) -> str:
        return next(iter(self.views))


@register.simple_tag(takes_context=True)
def moment_query(context: Context) -> str:
    """Build the query that keeps this page's moment in a link; empty if live.

    Pages that always show the whole thread pass on `at_seq` of their own URL.
    """
    if not context["live"]:
        return f"?at_seq={context['at']}"
    seq = context["request"].GET.get("at_seq", "")
    return f"?at_seq={seq}" if seq.isascii() and seq.isdigit() else ""


@register.simple_tag(takes_context=True)
def search_link(context: Context, *, wide: bool = False) -> str:
    """Build the URL of the search page; on a thread's pages with thread and moment.

    With `wide` the search begins in the whole project.
    """
    names = {"project": context["visitor"].project.slug}
    thread, address = context.get("thread"), reverse("search", kwargs=names)
    if not thread:
        return address
    moment = moment_query(context) if "live" in context else ""
    scope = "&scope=project" if wide else ""
    return f"{address}?thread={thread.name}{moment.replace('?', '&')}{scope}"


@register.simple_tag
def exports_of(path: str, query: str = "") -> list[tuple[str, str]]:
    """List the exports of the list at a path, limited to its query."""
    return exports.list_links(path, query)


@register.simple_tag
def thread_tabs(view: str) -> list[ThreadTab]:
    """List the tabs of a thread; the tab that has `view` is current."""
    views = {name: _list_views(name) for name in TABS}
    return [
        ThreadTab(name=name, views=shown, current=view in shown)
        for name, shown in views.items()
    ]


def _list_views(tab: str) -> dict[str, str]:
    lists = {screen.name: screen.title for screen in NOUNS if screen.tab == tab}
    return _FIRST_VIEWS.get(tab, {}) | lists | _LAST_VIEWS.get(tab, {})


@register.simple_tag
def differing_screens() -> list[Screen[Any]]:
    """List the screens that can show how two moments of a thread differ."""
    return [screen for screen in NOUNS if screen.difference]


@register.simple_tag
def restored() -> str:
    """Name the parts that checkpoints keep, beside the working set."""
    return ", ".join(RESTORED)


@register.simple_tag
def exported() -> str:
    """Name the files of an export that hold the state of threads."""
    return ", ".join(file.name for file in FILES.values())
