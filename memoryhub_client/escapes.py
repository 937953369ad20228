"""Texts of others as parts of the hub's names, reversibly."""

from __future__ import annotations

import re
from hashlib import blake2b

#: Most characters of a name.
MAX_NAME = 128


def escape_name(text: str) -> str:
    """Write each byte but letters, digits, `.`, `_` and `-` as `@` and hex digits."""
    return re.sub(
        rb"[^A-Za-z0-9._-]",
        lambda found: b"@" + found[0].hex().encode(),
        text.encode(errors="surrogatepass"),
    ).decode()


def build_name(prefix: str, text: str) -> str:
    """Build a name of the hub from a text; a long one ends with a digest."""
    name = prefix + escape_name(text)
    if len(name) <= MAX_NAME:
        return name
    digest = blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[:80]}@@{digest}"


def unescape_name(safe: str) -> str:
    """Return the text that `escape_name` wrote."""
    return re.sub(
        b"@([0-9a-f]{2})",
        lambda found: bytes.fromhex(found[1].decode()),
        safe.encode(),
    ).decode(errors="surrogatepass")
