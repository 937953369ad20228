"""Actors in words: by name, with the id on hover."""

from __future__ import annotations

from django import template
from django.template import Context
from django.utils.html import format_html

register = template.Library()


@register.simple_tag(takes_context=True)
def actor(context: Context, actor_id: str) -> str:
    """Word who did something; needs `actors` of the page's project."""
    name = context["actors"].get(actor_id)
    if not name:
        kind, colon, ref = actor_id.partition(":")
        # A worker is named by a word, which is whole; others by ids.
        shown = actor_id if kind == "worker" else f"{kind}{colon}{ref[-8:]}"
        return format_html('<span class="mono" title="{}">{}</span>', actor_id, shown)
    return format_html('<span class="actor" title="{}">{}</span>', actor_id, name)


@register.simple_tag(takes_context=True)
def actor_name(context: Context, actor_id: str) -> str:
    """Word who did something as plain text, for a title."""
    name = context["actors"].get(actor_id)
    return f"{name} ({actor_id})" if name else actor_id
