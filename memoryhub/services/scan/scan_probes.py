"""Probes: targets that a scan plants for itself, one for each encoding.

A scan that does not find every probe has proved nothing, and says so.
"""

from __future__ import annotations

import base64
import gzip
import io
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from django.conf import settings
from django.db import connections

from memoryhub.queries.scan.surfaces import ALIASES, REDIS
from memoryhub.vault.scan.targets import ScanTarget, TargetKind

#: Seconds after which Redis drops a probe that was not removed.
SECONDS: Final = 600
_TABLE: Final = "memoryhub_scan_probe"
#: Padding that makes PostgreSQL compress the value, or store it out of line.
_PADDING: Final = "what stands before it. " * 2_000


def _zip_bytes(plain: bytes) -> bytes:
    """Pack bytes into a ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("probe", b"before " * 9 + plain)
    return file.getvalue()


def _escape_bytes(plain: bytes) -> bytes:
    """Escape bytes as a JSON string does."""
    return "".join(f"\\u{byte:04x}" for byte in plain).encode()


#: Encoder of each decoder's probe; all probes are ASCII.
ENCODERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "raw": lambda plain: plain,
        "utf-16-le": lambda plain: plain.decode().encode("utf-16-le"),
        "utf-16-be": lambda plain: plain.decode().encode("utf-16-be"),
        "base64 at 0": base64.b64encode,
        "base64 at 1": lambda plain: base64.b64encode(b"1" + plain),
        "base64 at 2": lambda plain: base64.b64encode(b"12" + plain),
        "hex": lambda plain: plain.hex().encode(),
        "json": _escape_bytes,
        "zlib": lambda plain: zlib.compress(b"before " * 9 + plain),
        "gzip": lambda plain: gzip.compress(b"before " * 9 + plain),
        "zip": _zip_bytes,
        # An array of one text of up to 255 bytes, by its specification.
        "msgpack": lambda plain: b"\x91\xd9" + bytes([len(plain)]) + plain,
    }
)


def build_probes() -> dict[str, ScanTarget]:
    """Build a fresh probe for each decoder, and for each store that is not a file."""
    stores = [
        f"toast {alias}" for alias in ALIASES if _get_vendor(alias) == "postgresql"
    ]
    stores += ["redis"] * bool(settings.REDIS_URL)
    return {
        name: ScanTarget(kind=TargetKind.PLAINTEXT, data=secrets.token_hex(16).encode())
        for name in (*ENCODERS, *stores)
    }


@contextmanager
def plant_probes(probes: Mapping[str, ScanTarget]) -> Iterator[None]:
    """Plant the probes where the scan must find them; removes all afterwards.

    Raises OSError where a probe can't be planted: on a full disk, or without Redis.
    """
    path = settings.DATA_DIR / f"scan-probe-{secrets.token_hex(8)}"
    text = b"\0".join(dress(probes[name].data) for name, dress in ENCODERS.items())
    try:
        path.write_bytes(text)
        _plant_in_tables(probes)
        _plant_in_redis(probes, key=path.name)
        yield
    finally:
        path.unlink(missing_ok=True)
        _remove_probes(probes, key=path.name)


def _plant_in_tables(probes: Mapping[str, ScanTarget]) -> None:
    """Plant in a temporary table, where values are compressed as in any table."""
    for alias in ALIASES:
        if probe := probes.get(f"toast {alias}"):
            with connections[alias].cursor() as cursor:
                cursor.execute(
                    f"CREATE TEMPORARY TABLE {_TABLE} AS SELECT %s::text AS value",
                    [_PADDING + probe.data.decode()],
                )


def _plant_in_redis(probes: Mapping[str, ScanTarget], *, key: str) -> None:
    """Plant the Redis probe, if there is one."""
    if probe := probes.get("redis"):
        values: Any = import_module(REDIS)
        values.plant(settings.REDIS_URL, key=key, value=probe.data, seconds=SECONDS)


def _remove_probes(probes: Mapping[str, ScanTarget], *, key: str) -> None:
    """Remove the probes from tables and Redis."""
    for alias in ALIASES:
        if f"toast {alias}" in probes:
            with connections[alias].cursor() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {_TABLE}")
    if "redis" in probes:
        values: Any = import_module(REDIS)
        # The key expires by itself.
        with suppress(OSError):
            values.remove(settings.REDIS_URL, key=key)


def _get_vendor(alias: str) -> str:
    """Get the vendor of a database."""
    return str(connections[alias].vendor)
