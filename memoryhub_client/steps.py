"""Steps: generators that yield requests, take their answers and need no client."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from memoryhub_client.async_client import AsyncClient
from memoryhub_client.client import Client
from memoryhub_client.requests import Request

T = TypeVar("T")
Steps = Generator[Request[Any], Any, T]


def run_steps(hub: Client, steps: Steps[T]) -> T:
    """Send each request of the steps. Raises Problem, Unreachable."""
    resume: Callable[[Any], Request[Any]] = steps.send
    done: Any = None
    while True:
        try:
            request = resume(done)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            done, resume = hub.send(request), steps.send
        except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
            done, resume = failure, steps.throw


async def arun_steps(hub: AsyncClient, steps: Steps[T]) -> T:
    """Send each request of the steps. Raises Problem, Unreachable."""
    resume: Callable[[Any], Request[Any]] = steps.send
    done: Any = None
    while True:
        try:
            request = resume(done)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            done, resume = await hub.send(request), steps.send
        except Exception as failure:  # noqa: BLE001  # it is thrown where it arose
            done, resume = failure, steps.throw
