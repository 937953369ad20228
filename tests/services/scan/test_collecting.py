from __future__ import annotations

from uuid import uuid4

import pytest

from memoryhub.kernel.state.events import LabelValue
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.keys import SubjectKey
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.scan import collecting
from memoryhub.services.scan.collecting import Remembered
from memoryhub.services.threads import slots
from memoryhub.vault.scan.sources import TargetSearch
from memoryhub.vault.scan.targets import ScanTarget, TargetKind
from tests.cast.factories import (
    append,
    get_thread,
    make_page,
    make_slot,
    make_thread,
    run,
)
from tests.cast.forgetting import plan
from tests.oracles.memory_acts import new_key, set_keys
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

USER = "ann.smith1987@example.com"
TEXT = "I would like seat 12A by the window, please, and a vegetarian meal."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    for user_id, name in ((USER, "of-ann-smith"), ("bob", "of-bob-brown")):
        make_thread(agent, name, user_id=user_id)
        append(agent, name, TEXT, {"note": [f"{name}: she travels with her dog."]})
    return subjects.find_or_create(agent.project, USER)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "remembered", Remembered())


def collected(subject: Subject, scope: str, **given: object) -> tuple[Erasure, bytes]:
    row = plan(subject, scope, **given)
    row.needles = collecting.collect_targets(row)
    return row, bytes(row.needles)


def of_kind(row: Erasure, kind: TargetKind) -> set[bytes]:
    return {each.data for each in collecting.list_targets(row) if each.kind is kind}


def nonces(name: str) -> set[bytes]:
    rows = Event.objects.filter(thread__name=name, payload__isnull=False)
    return {bytes(row.payload)[3:15] for row in rows if row.payload is not None}


def test_subject_erasure_searches_everything_of_its_subject_alone(
    ann: Subject,
) -> None:
    row, _ = collected(ann, "subject")
    assert of_kind(row, TargetKind.NONCE) == nonces("of-ann-smith")
    assert not of_kind(row, TargetKind.NONCE) & nonces("of-bob-brown")
    wrapped = SubjectKey.objects.using("keys").get(subject=ann.id).wrapped
    assert of_kind(row, TargetKind.WRAPPED_KEY) == {bytes(wrapped)[:12]}
    assert of_kind(row, TargetKind.USER_ID) == {USER.encode()}
    assert of_kind(row, TargetKind.NAME) == {b"of-ann-smith", b"chat.user"}
    windows = of_kind(row, TargetKind.PLAINTEXT)
    assert windows
    assert all(
        each in f"{TEXT}of-ann-smith: she travels with her dog.".encode()
        for each in windows
    )


def test_only_random_needles_are_stored(ann: Subject) -> None:
    row, kept = collected(ann, "subject")
    for clear in (USER.encode(), b"of-ann", b"window", b"vegetarian"):
        assert clear not in kept
    # After a crash the clear needles are gone, and the random ones are left.
    collecting.remembered.pop(row.id)
    assert {each.kind for each in collecting.list_targets(row)} == {
        TargetKind.NONCE,
        TargetKind.WRAPPED_KEY,
    }


def test_narrower_scopes_search_erased_records_alone(
    agent: Agent, ann: Subject
) -> None:
    thread = get_thread(agent, "of-ann-smith")
    sealed = Event.objects.filter(thread=thread, payload__isnull=False).order_by("seq")
    first = sealed[0]
    row, _ = collected(ann, "record", thread=thread, seq=first.seq)
    assert first.payload is not None
    assert of_kind(row, TargetKind.NONCE) == {bytes(first.payload)[3:15]}
    for kind in (TargetKind.WRAPPED_KEY, TargetKind.USER_ID, TargetKind.NAME):
        assert of_kind(row, kind) == set()
    assert of_kind(row, TargetKind.PLAINTEXT)
    Erasure.objects.update(state=Erasure.State.CANCELLED)
    row, _ = collected(ann, "thread", thread=thread)
    assert of_kind(row, TargetKind.NONCE) == nonces("of-ann-smith")
    assert of_kind(row, TargetKind.NAME) == {b"of-ann-smith", b"chat.user"}
    assert of_kind(row, TargetKind.USER_ID) == set()


def test_lost_key_leaves_random_needles(ann: Subject) -> None:
    SubjectKey.objects.using("keys").filter(subject=ann.id).delete()
    Subject.objects.filter(id=ann.id).update(epoch=7)
    row, _ = collected(Subject.objects.get(id=ann.id), "subject")
    assert of_kind(row, TargetKind.NONCE) == nonces("of-ann-smith")
    assert (
        of_kind(row, TargetKind.PLAINTEXT) == of_kind(row, TargetKind.USER_ID) == set()
    )


def test_remembered_needles_are_limited() -> None:
    kept = Remembered()
    first, *others = (uuid4() for _ in range(101))
    needle = ScanTarget(kind=TargetKind.NAME, data=b"of-ann-smith")
    kept.put(first, [needle])
    for each in others:
        assert kept.list_items()[0] == (first, [needle])
        kept.put(each, [])
    assert kept.get(first) is None


def looked_for(row: Erasure, text: str) -> bool:
    """Return whether a scan would find the text, wherever it stood in the clear."""
    found = TargetSearch(collecting.list_targets(row)).search_stream(
        [f"<{text}>".encode()]
    )
    return bool(found)


#: Short values that a client writes.
SAID = {
    "email": "ann.smith@example.com",
    "birth": {"dob": "1987-05-01"},
    "both": "Mia Li 1987-05-01",
    "seat": "seat 12A by the window",
    "keyed": {"Tante Emma, Graz": 1},
}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("email", "ann.smith@example.com"),
        ("birth", '{"dob":"1987-05-01"}'),
        ("both", "Mia Li 1987-05-01"),
        ("seat", "seat 12A by the window"),
        ("keyed", "Tante Emma, Graz"),
    ],
)
def test_short_values_are_searched_too(agent: Agent, key: str, told: str) -> None:
    make_thread(agent, "t-1", user_id="mia")
    set_keys(agent, new_key(key, SAID[key]), thread="t-1")
    row, _ = collected(subjects.find_or_create(agent.project, "mia"), "subject")
    assert looked_for(row, told)
    # The text backwards is not searched.
    assert not looked_for(row, told[::-1])


NAMES = ("of-mia-long", "mias-phone-7", "web-of-mia", "mia-diet-2", "mia-menu-page")


@pytest.fixture
def mia(agent: Agent) -> Subject:
    make_thread(agent, "of-mia-long", user_id="mia", labels={"from": "mias-phone-7"})
    sent = [make_slot("hello", from_name="web-of-mia")]
    run(slots.append(agent=agent, thread="of-mia-long", slots=sent))
    set_keys(agent, new_key("mia-diet-2", 1), thread="of-mia-long")
    make_page(agent, "mia-menu-page", thread="of-mia-long")
    return subjects.find_or_create(agent.project, "mia")


@pytest.mark.parametrize("scope", ["subject", "thread"])
def test_every_name_given_by_clients_is_searched(
    agent: Agent, mia: Subject, scope: str
) -> None:
    given = {"thread": get_thread(agent, "of-mia-long")} if scope == "thread" else {}
    row, _ = collected(mia, scope, **given)
    assert {name.encode() for name in NAMES} <= of_kind(row, TargetKind.NAME)


def test_names_that_stay_are_not_searched(agent: Agent, mia: Subject) -> None:
    """Skip names of a record, kept by its thread, and of a thread, kept by its fork."""
    thread = get_thread(agent, "of-mia-long")
    row, _ = collected(mia, "record", thread=thread, seq=2)
    assert of_kind(row, TargetKind.NAME) == set()
    Erasure.objects.update(state=Erasure.State.CANCELLED)
    fork(agent, "of-mia-long", "of-mia-fork")
    row, _ = collected(mia, "thread", thread=thread)
    assert of_kind(row, TargetKind.NAME) == set()


def test_internal_id_in_a_label_is_not_searched_as_a_name(
    agent: Agent, mia: Subject
) -> None:
    make_thread(agent, "of-mia-2", user_id="mia", labels={"whose": str(mia.id)})
    row, _ = collected(mia, "subject")
    assert str(mia.id).encode() not in of_kind(row, TargetKind.NAME)
    assert b"of-mia-2" in of_kind(row, TargetKind.NAME)


def test_label_numbers_are_searched_by_their_digits(agent: Agent) -> None:
    labels: dict[str, LabelValue] = {"phone": 491577123456, "share": 0.25, "vip": True}
    make_thread(agent, "of-ann-smith", user_id=USER, labels=labels)
    row, _ = collected(subjects.find_or_create(agent.project, USER), "subject")
    assert of_kind(row, TargetKind.NAME) == {b"of-ann-smith", b"491577123456"}
