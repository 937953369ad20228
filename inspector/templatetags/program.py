"""Tag with the command that runs this copy; built in, so no template loads it."""

from __future__ import annotations

from django import template

from memoryhub.distribution import PROGRAM

register = template.Library()


@register.simple_tag
def program() -> str:
    """Return `manage.py` in a checkout, `memoryhub` where a wheel was installed."""
    return PROGRAM
