"""Tags that show an actor by name, with the id on hover."""

from __future__ import annotations

from django import template
from django.template import Context
from django.utils.html import format_html

from inspector.templatetags.units import section_title

register = template.Library()


@register.simple_tag(takes_context=True)
def actor(context: Context, actor_id: str) -> str:
    """Render an actor by name; needs `actors` of the page's project in the context."""
    name = context["actors"].get(actor_id)
    if not name:
        kind, colon, ref = actor_id.partition(":")
        # A worker's ref is a word, shown whole; other refs are ids, cut short.
        if kind == "worker":
            whole = '<span class="mono" title="{}">worker:<wbr>{}</span>'
            return format_html(whole, actor_id, ref)
        shown = f"{kind}{colon}{ref[-8:]}"
        return format_html('<span class="mono" title="{}">{}</span>', actor_id, shown)
    return format_html('<span class="actor" title="{}">{}</span>', actor_id, name)


@register.simple_tag(takes_context=True)
def recipient(context: Context, word: str) -> str:
    """Render a recipient of a receipt, `key:<prefix>` or `export:<actor>`, in words."""
    kind, _, ref = word.partition(":")
    if kind == "key":
        return format_html("API key {}", actor(context, f"agent:{ref}"))
    if kind == "export" and ":" in ref:
        return format_html("Export by {}", actor(context, ref))
    what = {"export": "Export by a", "model": "Model at", "project": "Project"}
    return format_html('{} <span class="mono">{}</span>', what.get(kind, kind), ref)


@register.filter
def screen_title(route: str | None) -> str:
    """Render a route as the name of its page: `Threads`, `Thread`, `Slots`.

    A panel has the name of its page.
    """
    parts = (route or "").partition("/panels/")[0].split("/")[2:]
    if not route or route.startswith("ws/"):
        return "an open page"
    words = [part.partition(".")[0] for part in parts if not part.startswith("<")]
    word = section_title(words[-1]) if words and words[-1] else "Overview"
    return word.removesuffix("s") if parts and parts[-1].startswith("<") else word


@register.simple_tag(takes_context=True)
def actor_name(context: Context, actor_id: str) -> str:
    """Render an actor as plain text, for a title attribute."""
    name = context["actors"].get(actor_id)
    return f"{name} ({actor_id})" if name else actor_id
