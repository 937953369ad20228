"""The language model: one chat completion, bounded in time, size and tries.

Straight to the address that is configured: no redirects, no proxies and no keys of the
environment. Nothing of questions, answers or what a provider says of them is logged or
stands in what is raised. Loaded where a model is configured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx2
import orjson

from memoryhub.errors.trouble import ModelError
from memoryhub.kernel.levels import tokens
from memoryhub.model_settings import ModelSettings

CONNECT_SECONDS: Final = 5.0
#: Of a try, from the question to the last byte of the answer.
TRY_SECONDS: Final = 60.0
REPLY_BYTES: Final = 2**20
ATTEMPTS: Final = 3
#: Between tries, unless the provider names a time; it may name this much.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
_AGAIN = frozenset({408, 429})

Message = dict[str, str]


class _AgainError(Exception):
    """The provider may take the same again, after so many seconds if it names any."""

    def __init__(self, status: int, seconds: float | None) -> None:
        self.status, self.seconds = status, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said."""

    text: str
    #: As the provider counted them, else estimated by est/1.
    tokens_in: int
    tokens_out: int
    #: None where nobody said what the model takes.
    cost: float | None = None


class ModelClient:
    """A model, asked by any thread."""

    def __init__(
        self,
        model: ModelSettings,
        *,
        wait: Callable[[float], object] = time.sleep,
        seconds: float = TRY_SECONDS,
    ) -> None:
        self.model = model
        self._wait = wait
        self._seconds = seconds

    def ask(self, messages: Sequence[Message]) -> Answer:
        """Return what the model says to these messages.

        At most three tries, each of at most a minute. Raises ModelError.
        """
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._priced(_answer(self._reply(messages), messages))
            except _AgainError as again:
                if not left:
                    raise ModelError("busy", status=again.status) from None
                pause = PAUSE_SECONDS if again.seconds is None else again.seconds
                self._wait(min(pause, LONGEST_PAUSE_SECONDS))
        raise AssertionError

    def _priced(self, answer: Answer) -> Answer:
        if self.model.price is None:
            return answer
        cost = self.model.price.cost(answer.tokens_in, answer.tokens_out)
        return replace(answer, cost=cost)

    def _reply(self, messages: Sequence[Message]) -> bytes:
        """One try: the bytes of a reply that is a success."""
        ends = time.monotonic() + self._seconds
        sent = {"model": self.model.name, "messages": messages, "stream": False}
        url = f"{self.model.url}/chat/completions"
        try:
            with self._line() as http, http.stream("POST", url, json=sent) as response:
                _require_success(response)
                return _body(response)
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as failure:
            late = isinstance(failure, httpx2.TimeoutException)
            over = late or time.monotonic() >= ends
            raise ModelError("timeout" if over else "unreachable") from None

    @contextmanager
    def _line(self) -> Iterator[httpx2.Client]:
        """A line of its own, cut when the time of the try is over.

        Time-outs of reads begin anew with each byte, so they end nothing that drips.
        """
        http = httpx2.Client(
            headers={"Authorization": f"Bearer {self.model.key}"},
            timeout=httpx2.Timeout(self._seconds, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
        )
        cut = threading.Timer(self._seconds, http.close)
        cut.daemon = True
        cut.start()
        try:
            with http:
                yield http
        finally:
            cut.cancel()


def _require_success(response: httpx2.Response) -> None:
    status = response.status_code
    if status in _AGAIN or status >= 500:
        raise _AgainError(status, _seconds(response.headers.get("Retry-After", "")))
    if status != 200:
        raise ModelError("refused", status=status)


def _seconds(text: str) -> float | None:
    """Read a Retry-After; a date is as good as none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _body(response: httpx2.Response) -> bytes:
    """The whole reply, as far as it is no larger than a reply may be."""
    parts = bytearray()
    for part in response.iter_bytes(65_536):
        parts += part
        if len(parts) > REPLY_BYTES:
            raise ModelError("too_large")
    return bytes(parts)


def _answer(raw: bytes, messages: Sequence[Message]) -> Answer:
    try:
        reply: Any = orjson.loads(raw)
        text = reply["choices"][0]["message"]["content"]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        raise ModelError("no_answer") from None
    if not isinstance(text, str) or not text.strip():
        raise ModelError("no_answer")
    usage = reply.get("usage")
    sent = sum(tokens.estimate(message["content"]) for message in messages)
    return Answer(
        text=text,
        tokens_in=_count(usage, "prompt_tokens", sent),
        tokens_out=_count(usage, "completion_tokens", tokens.estimate(text)),
    )


def _count(usage: Any, name: str, estimated: int) -> int:
    """What the provider counted, if it is a count."""
    found: Any = usage.get(name) if isinstance(usage, dict) else None
    if type(found) is int and 0 <= found <= 10_000_000:
        return found
    return estimated
