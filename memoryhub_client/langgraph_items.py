"""LangGraph's items as keys of the hub's threads, without LangGraph.

An item is the key `i.<label>.<label>.:<key>` with the item's value: the keys of a
namespace, and of those below it, are one glob. A label or key has its other characters
as `@` and hex digits. A name beyond the hub's 128 characters ends with a digest, and
its value holds the namespace and the key, too.

In a person's thread, the label that is the person's id is `@`: ids of people are in no
name. The key `about` has the id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from memoryhub_client.escapes import MAX_NAME, escape_name, unescape_name
from memoryhub_client.keys import KeyChange

Namespace = tuple[str, ...]
#: Characters of a long name before its digest.
_KEPT = MAX_NAME - 34


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """A LangGraph item and its key; `at` is the time of its last write."""

    thread: str
    name: str
    seq: int
    namespace: Namespace
    key: str
    value: dict[str, Any]
    at: datetime
    expires_at: datetime | None

    @property
    def ttl_seconds(self) -> int:
        """Return the lifetime as it was set; the hub rounds its end up to a second."""
        return (
            int((self.expires_at - self.at).total_seconds()) if self.expires_at else 0
        )


@dataclass(frozen=True, slots=True)
class ItemThread:
    """A hub thread of items, and the label of its namespaces that is a person's id."""

    name: str
    part: int | None = None
    person: str | None = None

    def build_name(self, namespace: Namespace, key: str) -> str:
        name = f"{self._build_prefix(namespace)}:{escape_name(key)}"
        if len(name) <= MAX_NAME:
            return name
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        return f"{name[:_KEPT]}@@{digest}"

    def build_glob(self, namespace: Namespace) -> str:
        """Build a glob of all items below a namespace; a long one matches others, too.

        `@@*` after a glob matches the long names only.
        """
        return self._build_prefix(namespace)[:_KEPT] + "*"

    def _build_prefix(self, namespace: Namespace) -> str:
        labels = [
            ("@" if at == self.part else escape_name(label)) + "."
            for at, label in enumerate(namespace)
        ]
        return "i." + "".join(labels)

    def parse_name(self, name: str) -> tuple[Namespace, str]:
        """Return the namespace and the key of a name that is not long."""
        labels, _, key = name.partition(":")
        found = [unescape_name(each) for each in labels.split(".")[1:-1]]
        if self.part is not None and self.person is not None:
            found[self.part] = self.person
        return tuple(found), unescape_name(key)

    def build_set(
        self, namespace: Namespace, key: str, value: dict[str, Any], ttl: int | None
    ) -> KeyChange:
        name, stored = self.build_name(namespace, key), value
        if is_long(name):
            stored = {"namespace": [*namespace], "key": key, "value": value}
        return {"op": "set", "key": name, "value": stored, "ttl_seconds": ttl}

    def parse_item(self, item: dict[str, Any]) -> StoredItem:
        """Parse a key of the hub, which has its value."""
        name, value = item["key"], item["value"]
        if is_long(name):
            namespace, key = tuple(value["namespace"]), value["key"]
            value = value["value"]
        else:
            namespace, key = self.parse_name(name)
        until = item["expires_at"]
        return StoredItem(
            thread=self.name,
            name=name,
            seq=item["seq"],
            namespace=namespace,
            key=key,
            value=value,
            at=datetime.fromisoformat(item["set_at"]),
            expires_at=datetime.fromisoformat(until) if until else None,
        )


def is_long(name: str) -> bool:
    return "@@" in name


def is_below(namespace: Namespace, prefix: Iterable[str]) -> bool:
    wanted = tuple(prefix)
    return namespace[: len(wanted)] == wanted
