"""A privacy officer: forgets a guest while their concierge still writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.management.demo.client import Client

#: When in the demo, at its own speed.
AT_SECONDS = 50.0
#: How often to look how far it is, at any speed.
LOOK_SECONDS = 0.5
TICKET = "DEMO-1"


def forget(client: Client, user_id: str) -> str:
    """Plan, read the count, confirm it; the erasure's id.

    Agents are kept out from the plan on, or what they write would make it stale.
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


def watch(client: Client, erasure: str) -> Iterator[str]:
    """Its state, each time one looks, until it is complete."""
    while True:
        state = client.request("GET", f"/erasures/{erasure}", None)["state"]
        yield state
        if state == "complete":
            return


def receipt(client: Client, erasure: str) -> dict[str, Any]:
    return client.request("GET", f"/erasures/{erasure}/receipt", None)
