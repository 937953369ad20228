"""Sign-on providers whose reply, or a line of the reply, never ends."""

from __future__ import annotations

from collections.abc import Iterator
from threading import BoundedSemaphore
from typing import Any

import pytest

from inspector.access import provider_replies
from tests.cast import provider as providing
from tests.cast.provider import Provider

requests = pytest.importorskip("requests")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing.serving() as running:
        yield running


def ask(provider: Provider, path: str = "/keys") -> Any:
    with requests.Session() as session:
        address = f"{provider.issuer}{path}"
        return provider_replies.send_bounded(session.request, "GET", address, timeout=5)


def test_provider_reply_is_read_whole(provider: Provider) -> None:
    assert ask(provider).json() == provider.build_key_set()
    assert ask(provider, "/nowhere").status_code == 404


@pytest.mark.parametrize(
    "deed", ["endless", "dripping", "endless_head", "dripping_head"]
)
def test_endless_provider_reply_is_aborted(
    provider: Provider, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if deed.startswith("dripping"):
        monkeypatch.setattr(provider_replies, "MAX_SECONDS", 0.5)
    provider.deed, provider.at = deed, "/keys"
    with pytest.raises(OSError):  # as its callers catch it
        ask(provider)
    # The reply so far is dropped, and the connection with it.
    if deed != "dripping_head":
        assert provider.hung_up.wait(20)


def test_provider_reply_above_the_size_limit_is_refused(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(ask(provider).content)
    monkeypatch.setattr(provider_replies, "MAX_BYTES", whole)
    assert len(ask(provider).content) == whole
    monkeypatch.setattr(provider_replies, "MAX_BYTES", whole - 1)
    with pytest.raises(OSError):  # as its callers catch it
        ask(provider)


def test_endless_provider_replies_hold_a_bounded_number_of_threads(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse callers at once while all threads wait; serve again when a wait ends."""
    monkeypatch.setattr(provider_replies, "MAX_SECONDS", 0.2)
    monkeypatch.setattr(provider_replies, "_AT_ONCE", BoundedSemaphore(2))
    provider.deed, provider.at = "dripping_head", "/keys"
    for _ in range(2):
        with pytest.raises(TimeoutError):
            ask(provider)
    with pytest.raises(OSError) as refusal:  # as its callers catch it
        ask(provider)
    assert not isinstance(refusal.value, TimeoutError)
