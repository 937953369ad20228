from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

from memoryhub.models.keys import KekCheck, ProjectKey, SigningKey, SubjectKey
from memoryhub.vault.keys import keyring, keys, ring_file, rotation
from memoryhub.vault.keys.payloads import PayloadAddress, Purpose, open_sealed, seal
from memoryhub.vault.keys.ring_file import Ring, RingRefusedError
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap

pytestmark = pytest.mark.django_db(databases=["default", "keys"])

NOW = timezone.now()


def rotate() -> str:
    kek_id, _ = rotation.begin(at=NOW)
    while rotation.step():
        pass
    rotation.finish(at=NOW)
    return kek_id


def require_refusal(kek_id: str, *, days: float) -> str:
    with pytest.raises(RingRefusedError) as refused:
        rotation.retire(kek_id, at=NOW + timedelta(days=days))
    return refused.value.reason.split(":")[0]


@pytest.fixture
def subjects(ring: Ring, project: UUID) -> list[UUID]:
    keys.create_project_key(project)
    made = [uuid4() for _ in range(12)]
    for subject in made:
        keys.create_subject_key(subject, project_id=project)
    return made


@pytest.fixture
def signing_key(ring: Ring) -> SigningKey:
    private = Ed25519PrivateKey.generate()
    key = SigningKey(
        kek_id=ring.current_id,
        public=private.public_key().public_bytes_raw(),
        endorsement=bytes(64),
        created_at=NOW,
    )
    key.endorser = key.id
    secret = private.private_bytes_raw()
    key.wrapped = wrap(ring.current, secret, purpose=KeyPurpose.SIGNING, owner=key.id)
    key.save(using="keys")
    return key


def test_everything_opens_under_the_new_key_and_payloads_do_not_change(
    subjects: list[UUID], project: UUID, signing_key: SigningKey, ring: Ring
) -> None:
    place = PayloadAddress(
        project=project,
        subject=subjects[0],
        thread=uuid4(),
        seq=1,
        purpose=Purpose.PAYLOAD,
    )
    sealed = seal(keys.get_subject_keys(subjects[0], epoch=1), place, b"hello")
    ids = keys.get_project_key(project).ids
    before = unwrap(
        ring.current,
        bytes(signing_key.wrapped),
        purpose=KeyPurpose.SIGNING,
        owner=signing_key.id,
    )

    new = rotate()

    keys.reset()
    assert (
        open_sealed(keys.get_subject_keys(subjects[0], epoch=1), place, sealed)
        == b"hello"
    )
    assert keys.get_project_key(project).ids == ids
    signing_key.refresh_from_db(using="keys")
    again = bytes(signing_key.wrapped)
    assert before == unwrap(
        keyring.get_kek(new), again, purpose=KeyPurpose.SIGNING, owner=signing_key.id
    )
    assert keyring.count_rows_per_kek() == {new: 14}


def test_old_key_is_retired_and_still_in_the_ring(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    new = rotate()
    checks = {row.kek_id: row for row in KekCheck.objects.all()}
    assert checks[new].state == KekCheck.State.CURRENT
    assert checks[ring.current_id].state == KekCheck.State.RETIRED
    assert checks[ring.current_id].retired_at == NOW
    assert ring_file.read(kek_file).ids == tuple(sorted((new, ring.current_id)))
    assert keyring.prepare(empty=False).current_id == new


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_kek_rotation_resumes_after_a_stop(
    steps: int, subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    """The rotation was stopped after any batch and goes on with the same key."""
    new, fresh = rotation.begin(at=NOW)
    assert fresh
    for _ in range(steps):
        assert rotation.step(limit=3)
    keyring.reset()
    keys.reset()
    assert keyring.prepare(empty=False).current_id == new
    for subject in subjects:
        keys.get_subject_keys(subject, epoch=1)

    assert rotation.begin(at=NOW) == (new, False)
    done = 0
    while batch := rotation.step(limit=3):
        assert batch <= 3
        done += batch
    assert done == 13 - {0: 0, 1: 1, 2: 4, 5: 13}[steps]
    assert rotation.finish(at=NOW) == [ring.current_id]
    assert len(ring_file.read(kek_file).ids) == 2


def test_rotation_that_died_before_its_sentinel_resumes(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    half = ring.add_kek(ring_file.make_kek())
    ring_file.replace(kek_file, half)
    assert rotation.begin(at=NOW) == (half.current_id, False)
    assert KekCheck.objects.filter(kek_id=half.current_id).exists()


def test_finished_rotation_is_followed_by_a_new_one(
    subjects: list[UUID], ring: Ring
) -> None:
    first = rotate()
    second = rotate()
    assert len({ring.current_id, first, second}) == 3
    assert keyring.count_rows_per_kek() == {second: 13}


def test_rotation_without_any_key_to_wrap_ends(ring: Ring) -> None:
    new = rotate()
    assert KekCheck.objects.get(kek_id=ring.current_id).retired_at == NOW
    assert keyring.get_ring().current_id == new


def test_keys_made_during_a_rotation_are_under_the_new_key(
    subjects: list[UUID], project: UUID
) -> None:
    new, _ = rotation.begin(at=NOW)
    keys.create_subject_key(uuid4(), project_id=project)
    assert keyring.count_rows_per_kek()[new] == 1


def test_key_wrapped_meanwhile_under_the_old_one_keeps_it_from_retiring(
    subjects: list[UUID], ring: Ring
) -> None:
    """A server that has not read the new ring may still use the old key."""
    rotation.begin(at=NOW)
    while rotation.step():
        pass
    late = uuid4()
    ProjectKey.objects.create(
        project=late,
        kek_id=ring.current_id,
        wrapped=wrap(ring.current, bytes(32), purpose=KeyPurpose.PROJECT, owner=late),
    )
    assert rotation.finish(at=NOW) == []
    assert rotation.count_remaining() == rotation.step() == 1
    assert rotation.finish(at=NOW) == [ring.current_id]
    keys.get_project_key(late)


def test_key_destroyed_during_a_rotation_stays_destroyed(
    subjects: list[UUID],
) -> None:
    rotation.begin(at=NOW)
    rotation.step(limit=1)
    SubjectKey.objects.all().delete()
    while rotation.step():
        pass
    assert not SubjectKey.objects.exists()


def test_retiring_takes_the_key_out_for_good(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    new = rotate()
    rotation.retire(ring.current_id, at=NOW + timedelta(days=7))
    assert ring_file.read(kek_file).ids == (new,)
    assert [row.kek_id for row in KekCheck.objects.all()] == [new]
    assert keyring.prepare(empty=False).ids == (new,)
    keys.reset()
    keys.get_subject_keys(subjects[0], epoch=1)


def test_retiring_is_refused_while_it_could_cost_a_key(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    assert require_refusal(ring.current_id, days=99) == "kek_in_use"
    rotation.begin(at=NOW)
    rotation.step(limit=3)
    assert require_refusal(ring.current_id, days=99) == "kek_in_use"
    while rotation.step():
        pass
    assert require_refusal(ring.current_id, days=99) == "kek_in_use"
    rotation.finish(at=NOW)
    assert require_refusal(ring.current_id, days=6.999) == "kek_window"
    assert require_refusal("0badf00d", days=99) == "kek_unknown"
    assert ring.current_id in ring_file.read(kek_file).ids


def test_retired_key_that_a_row_uses_after_all_stays(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    rotate()
    SubjectKey.objects.filter(subject=subjects[0]).update(kek_id=ring.current_id)
    assert require_refusal(ring.current_id, days=99) == "kek_in_use"
    assert ring.current_id in ring_file.read(kek_file).ids


def test_retirement_that_died_half_way_is_completed(
    subjects: list[UUID], ring: Ring, kek_file: Path
) -> None:
    new = rotate()
    ring_file.replace(kek_file, ring_file.read(kek_file).remove_kek(ring.current_id))
    assert keyring.prepare(empty=False).ids == (new,)
    rotation.retire(ring.current_id, at=NOW + timedelta(days=7))
    assert [row.kek_id for row in KekCheck.objects.all()] == [new]
