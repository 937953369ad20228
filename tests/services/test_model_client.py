"""The model's client against a server that answers, breaks, hangs, drips and lies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memoryhub.errors.trouble import ModelError
from memoryhub.services.model_client import REPLY_BYTES, ModelClient
from tests.cast.scripted_model import KEY, Reply, ScriptedModel, running, saying

CANARY = "CANARY-4711"
QUESTION = [{"role": "user", "content": f"What is {CANARY}?"}]


@contextmanager
def asking(
    *script: Reply, seconds: float = 5.0
) -> Iterator[tuple[ModelClient, ScriptedModel, list[float]]]:
    """Yield a model's client, the model, and the list of waits, which take no time."""
    waits: list[float] = []
    with running(*script) as model:
        client = ModelClient(model.settings, wait=waits.append, seconds=seconds)
        yield client, model, waits


def test_answer_has_its_token_counts() -> None:
    with asking(saying("[]", prompt_tokens=7, completion_tokens=1)) as (client, on, _):
        found = client.ask(QUESTION)
    assert (found.text, found.tokens_in, found.tokens_out) == ("[]", 7, 1)
    assert on.asked == [{"model": "small", "messages": QUESTION, "stream": False}]
    assert on.headers[0]["authorization"] == f"Bearer {KEY}"


def test_missing_token_counts_are_estimated() -> None:
    with asking(saying("yes", prompt_tokens=-1)) as (client, *_):
        found = client.ask(QUESTION)
    assert found.tokens_in > 1
    assert found.tokens_out >= 1


def test_busy_server_is_asked_again_after_its_retry_time() -> None:
    busy = Reply(b"busy", 429, ("Retry-After: 7",))
    with asking(busy, Reply(b"oh", 503), saying("yes")) as (client, on, waits):
        assert client.ask(QUESTION).text == "yes"
    assert (waits, len(on.asked)) == ([7.0, 1.0], 3)
    far = Reply(b"", 408, ("Retry-After: 99999",))
    with asking(*[far] * 3) as (client, _, waits), pytest.raises(ModelError) as failure:
        client.ask(QUESTION)
    assert (failure.value.reason, failure.value.status) == ("busy", 408)
    assert waits == [30.0, 30.0]


BROKEN: dict[str, tuple[Reply, str]] = {
    "reset": (Reply(deed="reset"), "unreachable"),
    "hang": (Reply(deed="hang"), "timeout"),
    "drip": (Reply(b"x" * 200, deed="drip"), "timeout"),
    "drip its head": (Reply(b"x" * 200, deed="drip_head"), "timeout"),
    "large": (Reply(b"x" * (REPLY_BYTES * 3)), "too_large"),
    "html": (Reply(b"<html>busy</html>"), "no_answer"),
    "cut": (Reply(b'{"choices": [{"mess'), "no_answer"),
    "empty": (Reply(b""), "no_answer"),
    "blank": (saying("  \n"), "no_answer"),
    "null": (saying(None), "no_answer"),
    "list": (Reply(b"[]"), "no_answer"),
    "wrong key": (Reply(b"no " + KEY.encode(), 401), "refused"),
    "moved": (Reply(b"", 302, ("Location: http://127.0.0.1:9/v1",)), "refused"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_failed_answer_raises_a_reason_without_secrets(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    reply, reason = BROKEN[name]
    caplog.set_level(logging.DEBUG)
    with (
        asking(reply, seconds=1.0) as (client, on, _),
        pytest.raises(ModelError) as failure,
    ):
        client.ask(QUESTION)
    assert failure.value.reason == reason
    assert len(on.asked) == 1
    for text in (repr(failure.value), caplog.text):
        assert CANARY not in text
        assert KEY not in text


def test_absent_server_is_unreachable() -> None:
    with running() as model:
        gone = model.settings
    with pytest.raises(ModelError) as failure:
        ModelClient(gone).ask(QUESTION)
    assert failure.value.reason == "unreachable"


def test_model_key_is_sent_to_its_origin_alone(monkeypatch: Any) -> None:
    """Send the key along no redirect, proxy or .netrc."""
    with (
        running() as other,
        asking(Reply(b"", 307, (f"Location: http://127.0.0.1:{other.port}/v1",))) as (
            client,
            on,
            _,
        ),
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{other.port}")
        with pytest.raises(ModelError):
            client.ask(QUESTION)
        assert (len(on.asked), other.asked) == (1, [])
