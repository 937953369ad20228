"""Keys and values of every type in Redis.

Writes only the probe value that proves a scan. The one module that imports the extra
`redis`; loaded by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import redis


@contextmanager
def _open_client(url: str, *, decoded: bool = False) -> Iterator[Any]:
    """Open a connection. Raises OSError when Redis does not answer."""
    try:
        with redis.Redis.from_url(url, decode_responses=decoded) as client:
            yield client
    except redis.RedisError as failure:
        raise OSError(f"redis: {type(failure).__name__}") from None


def iter_values(url: str) -> Iterator[bytes]:
    """Yield the bytes of each key and its values, as stored."""
    with _open_client(url) as client:
        for key in client.scan_iter(count=1_000):
            yield b"\0".join(_iter_key(client, key))


def get_settings(url: str, names: Iterable[str]) -> dict[str, str]:
    """Get settings of Redis. Raises OSError also when Redis does not tell a setting."""
    with _open_client(url, decoded=True) as client:
        try:
            return {name: str(client.config_get(name)[name]) for name in names}
        except KeyError:
            raise OSError("redis: it does not tell") from None


def has_answer(url: str, *, seconds: float) -> bool:
    """Return whether Redis answers within these seconds to connect and to reply."""
    waits = {"socket_connect_timeout": seconds, "socket_timeout": seconds}
    try:
        with redis.Redis.from_url(url, retry=None, **waits) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def plant(url: str, *, key: str, value: bytes, seconds: int) -> None:
    """Store a probe value that expires, for a scan to find."""
    with _open_client(url) as client:
        client.set(key, value, ex=seconds)


def remove(url: str, *, key: str) -> None:
    with _open_client(url) as client:
        client.delete(key)


def _iter_key(client: Any, key: bytes) -> Iterator[bytes]:
    yield key
    kind = client.type(key).decode()
    if kind in _READ:
        yield from _flatten_values(_READ[kind](client, key))


#: Readers by type of key. A key that expired meanwhile has the type `none`.
_READ: dict[str, Callable[[Any, bytes], Any]] = {
    "string": lambda client, key: [client.get(key) or b""],
    "list": lambda client, key: client.lrange(key, 0, -1),
    "set": lambda client, key: client.smembers(key),
    "zset": lambda client, key: client.zrange(key, 0, -1),
    "hash": lambda client, key: client.hgetall(key).items(),
    "stream": lambda client, key: client.xrange(key),
}


def _flatten_values(values: Iterable[Any]) -> Iterator[bytes]:
    for value in values:
        if isinstance(value, bytes):
            yield value
        else:
            yield from _flatten_values(
                value.items() if isinstance(value, dict) else value
            )
