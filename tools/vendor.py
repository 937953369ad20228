"""Vendoring of the browser's libraries: `make vendor`.

Each folder under static/vendor and tests/vendor has a VENDOR.toml that names an
npm package, its version, the digest of its tarball and the files we take from it.
With no argument the tarballs are asked for by `npm pack`; without Node give files or
URLs: `make vendor ARGS="htmx.org-2.0.11.tgz https://…/uplot-1.6.32.tgz"`. A tarball
belongs to the folder whose digest it has. What differs from VENDOR.toml by one byte
is refused, so running this again changes nothing.
"""

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHELVES = ("static/vendor", "tests/vendor")


def main(arguments: list[str]) -> int:
    wanted = dict(manifests())
    tarballs = [read(source) for source in arguments]
    if not arguments:
        tarballs = [pack(manifest) for manifest in wanted.values()]
    by_digest = {integrity(tarball): tarball for tarball in tarballs}
    for folder, manifest in wanted.items():
        tarball = by_digest.pop(manifest["integrity"], None)
        if tarball is not None:
            unpack(tarball, folder, manifest)
            print(f"{folder.relative_to(ROOT)}: {len(manifest['files'])} files")
    if by_digest:
        unknown = ", ".join(by_digest)
        sys.exit(f"No VENDOR.toml names a tarball with the digest {unknown}.")
    return 0


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    for shelf in SHELVES:
        for path in sorted((ROOT / shelf).glob("*/VENDOR.toml")):
            yield path.parent, tomllib.loads(path.read_text(encoding="utf-8"))


def read(source: str) -> bytes:
    if not source.startswith("https://"):
        return Path(source).read_bytes()
    with urllib.request.urlopen(source, timeout=60) as response:  # noqa: S310  # https only
        body: bytes = response.read()
    return body


def pack(manifest: dict[str, Any]) -> bytes:
    release = f"{manifest['package']}@{manifest['version']}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["npm", "pack", "--silent", release],  # noqa: S607  # from PATH
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            sys.exit(f"No npm here: give the tarball of {release} as a file or URL.")
        except subprocess.CalledProcessError as failure:
            sys.exit(f"npm pack {release} failed with status {failure.returncode}.")
        (tarball,) = Path(folder).glob("*.tgz")
        return tarball.read_bytes()


def integrity(tarball: bytes) -> str:
    digest = hashlib.sha512(tarball).digest()
    return "sha512-" + base64.b64encode(digest).decode()


def unpack(tarball: bytes, folder: Path, manifest: dict[str, Any]) -> None:
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for file in manifest["files"]:
            member = archive.extractfile(f"package/{file['source']}")
            assert member is not None
            content = member.read()
            found = hashlib.sha256(content).hexdigest()
            if found != file["sha256"]:
                sys.exit(f"{file['source']} of {folder.name} has the sha256 {found}.")
            (folder / file["name"]).write_bytes(content)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
