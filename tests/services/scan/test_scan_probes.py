from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings as configured
from pytest_django import Settings

from memoryhub.queries.scan import surfaces
from memoryhub.services.scan import scan_probes
from memoryhub.vault.scan.sources import Search
from memoryhub.vault.scan.targets import ScanTarget

POSTGRES = "postgresql" in configured.DATABASES["default"]["ENGINE"]


def found(probes: dict[str, ScanTarget]) -> dict[str, set[str]]:
    search = Search(probes.values())
    hits = [
        (hit.target, place.kind)
        for place in surfaces.iter_surfaces()
        for hit in search.stream(place.read())
    ]
    return {
        name: {str(kind) for needle, kind in hits if needle == probe}
        for name, probe in probes.items()
    }


@pytest.mark.django_db(transaction=True)
def test_each_probe_stands_where_it_belongs_and_only_for_the_while() -> None:
    probes = scan_probes.make()
    assert probes.keys() >= scan_probes.DRESSES.keys()
    assert ("toast default" in probes) is POSTGRES
    assert ("redis" in probes) is bool(configured.REDIS_URL)
    places = {"toast default": {"temporary"}, "toast keys": {"temporary"}}
    places |= {"redis": {"redis"}}
    with scan_probes.planted(probes):
        assert found(probes) == {name: places.get(name, {"file"}) for name in probes}
    assert found(probes) == {name: set() for name in probes}


@pytest.mark.django_db(transaction=True)
def test_no_two_runs_have_a_probe_in_common() -> None:
    first, second = scan_probes.make(), scan_probes.make()
    assert not set(first.values()) & set(second.values())


@pytest.mark.django_db(transaction=True)
def test_a_file_that_can_not_be_written_is_said(
    settings: Settings, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "none"
    probes = scan_probes.make()
    with pytest.raises(FileNotFoundError), scan_probes.planted(probes):
        raise AssertionError("it was planted nowhere")


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_is_away_is_said(settings: Settings, tmp_path: Path) -> None:
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    probes = scan_probes.make()
    with pytest.raises(OSError, match="redis"), scan_probes.planted(probes):
        raise AssertionError("it was planted nowhere")
    assert not list(Path(settings.DATA_DIR).glob("scan-probe-*"))
