"""Address of this installation's server, for commands that print it."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings

USUAL = "http://127.0.0.1:8000"


def note_address(url: str) -> None:
    """Store the server's address in the data folder; the last started server wins."""
    (settings.DATA_DIR / "address").write_text(f"{url}\n", encoding="utf-8")


def find_address() -> str:
    """Return the first of MEMORYHUB_ORIGINS, else where the server last listened."""
    for origin in settings.ORIGINS:
        return str(origin).rstrip("/")
    with suppress(OSError):
        return (settings.DATA_DIR / "address").read_text(encoding="utf-8").strip()
    return USUAL
