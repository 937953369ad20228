"""Searching threads and subjects: what is found, in what order, and what never is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.queries.search.project_search import iter_project
from memoryhub.queries.search.searching import (
    SearchRequest,
    SearchResult,
    recall,
    search_thread,
)
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import keys, working_memory
from memoryhub.services.observing import observers
from memoryhub.services.paging import pages
from memoryhub.services.paging.pages import PageDraft
from memoryhub.services.threads import threads
from tests.cast import factories

pytestmark = pytest.mark.django_db
EXPECTED = [4.365130713, 3.042926487]
ELEVEN = [f"filler number {n} of the conversation" for n in range(11)]


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    thread_terms.indexes.clear()


def search(
    agent: Agent, text: str, thread: str = "t-1", *, seq: int | None = None, **how: Any
) -> SearchResult:
    row = factories.get_thread(agent, thread)
    return search_thread(row, SearchRequest.parse(text, **how), seq=seq)


def list_seqs(result: SearchResult) -> list[int]:
    return [hit.seq for hit in result.items]


def test_each_append_is_found_by_the_next_search(agent: Agent) -> None:
    for n in range(3):
        seq = factories.append(agent, "t-1", f"the code is zfa04y{n}").seq
        assert list_seqs(search(agent, f"zfa04y{n}")) == [seq]


def test_hit_says_where_it_lies_and_why(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN, "Hats: HAT-0231 is the blue hat.")
    (hit,) = search(agent, "hat-0231").items
    assert (hit.kind, hit.slot, hit.page, hit.role) == (
        "message",
        11,
        "slot-11",
        "user",
    )
    assert [(each.term, each.tf, each.exact) for each in hit.why] == [
        ("hat-0231", 1.0, True)
    ]
    start, end = hit.excerpt.matches[0]
    assert hit.excerpt.text[start:end] == "HAT-0231"
    assert len(hit.excerpt.text) <= 240


def test_search_costs_the_same_at_any_length(
    agent: Agent, django_assert_max_num_queries: Any
) -> None:
    for size in (3, 150):
        factories.append(agent, "t-1", *(f"message number {n}" for n in range(size)))
        row = factories.get_thread(agent, "t-1")
        request = SearchRequest.parse("number")
        search_thread(row, request)
        with django_assert_max_num_queries(2):
            search_thread(row, request)


def test_identifiers_are_found_whole_and_in_parts(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    texts = ["HAT-0231", "ann@example.com", "/usr/lib/python3/site.py", "ZFA04Y"]
    seqs = [factories.append(agent, "t-1", f"It is {text}.").seq for text in texts]
    asked = ["hat-0231", "0231", "ann@example.com", "example", "site.py", "zfa04y"]
    wanted = [seqs[0], seqs[0], seqs[1], seqs[1], seqs[2], seqs[3]]
    assert [list_seqs(search(agent, text)) for text in asked] == [
        [seq] for seq in wanted
    ]


def test_cjk_text_is_found(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    seq = factories.append(agent, "t-1", "我想买一个手机壳").seq
    assert list_seqs(search(agent, "手机")) == [seq]
    assert list_seqs(search(agent, '"手机壳"')) == [seq]
    assert not list_seqs(search(agent, "电脑"))


@pytest.mark.parametrize(
    ("text", "word", "other"),
    [
        ("เมื่อวานแมวดำนอนอยู่บนเก้าอี้", "แมวดำ", "ดำแมว"),
        ("ຂ້ອຍມັກກິນເຂົ້າໜຽວ", "ເຂົ້າ", "ເຂ້າົ"),
        ("ខ្ញុំចូលចិត្តអានសៀវភៅ", "សៀវភៅ", "ភៅសៀវ"),
        ("ကျွန်တော်စာအုပ်ဖတ်သည်", "စာအုပ်", "အုပ်စာ"),
    ],
)
def test_words_of_scripts_without_spaces_are_found_inside_a_run(
    agent: Agent, text: str, word: str, other: str
) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    seq = factories.append(agent, "t-1", text).seq
    assert list_seqs(search(agent, word)) == [seq]
    assert list_seqs(search(agent, f'"{word}"')) == [seq]
    assert not list_seqs(search(agent, f'"{other}"'))


def test_search_ignores_accents(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    seq = factories.append(agent, "t-1", "Un café noir à İstanbul").seq
    for text in ("cafe", "CAFÉ", "cafe\u0301", '"cafe noir"', "istanbul", "İSTANBUL"):
        assert list_seqs(search(agent, text)) == [seq]


def test_stems_are_found_behind_exact_words(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    stem = factories.append(agent, "t-1", "He refunded the ticket").seq
    exact = factories.append(agent, "t-1", "Please refund the ticket").seq
    assert list_seqs(search(agent, "refund")) == [exact, stem]


def test_phrase_is_checked_on_text(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN, "the fare blue is a fare")
    seq = factories.append(agent, "t-1", "it has the blue fare").seq
    result = search(agent, '"blue fare"')
    assert (list_seqs(result), result.total) == ([seq], 1)
    assert search(agent, '"fare has"').reason == "no_match"


def test_search_without_a_match_is_empty(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    result = search(agent, "xylophone")
    assert (result.items, result.total, result.reason) == ((), 0, "no_match")
    assert search(agent, "role:user").reason == "no_terms"


def test_exclusions_and_filters_narrow_a_search(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    blue = factories.append(agent, "t-1", "a blue lamp").seq
    red = factories.append(agent, "t-1", "a red lamp").seq
    assert list_seqs(search(agent, "lamp not:red", can_exclude=True)) == [blue]
    for text in ("lamp -red", "lamp --red", "lamp not:red"):
        assert list_seqs(search(agent, text)) == [red, blue]
    assert search(agent, "not:red", can_exclude=True).reason == "no_terms"
    assert list_seqs(search(agent, "lamp role:user")) == [red, blue]
    assert not list_seqs(search(agent, "lamp role:tool"))
    assert not list_seqs(search(agent, "lamp kind:note"))
    assert not list_seqs(search(agent, "lamp from:2199-01-01"))
    assert list_seqs(search(agent, "lamp type:chat.user turn:0..3")) == [red, blue]


def test_search_order_first_lists_the_oldest_first(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    first = factories.append(agent, "t-1", "the lamp is lit").seq
    last = factories.append(agent, "t-1", "lamp lamp lamp").seq
    assert list_seqs(search(agent, "lamp", order="first")) == [first, last]
    assert list_seqs(search(agent, "lamp", order="newest")) == [last, first]
    assert list_seqs(search(agent, "lamp lit", order="first")) == [first]


def test_search_as_of_a_seq_sees_nothing_later(agent: Agent) -> None:
    first = factories.append(agent, "t-1", *ELEVEN, "a lamp").seq
    then = search(agent, "lamp")
    factories.append(agent, "t-1", "another lamp")
    assert list_seqs(then) == [first]
    assert search(agent, "lamp", seq=first) == then
    assert not list_seqs(search(agent, "lamp", seq=first - 1))


def test_fork_searches_what_it_inherits(agent: Agent) -> None:
    seq = factories.append(agent, "t-1", *ELEVEN, "a lamp").seq
    parent = factories.get_thread(agent, "t-1")
    fork(agent, "t-1", "f-1", seq)
    factories.append(agent, "t-1", "a later lamp")
    own = factories.append(agent, "f-1", "own lamp").seq
    hits = search(agent, "lamp", "f-1").items
    assert [(hit.thread == parent.id, hit.seq) for hit in hits] == [
        (False, own),
        (True, seq),
    ]


def fork(agent: Agent, thread: str, name: str, seq: int) -> None:
    parent = factories.get_thread(agent, thread)
    command = threads.build_fork(
        parent, seq, scope=ScopeLabels(), labels=None, config=ThreadConfig()
    )
    factories.run(threads.fork(agent=agent, name=name, command=command))


def test_observations_are_found_and_apart_from_pages(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", observe=True)
    factories.append(agent, "t-1", "The lamp is lit.", "And so on. " * 40)
    factories.run(observers.observe_now(agent=agent, thread="t-1"))
    hits = search(agent, "lamp", order="first").items
    assert [(hit.kind, hit.page) for hit in hits] == [
        ("message", "slot-0"),
        ("observation", f"obs-{hits[-1].seq}"),
    ]
    assert list_seqs(search(agent, "lamp kind:observation")) == [hits[-1].seq]
    assert not list_seqs(search(agent, "lamp kind:page"))


def test_search_finds_all_kinds_of_records(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    factories.make_page(agent, "rules", text="lamp rules")
    note = AddNotes(notes=(NewNote(text=b'"lamp note"', bytes=9),))
    factories.run(
        working_memory.submit_command(agent=agent, thread="t-1", command=note)
    )
    change = keys.build_setting("shade", "lamp shade", Expiry())
    factories.run(keys.change_keys(agent=agent, thread="t-1", changes=(change,)))
    kinds = [hit.kind for hit in search(agent, "lamp", order="first").items]
    assert kinds == ["page", "note", "value"]
    assert {hit.key for hit in search(agent, "lamp kind:value").items} == {"shade"}


def test_old_page_versions_are_found_on_request(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    factories.make_page(agent, "rules", text="the lamp is blue")
    old = factories.get_thread(agent).head_seq
    draft = PageDraft(
        page_id="rules",
        type="artifact",
        modality="text",
        content={"text": "the lamp is red"},
    )
    factories.run(
        pages.write_pages(agent=agent, thread="t-1", drafts=[draft], replace=True)
    )
    assert not list_seqs(search(agent, "blue"))
    assert list_seqs(search(agent, "blue", versions=True)) == [old]
    assert list_seqs(search(agent, "blue", seq=old)) == [old]


def test_values_that_expire_are_in_no_index(agent: Agent) -> None:
    factories.append(agent, "t-1", *ELEVEN)
    change = keys.build_setting(
        "seat", "lamp", Expiry(given=True, ttl=timedelta(minutes=10))
    )
    factories.run(keys.change_keys(agent=agent, thread="t-1", changes=(change,)))
    assert not list_seqs(search(agent, "lamp"))


def test_copies_of_a_question_come_after_its_answer(agent: Agent) -> None:
    answer = factories.append(agent, "t-1", "My passport number is E90817263.").seq
    question, other = "what is my passport number?", "My passport number is new."
    asked = [
        factories.append(agent, "t-1", question.replace("what", f"{what} ")).seq
        for what in ("what", "What", " what") * 5
    ]
    later = factories.append(agent, "t-1", other).seq
    for limit in (3, 20):
        seqs = list_seqs(search(agent, question, limit=limit))
        assert {answer, asked[-1], later} == {*seqs[:3]}
    every = search(agent, question, limit=20)
    assert sorted(list_seqs(every)) == [answer, *asked, later]
    assert every.total == len(asked) + 2
    newest = search(agent, question, limit=3, order="newest")
    assert list_seqs(newest) == [later, *asked[:-3:-1]]


def test_recall_ranges_over_all_threads_of_a_subject(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.make_thread(agent, "t-2", user_id="ann")
    factories.make_thread(agent, "t-3", user_id="bob")
    for n in (1, 2, 3):
        factories.append(agent, f"t-{n}", *ELEVEN, f"a lamp in {n}")
    row = factories.get_thread(agent, "t-1")
    asked = SearchRequest.parse("lamp")
    hits = recall(row.subject, asked).items
    assert [hit.thread_name for hit in hits] == ["t-2", "t-1"]
    only = recall(row.subject, asked, threads=["t-1"]).items
    assert [hit.thread_name for hit in only] == ["t-1"]
    but = recall(row.subject, asked, exclude=["t-1"]).items
    assert [hit.thread_name for hit in but] == ["t-2"]


def test_subject_scores_are_independent_of_other_subjects(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", *ELEVEN, "a lamp")
    row = factories.get_thread(agent, "t-1")
    before = recall(row.subject, SearchRequest.parse("lamp"))
    factories.make_thread(agent, "t-2", user_id="bob")
    factories.append(agent, "t-2", *["lamp lamp"] * 30)
    thread_terms.indexes.clear()
    assert recall(row.subject, SearchRequest.parse("lamp")) == before


def test_scores_are_equal_on_both_engines(agent: Agent) -> None:
    """The figures are the same on both engines: written here once, for both."""
    factories.append(agent, "t-1", *ELEVEN, "a blue lamp", "the lamp of a lamp maker")
    hits = search(agent, "lamps maker").items
    assert [hit.seq for hit in hits] == [14, 13]
    scores = [round(hit.score, 9) for hit in hits]
    assert scores == EXPECTED


def test_erased_subjects_are_never_found(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", *ELEVEN, "a lamp")
    row = factories.get_thread(agent, "t-1")
    assert recall(row.subject, SearchRequest.parse("lamp")).items
    ((subject, epoch, _),) = [key for key, _ in thread_terms.indexes.list_items()]
    assert (subject, epoch) == (row.subject_id, row.subject.epoch)
    thread_terms.forget(row.subject_id)
    assert thread_terms.indexes.list_items() == []


def test_project_scan_stops_when_told(
    agent: Agent, django_assert_max_num_queries: Any
) -> None:
    for n in range(4):
        factories.append(agent, f"t-{n}", *ELEVEN, f"a lamp in {n}")
    scan = iter_project(agent.project, SearchRequest.parse("lamp"))
    first = next(scan)
    assert (first.looked, len(first.result.items)) == (1, 1)
    # Kinds that were not asked for are not searched.
    with django_assert_max_num_queries(0):
        scan.close()
    everywhere = [*iter_project(agent.project, SearchRequest.parse("lamp"))]
    assert [each.looked for each in everywhere] == [1, 2, 3, 4]
    assert all(len(each.result.items) == 1 for each in everywhere)


def test_project_scan_skips_threads_that_can_not_match(
    agent: Agent, django_assert_max_num_queries: Any
) -> None:
    def find(text: str) -> list[str]:
        scan = iter_project(agent.project, SearchRequest.parse(text))
        return [each.thread.name for each in scan if each.result.items]

    for n in range(4):
        factories.append(agent, f"t-{n}", *ELEVEN)
    factories.append(agent, "t-9", "The ferries of HAT-0231 leave at noon.")
    for text in ("ferry", "0231", "hat-0231", '"ferries of HAT"', "lamp or ferries"):
        assert find(text) == ["t-9"], text
    assert find('"noon leave"') == []
    # The other threads have `of` and `the`, which say nothing.
    assert find("the ferries of zebra") == ["t-9"]
    assert find(str(factories.get_thread(agent, "t-9").created_at.year)) != []
    with django_assert_max_num_queries(1):
        assert find("zebra") == []
    factories.append(agent, "t-2", "A zebra.")
    assert find("zebra") == ["t-2"]


def test_project_scan_begins_with_the_likeliest_threads(agent: Agent) -> None:
    talks = ("a lamp ferry", "a lamp", "a ferry, a lamp", "a kite", "the ferry")
    for n, said in enumerate(talks):
        factories.append(agent, f"t-{n}", said)
    request = SearchRequest.parse("lamp ferry")
    scan = [*iter_project(agent.project, request)]
    found = [each.thread.name for each in scan if each.result.items]
    assert found == ["t-0", "t-2", "t-4", "t-1"]
    assert [each.looked for each in scan] == [1, 2, 3, 4, 5] * 3
    # Without threads of a pass there is none.
    assert len([*iter_project(agent.project, SearchRequest.parse("kite"))]) == 5
    # Nothing is known of a fork, or of a thread that is long.
    factories.append(agent, "t-5", "no", "a ferry")
    fork(agent, "t-5", "t-6", factories.get_thread(agent, "t-5").head_seq)
    scan = [*iter_project(agent.project, request)]
    found = [each.thread.name for each in scan if each.result.items]
    assert found == ["t-0", "t-6", "t-2", "t-5", "t-4", "t-1"]
    for at, place in enumerate(each.place for each in scan):
        rest = [*iter_project(agent.project, request, after=place)]
        assert [each.place for each in rest] == [each.place for each in scan[at + 1 :]]


@pytest.mark.parametrize(
    ("said", "closeness"),
    [
        ("The slow night ferry.", "phrase"),
        ("Slow: a ferry in the night.", "words"),
        ("Nights on slow ferries.", "words"),
        ("A ferry.", "some"),
    ],
)
def test_hit_tells_how_close_it_is_to_the_query(
    agent: Agent, said: str, closeness: str
) -> None:
    factories.append(agent, "t-1", said)
    request = SearchRequest.parse("the slow night ferry")
    (hit,) = search_thread(factories.get_thread(agent, "t-1"), request).items
    assert hit.find_closeness(request.query) == closeness


@pytest.mark.parametrize(
    "text",
    [
        *("naïve", "ÉCOLE", "東京", "京都", "straße", "STRASSE", "user_id", "userId"),
        *("don't", "2026-11-30", "30 november", "tests", "testing", "b-c", "C++"),
        *('"see Tokyo 東京"', "the", "the and", "role:user ferry", "7"),
    ],
)
def test_project_scan_finds_what_the_search_of_each_thread_finds(
    agent: Agent, text: str
) -> None:
    for n, said in enumerate(
        (
            "A naïve école, and the straße of a STRASSE.",
            "We see Tokyo 東京都 and 京都.",
            "user_id or userId: a.b-c, don't, C++ of 7 tests on 2026-11-30",
            "The ferries leave.",
        )
    ):
        factories.append(agent, f"t-{n}", said)
    request = SearchRequest.parse(text)
    rows = [factories.get_thread(agent, f"t-{n}") for n in range(4)]
    each = {row.name for row in rows if search_thread(row, request).items}
    scan = iter_project(agent.project, request)
    assert {found.thread.name for found in scan if found.result.items} == each


def test_search_cost_follows_the_size_of_the_subject(
    agent: Agent, django_assert_max_num_queries: Any
) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "a lamp")
    for n in range(2, 6):
        factories.make_thread(agent, f"t-{n}", user_id="bob")
        factories.append(agent, f"t-{n}", *ELEVEN)
    row = factories.get_thread(agent, "t-1")
    with django_assert_max_num_queries(8):
        result = recall(row.subject, SearchRequest.parse("lamp"))
    assert result.searched == 1
