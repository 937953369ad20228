"""The gallery: pages show every partial, with all that its context needs."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.template.loader import render_to_string

from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.gallery import page
from tests.gallery.world import PROJECT, SEARCHES, build_recall, make_world
from tests.inspector.conftest import make_member, signed_in

#: Names that only some contexts have: after a look-up, beside exports, on a jump.
PERHAPS = {"missed", "exported", "chosen", "id", "thread", "refused", "named"}


@pytest.mark.django_db(transaction=True)
def test_every_partial_is_shown_with_its_declared_context(
    acme: Project, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "PRICES", {"small": Price(price=2.0, cached=0.5)})
    monkeypatch.setattr(settings, "COLD_DAYS", 30)
    owner = signed_in(make_member(acme, "owner"))
    with page.record_renderings() as shown:
        for address in make_world(agent):
            owner.get(address)
        for where, typed in (*SEARCHES, build_recall(agent)):
            owner.post(f"{PROJECT}/{where}", typed)
    assert {*page.partials()} - shown.keys() == set()
    lacking = {
        name: (list_declared_names(name) | page.list_used_names(name))
        - shown[name].names
        - PERHAPS
        for name in page.partials()
    }
    assert {name: names for name, names in lacking.items() if names} == {}
    file = page.ROOT / "var" / "artefacts" / "gallery.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page.draw(shown), encoding="utf-8")


def test_missing_template_context_is_seen() -> None:
    with pytest.raises(AssertionError, match="wants host"):
        render_to_string("inspector/shared/_call.html", {"path": "threads"})
    assert list_declared_names("inspector/shared/_call.html") == {"host", "path"}


def list_declared_names(template: str) -> set[str]:
    """Return the names that the first line of a partial declares, without comments."""
    plain = re.sub(r"\([^)]*\)", "", page.get_declared_needs(template)).rstrip(".")
    words = {word.strip() for word in plain.split(",")}
    names = {word for word in words if re.fullmatch("[a-z_]+", word)}
    return names - {"nothing"} if words == {"nothing"} else names
