"""Tabs: the views of a thread, five tabs of them."""

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

#: Views of a tab that are no lists, by what stands behind the thread's address: those
#: before its lists, and those after them.
_BEFORE = {"replay": {"": "Replay"}, "paging": {"paging": "Charts"}}
_AFTER = {
    "turns": {"prefix": "Prefixes"},
    "memory": {"facts": "Facts", "recall": "Recall"},
    "branches": {"compare": "Compare", "forks": "Forks"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """Hold a tab of a thread with its views, by address; the first is its own."""

    name: str
    views: dict[str, str]
    current: bool

    @property
    def path(self) -> str:
        return next(iter(self.views))


@register.simple_tag(takes_context=True)
def moment_query(context: Context) -> str:
    """Word the moment of this page behind an address; empty of a live one.

    Pages that are always of the whole thread pass on what their own address says.
    """
    if not context["live"]:
        return f"?at_seq={context['at']}"
    seq = context["request"].GET.get("at_seq", "")
    return f"?at_seq={seq}" if seq.isascii() and seq.isdigit() else ""


@register.simple_tag(takes_context=True)
def search_link(context: Context) -> str:
    """Give the address of the search page: of a thread at its moment, on its pages."""
    names = {"project": context["visitor"].project.slug}
    thread, address = context.get("thread"), reverse("search", kwargs=names)
    if not thread:
        return address
    moment = moment_query(context) if "live" in context else ""
    return f"{address}?thread={thread.name}{moment.replace('?', '&')}"


@register.simple_tag
def exports_of(path: str, query: str = "") -> list[tuple[str, str]]:
    """List the exports of the list at an address, as far as its query finds."""
    return exports.links(path, query)


@register.simple_tag
def thread_tabs(view: str) -> list[Tab]:
    """List the tabs of a thread while it is seen by that view."""
    views = {name: _views(name) for name in TABS}
    return [
        Tab(name=name, views=shown, current=view in shown)
        for name, shown in views.items()
    ]


def _views(tab: str) -> dict[str, str]:
    lists = {screen.name: screen.title for screen in NOUNS if screen.tab == tab}
    return _BEFORE.get(tab, {}) | lists | _AFTER.get(tab, {})


@register.simple_tag
def differing_screens() -> list[Screen[Any]]:
    """List the screens that can show how two moments of a thread differ."""
    return [screen for screen in NOUNS if screen.difference]


@register.simple_tag
def restored() -> str:
    """Name what checkpoints keep, beside the working set."""
    return ", ".join(RESTORED)


@register.simple_tag
def exported() -> str:
    """Name what an export has of the state of threads."""
    return ", ".join(file.name for file in FILES.values())
