"""A 422 says what is taken there, as a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = {"type": "claim", "modality": "text", "content": {"text": "a"}}
IMAGE = {"type": "claim", "modality": "image", "content": {}}
LABELS = {f"l-{n}": n for n in range(17)}
RESERVED = "`path.key` takes no key that begins with `mh.` or `_`: those are reserved."
OF_OTHERS = (
    "`page_id` takes none of `system-prompt` and ids that begin with `slot-`, `obs-` "
    "or `ref-`: those are of other routes."
)
SENT: dict[str, list[tuple[dict[str, Any], str]]] = {
    "PATCH /threads/t-1": [
        ({"labels": LABELS}, "`labels` takes an object of at most 16 members or null."),
    ],
    "POST /threads/t-1:fork": [
        (
            {"thread": "f", "seq": 0},
            "`seq` takes an integer from 1 to 9223372036854775807 or null.",
        ),
        (
            {"thread": "f", "turn": -1},
            "`turn` takes an integer from 0 to 9223372036854775807 or null.",
        ),
        (
            {"thread": "mh.f"},
            "`thread` takes no name that begins with `mh.` or `_`: those are reserved.",
        ),
    ],
    "POST /threads:search": [({"limit": 0}, "`limit` takes an integer from 1 to 200.")],
    "PUT /threads/t-1/keys/_k": [
        (
            {"value": 1},
            RESERVED,
        ),
    ],
    "POST /threads/t-1/pages": [
        (
            {**TEXT, "page_id": "slot-1"},
            OF_OTHERS,
        ),
        (IMAGE, "`content.caption` takes a text, unless `url` or `base64` is sent."),
    ],
}


@pytest.mark.parametrize(
    ("label", "body", "says"),
    [(label, *each) for label, listed in SENT.items() for each in listed],
)
async def test_refusal_tells_the_allowed_values(
    api: Client, label: str, body: dict[str, Any], says: str
) -> None:
    await api.append("t-1", "hello")
    method, _, target = label.partition(" ")
    answer = await api.send(method, target, body)
    assert answer.status == 422
    assert answer.json["detail"] == says
