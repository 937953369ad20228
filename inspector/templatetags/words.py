"""Glossary terms with their meaning on hover."""

from __future__ import annotations

from django import template
from django.utils.html import format_html

from inspector.words.words import WORDS

register = template.Library()


@register.simple_tag
def term(word: str, shown: str = "") -> str:
    """Render a glossary term, or `shown` in its place, with the meaning on hover."""
    return format_html(
        '<span class="term" title="{}">{}</span>', WORDS[word], shown or word
    )


@register.filter
def meaning(word: str) -> str:
    """Return the sentence of a glossary term, for a title attribute."""
    return WORDS[word]


@register.filter
def is_term(word: str) -> bool:
    """Tell whether the glossary has the word."""
    return word in WORDS
