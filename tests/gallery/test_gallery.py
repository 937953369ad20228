"""Pages show every partial, and none wants what the page around it lacks."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.template.loader import render_to_string

from memoryhub.model_settings import Price
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from tests.gallery import page
from tests.gallery.world import PROJECT, SEARCHES, make_world
from tests.inspector.conftest import member, signed_in

#: Only after a look-up, beside a list with exports, where a message was jumped to.
PERHAPS = {"missed", "exported", "chosen", "id", "thread", "refused"}


@pytest.mark.django_db(transaction=True)
def test_pages_show_every_partial_and_give_it_what_it_needs(
    acme: Project, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "PRICES", {"small": Price(price=2.0, cached=0.5)})
    owner = signed_in(member(acme, "owner"))
    with page.watched() as shown:
        for address in make_world(agent):
            owner.get(address)
        for where, typed in SEARCHES:
            owner.post(f"{PROJECT}/{where}", typed)
    assert {*page.partials()} - shown.keys() == set()
    lacking = {
        name: (needed(name) | page.used(name)) - shown[name].names - PERHAPS
        for name in page.partials()
    }
    assert {name: names for name, names in lacking.items() if names} == {}
    file = page.ROOT / "var" / "artefacts" / "gallery.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page.draw(shown), encoding="utf-8")


def test_what_a_template_lacks_is_seen() -> None:
    with pytest.raises(AssertionError, match="wants host"):
        render_to_string("inspector/shared/_call.html", {"path": "threads"})
    assert needed("inspector/shared/_call.html") == {"host", "path"}


def needed(template: str) -> set[str]:
    """The names that the first line of a partial wants; what is said of them is not."""
    plain = re.sub(r"\([^)]*\)", "", page.needs(template)).rstrip(".")
    words = {word.strip() for word in plain.split(",")}
    names = {word for word in words if re.fullmatch("[a-z_]+", word)}
    return names - {"nothing"} if words == {"nothing"} else names
