"""Where the server of this installation is, for commands that name it."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings

USUAL = "http://127.0.0.1:8000"


def note(url: str) -> None:
    """Keep where it listens, beside its data; the last one that started is right."""
    (settings.DATA_DIR / "address").write_text(f"{url}\n", encoding="utf-8")


def find_address() -> str:
    """Return the first of MEMORYHUB_ORIGINS, else where the server last listened."""
    for origin in settings.ORIGINS:
        return str(origin).rstrip("/")
    with suppress(OSError):
        return (settings.DATA_DIR / "address").read_text(encoding="utf-8").strip()
    return USUAL
