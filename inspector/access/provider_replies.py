"""Replies of a sign-on provider: no longer, and no slower, than it has reason to be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore, Thread
from typing import Any, Final

#: Keys and claims are a few KiB.
MAX_BYTES: Final = 256 << 10
#: From the question to the end of the reply; the library's own bound is for each read.
MAX_SECONDS: Final = 10.0
#: Who sends a head that never ends holds a thread of ours: that many, and then none.
_AT_ONCE: Final = BoundedSemaphore(8)


@dataclass(slots=True)
class _Reply:
    """Hand a reply's body to the library part by part, as it comes in."""

    raw: Any
    until: float

    def stream(self, amount: int, *, decode_content: bool = True) -> Iterator[bytes]:
        """Read it part by part. Raises OSError beyond the bounds."""
        taken = 0
        while part := self.raw.read1(amount, decode_content=decode_content):
            taken += len(part)
            if taken > MAX_BYTES or time.monotonic() > self.until:
                raise OSError
            yield part

    def close(self) -> None:
        self.raw.close()


def bounded(request: Callable[..., Any], *words: Any, **options: Any) -> Any:
    """Send a request of the library's and read the body. Raises OSError."""
    if not _AT_ONCE.acquire(blocking=False):
        raise OSError
    answer: Future[Any] = Future()
    ask = partial(request, *words, **options, stream=True)
    # Not in this thread: nothing else ends a read that gets a byte now and then.
    Thread(target=_ask, args=(ask, answer), daemon=True).start()
    return answer.result(timeout=MAX_SECONDS)


def _ask(ask: Callable[[], Any], answer: Future[Any]) -> None:
    until = time.monotonic() + MAX_SECONDS
    try:
        response = ask()
        with response:
            response.raw = _Reply(response.raw, until)
            # Kept there once it is read.
            _ = response.content
    except Exception as failure:  # noqa: BLE001 # the outermost frame of a thread
        answer.set_exception(failure)
    else:
        answer.set_result(response)
    finally:
        _AT_ONCE.release()
