"""Deliveries: one signed request to a webhook's receiver, bounded in time and size.

Signed as Standard Webhooks says, so that receivers verify with existing libraries.
Requests go to the address that the host resolved to and was checked for: no redirects,
no proxies, no second look-up. Loaded only where a webhook has something to send.
"""

from __future__ import annotations

import base64
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

import httpx2
import orjson
from django.conf import settings

from memoryhub.models.server.clock import clock
from memoryhub.services.access import addresses
from memoryhub.services.access.addresses import PrivateAddressError
from memoryhub.services.access.webhooks import DELIVERED

#: Seconds of one delivery, from the connection to the last byte of the reply.
TRY_SECONDS: Final = 10.0
#: Bytes of a reply that are read, so that the connection can serve once more.
REPLY_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """Outcome of one delivery in a word, and the status of the reply, if any."""

    outcome: str
    status: int | None = None


def build_body(kind: str, at: datetime, **data: Any) -> bytes:
    """Build the body of a delivery: the event's type, time and ids."""
    stamp = at.isoformat().replace("+00:00", "Z")
    return orjson.dumps({"type": kind, "timestamp": stamp, "data": data})


def sign(secret: bytes, message: str, stamp: int, body: bytes) -> str:
    """Sign a delivery by HMAC-SHA256 of `id.timestamp.body`."""
    digest = hmac.digest(secret, f"{message}.{stamp}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


class Receiver:
    """One receiver's connection, for deliveries one after the other.

    After a failure the connection may be closed: the caller stops.
    """

    def __init__(self, url: str, secret: bytes, *, seconds: float) -> None:
        self._url, self._secret, self._seconds = httpx2.URL(url), secret, seconds
        self._http = httpx2.Client(
            timeout=seconds, follow_redirects=False, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def deliver(self, message: str, body: bytes) -> DeliveryResult:
        """Deliver a body under an id that is the same in each attempt."""
        ends = clock.time() + self._seconds
        try:
            status = self._fetch_status(message, body)
        except PrivateAddressError:
            return DeliveryResult("private")
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as failure:
            late = isinstance(failure, httpx2.TimeoutException)
            over = late or clock.time() >= ends
            return DeliveryResult("timeout" if over else "unreachable")
        if 200 <= status < 300:
            return DeliveryResult(DELIVERED, status)
        return DeliveryResult(
            "redirected" if 300 <= status < 400 else "refused", status
        )

    def _fetch_status(self, message: str, body: bytes) -> int:
        url = self._url
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        address = addresses.resolve(host, port, hosts=settings.WEBHOOK_HOSTS)
        stamp = int(clock.time())
        headers = {
            "Host": url.netloc.decode("ascii"),
            "User-Agent": "MemoryHub-Webhook",
            "Content-Type": "application/json",
            "webhook-id": message,
            "webhook-timestamp": str(stamp),
            "webhook-signature": sign(self._secret, message, stamp, body),
        }
        with (
            self._limit_time(),
            self._http.stream(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers=headers,
                extensions={"sni_hostname": host},
            ) as response,
        ):
            read = 0
            # Raw: nothing that a receiver has compressed is expanded.
            for part in response.iter_raw(4_096):
                read += len(part)
                if read > REPLY_BYTES:
                    break
            return response.status_code

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        """Close the connection when the time of the delivery is over.

        Read time-outs begin anew with each byte, so they do not stop a slow trickle.
        """
        cut = threading.Timer(self._seconds, self._http.close)
        cut.daemon = True
        cut.start()
        try:
            yield
        finally:
            cut.cancel()
