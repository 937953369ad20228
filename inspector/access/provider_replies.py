"""Replies of a sign-on provider, bounded in bytes and in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore, Thread
from typing import Any, Final

#: Bytes of a reply; keys and claims are a few KiB.
MAX_BYTES: Final = 256 << 10
#: Seconds from the request to the end of the reply; the library bounds each read only.
MAX_SECONDS: Final = 10.0
#: Requests at once: a provider whose head never ends occupies a thread of ours.
_AT_ONCE: Final = BoundedSemaphore(8)


@dataclass(slots=True)
class _BoundedReply:
    """Body of a reply that the library reads part by part, within the bounds."""

    raw: Any
    until: float

    def stream(self, amount: int, *, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the body part by part. Raises OSError beyond the bounds."""
        taken = 0
        while part := self.raw.read1(amount, decode_content=decode_content):
            taken += len(part)
            if taken > MAX_BYTES or time.monotonic() > self.until:
                raise OSError
            yield part

    def close(self) -> None:
        self.raw.close()


def send_bounded(request: Callable[..., Any], *words: Any, **options: Any) -> Any:
    """Send a request of the library and read the whole body. Raises OSError."""
    if not (slots := _AT_ONCE).acquire(blocking=False):
        raise OSError
    answer: Future[Any] = Future()
    ask = partial(request, *words, **options, stream=True)
    # In a thread of its own: nothing else ends a read that gets a byte now and then.
    Thread(target=_send_request, args=(ask, answer, slots), daemon=True).start()
    return answer.result(timeout=MAX_SECONDS)


def _send_request(
    ask: Callable[[], Any], answer: Future[Any], slots: BoundedSemaphore
) -> None:
    until = time.monotonic() + MAX_SECONDS
    try:
        response = ask()
        with response:
            response.raw = _BoundedReply(response.raw, until)
            # The response keeps its content once the content is read.
            _ = response.content
    except Exception as failure:  # noqa: BLE001 # the outermost frame of a thread
        answer.set_exception(failure)
    else:
        answer.set_result(response)
    finally:
        slots.release()
