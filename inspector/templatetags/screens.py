"""Tabs: the screens of a thread, and those of its working memory."""

from __future__ import annotations

from typing import Any

from django import template

from inspector.lists.screens import THREAD, Screen
from inspector.nouns import NOUNS

register = template.Library()


@register.simple_tag
def thread_screens() -> list[Screen[Any]]:
    """List the screens of a thread; of a group the first stands for all."""
    first: dict[str, Screen[Any]] = {}
    for screen in NOUNS:
        if screen.scope is THREAD:
            first.setdefault(screen.tab, screen)
    return [*first.values()]


@register.simple_tag
def memory_screens() -> list[Screen[Any]]:
    """List the screens of working memory."""
    return [screen for screen in NOUNS if screen.group == "memory"]
