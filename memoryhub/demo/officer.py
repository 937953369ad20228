"""A privacy officer: erases a guest while their concierge still writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.demo.client import DemoClient

#: Start of the erasure, in seconds of the demo at speed 1.
AT_SECONDS = 50.0
#: Seconds between two looks at the erasure, at any speed.
LOOK_SECONDS = 0.5
TICKET = "DEMO-1"


def forget(client: DemoClient, user_id: str) -> str:
    """Plan the erasure, confirm its count, and return its id.

    The plan restricts the subject, or agents' writes would make the plan stale.
    """
    found = client.request("POST", "/subjects:resolve", {"user_id": user_id})
    wish = {
        "scope": "subject",
        "reason": "consent_withdrawn",
        "ticket": TICKET,
        "restrict": True,
    }
    plan = client.request("POST", f"/subjects/{found['id']}/erasures", wish)
    confirmation = {"plan_token": plan["plan_token"], "count": plan["count"]}
    client.request("POST", f"/erasures/{plan['id']}:confirm", confirmation)
    return str(plan["id"])


def watch(client: DemoClient, erasure: str) -> Iterator[str]:
    """Yield the erasure's state at each look, until it is complete."""
    while True:
        state = client.request("GET", f"/erasures/{erasure}", None)["state"]
        yield state
        if state == "complete":
            return


def fetch_receipt(client: DemoClient, erasure: str) -> dict[str, Any]:
    return client.request("GET", f"/erasures/{erasure}/receipt", None)
