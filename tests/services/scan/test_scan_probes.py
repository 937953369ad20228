from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings as configured
from pytest_django import Settings

from memoryhub.queries.scan import surfaces
from memoryhub.services.scan import scan_probes
from memoryhub.vault.scan.sources import TargetSearch
from memoryhub.vault.scan.targets import ScanTarget

POSTGRES = "postgresql" in configured.DATABASES["default"]["ENGINE"]


def find_kinds(probes: dict[str, ScanTarget]) -> dict[str, set[str]]:
    search = TargetSearch(probes.values())
    hits = [
        (hit.target, place.kind)
        for place in surfaces.iter_surfaces()
        for hit in search.search_stream(place.read())
    ]
    return {
        name: {str(kind) for needle, kind in hits if needle == probe}
        for name, probe in probes.items()
    }


@pytest.mark.django_db(transaction=True)
def test_each_probe_is_planted_in_its_place_and_removed() -> None:
    probes = scan_probes.build_probes()
    assert probes.keys() >= scan_probes.ENCODERS.keys()
    assert ("toast default" in probes) is POSTGRES
    assert ("redis" in probes) is bool(configured.REDIS_URL)
    places = {"toast default": {"temporary"}, "toast keys": {"temporary"}}
    places |= {"redis": {"redis"}}
    with scan_probes.plant_probes(probes):
        assert find_kinds(probes) == {
            name: places.get(name, {"file"}) for name in probes
        }
    assert find_kinds(probes) == {name: set() for name in probes}


@pytest.mark.django_db(transaction=True)
def test_two_scans_share_no_probe() -> None:
    first, second = scan_probes.build_probes(), scan_probes.build_probes()
    assert not set(first.values()) & set(second.values())


@pytest.mark.django_db(transaction=True)
def test_unwritable_probe_file_raises(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path / "none"
    probes = scan_probes.build_probes()
    with pytest.raises(FileNotFoundError), scan_probes.plant_probes(probes):
        raise AssertionError("it was planted nowhere")


@pytest.mark.django_db(transaction=True)
def test_unreachable_redis_raises_and_leaves_no_probe_file(
    settings: Settings, tmp_path: Path
) -> None:
    settings.REDIS_URL = f"unix://{tmp_path / 'none.sock'}"
    probes = scan_probes.build_probes()
    with pytest.raises(OSError, match="redis"), scan_probes.plant_probes(probes):
        raise AssertionError("it was planted nowhere")
    assert not list(Path(settings.DATA_DIR).glob("scan-probe-*"))
