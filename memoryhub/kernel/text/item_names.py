"""Names of a subject's items as keys of the subject's home thread. Pure.

A name is the labels of a namespace and a key, joined with colons: `trips:oslo:seat`.
"""

from __future__ import annotations

from memoryhub.kernel.text import names

SEPARATOR = ":"
KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]*$"
NAMESPACE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]*(:[A-Za-z0-9][A-Za-z0-9._@-]*)*$"
#: Characters of a namespace or of a key; the other needs at least one of a name.
MAX_CHARS = 126


def is_namespace(text: str) -> bool:
    """Return whether the text is labels joined with colons, with room for a key."""
    return is_item_name(build_item_name(text, "k"))


def is_item_key(text: str) -> bool:
    return SEPARATOR not in text and is_item_name(build_item_name("n", text))


def is_item_name(name: str) -> bool:
    """Return whether a name has a namespace and a key, all of them names, too."""
    parts = name.split(SEPARATOR)
    return len(parts) > 1 and all(map(names.is_valid, (name, *parts)))


def build_item_name(namespace: str, key: str) -> str:
    return f"{namespace}{SEPARATOR}{key}"


def split_item_name(name: str) -> tuple[str, str]:
    """Return the namespace and the key of an item's name."""
    namespace, _, key = name.rpartition(SEPARATOR)
    return namespace, key


def cut_namespace(namespace: str, depth: int | None) -> str:
    """Return the first labels of a namespace; all of them without a depth."""
    return SEPARATOR.join(namespace.split(SEPARATOR)[:depth])
