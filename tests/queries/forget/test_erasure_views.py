from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from memoryhub.models.erasures import Receipt
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_views, receipt_views
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import receipts
from tests.cast import factories
from tests.inspector import forgotten
from tests.inspector.forgotten import confirm, finish, plan

pytestmark = pytest.mark.django_db(transaction=True)


def test_record_is_marked_by_what_erased_it(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    gus, bob = (forgotten.make_person(agent, name) for name in ("gus", "bob"))
    one = factories.get_thread(agent, "gus-1")
    row = finish(confirm(plan(gus, scope="record", thread=one, seq=2)))
    receipt = Receipt.objects.get()
    twin = factories.get_thread(agent, "bob-1")
    places = [(one.id, 1), (one.id, 2), (one.id, 3), (twin.id, 2)]
    with django_assert_num_queries(3):
        found = erasure_views.list_record_proofs(places)
    assert set(found) == {(one.id, 2)}
    assert found[one.id, 2].erasure == row.id
    assert found[one.id, 2].receipt == receipt.id
    assert erasure_views.find_record_proof(one.id, 3) is None
    with django_assert_num_queries(0):
        assert erasure_views.list_record_proofs([]) == {}
    assert bob.state == "active"


def test_thread_is_proved_by_its_own_erasure_or_its_subjects(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ann, bob = (forgotten.make_person(agent, name) for name in ("ann", "bob"))
    one, two = (factories.get_thread(agent, name) for name in ("ann-1", "ann-2"))
    alive = factories.get_thread(agent, "bob-1")
    dropped = plan(bob)
    first = finish(confirm(plan(ann, scope="thread", thread=one)))
    whole = confirm(plan(ann))
    with django_assert_num_queries(1):
        found = erasure_views.list_proofs([one.id, two.id, alive.id])
    assert {t: p.erasure for t, p in found.items()} == {
        one.id: first.id,
        two.id: whole.id,
    }
    assert found[two.id].receipt is None
    assert found[two.id].detail == {"erasure": str(whole.id)}
    assert found[one.id].detail.keys() == {"erasure", "receipt"}
    assert dropped.confirmed_at is None
    assert erasure_views.get_thread_name(ErasureLine.from_row(first)) == ""
    finish(whole)
    assert erasure_views.list_proofs([two.id])[two.id].receipt is not None


def test_receipt_says_what_remains(agent: Agent, acme: Project) -> None:
    ann = forgotten.make_person(agent, "ann")
    row = confirm(plan(ann))
    assert erasure_views.get_remains(row.id) is None
    assert erasure_views.get_open(ann.id) == row
    finish(row)
    assert erasure_views.get_open(ann.id) is None
    stays = erasure_views.get_remains(row.id)
    assert stays is not None
    assert "envelopes" in {each["what"] for each in stays.retained}
    assert "backups" in {each["what"] for each in stays.residue}
    receipts.add_addendum(row, "scanned", {"undeclared": 0})
    (line,) = receipt_views.list_receipts(acme).items
    assert (line.erasure, line.addenda) == (row.id, 1)
    (addendum,) = receipt_views.list_addenda(row.id)
    assert (addendum.what, addendum.numbers) == ("scanned", {"undeclared": 0})
    (first,) = [each.n for each in Receipt.objects.filter(id=line.id)]
    assert first == 0


@pytest.mark.no_replay
def test_home_thread_is_told_among_the_threads_of_a_plan(agent: Agent) -> None:
    line = ErasureLine.from_row(plan(forgotten.make_person(agent, "bob")))
    assert not erasure_views.has_home_thread(line)
    Thread.objects.filter(name="bob-1").update(home=True)
    assert erasure_views.has_home_thread(line)
    assert not line.keeps
