"""Terms are written ahead, joined, and gone with what they were made of."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import log2
from typing import Any

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.search import segments
from memoryhub.kernel.search.index import MOST_PARTS, Index
from memoryhub.models.events import ThreadTerms
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.search.searching import SearchRequest, search_thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages
from memoryhub.services.rebuild import rebuild
from memoryhub.vault.registry.lru import Lru
from memoryhub.workers.search import terms
from tests.cast import erasings, factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    thread_terms.indexes.clear()


def later() -> datetime:
    return clock.now() + timedelta(minutes=2)


def list_found_seqs(agent: Agent, text: str) -> list[int]:
    row = factories.get_thread(agent)
    return [hit.seq for hit in search_thread(row, SearchRequest.parse(text)).items]


def grow(agent: Agent, *texts: str) -> None:
    """Append, and have the terms written as after a silence."""
    factories.append(agent, "t-1", *texts)
    assert terms.write_ahead(later()) == 1


def test_silent_thread_is_indexed_once(agent: Agent) -> None:
    factories.append(agent, "t-1", "a lamp")
    assert terms.write_ahead(clock.now()) == 0
    assert terms.write_ahead(later()) == 1
    assert terms.write_ahead(later()) == 0
    assert verify(factories.get_thread(agent)) is None


def test_busy_thread_is_indexed_within_seconds(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "EVERY", 20)
    monkeypatch.setattr(terms, "SLICE", 7)
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(18)))
    assert terms.write_busy_threads(clock.now()) == 0
    factories.append(agent, "t-1", "a lamp")
    assert terms.write_busy_threads(clock.now() + terms.LATELY) == 0
    assert terms.write_busy_threads(clock.now()) == 1
    row = ThreadTerms.objects.get()
    assert (row.first_seq, row.upto_seq) == (1, factories.get_thread(agent).head_seq)
    assert list_found_seqs(agent, "lamp") == [row.upto_seq]
    assert verify(factories.get_thread(agent)) is None


def test_pass_that_took_long_leaves_the_rest_to_the_next(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "PASS_SECONDS", 0)
    for name in ("t-1", "t-2"):
        factories.append(agent, name, "a lamp")
    assert [terms.write_ahead(later()) for _ in range(3)] == [1, 1, 0]


def test_search_in_segments_reads_no_events(
    agent: Agent, django_assert_num_queries: Any
) -> None:
    grow(agent, *(f"filler {n}" for n in range(20)), "a lamp")
    row = factories.get_thread(agent)
    thread_terms.indexes.clear()
    # Segments, what ended, and the hit.
    with django_assert_num_queries(2):
        (hit,) = search_thread(row, SearchRequest.parse("lamp")).items
    assert hit.slot == 20


def test_merged_segments_equal_rebuilt_ones(agent: Agent) -> None:
    for n in range(24):
        grow(agent, f"lamp number {n}", f"filler {n}")
    row = factories.get_thread(agent)
    rows = ThreadTerms.objects.filter(thread=row)
    assert 1 <= rows.count() <= log2(row.head_seq)
    assert verify(row) is None
    before = search_thread(row, SearchRequest.parse("lamp number", limit=50))
    rebuild(row)
    assert not rows.exists()
    thread_terms.indexes.clear()
    assert search_thread(row, SearchRequest.parse("lamp number", limit=50)) == before
    assert terms.write_segment(row)
    thread_terms.indexes.clear()
    assert search_thread(row, SearchRequest.parse("lamp number", limit=50)) == before


def test_erased_record_takes_its_segment_along(agent: Agent) -> None:
    grow(agent, *(f"filler {n}" for n in range(9)), "the blue lamp")
    seq = factories.append(agent, "t-1", "the red lamp").seq
    assert len(list_found_seqs(agent, "lamp")) == 2
    row = factories.get_thread(agent)
    erasings.erase(row, (seq - 1, seq - 1))
    assert not ThreadTerms.objects.filter(thread=row).exists()
    assert list_found_seqs(agent, "lamp") == [seq]
    assert terms.write_ahead(later()) == 1
    thread_terms.indexes.clear()
    assert list_found_seqs(agent, "lamp") == [seq]
    assert not list_found_seqs(agent, "blue")


def test_erased_record_is_dropped_from_another_process_index(agent: Agent) -> None:
    grow(agent, *(f"filler {n}" for n in range(9)), "the blue lamp")
    row = factories.get_thread(agent)
    search_thread(row, SearchRequest.parse("lamp"))
    held = thread_terms.indexes.list_items()
    erasings.erase(row, (row.head_seq, row.head_seq))
    thread_terms.indexes.clear()
    for key, index in held:
        thread_terms.indexes.put(key, index)
    result = search_thread(factories.get_thread(agent), SearchRequest.parse("lamp"))
    assert (result.items, result.reason) == ((), "no_match")
    (held_now,) = [index for _, index in thread_terms.indexes.list_items()]
    assert not any("lamp" in part.words for part in held_now.parts)


def test_record_erased_during_a_search_is_not_shown(agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(9)), "the blue lamp")
    before = factories.get_thread(agent)
    search_thread(before, SearchRequest.parse("lamp"))
    held = thread_terms.indexes.list_items()
    erasings.erase(before, (before.head_seq, before.head_seq))
    # A reader that has the thread's row and index goes on with both.
    for key, index in held:
        thread_terms.indexes.put(key, index)
    result = search_thread(before, SearchRequest.parse("lamp"))
    assert (result.items, result.total, result.reason) == ((), 0, "erased")


def test_deleted_page_takes_its_terms_along(agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(9)))
    factories.make_page(agent, "rules", text="the lamp rules")
    assert terms.write_ahead(later()) == 1
    assert len(list_found_seqs(agent, "lamp")) == 1
    command = DeletePage(page_id="rules")
    factories.run(pages.submit_command(agent, "t-1", command))
    assert not ThreadTerms.objects.exists()
    assert not list_found_seqs(agent, "lamp")


def test_segment_made_of_what_was_erased_since_is_not_written(agent: Agent) -> None:
    factories.append(agent, "t-1", *(f"filler {n}" for n in range(9)), "the blue lamp")
    row = factories.get_thread(agent)
    read = thread_terms.read(row, (1, row.head_seq), most=100)
    segment = segments.build(read.records)
    made = thread_terms.seal_row(row, (1, row.head_seq), segment)
    erasings.erase(row, (row.head_seq, row.head_seq))
    assert not thread_terms.replace(row, [], made, head=row.head_seq)
    assert not ThreadTerms.objects.exists()


def test_row_of_terms_has_no_word(agent: Agent) -> None:
    grow(agent, *(f"canary{n}zq" for n in range(50)))
    sealed = b"".join(bytes(row.sealed) for row in ThreadTerms.objects.all())
    assert not [n for n in range(50) if f"canary{n}zq".encode() in sealed]
    columns = {field.name for field in ThreadTerms._meta.get_fields()}
    assert columns == {"pk", "thread", "first_seq", "upto_seq", "sealed"}


def test_verify_names_a_segment_that_lies(agent: Agent) -> None:
    grow(agent, "a lamp", "another")
    row = factories.get_thread(agent)
    stored = ThreadTerms.objects.get(thread=row)
    read = thread_terms.read(row, (1, row.head_seq - 1), most=100)
    span = (stored.first_seq, stored.upto_seq)
    wrong = thread_terms.seal_row(row, span, segments.build(read.records))
    ThreadTerms.objects.filter(thread=row).update(sealed=wrong.sealed)
    difference = verify(row)
    assert difference is not None
    assert difference.what == "terms"
    ThreadTerms.objects.all().delete()


def test_thread_that_is_erased_is_not_written(agent: Agent) -> None:
    factories.append(agent, "t-1", "a lamp")
    Thread.objects.update(status=Thread.Status.ERASED)
    assert terms.write_ahead(later()) == 0
    Thread.objects.update(status=Thread.Status.OPEN)


def test_worker_leaves_no_event_to_the_first_reader(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(terms, "EVERY", 20)
    monkeypatch.setattr(terms, "SLICE", 3)
    factories.append(agent, "t-1", *(f"lamp {n} of {n % 5}" for n in range(90)))
    assert terms.write_busy_threads(clock.now()) == 1
    row, request = factories.get_thread(agent), SearchRequest.parse("lamp 3", limit=50)
    (index,) = [index for _, index in thread_terms.indexes.list_items()]
    assert index.covered[row.id] == ((1, row.head_seq),)
    assert len(index.parts) <= MOST_PARTS
    # Only the hits: no segment and no event is read for the index.
    with django_assert_num_queries(1):
        warm = search_thread(row, request)
    assert len(warm.items) == 50
    thread_terms.indexes.clear()
    assert search_thread(row, request) == warm
    ThreadTerms.objects.all().delete()
    thread_terms.indexes.clear()
    assert search_thread(row, request) == warm


def test_index_that_the_worker_grows_holds_nothing_erased(agent: Agent) -> None:
    grow(agent, *(f"filler {n}" for n in range(9)), "the blue lamp")
    row = factories.get_thread(agent)
    assert thread_terms.indexes.list_items()
    erasings.erase(row, (row.head_seq, row.head_seq))
    factories.append(agent, "t-1", "the red lamp")
    assert terms.write_ahead(later()) == 1
    held = [index for _, index in thread_terms.indexes.list_items()]
    assert not any("blue" in part.words for index in held for part in index.parts)
    assert len(list_found_seqs(agent, "lamp")) == 1


def test_worker_goes_on_where_a_reader_was(agent: Agent) -> None:
    grow(agent, *(f"lamp {n}" for n in range(9)))
    factories.append(agent, "t-1", *(f"lamp {n}" for n in range(9)))
    assert len(list_found_seqs(agent, "lamp")) == 5
    grow(agent, *(f"lamp {n}" for n in range(9)))
    row = factories.get_thread(agent)
    (index,) = [index for _, index in thread_terms.indexes.list_items()]
    assert index.covered[row.id] == ((1, row.head_seq),)
    seqs = index.records["seq"].tolist()
    assert seqs == sorted({*seqs})


def test_index_of_a_new_thread_drives_no_other_out(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Lru[Any, Index](1, name="one byte", unit_bytes=1)
    monkeypatch.setattr(thread_terms, "indexes", small)
    small.put("held", Index(), weight=1)
    grow(agent, "a lamp")
    assert [key for key, _ in small.list_items()] == ["held"]
