"""Texts of others as parts of the hub's names, reversibly."""

from __future__ import annotations

import re

#: Most characters of a name.
MAX_NAME = 128


def escape_name(text: str) -> str:
    """Write each byte but letters, digits, `.`, `_` and `-` as `@` and hex digits."""
    return re.sub(
        rb"[^A-Za-z0-9._-]",
        lambda found: b"@" + found[0].hex().encode(),
        text.encode(errors="surrogatepass"),
    ).decode()


def unescape_name(safe: str) -> str:
    """Return the text that `escape_name` wrote."""
    return re.sub(
        b"@([0-9a-f]{2})",
        lambda found: bytes.fromhex(found[1].decode()),
        safe.encode(),
    ).decode(errors="surrogatepass")
