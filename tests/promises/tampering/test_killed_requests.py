"""P6: one effect per Idempotency-Key, also when the server dies before its answer."""

from __future__ import annotations

import signal
from http.client import HTTPException

import pytest

from tests.harness.instances import UNLIMITED, Instance, Server, free_port
from tests.promises.journal.clients import Answer, Client, at_once
from tests.promises.journal.dying import MOMENTS

pytestmark = pytest.mark.timeout(300)

CLIENTS = 50


def send(client: Client, text: str = "once") -> Answer:
    return client.append("t-1", text, Idempotency_Key="message-1")


def die(instance: Instance, key: str, *, moment: str) -> None:
    """Send the first request with a key; its server dies without an answer."""
    port = free_port()
    with instance.start("tests.promises.journal.dying:serve", port, moment) as process:
        Server(process, port=port).await_health(instance.log)
        with Client(port, key) as client:
            client.append("t-1", "before")
            with pytest.raises((ConnectionError, HTTPException)):
                send(client)
        assert process.wait(timeout=30) == -signal.SIGKILL


@pytest.mark.promise("P6", load="a kill {moment} the commit, then 50 clients")
@pytest.mark.parametrize("moment", MOMENTS)
def test_key_has_one_effect_through_a_kill(
    instance: Instance, key: str, moment: str
) -> None:
    """Fifty repeats at once learn of the effect if it happened, and cause it if not."""
    die(instance, key, moment=moment)
    with instance.serve(**UNLIMITED) as server:
        answers = at_once(
            lambda client, number: send(client),
            clients=CLIENTS,
            port=server.port,
            key=key,
        )
        with Client(server.port, key) as client:
            other = send(client, "another message")
            listed = client.get("/threads/t-1/slots").body["items"]
        server.stop()
    assert {answer.status for answer in answers} == {201}
    assert {answer.raw for answer in answers} == {answers[0].raw}
    assert [item["content"] for item in listed] == ["before", "once"]
    assert answers[0].body["index"] == 1
    firsts = [a for a in answers if "idempotent-replayed" not in a.headers]
    assert len(firsts) == (1 if moment == "before" else 0)
    assert (other.status, other.body["code"]) == (422, "idempotency_mismatch")
    instance.managed("verify", "--all")
