"""Lock file: every dependency pinned, whole, licensed, and from one place."""

import hashlib
import json
import lzma
import platform
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

from memoryhub.queries.replay import o200k

ROOT = Path(__file__).resolve().parent.parent
LOCK = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = {package["name"]: package for package in LOCK["package"]}
VENDORED = sorted(
    manifest.parent
    for shelf in ("static/vendor", "memoryhub/vendor", "tests/vendor")
    for manifest in (ROOT / shelf).glob("*/VENDOR.toml")
)

#: Of what runs in production; none of them reaches into our own code's licence.
LICENCES = {
    # Of parts of NumPy.
    *("0BSD", "CC0-1.0", "Zlib"),
    "Apache-2.0",
    # Of `regex`, for what it has of Python's first re: asks no more than PSF-2.0.
    "CNRI-Python",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "LGPL-3.0-only",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
}


# uv.lock


def test_lock_names_only_the_public_index() -> None:
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    hosts = {urlsplit(url).netloc for url in re.findall(r"https?://[^\"\s]+", text)}
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    assert "file:" not in text


def test_every_distribution_in_the_lock_has_a_digest() -> None:
    for name, package in PACKAGES.items():
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        assert files or name == PROJECT["project"]["name"], name
        assert all(file["hash"].startswith("sha256:") for file in files), name


def test_lock_was_made_from_pyproject() -> None:
    """`--frozen` never looks, so a requirement without its lock would go unnoticed."""
    metadata = PACKAGES[PROJECT["project"]["name"]]["metadata"]
    extras = PROJECT["project"]["optional-dependencies"]
    dependencies = [*PROJECT["project"]["dependencies"], *chain(*extras.values())]
    assert list_locked(metadata["requires-dist"]) == required(dependencies)
    groups = PROJECT["dependency-groups"]
    assert metadata["requires-dev"].keys() == groups.keys()
    for group, requirements in groups.items():
        assert list_locked(metadata["requires-dev"][group]) == required(requirements)


def list_locked(entries: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (entry["name"], ",".join(sorted(entry["specifier"].split(","))))
        for entry in entries
    }


def required(lines: list[str]) -> set[tuple[str, str]]:
    requirements = map(Requirement, lines)
    return {
        (each.name, ",".join(sorted(str(each.specifier).split(","))))
        for each in requirements
    }


def test_runtime_dependencies_have_accepted_licences() -> None:
    accepted = re.compile(r"\b(MIT|BSD|Apache|ISC|MPL|PSF)\b")
    for name in runtime():
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        if "License-Expression" in about:
            expression = about["License-Expression"]
            words = set(re.findall(r"[\w.-]+", expression)) - {"AND", "OR", "WITH"}
            assert words <= LICENCES, f"{name}: {expression}"
        else:
            lines = [
                *about.get_all("License", []),
                *about.get_all("Classifier", []),
            ]
            licences = [line for line in lines if "Python ::" not in line]
            assert any(map(accepted.search, licences)), f"{name}: {licences}"


def runtime() -> set[str]:
    """Return the distributions of the core and its extras, with all that they need."""
    found: set[str] = set()
    waiting = [PROJECT["project"]["name"]]
    while waiting:
        package = PACKAGES[waiting.pop()]
        extras = package.get("optional-dependencies", {}).values()
        needs = chain(package.get("dependencies", []), *extras)
        needed = {each["name"] for each in needs}
        waiting += needed - found
        found |= needed
    return found


@pytest.mark.parametrize("folder", ["clients/typescript", "tests/mcp/conformance"])
def test_npm_packages_are_pinned_and_of_no_one_place(folder: str) -> None:
    """npm asks the registry that it is configured for, and compares digests."""
    place = ROOT / folder
    manifest = json.loads((place / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((place / "package-lock.json").read_text(encoding="utf-8"))
    ours = lock["packages"].pop("")
    for kind in ("dependencies", "devDependencies", "optionalDependencies"):
        assert ours.get(kind) == manifest.get(kind)
        for name, version in manifest.get(kind, {}).items():
            assert lock["packages"][f"node_modules/{name}"]["version"] == version
    for name, package in lock["packages"].items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


# The bootstrap


@pytest.mark.parametrize(
    ("system", "machine", "libc", "tag"),
    [
        ("linux", "x86_64", "glibc", "manylinux_2_17_x86_64"),
        ("linux", "aarch64", "glibc", "manylinux_2_17_aarch64"),
        ("linux", "x86_64", "", "musllinux_1_1_x86_64"),
        ("darwin", "arm64", "", "macosx_11_0_arm64"),
        ("darwin", "x86_64", "", "macosx_10_12_x86_64"),
        ("win32", "AMD64", "", "win_amd64"),
    ],
)
def test_bootstrap_finds_uv_for_each_platform(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: str, tag: str
) -> None:
    bootstrap = runpy.run_path(str(ROOT / "tools" / "bootstrap.py"))
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    found = [wheel["url"] for wheel in bootstrap["fitting"](PACKAGES["uv"]["wheels"])]
    assert tag in found[0]


# Vendored files


def test_vendored_libraries_are_at_least_four() -> None:
    assert len(VENDORED) >= 4


@pytest.mark.parametrize("folder", VENDORED, ids=lambda folder: folder.name)
def test_vendored_file_is_what_its_manifest_says(folder: Path) -> None:
    manifest = tomllib.loads((folder / "VENDOR.toml").read_text(encoding="utf-8"))
    assert folder.name == f"{manifest['package']}-{manifest['version']}"
    assert manifest["licence"]
    digests = {file["name"]: file["sha256"] for file in manifest["files"]}
    there = {path.name: path for path in folder.iterdir() if path.suffix != ".toml"}
    assert there.keys() == digests.keys()
    assert "LICENSE" in there
    for name, path in there.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digests[name], name


def test_packed_vendored_file_unpacks_to_its_manifest_digest() -> None:
    packed = {
        folder / file["name"]: file["unpacked"]
        for folder in VENDORED
        for file in tomllib.loads((folder / "VENDOR.toml").read_text())["files"]
        if "unpacked" in file
    }
    assert packed == {o200k.RANKS: o200k.SHA256}
    for path, digest in packed.items():
        assert hashlib.sha256(lzma.decompress(path.read_bytes())).hexdigest() == digest


def iter_sources() -> Iterator[Path]:
    """Yield templates, styles and scripts of our own."""
    for folder, pattern in (("templates", "*.html"), ("static", "*.*")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            if "vendor" not in path.parts and path.suffix in {".html", ".css", ".js"}:
                yield path


def test_no_page_loads_from_another_place() -> None:
    elsewhere = re.compile(r"https?://(?!www\.w3\.org/)|[\"'(=]//\w", re.IGNORECASE)
    for path in iter_sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            assert not elsewhere.search(line), f"{path.relative_to(ROOT)}:{number}"


def test_configured_databases_are_opened_by_servers_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bootstrap = runpy.run_path(str(ROOT / "tools" / "bootstrap.py"))
    for name in bootstrap["OTHERS"]:
        monkeypatch.setenv(name, "elsewhere")
    assert bootstrap["OTHERS"].isdisjoint(bootstrap["environment"](configured=False))
    kept = bootstrap["environment"](configured=True)
    assert bootstrap["OTHERS"] - kept.keys() == {"VIRTUAL_ENV"}
