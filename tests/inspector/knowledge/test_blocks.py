"""Blocks as people look at them: under the home thread, whichever thread led there."""

from __future__ import annotations

import pytest
from django.test import Client

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories, forgetting
from tests.cast.factories import run
from tests.inspector.paged import text_of

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann")
    factories.append(agent, "t-1", "hello")
    return forgetting.of(agent, "ann")


def put(agent: Agent, ann: Subject, text: str, **more: str | bool) -> None:
    draft = BlockDraft(block="persona", text=text, **more)  # type: ignore[arg-type]
    run(blocks.put(agent=agent, subject=ann, draft=draft))


def test_without_one_the_page_shows_the_call_that_makes_one(
    owner: Client, ann: Subject
) -> None:
    page = text_of(owner, "/p/acme/threads/t-1/blocks")
    assert "No block" in page
    assert f"/api/v1/subjects/{ann.id}/blocks/persona" in page


def test_any_thread_of_the_subject_leads_to_its_blocks(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    put(agent, ann, HOSTILE, description="Who it is.", read_only=True)
    run(turns.begin(agent=agent, thread="t-1", new=NewTurn()))
    home = find_home(ann)
    assert home is not None
    paths = [f"/p/acme/threads/{name}/blocks" for name in ("t-1", home.name)]
    shown = [owner.get(path).content.decode() for path in paths]
    for page in shown:
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page
        for words in ("Who it is.", "read-only", "carried by 1 turn<", "version 1"):
            assert words in page
    looks = AuditEntry.objects.filter(target_kind="thread")
    assert str(home.id) in set(looks.values_list("target_id", flat=True))


def test_versions_stand_side_by_side(owner: Client, agent: Agent, ann: Subject) -> None:
    for text in ("one", "two", "three"):
        put(agent, ann, text)
    home = f"/p/acme/threads/mh.home.{ann.id}/blocks"
    page = text_of(owner, f"{home}?block=persona")
    assert page.index("Version 3") < page.index("Version 2") < page.index("Version 1")
    before = text_of(owner, f"{home}?block=persona&at_seq=3")
    assert "Version 2" in before
    assert "Version 3" not in before
    assert "three" not in before


def test_the_subject_s_page_leads_there(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    path = f"/p/acme/subjects/{ann.id}"
    assert "Home thread" not in text_of(owner, path)
    put(agent, ann, "Ann.")
    assert f"/p/acme/threads/mh.home.{ann.id}/blocks" in text_of(owner, path)
