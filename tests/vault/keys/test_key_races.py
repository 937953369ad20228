from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar
from uuid import UUID, uuid4

import pytest
from django.db import connections, transaction
from django.utils import timezone

from memoryhub.errors import SubjectErasedError
from memoryhub.models.keys import DestroyedKey, KekCheck, KeyMeta, SubjectKey
from memoryhub.vault.keys import keys, rotation
from memoryhub.vault.keys.ring_file import Ring

Result = TypeVar("Result")

pytestmark = pytest.mark.django_db(databases=["default", "keys"], transaction=True)


def elsewhere(pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    """Run on another thread, which has connections of its own and closes them."""

    def run() -> Result:
        try:
            return work()
        finally:
            connections.close_all()

    return pool.submit(run)


def test_no_key_is_made_while_its_destruction_is_uncommitted(
    ring: Ring, project: UUID
) -> None:
    subject = uuid4()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(using="keys"):
            # As the eraser does: the one row about this database first.
            KeyMeta.objects.select_for_update().get(id=1)
            DestroyedKey.objects.create(
                subject=subject, erasure=uuid4(), at=timezone.now()
            )
            made = elsewhere(
                pool, lambda: keys.create_subject_key(subject, project_id=project)
            )
            with pytest.raises(TimeoutError):
                made.result(timeout=0.3)
        with pytest.raises(SubjectErasedError):
            made.result(timeout=30)
    assert not SubjectKey.objects.exists()


def test_key_made_by_two_at_once_is_one_key(ring: Ring, project: UUID) -> None:
    subject = uuid4()
    with ThreadPoolExecutor(4) as pool:
        made = [
            elsewhere(
                pool, lambda: keys.create_subject_key(subject, project_id=project)
            )
            for _ in range(8)
        ]
        for each in made:
            each.result(timeout=30)
    assert SubjectKey.objects.count() == 1


def test_two_rotations_at_once_add_one_key(ring: Ring, project: UUID) -> None:
    keys.create_subject_key(uuid4(), project_id=project)
    now, together = timezone.now(), Barrier(2)

    def begin() -> tuple[str, bool]:
        together.wait(timeout=30)
        return rotation.begin(at=now)

    with ThreadPoolExecutor(2) as pool:
        both = [elsewhere(pool, begin) for _ in range(2)]
        begun = [each.result(timeout=30) for each in both]
    assert len({kek_id for kek_id, _ in begun}) == 1
    assert sorted(fresh for _, fresh in begun) == [False, True]
    assert KekCheck.objects.count() == 2
