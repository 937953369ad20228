from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from memoryhub.errors import StartRefusedError
from memoryhub.models.keys import DestroyedKey, KekCheck, KeyMeta, ProjectKey
from memoryhub.models.projects import Instance
from memoryhub.vault.keys import backup, keyring, keys, ring_file
from memoryhub.vault.keys.ring_file import Ring

pytestmark = pytest.mark.django_db(databases=["default", "keys"])


def require_refusal(*, empty: bool = False) -> str:
    with pytest.raises(StartRefusedError) as refused:
        keyring.prepare(empty=empty)
    assert "\n" not in refused.value.reason
    return refused.value.reason.split(":")[0]


def test_first_start_makes_ring_sentinel_and_instance(first_start: Path) -> None:
    ring = keyring.prepare(empty=True)
    assert ring == ring_file.read(first_start)
    check = KekCheck.objects.get()
    assert (check.kek_id, check.state) == (ring.current_id, KekCheck.State.CURRENT)
    assert KeyMeta.objects.get().instance == Instance.objects.get().id


def test_second_start_changes_nothing(ring: Ring) -> None:
    rows = list(KekCheck.objects.values()) + list(KeyMeta.objects.values())
    assert keyring.prepare(empty=False) == ring
    assert list(KekCheck.objects.values()) + list(KeyMeta.objects.values()) == rows
    assert Instance.objects.count() == 1


def test_no_ring_is_made_beside_a_memory_that_is_not_empty(
    first_start: Path,
) -> None:
    assert require_refusal(empty=False) == "kek_missing"
    assert not first_start.exists()


def test_no_ring_is_made_at_a_path_that_somebody_chose(
    first_start: Path, settings: Settings
) -> None:
    settings.KEK_FILE_IS_DEFAULT = False
    assert require_refusal(empty=True) == "kek_missing"
    assert not first_start.exists()


@pytest.mark.parametrize("left", ["check", "project", "destroyed"])
def test_no_ring_is_made_beside_keys_that_are_in_use(
    left: str, ring: Ring, kek_file: Path
) -> None:
    if left != "check":
        KekCheck.objects.all().delete()
    if left == "project":
        keys.create_project_key(uuid4())
    if left == "destroyed":
        DestroyedKey.objects.create(subject=uuid4(), erasure=uuid4(), at=timezone.now())
    kek_file.unlink()
    assert require_refusal(empty=True) == "kek_missing"
    assert not kek_file.exists()


def test_ring_somebody_brought_is_taken_up(
    first_start: Path, settings: Settings
) -> None:
    settings.KEK_FILE_IS_DEFAULT = False
    brought = keyring.make_ring(first_start)
    assert keyring.prepare(empty=True) == brought


def test_wrong_kek_is_refused(ring: Ring, kek_file: Path) -> None:
    """The ring has another key of the same id: the sentinel does not open."""
    other = ring_file.make_ring()
    text = (
        ring_file.encode_ring(other).decode().replace(other.current_id, ring.current_id)
    )
    kek_file.write_text(text)
    assert require_refusal() == "kek_wrong"


def test_ring_of_another_instance_is_refused(ring: Ring, kek_file: Path) -> None:
    ring_file.replace(kek_file, ring_file.make_ring())
    assert require_refusal() == "kek_unknown"
    assert KekCheck.objects.count() == 1


def test_rows_under_an_absent_id_are_refused(ring: Ring) -> None:
    keys.create_project_key(uuid4())
    ProjectKey.objects.update(kek_id="0badf00d")
    assert require_refusal() == "kek_unknown"


def test_databases_of_two_instances_are_refused(ring: Ring) -> None:
    KeyMeta.objects.update(instance=uuid4())
    assert require_refusal() == "keys_mismatch"


@pytest.mark.parametrize("lost", [KeyMeta, Instance])
def test_keyring_is_refused_when_one_database_lacks_its_instance(
    lost: type[KeyMeta | Instance], ring: Ring
) -> None:
    lost._default_manager.all().delete()
    assert require_refusal() == "keys_mismatch"


@pytest.mark.parametrize("undone", [KeyMeta, Instance])
def test_first_start_that_died_half_way_is_completed(
    undone: type[KeyMeta | Instance], ring: Ring
) -> None:
    kept = KeyMeta.objects.get().instance
    undone._default_manager.all().delete()
    KekCheck.objects.all().delete()
    assert keyring.prepare(empty=True) == ring
    assert KeyMeta.objects.get().instance == kept == Instance.objects.get().id


def test_keyring_is_refused_when_one_database_serves_both(ring: Ring) -> None:
    with connections["keys"].cursor() as cursor:
        name = connection.ops.quote_name(Instance._meta.db_table)
        cursor.execute(f"CREATE TABLE {name} (id INTEGER)")
    assert require_refusal() == "keys_same"


def test_running_server_takes_up_a_new_ring(ring: Ring, kek_file: Path) -> None:
    assert keyring.get_ring() is keyring.get_ring()
    ring_file.replace(kek_file, ring.add_kek(ring_file.make_kek()))
    assert keyring.get_ring() == ring_file.read(kek_file) != ring


@pytest.mark.parametrize("spoiled", ["gone", "broken", "open to all"])
def test_ring_that_spoils_under_a_running_server_does_it_no_harm(
    spoiled: str, ring: Ring, kek_file: Path
) -> None:
    if spoiled == "gone":
        kek_file.unlink()
    if spoiled == "broken":
        kek_file.write_bytes(b"")
    if spoiled == "open to all":
        kek_file.chmod(0o644)
        kek_file.write_bytes(kek_file.read_bytes() + b"\n")
    assert keyring.get_ring() == ring
    assert require_refusal().startswith("kek_")


def test_backup_counts_for_the_current_key_only(ring: Ring, kek_file: Path) -> None:
    assert not keyring.is_kek_backed_up()
    backup.record(ring, at=timezone.now())
    assert keyring.is_kek_backed_up()
    ring_file.replace(kek_file, ring.add_kek(ring_file.make_kek()))
    keyring.prepare(empty=False)
    assert not keyring.is_kek_backed_up()


def test_old_ring_that_was_restored_has_its_current_key_current_again(
    ring: Ring,
) -> None:
    KekCheck.objects.update(state=KekCheck.State.RETIRED, retired_at=timezone.now())
    keyring.prepare(empty=False)
    check = KekCheck.objects.get()
    assert (check.state, check.retired_at) == (KekCheck.State.CURRENT, None)
