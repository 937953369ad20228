"""Client of the language model: one chat completion, bounded in time, size and tries.

Requests go straight to the configured address: no redirects, no proxies and no keys of
the environment. Neither logs nor errors contain questions, answers or a provider's
messages. Loaded only where a model is configured.
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
from memoryhub.kernel.context import tokens
from memoryhub.model_settings import ModelSettings

CONNECT_SECONDS: Final = 5.0
#: Seconds of a try, from the question to the last byte of the answer.
TRY_SECONDS: Final = 60.0
REPLY_BYTES: Final = 2**20
ATTEMPTS: Final = 3
#: Pause between tries, unless the provider names one, and the longest it may name.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
_RETRY_STATUSES = frozenset({408, 429})

Message = dict[str, str]


class _AgainError(Exception):
    """Failure that allows another try, after `seconds` if the provider names any."""

    def __init__(self, status: int, seconds: float | None) -> None:
        self.status, self.seconds = status, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """Answer of the model, with its tokens and cost."""

    text: str
    #: Counted by the provider, else estimated by est/1.
    tokens_in: int
    tokens_out: int
    #: None where the model has no configured price.
    cost: float | None = None


class ModelClient:
    """Client of one model; safe for use by any thread."""

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

    def ask(self, messages: Sequence[Message]) -> ModelAnswer:
        """Ask the model these messages and return its answer.

        At most three tries, each of at most a minute. Raises ModelError.
        """
        for left in reversed(range(ATTEMPTS)):
            try:
                return self._add_cost(
                    _parse_answer(self._fetch_reply(messages), messages)
                )
            except _AgainError as again:
                if not left:
                    raise ModelError("busy", status=again.status) from None
                pause = PAUSE_SECONDS if again.seconds is None else again.seconds
                self._wait(min(pause, LONGEST_PAUSE_SECONDS))
        raise AssertionError

    def _add_cost(self, answer: ModelAnswer) -> ModelAnswer:
        """Add the cost to an answer, if the model has a price."""
        if self.model.price is None:
            return answer
        cost = self.model.price.compute_cost(answer.tokens_in, answer.tokens_out)
        return replace(answer, cost=cost)

    def _fetch_reply(self, messages: Sequence[Message]) -> bytes:
        """Fetch the bytes of a successful reply in one try. Raises ModelError."""
        ends = time.monotonic() + self._seconds
        sent = {"model": self.model.name, "messages": messages, "stream": False}
        url = f"{self.model.url}/chat/completions"
        try:
            with (
                self._build_connection() as http,
                http.stream("POST", url, json=sent) as response,
            ):
                _require_success(response)
                return _read_body(response)
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as failure:
            late = isinstance(failure, httpx2.TimeoutException)
            over = late or time.monotonic() >= ends
            raise ModelError("timeout" if over else "unreachable") from None

    @contextmanager
    def _build_connection(self) -> Iterator[httpx2.Client]:
        """Build a connection that is closed when the time of the try is over.

        Read time-outs begin anew with each byte, so they do not stop a slow trickle.
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
    """Raise ModelError or _AgainError unless the status is 200."""
    status = response.status_code
    if status in _RETRY_STATUSES or status >= 500:
        raise _AgainError(
            status, _parse_retry_after(response.headers.get("Retry-After", ""))
        )
    if status != 200:
        raise ModelError("refused", status=status)


def _parse_retry_after(text: str) -> float | None:
    """Parse the seconds of a Retry-After; None for a date."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _read_body(response: httpx2.Response) -> bytes:
    """Read the whole reply. Raises ModelError beyond REPLY_BYTES."""
    parts = bytearray()
    for part in response.iter_bytes(65_536):
        parts += part
        if len(parts) > REPLY_BYTES:
            raise ModelError("too_large")
    return bytes(parts)


def _parse_answer(raw: bytes, messages: Sequence[Message]) -> ModelAnswer:
    """Parse a reply into an answer. Raises ModelError."""
    try:
        reply: Any = orjson.loads(raw)
        text = reply["choices"][0]["message"]["content"]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        raise ModelError("no_answer") from None
    if not isinstance(text, str) or not text.strip():
        raise ModelError("no_answer")
    usage = reply.get("usage")
    sent = sum(tokens.estimate_tokens(message["content"]) for message in messages)
    return ModelAnswer(
        text=text,
        tokens_in=_get_token_count(usage, "prompt_tokens", sent),
        tokens_out=_get_token_count(
            usage, "completion_tokens", tokens.estimate_tokens(text)
        ),
    )


def _get_token_count(usage: Any, name: str, estimated: int) -> int:
    """Get a token count from the provider's usage; the estimate if there is none."""
    found: Any = usage.get(name) if isinstance(usage, dict) else None
    if type(found) is int and 0 <= found <= 10_000_000:
        return found
    return estimated
