from __future__ import annotations

from memoryhub.vault.keys.key_cache import KeyCache


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_lives_sixty_seconds_however_often_it_is_read() -> None:
    clock = Clock()
    cache: KeyCache[str] = KeyCache(clock=clock)
    cache.put("ann", "key")
    for clock.now in (20, 40, 59.9):
        assert cache.get("ann") == "key"
    clock.now = 60
    assert cache.get("ann") is None


def test_the_entry_that_was_read_longest_ago_goes_first() -> None:
    cache: KeyCache[int] = KeyCache(size=2)
    cache.put("ann", 1)
    cache.put("bob", 2)
    cache.get("ann")
    cache.put("cid", 3)
    assert [cache.get(name) for name in ("ann", "bob", "cid")] == [1, None, 3]


def test_it_never_holds_more_than_a_thousand() -> None:
    cache: KeyCache[int] = KeyCache()
    for number in range(1_500):
        cache.put(number, number)
    assert [cache.get(number) for number in (499, 500, 1_499)] == [None, 500, 1_499]


def test_putting_again_starts_the_time_anew() -> None:
    clock = Clock()
    cache: KeyCache[str] = KeyCache(clock=clock)
    cache.put("ann", "old")
    clock.now = 50
    cache.put("ann", "new")
    clock.now = 100
    assert cache.get("ann") == "new"


def test_cleared_it_holds_nothing() -> None:
    cache: KeyCache[str] = KeyCache()
    cache.put("ann", "key")
    cache.clear()
    assert cache.get("ann") is None
