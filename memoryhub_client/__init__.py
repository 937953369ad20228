"""Client of MemoryHub's agent API: requests are values, and both clients send them.

    with Client("http://127.0.0.1:8000", key) as hub:
        turn = hub.send(turns.begin("talk", items=[...]))
        for slot in hub.each(slots.list_all("talk")): ...
        for event in hub.follow(events.list_all("talk")): ...

Each module is a noun; its functions make requests and touch no network.
"""

from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.loop import AsyncLoop, Loop
from memoryhub_client.problems import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Problem,
    ServerProblem,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from memoryhub_client.requests import Download, Feed, Listing, Request
from memoryhub_client.slots import chat

__all__ = [
    "AsyncClient",
    "AsyncLoop",
    "BadRequest",
    "Client",
    "Conflict",
    "Download",
    "Feed",
    "Forbidden",
    "Gone",
    "Invalid",
    "Listing",
    "Loop",
    "NotFound",
    "Problem",
    "Request",
    "ServerProblem",
    "TooLarge",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "chat",
]
