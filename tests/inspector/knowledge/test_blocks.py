"""Memory blocks, as pages of a person show them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import blocks as reading
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
#: Pattern of the notice of a saved block; the group is the event.
SAVED = r'Saved as <a href="[^"]+/events/(\d+)"'


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann")
    factories.append(agent, "t-1", "hello")
    return forgetting.get_subject(agent, "ann")


def build_path(subject: Subject, page: str = "blocks") -> str:
    return f"/p/acme/subjects/{subject.id}/{page}"


def put(agent: Agent, ann: Subject, text: str, **more: str | bool) -> None:
    draft = BlockDraft(block="persona", text=text, **more)  # type: ignore[arg-type]
    run(blocks.put_block(agent=agent, subject=ann, draft=draft))


def test_empty_blocks_page_shows_the_call_that_makes_a_block(
    owner: Client, ann: Subject
) -> None:
    page = text_of(owner, build_path(ann))
    assert "No block" in page
    assert f"/api/v1/subjects/{ann.id}/blocks/persona" in page


def test_blocks_page_shows_inert_texts_and_is_audited(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    put(agent, ann, HOSTILE, description="Who it is.", read_only=True)
    run(turns.begin_turn(agent=agent, thread="t-1", new=NewTurn()))
    home = find_home(ann)
    assert home is not None
    page = owner.get(build_path(ann)).content.decode()
    assert HOSTILE not in page
    for words in ("&lt;script&gt;", "Who it is.", "read-only", "version 1"):
        assert words in page
    assert ">1 turn</a>" in page
    looks = AuditEntry.objects.filter(target_kind="thread")
    assert str(home.id) in set(looks.values_list("target_id", flat=True))


def test_turns_that_carried_a_block_are_listed_newest_first(
    owner: Client, agent: Agent, ann: Subject, django_assert_max_num_queries: Any
) -> None:
    put(agent, ann, "one")
    factories.make_thread(agent, "t-2", user_id="ann")
    for n in range(12):
        for thread in ("t-1", "t-2"):
            factories.append(agent, thread, f"hello {n}")
            run(turns.begin_turn(agent=agent, thread=thread, new=NewTurn()))
    shown = text_of(owner, build_path(ann))
    (opens,) = re.findall(r'href="([^"#]+)#[^"]*">24 turns<', shown)
    with django_assert_max_num_queries(60) as one:
        page = text_of(owner, opens)
    links = re.findall(r'href="/p/acme/threads/(t-\d)/turns/(\d+)"', page)
    expected = [(f"t-{2 - n % 2}", str(12 - n // 2)) for n in range(24)]
    assert links == expected[:20]
    (more,) = re.findall(r'href="([^"#]+)#[^"]*">Earlier turns<', page)
    with django_assert_max_num_queries(len(one)):
        rest = text_of(owner, more)
    found = re.findall(r'href="/p/acme/threads/(t-\d)/turns/(\d+)"', rest)
    assert found == expected[20:]
    assert "Earlier turns" not in rest
    assert owner.get(f"{opens}&after=forged").status_code in (400, 422)
    thread, n = links[0]
    assert owner.get(f"/p/acme/threads/{thread}/turns/{n}").status_code == 200


def test_block_versions_are_shown_side_by_side(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    for text in ("one", "two", "three"):
        put(agent, ann, text)
    path = build_path(ann)
    page = text_of(owner, f"{path}?block=persona")
    assert page.index("Version 3") < page.index("Version 2") < page.index("Version 1")
    before = text_of(owner, f"{path}?block=persona&at_seq=3")
    assert "Version 2" in before
    assert "Version 3" not in before
    assert "three" not in before


def test_rename_and_inserted_line_are_told_in_words(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    put(agent, ann, "one")
    where: dict[str, Any] = {"agent": agent, "subject": ann}
    run(blocks.rename_block(block="persona", name="people/ann", **where))
    run(blocks.insert_lines(block="people/ann", line=1, text="two", **where))
    home = f"/p/acme/threads/mh.home.{ann.id}"
    page = " ".join(text_of(owner, f"{build_path(ann)}?block=people/ann").split())
    for words in ("Renamed from persona to people/ann.", "Text inserted after line 1."):
        assert words in page
    links = re.findall(rf'href="((?:{home}/pages|{build_path(ann)})/[^"]+)"', page)
    assert len(links) == 2
    for link in links:
        assert owner.get(link).status_code == 200, link
    events = text_of(owner, f"{home}/events")
    assert "persona renamed to people/ann, version 2" in events
    assert "people/ann version 3, text inserted after line 1" in events


def test_subject_page_links_to_its_blocks(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    path = f"/p/acme/subjects/{ann.id}"
    assert "Home thread" not in text_of(owner, path)
    put(agent, ann, "Ann.")
    assert f"{path}/blocks" in text_of(owner, path)


def test_operator_adds_a_block_and_writes_its_next_version(
    owner: Client, viewer: Client, ann: Subject
) -> None:
    blocks_of, add = build_path(ann), build_path(ann, "add-block")
    assert f'href="{add}"' in text_of(owner, blocks_of)
    assert add not in text_of(viewer, blocks_of)
    assert {viewer.get(add).status_code, viewer.post(add).status_code} == {403}
    new = {"version": "none", "block": "persona", "text": HOSTILE, "description": "Who"}
    made = owner.post(add, new)
    assert made.status_code == 302
    shown = text_of(owner, made.headers["Location"])
    assert "version 1" in shown
    edit = build_path(ann, "blocks/persona/edit")
    assert f'href="{edit}"' in shown
    form = owner.get(edit).content.decode()
    assert "&lt;script&gt;" in form
    assert 'name="version" value="1"' in form
    sent = {"version": "1", "text": "one\r\ntwo", "description": "Who she is."}
    saved = owner.post(edit, sent)
    assert saved.status_code == 302
    view = reading.get_block(find_home(ann), "persona")
    assert (view.version, view.text) == (2, "one\ntwo")
    assert view.description == "Who she is."
    assert "Version 2" in text_of(owner, saved.headers["Location"].partition("#")[0])


def test_block_edit_names_its_event_and_can_be_undone(
    owner: Client, viewer: Client, agent: Agent, ann: Subject
) -> None:
    put(agent, ann, HOSTILE, description="Who it is.", read_only=True)
    home = f"/p/acme/threads/mh.home.{ann.id}"
    edit = build_path(ann, "blocks/persona/edit")
    sent = {"version": "1", "text": "two", "description": ""}
    saved = owner.post(edit, sent).headers["Location"]
    page = text_of(owner, saved)
    (seq,) = re.findall(SAVED, page)
    undo = f"{home}/events/{seq}/undo"
    assert f'action="{undo}"' in owner.get(saved).content.decode()
    assert "Saved as" not in text_of(viewer, saved)
    assert viewer.post(undo).status_code == 403
    back = owner.post(undo)
    assert re.findall(SAVED, text_of(owner, back.headers["Location"]))
    view = reading.get_block(find_home(ann), "persona")
    assert (view.version, view.text, view.read_only) == (3, HOSTILE, True)
    assert view.description == "Who it is."
    assert "changed again since" in text_of(owner, saved)
    late = owner.post(undo)
    assert late.status_code == 409
    assert "so nothing was undone" in late.content.decode()
    assert reading.get_block(find_home(ann), "persona").version == 3


def test_block_edit_has_no_undo_when_no_former_text_exists(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    new = {"version": "none", "block": "persona", "text": "one", "description": ""}
    made = owner.post(build_path(ann, "add-block"), new).headers["Location"]
    page = owner.get(made).content.decode()
    (seq,) = re.findall(SAVED, page)
    home = f"/p/acme/threads/mh.home.{ann.id}"
    assert "/undo" not in page
    assert owner.post(f"{home}/events/{seq}/undo").status_code == 422
    row = find_home(ann)
    assert row is not None
    put(agent, ann, "two")
    forgetting.forget(ann, "record", thread=row, seq=int(seq), until="caches_purged")
    edited = reading.get_block(row, "persona").seq
    gone = owner.post(f"{home}/events/{edited}/undo")
    assert gone.status_code == 410
    assert "gone for good" in gone.content.decode()


def test_conflicting_block_edit_shows_both_texts(
    owner: Client, agent: Agent, ann: Subject
) -> None:
    put(agent, ann, "one", read_only=True)
    put(agent, ann, "the other's")
    edit = build_path(ann, "blocks/persona/edit")
    sent = {"version": "1", "text": "mine", "description": ""}
    refused = owner.post(edit, sent)
    page = refused.content.decode()
    assert refused.status_code == 409
    for words in (
        "changed this block after you opened it",
        "the other&#x27;s",
        ">mine<",
    ):
        assert words in page
    assert owner.post(edit, {**sent, "version": "2"}).status_code == 302
    view = reading.get_block(find_home(ann), "persona")
    assert (view.version, view.text, view.read_only) == (3, "mine", True)
    again = owner.post(build_path(ann, "add-block"), {**sent, "block": "persona"})
    assert again.status_code == 409
    assert owner.get(build_path(ann, "blocks/other/edit")).status_code == 404


@pytest.mark.parametrize(
    ("field", "wrong", "status"),
    [
        ("block", "", 422),
        ("block", "two words", 422),
        ("block", "mh.x", 422),
        ("block", "slot-1", 422),
        ("description", "x" * 1025, 422),
        ("text", "x" * 65_537, 413),
        ("version", "x", 409),
        ("version", "3", 409),
    ],
)
def test_invalid_block_is_explained_beside_the_form(
    owner: Client, ann: Subject, field: str, wrong: str, status: int
) -> None:
    sent = {"version": "none", "block": "persona", "text": "as typed", field: wrong}
    refused = owner.post(build_path(ann, "add-block"), sent)
    assert refused.status_code == status
    assert 'role="alert"' in refused.content.decode()
    assert find_home(ann) is None
