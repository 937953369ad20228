"""The turn page: question, answer, missing pages, and why they were missing."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import orjson
import pytest
from django.test import Client

from memoryhub.journal.log import log, thread_terms
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.page_commands import BeginTurn, RateTurn, ReferencePages
from memoryhub.kernel.replay import RecordedEvent, evolve
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay
from memoryhub.queries.search import indexes
from memoryhub.queries.turns import contexts, prefixes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import operator_pages
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories
from tests.inspector.denied import (
    DENIAL,
    DENIED,
    PROMISED,
    QUESTION,
    make_denial,
    make_refusal,
)
from tests.inspector.paged import (
    ask,
    build_message,
    do,
    fetch,
    make_paged,
    make_restless,
    text_of,
)
from tests.oracles.page_acts import act
from tests.services.turns.test_recall import ANSWER, ASKED, talk
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db

T = "/p/acme/threads/refund"


@pytest.fixture
def refund(agent: Agent) -> Thread:
    return make_denial(agent)


def test_turn_page_shows_question_answer_and_verdict_on_top(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}")
    question, answer = page.index(QUESTION), page.index(DENIAL)
    assert question < answer < page.index('id="verdict"') < page.index("In the request")
    panel = text_of(viewer, f"{T}/turns/{DENIED}/panels/missing")
    assert "The best match for this question was not in the request" in panel
    assert f'the model asked for it in <a href="{T}/turns/{DENIED + 1}">' in panel


def test_fetch_names_who_asked_and_the_manifest_its_turn(
    viewer: Client, agent: Agent, refund: Thread
) -> None:
    factories.run(turns.begin_turn(agent=agent, thread="refund", new=NewTurn()))
    page = text_of(viewer, f"{T}/turns/{DENIED + 2}")
    fetches = page[page.index('id="faults"') :]
    assert re.search(r"event \d+</a>, by the agent ", fetches)
    assert re.search(rf"fetches\s+left in turn {DENIED + 1}, when it was made", page)
    assert "when it was made" not in text_of(viewer, f"{T}/turns/{DENIED + 1}")


def test_calm_verdict_names_messages_of_the_user_that_left_lately(
    viewer: Client, agent: Agent, refund: Thread
) -> None:
    ask(agent, "refund", "Zanzibar?")
    panel = text_of(viewer, f"{T}/turns/{DENIED + 2}/panels/missing")
    verdict = panel[panel.index('id="verdict"') : panel.index('id="not-in"')]
    assert "Nothing that was said before matches this question's words" in verdict
    said = re.search(r"(\d+) messages? of the user left since", verdict)
    assert said is not None
    named = re.findall(rf'href="{T}/pages/(slot-\d+)\?at_seq', verdict)
    assert len(named) == int(said[1])
    alarmed = text_of(viewer, f"{T}/turns/{DENIED}/panels/missing")
    assert "of the user left since" not in alarmed


def test_best_matches_are_drawn_and_marked_when_not_in_the_request(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}/panels/missing")
    squares = re.findall(r'<li class="(in|out|shortened)"><a href="([^"]+)"', page)
    assert squares[0] == ("out", f"#out-{PROMISED}")
    assert 1 < len(squares) <= 10
    section = page[page.index('id="not-in"') :]
    assert section.index(f'id="out-{PROMISED}"') < section.index("<mark>promise</mark>")
    ranks = [int(n) for n in re.findall(r'class="rank">(\d+)<', section)]
    out = [n for n, (how, _) in enumerate(squares, start=1) if how == "out"]
    assert ranks == out
    assert f'name="q" value="{QUESTION}"' in section


def test_turn_page_links_open_as_of_the_turn(viewer: Client, refund: Thread) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}/missing")
    then = contexts.get_recorded_turn(refund, DENIED).event.as_of_seq
    assert f'href="{T}/pages/{PROMISED}?at_seq={then}"' in page
    seqs = [int(seq) for seq in re.findall(rf'href="{T}\?at_seq=(\d+)"', page)]
    assert seqs
    assert all(0 < seq <= refund.head_seq for seq in seqs)
    for path in {*re.findall(rf'href="({T}/(?:turns|pages)/[^"#]*)', page)}:
        assert viewer.get(path).status_code == 200, path


def test_every_page_of_the_request_shows_its_first_words(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}")
    rows = re.findall(r'<tr class="\w+" id="in-\d+">.*?</tr>', page, re.DOTALL)
    assert len(rows) > 3
    assert any(QUESTION in row and "the question:" in row for row in rows)
    assert all(re.search(r'class="n tok">[\d,]+', row) for row in rows)


def test_recalled_page_shows_its_reason_and_use(viewer: Client, agent: Agent) -> None:
    talk(agent)
    begin(agent, ASKED)
    page = text_of(viewer, "/p/acme/threads/t-1/turns/1")
    (row,) = re.findall(r'<tr class="user brought".*?</tr>', page, re.DOTALL)
    assert "<b>found by:</b> kayak" in row
    assert '/turns/1">turn 1</a>' in row
    assert "not used so far</span>" in row
    (slot,) = {*re.findall(r"/pages/(slot-\d+)", row)}
    life = text_of(viewer, f"/p/acme/threads/t-1/pages/{slot}")
    assert 'class="mark-recalled"' in life[: life.index("lifekey")]
    assert re.search(r'recalled in\s+<a\s+href="[^"]+/turns/1"', life)
    listed = text_of(viewer, "/p/acme/threads/t-1/turns")
    count = page.count('<tr class="user brought"') + page.count("assistant brought")
    assert f'data-label="recalled"><b>{count}</b>' in listed
    act(agent, ReferencePages(page_ids=("slot-1",), by="model"))
    assert 'class="chip in">used</span>' in text_of(
        viewer, "/p/acme/threads/t-1/turns/1"
    )


def test_recalled_answer_names_the_message_of_its_exchange(
    viewer: Client, agent: Agent
) -> None:
    talk(agent, reply=ANSWER)
    begin(agent, ASKED)
    page = text_of(viewer, "/p/acme/threads/t-1/turns/1")
    (row,) = re.findall(r'<tr class="assistant brought".*?</tr>', page, re.DOTALL)
    assert "<b>belongs to the exchange of:</b> slot-1" in row


def test_turn_page_links_to_the_bytes_of_the_request(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}")
    assert "byte for byte" in page
    read = text_of(viewer, f"{T}/turns/{DENIED}/request")
    assert "sha256 matches the record" in read
    assert QUESTION in read
    assert str(contexts.get_recorded_turn(refund, DENIED).sha256) in read
    assert viewer.get(f"{T}/turns/99/request").status_code == 404
    assert f"<b>user</b> {QUESTION}" in read
    opened = text_of(viewer, f"{T}/turns/{DENIED}/request?open=all")
    assert "Close all" in opened
    open_blocks = re.compile(r'class="block raw"\s+open')
    assert len(open_blocks.findall(opened)) > len(open_blocks.findall(read))


def test_turn_that_ends_with_a_call_links_to_the_end_of_its_exchange(
    viewer: Client, agent: Agent
) -> None:
    called = {"name": "measure", "arguments": "{}"}
    calls = [{"id": "c-1", "type": "function", "function": called}]
    factories.make_thread(agent)
    begin(agent, {"role": "user", "content": "How deep is the silt?"})
    call = {"role": "assistant", "content": None, "tool_calls": calls}
    slot = factories.make_slot(call, type="chat.assistant", from_name="assistant")
    do(agent, "t-1", AppendSlots(slots=(slot,)))
    begin(agent, {"role": "tool", "tool_call_id": "c-1", "content": "2 m"})
    first, last = (text_of(viewer, f"/p/acme/threads/t-1/turns/{n}") for n in (1, 2))
    assert re.search(r"the exchange goes on to\s+<a[^>]+turns/2", first)
    assert "the exchange goes on" not in last


def test_page_fetched_twice_is_named_once(viewer: Client, agent: Agent) -> None:
    make_restless(agent, exchanges=1)
    fetch(agent, "restless", "note")
    page = text_of(viewer, "/p/acme/threads/restless/turns/1")
    assert re.search(r"<dd>2\s+<small><a[^>]+>note</a>, twice</small>", page)


def test_turn_is_opened_by_its_number(viewer: Client, refund: Thread) -> None:
    def go(n: str) -> Any:
        return viewer.get(f"{T}/turn", {"n": n})

    assert go("3")["Location"] == f"{T}/turns/3"
    assert go("99")["Location"] == f"{T}/turns/{refund.turn_count}"
    assert go("0")["Location"] == f"{T}/turns/1"
    assert go("")["Location"] == f"{T}/turns"
    assert go("x").status_code == 422


def test_turns_are_listed_with_their_questions(viewer: Client, refund: Thread) -> None:
    page = text_of(viewer, f"{T}/turns")
    rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", page, re.DOTALL)
    assert len(rows) == refund.turn_count
    assert QUESTION in rows[-DENIED]
    assert 'name="n"' in page


def test_message_leads_to_its_turn(viewer: Client, refund: Thread) -> None:
    page = text_of(viewer, f"{T}/slots")
    bubble = page[page.rindex("<article", 0, page.index(DENIAL)) : page.index(DENIAL)]
    assert f'href="{T}/turns/{DENIED}"' in bubble
    asked = page[
        page.rindex("<article", 0, page.index(QUESTION)) : page.index(QUESTION)
    ]
    assert f'href="{T}/turns/{DENIED}"' in asked
    assert f'href="{T}/turns/1"' in text_of(viewer, f"{T}/pages/{PROMISED}")


def test_unrecorded_turn_says_so(viewer: Client, agent: Agent) -> None:
    factories.make_thread(agent, "bare", user_id="ann")
    do(agent, "bare", BeginTurn())
    page = text_of(viewer, "/p/acme/threads/bare/turns/1")
    assert "Not recorded." in page
    assert "Not recorded." in text_of(viewer, "/p/acme/threads/bare/turns/1/request")


def test_turn_page_names_erased_texts_and_shows_the_rest(
    viewer: Client, agent: Agent
) -> None:
    paged = make_paged(agent)
    operator_pages.delete_page(paged, "policy", actor="operator:x")
    page = text_of(viewer, "/p/acme/threads/paged/turns/7", 410)
    assert "1 payload erased." in page
    assert "And now?" in page
    text_of(viewer, "/p/acme/threads/paged/turns/7/request", 410)


def test_fork_shows_a_turn_that_it_inherits(
    viewer: Client, agent: Agent, refund: Thread
) -> None:
    operator_threads.fork(refund, actor="operator:x", name="alt", seq=refund.head_seq)
    page = text_of(viewer, f"/p/acme/threads/alt/turns/{DENIED}")
    assert "inherited" in page
    assert QUESTION in page
    panel = text_of(viewer, f"/p/acme/threads/alt/turns/{DENIED}/panels/missing")
    assert "The best match for this question was not in the request" in panel


def test_turn_page_stays_small_for_a_large_request(
    viewer: Client, agent: Agent, django_assert_max_num_queries: Any
) -> None:
    counts = []
    for name, rounds in (("few", 6), ("many", 14)):
        make_paged(agent, name, rounds=rounds)
        for part in ("", "/panels/missing"):
            path = f"/p/acme/threads/{name}/turns/6{part}"
            viewer.get(path)
            with django_assert_max_num_queries(40) as found:
                answer = viewer.get(path)
            assert len(answer.content) < 150_000
            counts.append(len(found))
    assert counts[:2] == counts[2:]


def test_turn_page_folds_its_thread_once(
    viewer: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, folded = make_paged(agent, "many", rounds=14), list[int]()

    def count_folds(state: ThreadState, event: RecordedEvent) -> ThreadState:
        folded.append(event.seq)
        return evolve(state, event)

    monkeypatch.setattr(log, "evolve", count_folds)
    replay.sought.clear()
    replay.followed.clear()
    for path in ("12", "12/panels/missing"):
        assert viewer.get(f"/p/acme/threads/many/turns/{path}").status_code == 200
    assert 0 < len(folded) <= replay.get_turn_end(thread, 12)
    assert len(folded) == len({*folded})


def test_turn_page_fetches_the_end_of_the_prefix_as_a_panel(
    viewer: Client, agent: Agent
) -> None:
    thread = make_paged(agent)
    path = "/p/acme/threads/paged/turns/7"
    seq = contexts.get_recorded_turn(thread, 7).event.as_of_seq
    page = text_of(viewer, path)
    assert f'aria-busy="true" hx-get="{path}/panels/prefix?at_seq={seq}"' in page
    assert f'<noscript><a href="{path}/prefix">' in page
    assert "The prefix ends in" not in page
    answer: Any = viewer.get(f"{path}/panels/prefix?at_seq={seq}")
    assert answer.headers["MH-Panel"] == "1"
    panel = unescape(answer.content.decode())
    assert panel.lstrip().startswith('<p id="prefix-end"')
    assert "aria-busy" not in panel
    lens = prefixes.get_lens(thread, 7)
    assert f"The prefix ends in <b>{lens.section}</b>: " in panel
    assert lens.reason is not None
    assert f'href="/p/acme/threads/paged?at_seq={lens.reason.seq}"' in panel
    assert viewer.get(f"{path}/panels/other").status_code == 404
    assert viewer.get("/p/acme/threads/paged/turns/99/panels/prefix").status_code == 404


def test_turn_page_fetches_missing_pages_as_a_panel(
    viewer: Client, refund: Thread
) -> None:
    path, listed = f"{T}/turns/{DENIED}", f'id="out-{PROMISED}"'
    page = text_of(viewer, path)
    for part in ("verdict", "not-in"):
        assert re.search(rf'<section id="{part}"[^>]* aria-busy="true"', page)
    assert f'hx-get="{path}/panels/missing' in page
    assert f'<noscript><p><a href="{path}/missing">' in page
    assert listed not in page
    answer: Any = viewer.get(f"{path}/panels/missing")
    assert answer.headers["MH-Panel"] == "1"
    panel = unescape(answer.content.decode())
    assert "aria-busy" not in panel
    (drawn,) = re.findall(r'<ol class="missing">.*?</ol>', panel, re.DOTALL)
    assert listed in drawn
    assert drawn in text_of(viewer, f"{path}/missing")
    for lacking in ("99/missing", "99/panels/missing"):
        assert viewer.get(f"{T}/turns/{lacking}").status_code == 404


def test_turn_page_compares_no_requests(
    viewer: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_paged(agent)
    asked = list[int]()
    monkeypatch.setattr(prefixes, "get_lens", lambda _, n, **__: asked.append(n))
    text_of(viewer, "/p/acme/threads/paged/turns/7")
    assert asked == []


def test_bar_of_a_cut_result_has_the_length_of_its_shown_part(
    viewer: Client, agent: Agent
) -> None:
    call: Any = {"id": "c-1", "type": "function"}
    call["function"] = {"name": "read", "arguments": "{}"}
    begin(agent, "Read it.", thread="log", token_budget=4_000)
    begun = begin(
        agent,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c-1", "content": "word " * 20_000},
        thread="log",
        token_budget=4_000,
    )
    (cut,) = begun.cut
    page = text_of(viewer, f"/p/acme/threads/log/turns/{begun.turn}")
    row = page[page.index(f"{cut.shown_tokens:,} of {cut.tokens:,} tokens") :]
    assert re.match(
        rf'.*?<td class="n tok">{cut.shown_tokens:,}<svg.*?width="100%"'
        r'.*?<rect class="fill-\w+" width="100\.',
        row.partition("</tr>")[0],
        re.DOTALL,
    )


def test_page_screen_shows_the_history_of_the_page(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/pages/{PROMISED}?at_seq=12")
    assert 'id="life"' in page
    assert "made in turn 1, left in turn" in page
    assert "here-line" in page
    assert "here-line" not in text_of(viewer, f"{T}/pages/{PROMISED}")


def test_turn_with_2000_pages_shows_a_section_of_them(
    viewer: Client, agent: Agent
) -> None:
    factories.make_thread(
        agent, "vast", user_id="ann", budget_tokens=200_000, reserved_tokens=800
    )
    messages = tuple(
        build_message(("user", "assistant")[n % 2], f'Message {n}: {{"price": "{n}"}}')
        for n in range(2_000)
    )
    do(agent, "vast", AppendSlots(slots=messages))
    ask(agent, "vast", "And now?")
    path = "/p/acme/threads/vast/turns/1"
    last, first = text_of(viewer, path), text_of(viewer, f"{path}?from=1")
    assert "2,001 pages, in request order" in last
    assert 'id="in-2001"' in last
    assert 'id="in-1"' in first
    read = text_of(viewer, f"{path}/request")
    assert "messages between these" in read
    assert "messages between these" not in text_of(
        viewer, f"{path}/request?content=all"
    )
    assert len(read.encode()) < 150_000
    for page in (last, first):
        assert len(page.encode()) < 150_000
        assert 60 < page.count(' id="in-') < 100


def test_recent_refused_fetch_is_told_in_words_with_links(
    viewer: Client, agent: Agent
) -> None:
    thread = make_refusal(agent, "refund")
    page = text_of(viewer, f"{T}/turns/{thread.turn_count}/missing")
    section = page[page.index("Left or refused in the last turns") :]
    told = r'refused in <a href="[^"]+/turns/7">turn 7</a>, <a href="[^"]+">event \d+'
    assert re.search(told, section)
    assert "the exchange had used up its fetches" in section


def test_turn_page_links_to_its_api_call_and_event_export(
    viewer: Client, refund: Thread
) -> None:
    page = text_of(viewer, f"{T}/turns/{DENIED}")
    assert f"/api/v1/threads/refund/turns/{DENIED}/context" in page
    (path,) = re.findall(r'data-export href="([^"]*\.ndjson[^"]*)"', page)
    sent: Any = viewer.get(path)
    lines = [orjson.loads(line) for line in b"".join(sent).splitlines()]
    assert "turn.began" in {line["type"] for line in lines}
    assert len(lines) < refund.head_seq / 2


def test_turn_page_marks_cited_pages_and_warns_of_unknown_ids(
    viewer: Client, agent: Agent
) -> None:
    factories.make_page(agent, "fares")
    begin(agent, "What of fares?")
    answer = factories.make_slot("Once [ref: fares, q-7].", type="chat.assistant")
    act(agent, AppendSlots(slots=(answer,)))
    page = text_of(viewer, "/p/acme/threads/t-1/turns/1")
    assert page.count('class="chip in">cited</span>') == 1
    (warning,) = re.findall(r'<div class="notice bad .*?</div>', page, re.DOTALL)
    assert "q-7" in warning
    assert "fares" not in warning
    figures = text_of(viewer, "/p/acme/threads/t-1/paging")
    assert "no samples yet; good above 0.95" in figures
    assert "tokens; good above 0.60" in figures
    act(agent, RateTurn(turn=1, cited=("fares",)))
    life = text_of(viewer, "/p/acme/threads/t-1/pages/fares")
    assert "cites fares" in life
    assert "relied on fares" in life


def test_turn_page_lists_own_calls_with_what_the_guard_did(
    viewer: Client, refund: Thread, agent: Agent
) -> None:
    n = refund.turn_count
    assert "None was recorded in this turn" in text_of(viewer, f"{T}/turns/{n}")
    for tool, judged in (
        ("pay<b>\u202e", {"verdict": "block", "reason": "ungrounded_args"}),
        ("fare", {"verdict": "warn", "reason": "runaway", "result": 7}),
        ("note", {}),
    ):
        call: dict[str, Any] = {"tool": tool, "arguments": {}, **judged}
        call |= {"has_result": "result" in judged, "duration_ms": 1_500}
        outcome: Any = "cancelled" if tool.startswith("pay") else "success"
        do(agent, "refund", RecordCall(outcome=outcome, **call))
    answer: Any = viewer.get(f"{T}/turns/{n}")
    page = answer.content.decode()
    section = re.sub(r"\s+", " ", page[page.index('id="calls"') :])
    assert "<code>pay&lt;b&gt;<span" in section
    blocked, warned, unchecked = section.split("<tr")[2:5]
    assert (
        "blocked</span> a number came neither from the user nor from a result"
        in blocked
    )
    assert "not run" in blocked
    assert "warned</span> the last results were tiny" in warned
    assert "<code>$v1</code>" in warned
    assert "1.50 s" in warned
    assert "not checked" in unchecked
    (first, *_) = Event.objects.filter(thread=refund, type="call.recorded")
    assert "fare" in text_of(viewer, f"{T}/events/{first.seq + 1}")
    assert "calls" in text_of(viewer, f"{T}/events/{first.seq + 1}")
    figures = re.sub(r"\s+", " ", text_of(viewer, f"{T}/paging"))
    assert '3 <small class="faint">1 blocked, 1 warned, 0 repaired<' in figures


@pytest.mark.usefixtures("refund")
def test_missing_page_says_that_texts_are_not_indexed_yet(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, address = "still being indexed", f"{T}/turns/{DENIED}/missing"
    assert note not in text_of(viewer, address)
    monkeypatch.setattr(indexes, "MOST", 10)
    monkeypatch.setattr(indexes, "FEW", 2)
    thread_terms.indexes.clear()
    assert note in text_of(viewer, address)
