"""The observing page: bars, a ruler, one open observation, and acts."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from inspector.observing.observer_acts import TITLES
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.model_settings import ModelSettings
from memoryhub.models.access.audit import AuditEntry
from memoryhub.queries.observing import observers, ranges
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from tests.cast.factories import append, get_thread, make_thread
from tests.inspector.conftest import Browser
from tests.inspector.observed import (
    NAME,
    PAGE,
    erase_with_observation,
    fail_observer,
    make_observed,
)
from tests.inspector.paged import text_of
from tests.services.acts import fork, state_of
from tests.services.observing.test_extraction import SETTINGS

pytestmark = pytest.mark.django_db


def test_observing_page_shows_the_enabling_call_when_off(
    owner: Client, agent: Agent
) -> None:
    make_thread(agent, NAME)
    append(agent, NAME, "hello")
    page = text_of(owner, PAGE)
    assert "Observing is off" in page
    assert '{"config": {"observe": true}}' in page
    assert "Observe now" not in page
    act = f"{PAGE}/observe"
    assert "not observed" in text_of(owner, act)
    assert owner.post(act).status_code == 409


def test_observations_are_drawn_and_opened(viewer: Client, agent: Agent) -> None:
    row = make_observed(agent)
    seen = state_of(row).observing
    page = text_of(viewer, PAGE)
    assert page.count('class="is-waiting"') == len(seen.chunks) + 1  # the legend's
    assert page.count('class="is-reflection"') == 2
    assert "Idle." in page or "Due." in page
    assert "Generations" in page
    # The page explains why a request takes more tokens than its messages have.
    more = observers.get_observer(row).uncovered - sum(
        line.tokens for line in row.slots.filter(index__gte=seen.cursor)
    )
    assert more == 12 * (row.slot_count - seen.cursor)
    assert re.search(rf"framing, 12 a message\s+<b>{more:,}</b>", page)
    unobserved = observers.get_observer(row).unobserved
    assert re.search(rf"not summarised yet\s+<b>{unobserved:,}</b>", page)
    assert f"{unobserved:,} tokens of messages are not summarised yet" in page
    runs = page.partition("Runs, newest first")[2]
    told = f"/p/acme/threads/{NAME}/slots?index={seen.chunks[0].begin}&to="
    assert f'href="{told}' in runs
    for each in (*seen.log, *seen.chunks):
        assert f'href="?observation={each.page_id}#opened"' in page
    opened = text_of(viewer, f"{PAGE}?observation={seen.chunks[0].page_id}")
    assert "without a model" in opened
    assert "<small>critical</small>" in opened
    assert (
        f'href="/p/acme/threads/{NAME}/slots?index={seen.chunks[0].begin}&to=' in opened
    )
    assert 'data-live="observer"' not in opened
    replaced = seen.log[0].covers[0].page_id
    assert "replaced by a reflection" in text_of(
        viewer, f"{PAGE}?observation={replaced}"
    )
    assert AuditEntry.objects.filter(action="content.read").exists()


def test_overview_of_memory_shows_the_log_as_of_then(
    viewer: Client, agent: Agent
) -> None:
    row = make_observed(agent)
    last, thread = observers.list_generations(row)[0], PAGE.removesuffix("/observer")
    log = observers.list_log(row)
    page = text_of(viewer, f"{thread}/memory")
    assert f"{len(log)} in requests" in page
    assert all(html.escape(line.text) in page for line in (log[-1].lines or ())[-8:])
    before = text_of(viewer, f"{thread}?tab=memory&at_seq={last.seq - 1}")
    found = observers.list_log(row, seq=last.seq - 1, newest=8)
    lines = [line for view in found for line in view.lines or ()][-8:]
    assert lines
    assert all(html.escape(line.text) in before for line in lines)
    assert f"/observer?at_seq={last.seq - 1}" in before
    first = text_of(viewer, f"{thread}?tab=memory&at_seq=1")
    assert "Nothing is remembered as of this event" in first


def test_reflection_says_what_it_dropped_or_rewrote(
    viewer: Client, agent: Agent
) -> None:
    row = make_observed(agent)
    (made, *_) = state_of(row).observing.log
    dropped = observers.list_dropped(row, made.page_id)
    before = [observers.get_observation(row, each.page_id) for each in made.covers]
    after = observers.get_observation(row, made.page_id)
    assert after is not None
    assert {line.text for line in dropped} == {
        line.text for view in before if view for line in view.lines or ()
    } - {line.text for line in after.lines or ()}
    page = text_of(viewer, f"{PAGE}?observation={made.page_id}")
    shown = page.partition("Dropped or rewritten")[2]
    assert all(html.escape(line.text) in shown for line in dropped)
    days = {line.at.date().isoformat() for line in dropped if line.at}
    assert days
    assert all(f"<h3>{day}</h3>" in shown for day in days)
    plain = made.covers[0].page_id
    assert "Dropped" not in text_of(viewer, f"{PAGE}?observation={plain}")


def test_observing_page_shows_the_state_as_of_an_event(
    viewer: Client, agent: Agent
) -> None:
    row = make_observed(agent)
    last = observers.list_generations(row)[0]
    before = text_of(viewer, f"{PAGE}?at_seq={last.seq - 2}")
    assert "Generations" not in before
    assert last.page_id not in before
    assert last.replaced[0] in before
    page = f"{PAGE}?at_seq={last.seq - 2}&observation={last.page_id}"
    assert "This observation does not exist as of this event" in text_of(viewer, page)
    assert "No observations yet" in text_of(viewer, f"{PAGE}?at_seq=2")


def test_fork_shows_inherited_observations_and_their_thread(
    viewer: Client, agent: Agent
) -> None:
    row = make_observed(agent)
    fork(agent, NAME, "forked", **SETTINGS)
    page = "/p/acme/threads/forked/observer"
    shown = text_of(viewer, page)
    for view in (*observers.list_log(row), *observers.list_waiting(row)):
        address = f"?observation={view.page_id}#opened"
        assert f'href="{address}"' in shown
        opened = text_of(viewer, f"{page}?observation={view.page_id}")
        assert f'href="/p/acme/threads/{NAME}/events/{view.seq}"' in opened
        assert f'href="/p/acme/threads/forked/slots?index={view.begin}&to=' in opened
        event = viewer.get(f"/p/acme/threads/{NAME}/events/{view.seq}")
        assert event.status_code == 200


def test_observing_page_tells_gaps_and_failures(viewer: Client, agent: Agent) -> None:
    make_observed(agent)
    assert 'fill="url(#hatched)"' not in text_of(viewer, PAGE)
    fail_observer(agent)
    page = text_of(viewer, PAGE)
    assert "Failing." in page
    assert "the next is at" in page
    assert "the answer was not JSON" in page
    assert "model.example" in page
    erase_with_observation(agent)
    assert 'fill="url(#hatched)"' in text_of(viewer, PAGE)


def seen_of(page: str) -> str:
    found = re.search(r'name="seen" value="([^"]*)"', page)
    assert found is not None
    return html.unescape(found[1])


def test_observing_acts_require_an_editor_and_their_preview(
    browser: Browser, agent: Agent
) -> None:
    row = make_observed(agent)
    editor, viewer = browser("editor"), browser("viewer")
    assert "Observe now" not in text_of(viewer, PAGE)
    for verb in TITLES:
        assert viewer.get(f"{PAGE}/{verb}").status_code == 403
        assert viewer.post(f"{PAGE}/{verb}").status_code == 403
        assert editor.post(f"{PAGE}/{verb}", {"seen": "else"}).status_code == 409
    for verb in ("activate", "reflect", "pause", "resume"):
        assert f"{PAGE}/{verb}" in text_of(editor, PAGE)
        seen = seen_of(text_of(editor, f"{PAGE}/{verb}"))
        answer = editor.post(f"{PAGE}/{verb}", {"seen": seen})
        assert (answer.status_code, answer.headers["Location"]) == (302, PAGE), verb
        assert (verb == "pause") == ("Paused." in text_of(editor, PAGE))
    seen = seen_of(text_of(editor, f"{PAGE}/activate"))
    assert seen == "No observation is ready to use."
    assert editor.post(f"{PAGE}/activate", {"seen": seen}).status_code == 409
    event = row.events.order_by("-seq").first()
    assert event is not None
    assert (event.type, event.actor.split(":")[0]) == ("observer.resumed", "operator")
    assert state_of(get_thread(agent, NAME)).observing.generation == 2


def test_observe_now_makes_the_waiting_observation(
    browser: Browser, agent: Agent
) -> None:
    row, editor = make_observed(agent), browser("editor")
    append(agent, NAME, "One more.")
    before = state_of(row).observing.watermark
    seen = seen_of(text_of(editor, f"{PAGE}/observe"))
    assert editor.post(f"{PAGE}/observe", {"seen": seen}).status_code == 302
    assert state_of(row).observing.watermark > before


def test_closed_thread_is_not_due_for_observing(viewer: Client, agent: Agent) -> None:
    row = make_observed(agent)
    assert "the next summary is due at" in text_of(viewer, PAGE)
    operator_threads.close(row, actor="operator:x", reason="completed")
    page = text_of(viewer, PAGE)
    assert "Closed." in page
    assert "the next summary is due at" not in page


def test_due_messages_are_marked_when_a_model_is_configured(
    viewer: Client, agent: Agent, settings: Any
) -> None:
    make_thread(agent, NAME, **SETTINGS)
    append(agent, NAME, *(f"Number {n}, {'and so on ' * 100}" for n in range(20)))
    drawn = re.compile(r'class="is-next" x="0\.?0?%"')
    assert not drawn.search(text_of(viewer, PAGE))
    settings.MODEL = ModelSettings(url="http://127.0.0.1:1", name="m", key="k")
    page = text_of(viewer, PAGE)
    begin, end = re.findall(r"due: sent to the model: messages (\d+)\s+to (\d+)", page)[
        0
    ]
    found = ranges.read_next(
        get_thread(agent, NAME),
        state_of(get_thread(agent, NAME)),
        count=estimate_tokens,
    )
    assert found is not None
    assert (int(begin), int(end)) == (found.begin, found.end - 1)


def test_editor_sets_the_threads_own_instructions(
    owner: Client, viewer: Client, agent: Agent
) -> None:
    make_thread(agent, NAME, **SETTINGS)
    assert f'href="{PAGE}/instructions"' in text_of(owner, PAGE)
    assert text_of(viewer, PAGE).count("the project's</dd>") == 2
    form = {
        "observer_whose": "own",
        "observer_text": "Keep <b>seats</b>.",
        "reflector_whose": "own",
        "reflector_text": "",
    }
    assert owner.post(f"{PAGE}/instructions", form).status_code == 302
    page = text_of(viewer, PAGE)
    assert "own: Keep <b>seats</b>." in page
    assert "none: not even the project's" in page
    assert "/instructions" not in page
    form_page = text_of(owner, f"{PAGE}/instructions")
    assert "Keep <b>seats</b>.</textarea>" in form_page
    long = owner.post(f"{PAGE}/instructions", {**form, "observer_text": "é" * 4_097})
    assert "at most 8 KiB" in long.content.decode()
    assert viewer.post(f"{PAGE}/instructions", form).status_code == 403
    form["observer_whose"] = "project"
    owner.post(f"{PAGE}/instructions", form)
    (own,) = state_of(get_thread(agent, NAME)).observing.instructions
    assert own.role == "reflector"
