"""Words with what they mean on hover."""

from __future__ import annotations

from django import template
from django.utils.html import format_html

from inspector.words.words import WORDS

register = template.Library()


@register.simple_tag
def term(word: str, shown: str = "") -> str:
    """Show a word of ours, or another in its place, and on hover what it means."""
    return format_html(
        '<span class="term" title="{}">{}</span>', WORDS[word], shown or word
    )


@register.filter
def meaning(word: str) -> str:
    """The sentence of a word of ours, for a title."""
    return WORDS[word]


@register.filter
def explained(word: str) -> bool:
    """Tell whether it is a word of ours."""
    return word in WORDS
