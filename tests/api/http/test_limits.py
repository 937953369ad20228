from __future__ import annotations

from typing import Any

import orjson
import pytest

from memoryhub.api.http import auth, limits
from memoryhub.errors import RateError
from memoryhub.models import Project, Slot
from memoryhub.services.access import api_keys
from tests.api.client import SLOT, Client
from tests.cast import factories

pytestmark = pytest.mark.django_db


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limits, "account", limits.UsageAccount(clock=clock))
    return clock


@pytest.fixture
def other(acme: Project) -> Client:
    return Client(key=factories.make_key(acme)[1])


async def test_request_over_the_rate_is_refused_for_that_key_only(
    api: Client, other: Client, clock: Clock, settings: Any
) -> None:
    settings.KEY_REQUESTS_PER_SECOND, settings.KEY_BURST = 2, 5
    statuses = [(await api.get("/threads")).status for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3
    refused = await api.get("/threads")
    assert (refused.code, refused.header("retry-after")) == ("rate", "1")
    assert (await other.get("/threads")).status == 200
    clock.now += 1
    statuses = [(await api.get("/threads")).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_answer_tells_what_is_left_of_the_rate(
    api: Client, nobody: Client, clock: Clock, settings: Any
) -> None:
    settings.KEY_REQUESTS_PER_SECOND, settings.KEY_BURST = 2, 5
    answers = [await api.get("/threads") for _ in range(5)]
    assert {each.header("ratelimit-policy") for each in answers} == {'"key";q=5;w=3'}
    left = [each.header("ratelimit") for each in answers]
    assert left == [f'"key";r={5 - n};t={(n + 1) // 2}' for n in range(1, 6)]
    refused = await api.get("/threads/nowhere")
    assert (refused.status, refused.header("ratelimit")) == (429, '"key";r=0;t=3')
    clock.now += 2
    absent = await api.get("/threads/nowhere")
    assert (absent.status, absent.header("ratelimit")) == (404, '"key";r=3;t=1')
    assert (await nobody.get("/threads")).header("ratelimit") is None


async def test_requests_without_a_key_are_counted_by_address(
    api: Client, nobody: Client, clock: Clock, settings: Any
) -> None:
    settings.ANONYMOUS_REQUESTS_PER_SECOND = 3
    assert (await api.get("/threads")).status == 200
    statuses = [(await nobody.get("/threads")).status for _ in range(5)]
    assert statuses == [401] * 3 + [429] * 2
    assert (await api.get("/threads")).status == 200
    clock.now += 1
    assert (await nobody.get("/threads")).status == 401


@pytest.mark.usefixtures("clock")
async def test_key_guesses_beyond_the_rate_cost_no_query(
    api: Client,
    nobody: Client,
    settings: Any,
    django_assert_num_queries: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "BELIEVED_SECONDS", 0)
    settings.ANONYMOUS_REQUESTS_PER_SECOND = 3
    unsigned = "mh_live_" + "A" * 8 + "_" + "B" * 43
    guess = [
        ("authorization", f"Bearer {unsigned}{api_keys.compute_checksum(unsigned)}")
    ]
    assert (await api.get("/threads")).status == 200
    with django_assert_num_queries(3):
        answers = [await nobody.get("/threads", headers=guess) for _ in range(8)]
    assert [answer.status for answer in answers] == [401] * 3 + [429] * 5
    # A key that was right before is looked up again all the same, and takes nothing.
    assert (await api.get("/threads")).status == 200


async def test_valid_keys_take_nothing_from_their_address(
    api: Client, nobody: Client, clock: Clock, settings: Any
) -> None:
    settings.ANONYMOUS_REQUESTS_PER_SECOND = 3
    for _ in range(5):
        auth.forget()
        assert (await api.get("/threads")).status == 200
    assert (await nobody.get("/threads")).status == 401


async def test_bytes_of_a_write_reply_are_charged_to_the_next_request(
    api: Client, clock: Clock, settings: Any
) -> None:
    """A refusal means that nothing has changed, whatever the answer would weigh."""
    body = {"items": [{**SLOT, "content": n} for n in range(200)]}
    settings.KEY_BYTES_PER_DAY = len(orjson.dumps(body)) + 100
    made = await api.post("/threads/t-1/slots:batch", body)
    assert made.status == 201
    assert len(made.body) > 100
    assert (await api.get("/threads/t-1")).status == 429
    assert Slot.objects.count() == 200


async def test_bytes_of_a_day_are_bounded(
    api: Client, other: Client, clock: Clock, settings: Any
) -> None:
    settings.KEY_BYTES_PER_DAY = 4_000
    while (answer := await api.post("/threads/t-1/slots", SLOT)).status == 201:
        pass
    assert (answer.status, answer.code) == (429, "rate")
    assert 0 < int(answer.header("retry-after") or 0) <= 86_400
    assert (await other.get("/threads")).status == 200
    clock.now += 86_400
    assert (await api.post("/threads/t-1/slots", SLOT)).status == 201


def test_buckets_do_not_grow_without_bound() -> None:
    account = limits.UsageAccount()
    for n in range(limits._KEPT + 5):
        account.take(account.addresses, str(n), rate=1, burst=1)
    assert len(account.addresses) == limits._KEPT
    with pytest.raises(RateError):
        account.take(account.addresses, str(n), rate=1, burst=1)
