from __future__ import annotations

from typing import Any

import orjson
import pytest

from memoryhub.queries.replay import tokenizers
from tests.api.client import SLOT, Client
from tests.oracles.paging import build_prose

pytestmark = pytest.mark.django_db

T, O200K = "/threads/t-1", "o200k_base"
TEXT = build_prose(900)
PAGE = {"type": "artifact", "modality": "text", "content": {"text": TEXT}}


@pytest.fixture
async def exact(api: Client) -> None:
    await api.put(T, {"config": {"tokenizer": O200K}})


def count(text: str) -> int:
    return tokenizers.get_nearest(O200K).count(text)


async def page_of(api: Client, page_id: str) -> dict[str, Any]:
    page: dict[str, Any] = (await api.get(f"{T}/pages/{page_id}")).json
    assert page["tokenizer"] == O200K
    return page


async def test_each_route_counts_what_comes_without_tokens(
    api: Client, exact: None
) -> None:
    slot = {**SLOT, "content": TEXT}
    for method, path, body in (
        ("POST", "slots", slot),
        ("POST", "slots:batch", {"items": [slot]}),
        ("POST", "turns", {"items": [slot]}),
        ("POST", "pages", {**PAGE, "page_id": "a"}),
        ("POST", "pages:batch", {"items": [{**PAGE, "page_id": "b"}]}),
        ("PUT", "pages/c", PAGE),
        ("PUT", "system-prompt", {"text": TEXT}),
    ):
        answer = await api.send(method, f"{T}/{path}", body)
        assert answer.status in (200, 201), (path, answer.json)
    for page_id in ("slot-0", "slot-1", "slot-2", "a", "b", "c", "system-prompt"):
        assert (await page_of(api, page_id))["tokens"] == count(TEXT), page_id
    await api.patch(f"{T}/pages/a", {"content": {"text": "Row 12."}})
    assert (await page_of(api, "a"))["tokens"] == count("Row 12.")


async def test_replies_say_who_has_counted(api: Client, exact: None) -> None:
    turn = await api.post(f"{T}/turns", {"items": [{**SLOT, "content": TEXT}]})
    request = orjson.dumps(turn.json["request"]).decode()
    assert turn.json["tokens"] == count(request)
    for path in ("turns/1", "turns/1/context", "context", "pages", "manifest"):
        assert (await api.get(f"{T}/{path}")).json["tokenizer"] == O200K, path
    assert turn.json["tokenizer"] == O200K
    await api.append("t-2", "hello")
    for path in ("context", "pages", "manifest"):
        assert (await api.get(f"/threads/t-2/{path}")).json["tokenizer"] == "est/1"


async def test_missing_tokenizer_extra_is_told_with_its_install_command(
    api: Client, exact: None, not_run_here: str
) -> None:
    answer = await api.post(f"{T}/slots", {**SLOT, "content": TEXT})
    assert (answer.status, answer.code) == (422, "tokens_required")
    assert "its extra `tokens`" in answer.json["detail"]
    sent = await api.post(f"{T}/slots", {**SLOT, "content": TEXT, "tokens": 1_000})
    assert sent.status == 201


async def test_unknown_tokenizer_is_refused(api: Client) -> None:
    """The thread's tokenizer can never be changed, and nothing would be counted."""
    await api.put("/threads/t-2")
    config = {"config": {"tokenizer": "cl100k_base"}}
    for answer in (
        await api.put("/threads/t-3", config),
        await api.patch("/threads/t-2", config),
        await api.post("/threads/t-2:fork", {"thread": "t-3", **config}),
    ):
        assert (answer.status, answer.code) == (422, "value")
        assert answer.json["errors"][0]["loc"] == ["config", "tokenizer"]
    assert (await api.get("/threads/t-3")).status == 404
