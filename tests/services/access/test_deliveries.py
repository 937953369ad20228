"""Deliveries: bodies and signatures as Standard Webhooks specifies."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import orjson

from memoryhub.services.access import deliveries


def test_signature_is_that_of_the_standards_example() -> None:
    """The values are those that the reference library for Python signs."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message, stamp = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330
    signed = deliveries.sign(secret, message, stamp, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_body_has_type_time_and_ids() -> None:
    at = datetime(2026, 11, 29, 13, 31, tzinfo=UTC)
    body = deliveries.build_body("task.set", at, thread_id="x", seq=7)
    assert orjson.loads(body) == {
        "type": "task.set",
        "timestamp": "2026-11-29T13:31:00Z",
        "data": {"thread_id": "x", "seq": 7},
    }
