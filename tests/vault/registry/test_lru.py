from __future__ import annotations

from memoryhub.vault.registry.lru import IDLE_SECONDS, Lru, MemoryUse, list_caches


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lru_entry_expires_however_often_it_is_read() -> None:
    clock = Clock()
    cache: Lru[str, str] = Lru(9, seconds=60, clock=clock)
    cache.put("ann", "key")
    for clock.now in (20, 40, 59.9):
        assert cache.get("ann") == "key"
    clock.now = 60
    assert cache.get("ann") is None


def test_lru_entry_put_again_restarts_its_lifetime() -> None:
    clock = Clock()
    cache: Lru[str, str] = Lru(9, seconds=60, clock=clock)
    cache.put("ann", "old")
    clock.now = 50
    cache.put("ann", "new")
    clock.now = 100
    assert cache.get("ann") == "new"


def test_lru_drops_the_least_recently_read_first() -> None:
    cache: Lru[str, int] = Lru(2)
    cache.put("ann", 1)
    cache.put("bob", 2)
    cache.get("ann")
    cache.put("cid", 3)
    assert cache.list_items() == [("ann", 1), ("cid", 3)]


def test_lru_drops_what_nobody_read_for_long() -> None:
    clock = Clock()
    cache: Lru[str, int] = Lru(10, clock=clock)
    cache.put("ann", 1, weight=3)
    cache.put("bob", 2, weight=3)
    clock.now = IDLE_SECONDS
    cache.put("cid", 3, weight=2)
    assert cache.get("ann") == 1
    clock.now = 2 * IDLE_SECONDS
    cache.put("dan", 4, weight=1)
    assert cache.list_items() == [("cid", 3), ("ann", 1), ("dan", 4)]
    assert cache.has_room(4)
    assert not cache.has_room(5)
    assert cache.measure().entries == 3


def test_lru_never_exceeds_its_limit() -> None:
    cache: Lru[int, int] = Lru(1_000)
    for number in range(1_500):
        cache.put(number, number)
    assert cache.list_items() == [(number, number) for number in range(500, 1_500)]


def test_lru_entry_displaces_several_by_its_weight() -> None:
    cache: Lru[str, int] = Lru(10)
    for name in ("ann", "bob", "cid"):
        cache.put(name, 1, weight=3)
    cache.put("cid", 2, weight=8)
    assert cache.list_items() == [("cid", 2)]
    # A value heavier than the cache is not kept, and displaces no other.
    cache.put("dan", 3, weight=11)
    assert cache.list_items() == [("cid", 2)]
    cache.put("eva", 4, weight=10)
    assert cache.list_items() == [("eva", 4)]


def test_lru_keeps_one_large_value_beside_the_others() -> None:
    cache: Lru[str, int] = Lru(10, largest=40, name="~large")
    cache.put("ann", 1, weight=9)
    for name, weight in (("bob", 11), ("cid", 40), ("dan", 41)):
        cache.put(name, 2, weight=weight)
    assert cache.list_items() == [("ann", 1), ("cid", 2)]
    assert cache.has_room(1)
    assert not cache.has_room(2)
    assert (cache.measure().weight, cache.measure().most) == (49, 50)
    # It goes where it was not used longest, too, and frees its place by shrinking.
    cache.put("cid", 3, weight=10)
    assert cache.list_items() == [("cid", 3)]
    cache.put("cid", 4, weight=11)
    cache.put("eva", 5, weight=10)
    assert cache.list_items() == [("cid", 4), ("eva", 5)]
    cache.put("fay", 6, weight=1)
    assert cache.list_items() == [("fay", 6)]
    assert cache.measure().weight == 1


def test_lru_drops_selected_entries_with_their_weight() -> None:
    cache: Lru[str, int] = Lru(3)
    for number, name in enumerate(("ann", "bob", "cid")):
        cache.put(name, number)
    cache.drop(lambda name, number: name == "ann" or number == 1)
    cache.pop("nobody")
    cache.put("dan", 3)
    cache.put("eva", 4)
    assert cache.list_items() == [("cid", 2), ("dan", 3), ("eva", 4)]


def test_lru_is_empty_after_clear() -> None:
    cache: Lru[str, int] = Lru(2)
    cache.put("ann", 1, weight=2)
    cache.clear()
    cache.put("bob", 2, weight=2)
    assert cache.list_items() == [("bob", 2)]


def test_list_caches_says_how_full_each_named_cache_is() -> None:
    texts: Lru[str, int] = Lru(8, name="~texts", unit_bytes=1024)
    texts.put("ann", 1, weight=2)
    keys: Lru[str, int] = Lru(9, name="~keys")
    assert [use for use in list_caches() if use.name.startswith("~")] == [
        MemoryUse(name="~texts", entries=1, weight=2048, most=8192, is_bytes=True),
        MemoryUse(name="~keys", entries=0, weight=0, most=9, is_bytes=False),
    ]
    del texts, keys
    assert not [use for use in list_caches() if use.name.startswith("~")]
