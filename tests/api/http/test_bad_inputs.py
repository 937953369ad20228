"""The bad-input catalogue: what each input that is wrong must be answered."""

from __future__ import annotations

import pytest

from memoryhub.api.http import limits
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.models import (
    DueValue,
    Event,
    EvictedPage,
    Key,
    Page,
    PageLevel,
    RequestKey,
    Slot,
    Snapshot,
    Subject,
    Thread,
    ThreadLabel,
    Turn,
)
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints, keys
from tests.api.bad_bodies import BYTES, CANARY, NAMES, VALUES, Case
from tests.api.bad_keys import KEYS
from tests.api.bad_memory import MEMORY
from tests.api.bad_observations import OBSERVATIONS
from tests.api.bad_pages import PAGES
from tests.api.bad_requests import PATHS, QUERIES, REQUESTS, THREADS
from tests.api.client import Answer, Client
from tests.cast import factories

pytestmark = pytest.mark.django_db

CATALOGUE: dict[str, list[Case]] = {
    "bytes": BYTES,
    "values": VALUES,
    "names": NAMES,
    "paths": PATHS,
    "queries": QUERIES,
    "requests": REQUESTS,
    "threads": THREADS,
    "pages": PAGES,
    "keys": KEYS,
    "memory": MEMORY,
    "observations": OBSERVATIONS,
}
TABLES = (
    *(Thread, ThreadLabel, Event, Slot, Turn, Snapshot, Subject, RequestKey),
    *(Page, PageLevel, EvictedPage, Key, DueValue),
)
PROBLEM = {"type", "title", "status", "code", "detail", "errors", "request_id"}


@pytest.fixture
def thread(agent: Agent, api: Client) -> Thread:
    factories.append(agent, "t-1", "hello")
    kept = keys.build_setting("kept", 1, Expiry())
    factories.run(keys.change_keys(agent=agent, thread="t-1", changes=(kept,)))
    here = TakeCheckpoint(name="here")
    factories.run(checkpoints.take_checkpoint(agent=agent, thread="t-1", command=here))
    return factories.get_thread(agent)


def list_rows() -> list[list[str]]:
    return [sorted(map(repr, table.objects.values_list())) for table in TABLES]


def assert_refused(answer: Answer, *, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.header("content-type") == "application/problem+json"
    assert answer.json.keys() == PROBLEM
    assert answer.json["status"] == status
    assert answer.header("x-request-id") == answer.json["request_id"]
    assert answer.header("cache-control") == "no-store"
    assert CANARY not in f"{answer.body!r}{answer.headers!r}"
    if status in (429, 503):
        assert answer.header("retry-after")
    if status == 405:
        assert answer.header("allow")


@pytest.mark.promise("P20", load="every bad input of a catalogue")
@pytest.mark.promise("P21", load="every bad input of a catalogue")
@pytest.mark.parametrize("cases", CATALOGUE.values(), ids=CATALOGUE)
async def test_bad_inputs_are_refused(
    cases: list[Case],
    api: Client,
    thread: Thread,
    capsys: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
) -> None:
    """All cases share the same rows, since no case changes any."""
    api.connect()
    before = list_rows()
    for case in cases:
        limits.account = limits.UsageAccount()
        with subtests.test(case.row):
            answer = await api.send(
                case.method,
                case.target,
                case.body,
                headers=case.headers,
                **case.options,
            )
            assert_refused(answer, status=case.status, code=case.code)
            assert list_rows() == before
            assert CANARY not in capsys.readouterr().out
            assert (await api.get("/threads/t-1")).status == 200


async def test_page_that_is_unknown_or_erased_is_journaled_as_refused(
    api: Client, thread: Thread
) -> None:
    """Row 109: nothing is charged; the requested id is in no event's body."""
    page = {"type": "claim", "modality": "text", "content": {"text": "x"}}
    await api.put("/threads/t-1/pages/gone", page)
    await api.send("DELETE", "/threads/t-1/pages/gone")
    for page_id, status, code in (
        (CANARY, 404, "page_unknown"),
        ("gone", 410, "page_erased"),
    ):
        answer = await api.post(f"/threads/t-1/pages/{page_id}/fault", {})
        assert_refused(answer, status=status, code=code)
    paging = (await api.get("/threads/t-1/paging")).json
    assert paging["total"]["refusals_by_code"] == {
        "page_erased": 1,
        "page_unknown": 1,
    }
    assert paging["total"]["faults"] == 0
    assert not Event.objects.filter(body__contains=CANARY).exists()


async def test_mapped_page_is_free_a_thousand_times(
    api: Client, thread: Thread
) -> None:
    """Row 110, with requests beyond the budget and below the threshold."""
    target = "/threads/t-1/pages/slot-0/fault"
    for _ in range(1_000):
        assert (await api.post(target, {"level": 0})).status == 200
    await api.patch("/threads/t-1", {"config": {"max_faults_per_turn": 0}})
    page = {"type": "claim", "modality": "text", "content": {"text": "x"}}
    await api.put("/threads/t-1/pages/away", {**page, "map": False})
    target = "/threads/t-1/pages/away/fault"
    unsure = await api.post(target, {"reason": "speculative"})
    assert_refused(unsure, status=409, code="fault_confidence")
    refused = await api.post(target, {})
    assert (refused.status, refused.code) == (429, "fault_budget")
    assert refused.json["renews"] == "next_exchange"
    assert refused.header("retry-after") is None
    assert (await api.get("/threads/t-1/paging")).json["total"]["faults"] == 0


async def test_foreign_tokenizer_needs_tokens(
    api: Client, thread: Thread, not_run_here: str
) -> None:
    """Row 113, on each route that writes counted contents."""
    await api.put("/threads/t-2", {"config": {"tokenizer": not_run_here}})
    text = {"type": "claim", "modality": "text", "content": {"text": "x"}}
    slot = {"from": "a", "to": "b", "type": "chat.user", "content": "x"}
    for path, body in (
        ("slots", slot),
        ("slots:batch", {"items": [slot]}),
        ("turns", {"items": [slot]}),
        ("pages", text),
        ("pages:batch", {"items": [text]}),
    ):
        answer = await api.post(f"/threads/t-2/{path}", body)
        assert_refused(answer, status=422, code="tokens_required")
    put = await api.put("/threads/t-2/system-prompt", {"text": "x"})
    assert_refused(put, status=422, code="tokens_required")
    assert (await api.get("/threads/t-2")).json["seq"] == 1
    assert (await api.post("/threads/t-2/slots", {**slot, "tokens": 3})).status == 201
