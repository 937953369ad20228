"""Totals: what every write adds up to is what counting finds, whatever was done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memoryhub.errors import Refusal
from memoryhub.journal.rows import totals
from memoryhub.journal.rows.totals import Figures
from memoryhub.kernel.commands import RetireThread, StrikeSlots
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    FaultPage,
    WriteLevels,
)
from memoryhub.models import (
    Event,
    Key,
    Page,
    PageLevel,
    Project,
    Slot,
    Subject,
    Thread,
    Total,
)
from memoryhub.queries.verify import total_checks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.rebuild import rebuild
from tests.cast import bundled, forgetting
from tests.cast.factories import append, get_thread, make_page, make_thread
from tests.oracles import memory_acts, page_acts
from tests.services.acts import fork

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[Agent, str, random.Random], object]


def count_records(subject: Subject) -> dict[str, Figures]:
    """Count the records of a subject row by row, without the database's help."""
    threads = Thread.objects.filter(subject=subject).exclude(status="importing")
    found = Counter(f"threads:{row.status}" for row in threads)
    own = {"thread__in": threads}
    found.update(
        "pages" if row.deleted_seq is None else "pages:deleted"
        for row in Page.objects.filter(**own)
    )
    found.update(f"levels:{row.level}" for row in PageLevel.objects.filter(**own))
    found.update("keys" for _ in Key.objects.filter(**own))
    begins = Slot.objects.filter(**own, role="user", erased=False, struck_seq=None)
    found.update("episodes" for _ in begins)
    counts = {kind: Figures(number) for kind, number in found.items()}
    for row in Event.objects.filter(**own):
        has, size = row.payload is not None, len(row.payload or b"")
        one = Figures(1, int(has), int(row.erased_by is not None), size)
        counts[row.type] = counts.get(row.type, Figures()).add(one)
    return counts


def agree(subject: Subject) -> None:
    assert totals.get(subject.id) == count_records(subject)


# Acts


def _grow(agent: Agent, name: str, chance: random.Random) -> None:
    append(agent, name, *["Go on."] * chance.randint(1, 3))


def _make_page(agent: Agent, name: str, chance: random.Random) -> None:
    make_page(agent, f"p-{chance.randrange(4)}", thread=name)


def _change_text(agent: Agent, name: str, chance: random.Random) -> None:
    change = page_acts.new_text(f"p-{chance.randrange(4)}", "Another text.")
    page_acts.act(agent, change, name)


def _write_levels(agent: Agent, name: str, chance: random.Random) -> None:
    made = page_acts.levels_of(f"p-{chance.randrange(4)}", {1: "Less.", 2: "L."})
    page_acts.act(agent, WriteLevels(made=made), name)


def _unpage(agent: Agent, name: str, chance: random.Random) -> None:
    page = f"p-{chance.randrange(4)}"
    page_acts.act(agent, DeletePage(page_id=page), name)


def _strike(agent: Agent, name: str, chance: random.Random) -> None:
    slots = range(get_thread(agent, name).slot_count)
    struck = tuple(chance.choices(slots, k=2)) if slots else (0,)
    page_acts.act(agent, StrikeSlots(indexes=struck), name)


def _take_turn(agent: Agent, name: str, chance: random.Random) -> None:
    page_acts.act(agent, BeginTurn(), name)
    page_acts.act(agent, FaultPage(page_id=f"p-{chance.randrange(4)}", level=0), name)


def _note(agent: Agent, name: str, chance: random.Random) -> None:
    memory_acts.add_notes(agent, "One more.", thread=name)


def _set_key(agent: Agent, name: str, chance: random.Random) -> None:
    key, ttl = f"k-{chance.randrange(3)}", chance.choice([None, timedelta(days=1)])
    memory_acts.set_key(agent, key, ttl=ttl, thread=name)


def _unkey(agent: Agent, name: str, chance: random.Random) -> None:
    memory_acts.delete_key(agent, f"k-{chance.randrange(3)}", thread=name)


def _clear(agent: Agent, name: str, chance: random.Random) -> None:
    memory_acts.clear(agent, thread=name)


def _checkpoint(agent: Agent, name: str, chance: random.Random) -> None:
    memory_acts.take(agent, "here", thread=name)
    memory_acts.set_key(agent, "k-9", thread=name)
    memory_acts.restore(agent, "here", thread=name)


def _fork(agent: Agent, name: str, chance: random.Random) -> None:
    seq = chance.randint(1, get_thread(agent, name).head_seq)
    fork(agent, name, f"{name}.{Thread.objects.count()}", seq=seq)


def _rebuild(agent: Agent, name: str, chance: random.Random) -> None:
    rebuild(get_thread(agent, name))


ACTS: tuple[Act, ...] = (
    *(
        _grow,
        _grow,
        _strike,
        _make_page,
        _make_page,
        _change_text,
        _write_levels,
        _unpage,
        _take_turn,
        _note,
    ),
    *(_set_key, _set_key, _unkey, _clear, _checkpoint, _fork, _rebuild),
)


def live_in_threads(agent: Agent, chance: random.Random, *, acts: int) -> Subject:
    """Live a subject's life: acts on any of its threads, some of them refused."""
    make_thread(agent, "ann-1", user_id="ann", labels={"channel": "web"})
    for act in chance.choices(ACTS, k=acts):
        names = Thread.objects.filter(status="open", subject__anonymous=False)
        name = chance.choice([*names.order_by("id").values_list("name", flat=True)])
        with suppress(Refusal):
            act(agent, name, chance)
    return subjects.find_or_create(agent.project, "ann")


@pytest.mark.parametrize("seed", range(5))
def test_totals_equal_a_full_count(agent: Agent, seed: int) -> None:
    chance = random.Random(seed)
    ann = live_in_threads(agent, chance, acts=40)
    agree(ann)
    names = Thread.objects.filter(subject=ann).order_by("id")
    page_acts.act(agent, RetireThread(policy_days=1, idle_days=2), names[0].name)
    agree(ann)
    living = names.exclude(status="retired")
    if row := living.first():
        sealed = Event.objects.filter(thread=row, payload__isnull=False)
        if seqs := [*sealed.order_by("seq").values_list("seq", flat=True)]:
            seq = chance.choice(seqs)
            forgetting.forget(ann, "record", thread=row, seq=seq)
            agree(ann)
        forgetting.forget(ann, "thread", thread=row)
        agree(ann)
    forgetting.forget(ann, "before", before=timezone.now())
    agree(ann)
    assert totals.get(ann.id)
    forgetting.forget(ann)
    assert totals.get(ann.id) == {}


def test_totals_drop_forgotten_records(agent: Agent) -> None:
    """Random lives may lack a kind; this life has each before it is erased."""
    make_thread(agent, "ann-1", user_id="ann")
    # Each chooses the same page.
    for act in (_make_page, _write_levels, _change_text, _grow, _set_key, _note):
        act(agent, "ann-1", random.Random(1))
    fork(agent, "ann-1", "ann-2")
    _change_text(agent, "ann-2", random.Random(1))
    ann = subjects.find_or_create(agent.project, "ann")
    before = totals.get(ann.id)
    assert {"pages", "levels:0", "levels:1", "keys", "threads:open"} < {*before}
    agree(ann)
    bob = forgetting.make_person(agent, "bob")
    others = totals.get(bob.id)
    forgetting.forget(ann, "thread", thread=get_thread(agent, "ann-1"))
    after = totals.get(ann.id)
    assert (after["threads:open"].records, after["threads:erased"].records) == (1, 1)
    assert after["slot.appended"].sealed == 0 < after["slot.appended"].erased
    assert after["slot.appended"].records == before["slot.appended"].records
    agree(ann)
    assert totals.get(bob.id) == others


def test_totals_count_an_import_once_it_is_complete(
    agent: Agent, zeta: Project
) -> None:
    bundled.live_in_threads(agent)
    data = bundled.export(subjects.find_or_create(agent.project, "ann"))
    bundled.take(data, zeta)
    again = subjects.find_or_create(zeta.id, "ann")
    assert totals.get(again.id)
    agree(again)


def test_unfinished_import_does_not_count(agent: Agent) -> None:
    ann = forgetting.make_person(agent, "ann", threads=2)
    Thread.objects.filter(name="ann-2").update(status=Thread.Status.IMPORTING)
    totals.recount(ann.id)
    agree(ann)
    assert totals.get(ann.id)["threads:open"] == Figures(1)
    Thread.objects.filter(name="ann-2").update(status=Thread.Status.OPEN)
    totals.recount(ann.id)


@pytest.mark.parametrize(
    "changes", [{"records": 9}, {"sealed": 9}, {"erased": 9}, {"bytes": 9}, {}]
)
def test_drift_is_noticed_and_counted_anew(
    agent: Agent, changes: dict[str, int], capsys: Any
) -> None:
    ann = forgetting.make_person(agent, "ann")
    rows = Total.objects.filter(subject=ann, kind="slot.appended")
    assert rows.update(**changes) if changes else rows.delete()
    assert [*total_checks.iter_drifted()] == [ann.id]
    with pytest.raises(CommandError, match=f"totals of subject {ann.id} are not"):
        call_command("verify", "--all")
    call_command("rebuild", "--thread", "acme/ann-1")
    agree(ann)
    call_command("verify", "--all")


def test_totals_of_a_written_subject_show_no_drift(agent: Agent) -> None:
    ann = forgetting.make_person(agent, "ann")
    bob = forgetting.make_person(agent, "bob")
    append(agent, "ann-1", "hello")
    assert not total_checks.has_drifted(ann.id)
    assert not total_checks.has_drifted(bob.id)
