"""Actors as pages name them."""

from __future__ import annotations

import pytest
from django.template import Context

from inspector.templatetags import actors


@pytest.mark.parametrize(
    ("actor_id", "shown"),
    [
        ("worker:observing", "worker:<wbr>observing"),
        ("worker:consolidation", "worker:<wbr>consolidation"),
        ("operator:01a219b4-8691-785d-98c1-441a3a4422b7", "operator:3a4422b7"),
        ("command", "command"),
    ],
)
def test_only_ids_in_actor_names_are_cut(actor_id: str, shown: str) -> None:
    drawn = actors.actor(Context({"actors": {}}), actor_id)
    assert drawn == f'<span class="mono" title="{actor_id}">{shown}</span>'


@pytest.mark.parametrize(
    ("route", "title"),
    [
        ("p/<project:project>/", "Overview"),
        ("p/<project:project>/panels/overview", "Overview"),
        ("p/<project:project>/threads/<name:thread>/panels/<slug:panel>", "Thread"),
        ("p/<project:project>/subjects/<uuid:subject>/facts", "Facts"),
        ("ws/live/<project:project>", "an open page"),
    ],
)
def test_route_is_named_after_its_page(route: str, title: str) -> None:
    assert actors.screen_title(route) == title
