from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.paging.page_commands import ReferencePages
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.paged import do, make_paged, state_now, text_of

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/paged"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def get_preview_fields(client: Client, path: str) -> dict[str, str]:
    """Return the fields of the form under a preview."""
    found = re.findall(r'name="(seen|level)" value="(\w+)"', text_of(client, path))
    return dict(found)


def preview_and_do(client: Client, path: str, query: str = "") -> int:
    """Fetch the preview, then do the act; return the status of the answer."""
    answer: Any = client.post(path, get_preview_fields(client, path + query))
    return int(answer.status_code)


def test_editor_pins_and_evicts_pages(browser: Browser, paged: Thread) -> None:
    editor = browser("editor")
    assert preview_and_do(editor, f"{T}/pages/policy/unpin") == 302
    assert "policy" not in state_now(paged).paging.pins
    assert preview_and_do(editor, f"{T}/pages/policy/pin") == 302
    away = next(iter(state_now(paged).paging.hot))
    assert preview_and_do(editor, f"{T}/pages/{away}/map", "?level=2") == 302
    assert state_now(paged).paging.frames[away].level == 2
    assert editor.post(f"{T}/pages/{away}/map", {"level": "4"}).status_code == 422
    newest = paged.events.order_by("-seq").first()
    assert newest is not None
    assert newest.actor.startswith("operator:")


def test_page_act_preview_changes_nothing(browser: Browser, paged: Thread) -> None:
    editor = browser("editor")
    away = next(iter(state_now(paged).paging.hot))
    text = text_of(editor, f"{T}/pages/{away}/map")
    assert "page.mapped" in text
    assert "Resident tokens" in text
    refused = text_of(editor, f"{T}/pages/policy/evict")
    assert "pinned" in refused
    assert 'name="seen"' not in refused
    assert "the page is already pinned" in text_of(editor, f"{T}/pages/policy/pin")
    assert Thread.objects.get(id=paged.id).head_seq == paged.head_seq
    text_of(editor, f"{T}/pages/slot-999/pin", 404)
    text_of(editor, f"{T}/pages/policy/praise", 404)


def test_page_act_without_a_current_preview_is_refused(
    browser: Browser, paged: Thread
) -> None:
    editor = browser("editor")
    for sent in ({}, {"seen": "0" * 16}):
        answer: Any = editor.post(f"{T}/pages/policy/unpin", sent)
        assert answer.status_code == 409
        text = answer.content.decode()
        assert "has changed since you looked" in text
        assert 'name="seen"' in text
    assert "policy" in state_now(paged).paging.pins
    refused = editor.post(f"{T}/pages/policy/evict", {"seen": "0" * 16})
    assert refused.status_code == 409
    assert "policy" in state_now(paged).paging.frames


def test_page_act_is_refused_when_the_page_was_pinned_meanwhile(
    browser: Browser, paged: Thread
) -> None:
    """A change in between answers 409 with a fresh preview, and writes nothing."""
    editor = browser("editor")
    state = state_now(paged)
    loose = next(p for p in state.paging.frames if p not in pins.list_pinned(state))
    form = get_preview_fields(editor, f"{T}/pages/{loose}/evict")
    operator_pages.perform_act(
        paged, operator_pages.build_command(paged, "pin", loose), actor="operator:x"
    )
    assert editor.post(f"{T}/pages/{loose}/evict", form).status_code == 409
    assert loose in state_now(paged).paging.frames


def test_single_tlb_entry_is_dropped(browser: Browser, paged: Thread) -> None:
    editor = browser("editor")
    assert '<option value="policy">' in text_of(editor, f"{T}/paging")
    form = {"page": "policy", "back": "page"}
    answer: Any = editor.post(f"{T}/paging/flush", form)
    assert answer.headers["Location"] == f"{T}/pages/policy"
    tlb = state_now(paged).paging.tlb
    assert tlb.find("policy") is None
    assert len(tlb.held) > 1
    assert "Drop TLB entry" not in text_of(editor, f"{T}/pages/policy")
    answer = editor.post(f"{T}/paging/flush", {"page": "nobody at all"})
    assert answer.headers["Location"] == f"{T}/paging"


def test_editor_clears_what_prefetch_has_learnt(
    browser: Browser, agent: Agent, paged: Thread
) -> None:
    editor, known = browser("editor"), "1 tool known"
    do(agent, paged.name, ReferencePages(page_ids=("policy",)))
    call = {"name": "refund", "arguments": "{}"}
    said = {"id": "c", "type": "function", "function": call}
    message = {"role": "assistant", "content": None, "tool_calls": [said]}
    factories.append(agent, paged.name, message)
    assert known in text_of(editor, f"{T}/paging")
    answer: Any = editor.post(f"{T}/paging/prefetch/clear")
    assert answer.headers["Location"] == f"{T}/paging"
    assert state_now(paged).paging.tools == ()
    assert known not in text_of(editor, f"{T}/paging")


def test_viewer_sees_no_page_form_and_changes_nothing(
    viewer: Client, paged: Thread
) -> None:
    before = paged.head_seq
    for path in ("pages/policy", "paging", "events", "turns/7"):
        assert f'method="post" action="{T}' not in text_of(viewer, f"{T}/{path}")
    assert viewer.get(f"{T}/pages/policy/unpin").status_code == 403
    for path in ("pages/policy/pin", "paging/flush", "paging/prefetch/clear"):
        assert viewer.post(f"{T}/{path}").status_code == 403
    assert Thread.objects.get(id=paged.id).head_seq == before


def test_page_deletion_requires_the_typed_id(browser: Browser, paged: Thread) -> None:
    editor = browser("editor")
    text = text_of(editor, f"{T}/pages/policy/delete")
    assert "1 version" in text
    wrong = editor.post(f"{T}/pages/policy/delete", {"typed": "polici"})
    assert wrong.status_code == 422
    assert Thread.objects.get(id=paged.id).head_seq == paged.head_seq
    derived = editor.post(f"{T}/pages/slot-0/delete", {"typed": "slot-0"})
    assert derived.status_code == 409


def test_editor_changes_settings_and_drops_the_tlb(
    browser: Browser, paged: Thread
) -> None:
    editor = browser("editor")
    sent = {"budget_tokens": "3000", "reserved_tokens": "800", "mode": "relaxed"}
    shown: Any = editor.post(f"{T}/paging/settings", sent)
    assert shown.status_code == 200
    assert "page.evicted" in shown.content.decode()
    assert state_now(paged).paging.settings.usable == 3_200
    found = re.search(r'name="seen" value="(\w+)"', shown.content.decode())
    assert found is not None
    changed = editor.post(f"{T}/paging/settings", sent | {"seen": "0" * 16})
    assert changed.status_code == 200
    saved = editor.post(f"{T}/paging/settings", sent | {"seen": found[1]})
    assert saved.status_code == 302
    # Settings that move no page are saved without a preview.
    calm = sent | {"mode": "strict"}
    assert editor.post(f"{T}/paging/settings", calm).status_code == 302
    assert editor.post(f"{T}/paging/settings", sent).status_code == 302
    settings = state_now(paged).paging.settings
    assert (settings.usable, settings.mode) == (2_200, "relaxed")
    assert 'value="3000"' in text_of(editor, f"{T}/paging/settings")
    for wrong in ({"budget_tokens": "many"}, {"evict_at": "nan"}, {"mode": "loud"}):
        answer: Any = editor.post(f"{T}/paging/settings", sent | wrong)
        assert answer.status_code == 422
        assert answer.content.decode().count('aria-invalid="true"') == 1
    assert editor.post(f"{T}/paging/flush", {"tier": "L1"}).status_code == 302
    assert editor.post(f"{T}/paging/flush", {"tier": ""}).status_code == 302
    assert len(state_now(paged).paging.tlb.held) == 0
    assert editor.post(f"{T}/paging/flush", {"tier": "L9"}).status_code == 422
