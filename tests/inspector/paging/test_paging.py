from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from django.test import Client
from django.utils import timezone

from inspector.paging import working_set
from inspector.turns.turn_words import PREFIX_CAUSES
from memoryhub.journal import fold_thread
from memoryhub.kernel.packing import packers
from memoryhub.kernel.paging.page_commands import CreatePages
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import eviction_runs, residency
from memoryhub.queries.paging.eviction_runs import LEAVING
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.thresholds import DEFAULTS
from memoryhub.queries.turns import contexts, prefixes, turn_diffs, turns
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import turns as beginning
from memoryhub.workers.overview import unhealthy
from tests.cast import factories
from tests.inspector.conftest import Browser
from tests.inspector.paged import (
    build_message,
    do,
    list_evicted_pages,
    make_paged,
    make_restless,
    new_page,
    text_of,
)
from tests.inspector.routes import make_family
from tests.services.turns.test_recall import ASKED, talk
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db
T = "/p/acme/threads/paged"


@pytest.fixture
def paged(agent: Agent) -> Thread:
    return make_paged(agent)


def test_working_set_shows_each_frame_and_why(viewer: Client, paged: Thread) -> None:
    text = text_of(viewer, T)
    state = fold_thread(paged, paged.head_seq).state
    for frame in state.paging.list_in_context_order():
        assert f'id="cell-{frame.page_id}"' in text
    assert text.count('id="cell-') == len(state.paging.frames)
    assert "pinned by a command" in text
    assert "auto-pinned: since the last user message" in text
    assert "Refunds within 30 days." in text
    assert f"of {state.paging.settings.usable:,} tokens" in text


def test_working_set_bar_names_segments_and_thresholds(
    viewer: Client, paged: Thread
) -> None:
    settings = fold_thread(paged, paged.head_seq).state.paging.settings
    for seq in (2, paged.head_seq, *list_eviction_seqs(paged)):
        text = text_of(viewer, f"{T}?at_seq={seq}")
        bar = text.partition('class="wsbar"')[2].partition("</svg>")[0]
        legend = text.partition('<p class="legend gap-s">')[2].partition("</p>")[0]
        drawn = {*re.findall(r'<rect class="([\w-]+)"', bar)} - {"track"}
        assert drawn <= {*re.findall(r'<rect class="([\w-]+)"', legend)}
        assert f"evicts down to {settings.low:,}" in bar
        assert f"evicts at {int(settings.high):,}" in bar
        tokens = [int(n.replace(",", "")) for n in re.findall(r"<b>([\d,]+)<", legend)]
        beside = settings.reserved_tokens
        assert sum(tokens) - beside == pytest.approx(settings.usable, abs=0)


def list_eviction_seqs(paged: Thread) -> list[int]:
    rows = paged.events.filter(type__in=LEAVING)
    return [*rows.order_by("seq").values_list("seq", flat=True)]


def test_evicted_page_is_shown_with_its_reason_and_replacement(
    viewer: Client, paged: Thread
) -> None:
    for seq in list_eviction_seqs(paged):
        text = text_of(viewer, f"{T}?at_seq={seq}")
        run = eviction_runs.get_run(paged, seq)
        assert run is not None
        assert run.newcomer is not None
        step = next(each for each in run.steps if each.seq == seq)
        assert ">Just left</b>" in text
        assert f'that make room for <a href="{T}/pages/{run.newcomer.page_id}' in text
        assert f"to fit {run.newcomer.page_id}" in text
        assert f"enters at event {run.newcomer.seq}" in text
        if step.score is not None:
            assert f"Keep score</span> <b>{step.score:.2f}</b> = recency " in text
    after = text_of(viewer, f"{T}?at_seq={list_eviction_seqs(paged)[-1] + 1}")
    assert ">Just left</b>" in after
    assert "Keep score" not in after


def test_message_says_whether_the_model_sees_it(viewer: Client, paged: Thread) -> None:
    seq = list_eviction_seqs(paged)[-1]
    text = text_of(viewer, f"{T}?at_seq={seq}")
    assert f"leaves now, event {seq}" in text or f"to ~1, event {seq}" in text
    assert '<span class="chip in">in</span>' in text
    assert re.search(r"all in|none still in|\d+ still in", text_of(viewer, T))


def test_large_working_set_is_folded(agent: Agent, viewer: Client) -> None:
    factories.make_thread(agent, "large", budget_tokens=200_000)
    for _ in range(13):
        factories.append(agent, "large", *("again and again" for _ in range(190)))
    page = viewer.get("/p/acme/threads/large").content.decode()
    assert "2,470 pages" in page
    assert len(page) < 150_000
    assert 'id="cell-slot-2469"' in page
    assert 'id="cell-slot-0"' not in page
    opened = viewer.get("/p/acme/threads/large?group=slot-0").content.decode()
    assert 'id="cell-slot-0"' in opened
    assert 'id="cell-slot-2469"' in opened
    assert len(opened) < 150_000


def test_working_set_is_on_the_timeline_as_of_any_event(
    viewer: Client, paged: Thread
) -> None:
    text = text_of(viewer, f"{T}?tab=working-set&at_seq=3")
    assert 'id="working-set"' in text
    assert 'id="cell-policy"' in text
    assert "cell-slot-0" not in text


def test_empty_working_set_says_that_nothing_is_mapped(
    viewer: Client, paged: Thread
) -> None:
    assert "No page is in the working set" in text_of(viewer, f"{T}?at_seq=1")


def test_recorded_request_is_rebuilt_to_the_byte(viewer: Client, paged: Thread) -> None:
    assert "byte for byte" in text_of(viewer, f"{T}/turns/7")
    text = text_of(viewer, f"{T}/turns/7/request?content=all")
    assert "sha256 matches the record" in text
    found = contexts.get_recorded_turn(paged, 7)
    request = contexts.require_request(contexts.reassemble_request(paged, found))
    assert hashlib.sha256(request).hexdigest() == found.sha256
    assert found.sha256 is not None
    assert found.sha256 in text
    assert request.decode() in text


def test_rebuilt_request_that_differs_is_reported(
    viewer: Client, paged: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a packer that was changed without a new version."""
    honest = packers.PACKERS["pack/3"]

    def assemble_changed(*args: Any, **kwargs: Any) -> bytes:
        return honest.assemble(*args, **kwargs) + b" "

    monkeypatch.setitem(
        packers.PACKERS, "pack/3", honest._replace(assemble=assemble_changed)
    )
    text = text_of(viewer, f"{T}/turns/7")
    assert "The request differs from the record" in text
    assert "matches the record" not in text


def test_turn_with_a_deleted_page_shows_the_rest(
    browser: Browser, paged: Thread
) -> None:
    editor = browser("editor")
    answer = editor.post(f"{T}/pages/policy/delete", {"typed": "policy"})
    assert answer.status_code == 302
    text = text_of(editor, f"{T}/turns/7", 410)
    assert "1 payload erased" in text
    assert "policy" in text
    assert "matches the record" not in text
    assert "Refunds within 30 days" not in text
    assert f'href="{T}/pages/slot-' in text
    gone = text_of(editor, f"{T}/pages/policy", 410)
    assert "This page was deleted" in gone
    assert "Refunds within 30 days" not in gone
    life = gone[gone.index("Life of the page") : gone.index('<svg class="life"')]
    assert re.search(r"made in\s.*deleted in", life, re.DOTALL)
    assert "/turns/7" in life


def test_turn_without_a_record_says_so(agent: Agent, owner: Client) -> None:
    make_family(agent)
    assert "Not recorded" in text_of(owner, "/p/acme/threads/t-1/turns/1")


def test_turns_are_listed_with_their_cost(viewer: Client, paged: Thread) -> None:
    text = text_of(viewer, f"{T}/turns")
    for n in range(1, 8):
        assert f'href="{T}/turns/{n}"' in text
    assert text_of(viewer, f"{T}/turns?at_seq=1").count("/turns/") == 0
    assert text_of(viewer, f"{T}/turns/8", 404)


def test_page_shows_its_levels_and_its_history(
    agent: Agent, viewer: Client, paged: Thread
) -> None:
    text = text_of(viewer, f"{T}/pages/policy")
    assert ">Pinned</span> by the rule" in text
    assert "page.created" in text
    assert "Refunds within 30 days." in text
    away = list_evicted_pages(agent, "paged")[0]
    text = text_of(viewer, f"{T}/pages/{away}")
    assert "Why it is not resident" in text
    assert "keep score</span> was" in text
    assert text_of(viewer, f"{T}/pages/slot-999", 404)


def test_page_table_can_be_searched(viewer: Client, paged: Thread) -> None:
    everything = text_of(viewer, f"{T}/pages?limit=200")
    assert everything.count("data-row") == paged.slot_count + 1
    assert everything.count('<td class="first full"') == paged.slot_count + 1
    assert "no text" not in everything
    claims = text_of(viewer, f"{T}/pages?q=type:claim")
    assert claims.count("data-row") == 1
    state = fold_thread(paged, paged.head_seq).state
    mapped = text_of(viewer, f"{T}/pages?q=tier:L0&limit=200")
    assert mapped.count("data-row") == len(state.paging.frames)
    hot = text_of(viewer, f"{T}/pages?q=tier:L1&limit=200")
    assert hot.count("data-row") == len(state.paging.hot)
    assert "nearest" not in text_of(viewer, f"{T}/pages?q=teir:L0", 422)


def test_paging_charts_add_up_to_the_thread_counters(
    viewer: Client, paged: Thread
) -> None:
    answer: Any = viewer.get(f"{T}/paging.json")
    buckets = orjson.loads(answer.content)["items"]
    assert sum(bucket["hits"] for bucket in buckets) == paged.tlb_hits
    assert sum(bucket["faults"] for bucket in buckets) == paged.fault_count == 1
    assert sum(bucket["evicted"] for bucket in buckets) == paged.eviction_count
    assert buckets[-1]["last"] == paged.head_seq
    text = text_of(viewer, f"{T}/paging")
    assert '"label":"resident rate of the last 20 exchanges"' in text
    assert "Evictions by cause" in text
    assert "No look-ups in these events" in text_of(viewer, f"{T}/paging?from=1&to=1")
    assert "not valid" in text_of(viewer, f"{T}/paging?from=5&to=2", 422)


def test_closed_thread_offers_neither_drops_nor_settings(
    agent: Agent, browser: Browser, paged: Thread
) -> None:
    offered = (f'action="{T}/paging/flush"', f'href="{T}/paging/settings"')
    editor = browser("editor")
    page = text_of(editor, f"{T}/paging")
    assert all(each in page for each in offered)
    operator_threads.close(paged, actor="operator:x", reason="completed")
    page = text_of(editor, f"{T}/paging")
    assert not any(each in page for each in offered)
    assert "nothing in it can be edited" in page


def test_turn_names_its_shortened_pages(agent: Agent, viewer: Client) -> None:
    make_paged(agent)
    slots = [build_message("user", "Where is it? " * 300)]
    new = beginning.NewTurn(slots=slots, token_budget=1_200)
    begun = factories.run(beginning.begin_turn(agent=agent, thread="paged", new=new))
    text = text_of(viewer, f"{T}/turns/{begun.turn}")
    assert begun.cut
    for cut in begun.cut:
        assert f'href="{T}/pages/{cut.page_id}?at_seq=' in text
        assert f"{cut.shown_tokens:,} of {cut.tokens:,} tokens</span>" in text
    assert not re.search(r"of [\d,]+ tokens</span>", text_of(viewer, f"{T}/turns/7"))


def test_turn_diff_names_evicted_pages_and_their_events(
    viewer: Client, paged: Thread
) -> None:
    found = turn_diffs.get_diff(paged, 7, base=5)
    text = text_of(viewer, f"{T}/turns/7/diff?base=5")
    assert f'From <a href="{T}/turns/5">turn 5</a>' in text
    for kind in ("entered", "left"):
        assert found.counts[kind]
        assert text.count(f"<td>{kind}</td>") == found.counts[kind]
    assert "pages.evicted" in text
    assert "no turn before the first" in text_of(viewer, f"{T}/turns/1/diff")
    text_of(viewer, f"{T}/turns/99/diff", 404)


def test_prefix_page_names_the_cause_of_the_break(
    viewer: Client, paged: Thread
) -> None:
    lens = prefixes.get_lens(paged, 7)
    text = text_of(viewer, f"{T}/turns/7/prefix")
    assert f"{lens.prefix_tokens:,}" in text
    assert PREFIX_CAUSES[lens.cause] in text
    text_of(viewer, f"{T}/turns/7/prefix?block=3", 422)
    series = text_of(viewer, f"{T}/prefix?block=128")
    assert series.count('/prefix">Turn ') == 7


def test_page_lists_its_derivatives_and_the_turns_that_carried_it(
    agent: Agent, viewer: Client, paged: Thread
) -> None:
    made = new_page("sum", "All of it.", type="summary", provenance=("slot-0",))
    do(agent, "paged", CreatePages(pages=(made,)))
    text = text_of(viewer, f"{T}/pages/slot-0")
    assert f'href="{T}/pages/sum"' in text
    text = text_of(viewer, f"{T}/pages/policy")
    for turn in range(1, 8):
        assert f'href="{T}/turns/{turn}">turn {turn} <i>history' in text
    assert "No page names" in text


def test_turn_lists_page_faults_and_why_each_text_is_in(
    viewer: Client, paged: Thread
) -> None:
    text = text_of(viewer, f"{T}/turns/6")
    assert "page_unknown" in text
    assert "served in full" in text
    assert "<b>pinned:</b> by a command" in text
    assert "<b>the question:</b> always in" in text
    places = text_of(viewer, f"{T}/turns/6/request")
    shown = turns.get_context(paged, 6, with_ranges=True)
    assert shown is not None
    for used in shown.used:
        assert used.range is not None
        assert f"{used.range[0]:,} to {used.range[1]:,}" in places
    assert "asked for no page" in text_of(viewer, f"{T}/turns/7")


# Lists


def test_thread_list_shows_fill_resident_rate_and_tlb_hit_rate(
    viewer: Client, paged: Thread
) -> None:
    text = text_of(viewer, "/p/acme/threads")
    full = paged.resident_tokens * 100 // 3_200
    assert f"{full} % of 3,200 tokens" in text
    rate = paged.tlb_hits / (paged.tlb_hits + paged.tlb_misses)
    # One of seven exchanges fetched a page.
    assert parse_figures(text) == {
        "resident rate": "0.86",
        "TLB hit rate": f"{rate:.2f}",
    }
    assert "too few to tell" in text_of(viewer, "/p/acme/")


def test_recalled_pages_are_counted_on_the_paging_screen(
    viewer: Client, agent: Agent
) -> None:
    talk(agent)
    assert "Recalled automatically" not in text_of(viewer, "/p/acme/threads/t-1/paging")
    begin(agent, ASKED)
    page = text_of(viewer, "/p/acme/threads/t-1/paging")
    assert "Recalled automatically</span></dt><dd>1 <small" in page
    assert "0 used, 0 not used within three turns" in page


def parse_figures(text: str) -> dict[str, str]:
    """Return the rates of the first thread in the list, as shown."""
    rates = re.findall(r'data-label="([\w ]+ rate)"[^>]*>([^<]*)<', text)
    return dict(rates[:2])


def test_thread_that_faults_each_exchange_is_never_shown_healthy(
    agent: Agent, viewer: Client
) -> None:
    """A TLB hit rate of 1.00 does not make the thread healthy."""
    restless = make_restless(agent, exchanges=6)
    assert restless.tlb_misses == 0 < restless.tlb_hits
    text = text_of(viewer, "/p/acme/threads")
    assert parse_figures(text) == {"resident rate": "0.00", "TLB hit rate": "1.00"}
    assert 'class="c-rate n warn" data-label="resident rate"' in text
    for place in ("/p/acme/", "/p/acme/threads?q=flag:faulting"):
        text = text_of(viewer, place)
        assert 'href="/p/acme/threads/restless"' in text
        assert not re.search(
            r'class="[^"]*\b(ok|open|good)\b[^"]*"[^>]*>[^<]*rate', text
        )
    unhealthy.look(timezone.now())
    assert "resident rate 0.00" in text_of(viewer, "/p/acme/")


@pytest.mark.parametrize(
    ("flag", "columns"),
    [
        ("thrashing", {"refault_count": 3}),
        ("faulting", {"exchange_count": 30, "faulted_lately_count": 11}),
        ("missing", {"tlb_hits": 50, "tlb_misses": 60}),
    ],
)
@pytest.mark.no_replay
def test_failed_health_check_links_to_its_threads(
    viewer: Client, agent: Agent, paged: Thread, flag: str, columns: dict[str, int]
) -> None:
    factories.make_thread(agent, "calm")
    search = f"/p/acme/threads?q=flag:{flag}"
    assert f'href="{T}"' not in text_of(viewer, search)
    Thread.objects.filter(id=paged.id).update(**columns)
    unhealthy.look(timezone.now())
    assert f'/p/acme/health#{flag}"' in text_of(viewer, "/p/acme/")
    text = text_of(viewer, search)
    assert f'href="{T}"' in text
    assert 'href="/p/acme/threads/calm"' not in text
    assert f">{verdicts.WORDS[flag]}</a>" in text_of(viewer, "/p/acme/panels/facets")


def test_working_set_thrashes_only_by_the_verdict_of_the_title(paged: Thread) -> None:
    calm = replace(residency.get_residency(paged, paged.head_seq), refaults=0)
    three = replace(calm, refaults=3)
    for limit, words in ((2, ["thrashing"]), (3, [])):
        limits = DEFAULTS._replace(most_refaults=limit)
        names = [name for name, _ in working_set.iter_warnings(three, limits)]
        assert [name for name in names if name == "thrashing"] == words
    budget = replace(calm.budget, pinned=calm.budget.settings.usable)
    stuck = working_set.iter_warnings(replace(calm, budget=budget), DEFAULTS)
    assert "thrashing" not in dict(stuck)


def test_working_set_says_why_pages_are_not_in_it(paged: Thread) -> None:
    found = residency.get_residency(paged, paged.head_seq)
    page = replace(found.warm[0], unmapped=True, too_large=False)
    large = replace(page, too_large=True)
    for warm, words in (
        ((page, large), "2 pages were stored outside the working set, as the agent"),
        ((large,), "1 page was too large for the working set"),
    ):
        warnings = dict(working_set.iter_warnings(replace(found, warm=warm), DEFAULTS))
        assert warnings["not mapped"].startswith(words)


def test_working_set_explains_each_page_that_left_together(
    agent: Agent, viewer: Client, paged: Thread
) -> None:
    factories.append(agent, "paged", *["One more line of talk. " * 12] * 20)
    paged.refresh_from_db()
    joined = paged.events.filter(type="pages.evicted").order_by("seq")
    *_, seq = joined.values_list("seq", flat=True)
    run = eviction_runs.get_run(paged, seq)
    assert run is not None
    here = [step for step in run.steps if step.seq == seq]
    assert len(here) > 2
    for step in here:
        text = text_of(viewer, f"{T}?at_seq={seq}&left={step.page_id}")
        why = text.partition('id="why"')[2].partition("</div>")[0]
        assert f">{step.page_id}</a> left" in why
        assert f"<b>{step.score:.2f}</b>" in why
        assert f'at_seq={seq}&left={step.page_id}#why"' in text
