"""Items of a subject, which are keys of the subject's home thread. Never writes.

`home` is None for a subject without a home thread, which has no items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub.errors import KeyNotFoundError
from memoryhub.kernel.text import item_names
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.memory import keys
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.value_filters import MemberCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLine:
    """A namespace and the number of items in it, and below it at the greatest depth."""

    namespace: str
    count: int


def get_item(
    home: Thread | None, namespace: str, key: str, *, seq: int | None = None
) -> KeyLine:
    """Return one item with its value. Raises as `get_key`."""
    if home is None:
        raise KeyNotFoundError
    return keys.get_key(home, item_names.build_item_name(namespace, key), seq=seq)


def list_items(
    home: Thread | None,
    *,
    namespace: str = "",
    where: Sequence[MemberCondition] = (),
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[KeyLine]:
    """List items in and below a namespace, by name and with values.

    A batch reads at most `limit` items; those that do not meet `where` are left out.
    """
    if home is None:
        return ListBatch(items=(), next=None)
    return keys.list_keys(
        home,
        glob=_build_prefix(namespace) + "*",
        where=where,
        values=True,
        seq=seq,
        after=after,
        limit=limit,
    )


def list_namespaces(
    home: Thread | None,
    *,
    namespace: str = "",
    depth: int | None = None,
    seq: int | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[NamespaceLine]:
    """List namespaces with items, at or below a namespace, cut to a depth, by name."""
    if home is None:
        return ListBatch(items=(), next=None)
    filters = [home.id, namespace, depth, seq]
    listing = ListScope(name="namespaces", project=home.project_id, filters=filters)
    state, moment, position = keys.open_position(home, listing, seq=seq, after=after)
    prefix, counts = _build_prefix(namespace), Counter[str]()
    for name in state.memory.contents.list_visible(moment):
        if name.startswith(prefix):
            found, _ = item_names.split_item_name(name)
            counts[item_names.cut_namespace(found, depth)] += 1
    left = sorted(each for each in counts if [each] > position)
    part, more = left[:limit], None
    if len(left) > limit:
        more = listing.seal([state.seq, moment.isoformat(), [part[-1]]])
    lines = [NamespaceLine(namespace=each, count=counts[each]) for each in part]
    return ListBatch(items=tuple(lines), next=more)


def _build_prefix(namespace: str) -> str:
    """Return the beginning of all names in and below a namespace; "" for all items."""
    return item_names.build_item_name(namespace, "") if namespace else ""
