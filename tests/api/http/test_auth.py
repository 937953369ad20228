"""Authentication, and the likeness of its refusals."""

from __future__ import annotations

import time
from datetime import timedelta
from statistics import median

import pytest
import time_machine
from django.utils import timezone

from memoryhub.api.http import auth, limits
from memoryhub.models import ApiKey, Project, Subject
from memoryhub.models.server.clock import TOLERANCE_NS, clock
from memoryhub.services.access import api_keys
from tests.api.client import SLOT, Client
from tests.cast.factories import run

pytestmark = pytest.mark.django_db

#: Of the medians of so many samples; a busy machine may spoil an attempt.
ALIKE, SAMPLES, ATTEMPTS = 0.1, 200, 5
WRONG = {
    "absent": None,
    "scheme": "Basic {key}",
    "prefix": "Bearer mx_{rest}",
    "checksum": "Bearer {key}x",
    "typo": "Bearer {typo}",
    "lower": "Bearer {lower}",
    "space": "Bearer {key} ",
    "newline": "Bearer {key}\n",
    "two": "Bearer {key}, Bearer {key}",
    "long": "Bearer " + "x" * 10_000,
    "unknown": "Bearer {unknown}",
}


async def _get_refusal(
    client: Client, header: str | None
) -> tuple[int, dict[str, object]]:
    headers = [("authorization", header)] if header is not None else []
    answer = await Client(key=None, connections=client.connections).get(
        "/threads", headers=headers
    )
    assert answer.header("www-authenticate") == "Bearer"
    return answer.comparable


@pytest.mark.parametrize("wrong", WRONG)
async def test_every_wrong_key_has_one_answer(
    api: Client, nobody: Client, wrong: str
) -> None:
    key = api.key or ""
    unsigned = "mh_live_" + "A" * 8 + "_" + "B" * 43
    header = (WRONG[wrong] or "").format(
        key=key,
        rest=key[3:],
        typo=key[:20] + ("a" if key[20] != "a" else "b") + key[21:],
        lower=key.lower(),
        unknown=unsigned + api_keys.compute_checksum(unsigned),
    )
    expected = (await nobody.get("/threads")).comparable
    assert expected[0] == 401
    assert await _get_refusal(api, header if WRONG[wrong] else None) == expected


def test_unknown_key_takes_the_same_time_as_a_wrong_one(acme: Project) -> None:
    """A well-formed key that is wrong costs the same, whatever is wrong with it."""
    keys = make_wrong_keys(acme)
    assert any(spread(keys) < 1 + ALIKE for _ in range(ATTEMPTS))


def make_wrong_keys(project: Project) -> dict[str, str]:
    """Make one key for each cause of a 401 that needs the database."""
    unknown = "mh_live_" + "A" * 8 + "_" + "B" * 43
    _, key = api_keys.create(project)
    wrong = key[:-49] + "B" * 43
    revoked, dead = api_keys.create(project)
    api_keys.revoke(revoked)
    expired, old = api_keys.create(project)
    ApiKey.objects.filter(id=expired.id).update(expires_at=clock.now())
    return {
        "unknown": unknown + api_keys.compute_checksum(unknown),
        "wrong secret": wrong + api_keys.compute_checksum(wrong),
        "revoked": dead,
        "expired": old,
    }


def spread(keys: dict[str, str]) -> float:
    """Return the costliest key's processor time divided by that of the cheapest.

    The keys take turns, so that all have the same conditions.
    """
    found: dict[str, list[int]] = {cause: [] for cause in keys}
    for _ in range(SAMPLES):
        for cause, key in keys.items():
            began = time.thread_time_ns()
            assert run(auth.find_holder(key)) is None
            found[cause].append(time.thread_time_ns() - began)
    medians = [median(costs) for costs in found.values()]
    return max(medians) / min(medians)


async def test_revoked_key_is_believed_for_a_second_at_most(
    api: Client, acme: Project
) -> None:
    assert (await api.get("/threads")).status == 200
    api_keys.revoke(ApiKey.objects.get(project=acme))
    assert auth.BELIEVED_SECONDS <= 1
    auth.forget()
    assert (await api.get("/threads")).status == 401


async def test_key_that_expires_while_it_is_believed_is_refused(
    api: Client, acme: Project
) -> None:
    api.connect()
    row = ApiKey.objects.get(project=acme)
    row.expires_at = timezone.now() + timedelta(hours=1)
    row.save(update_fields=["expires_at"])
    assert (await api.get("/threads")).status == 200
    with time_machine.travel(row.expires_at):
        assert (await api.get("/threads")).status == 401


async def test_cookies_and_method_overrides_are_ignored(
    api: Client, nobody: Client
) -> None:
    cookie = [("cookie", "mh_session=x")]
    assert (await nobody.get("/threads", headers=cookie)).status == 401
    override = [("x-http-method-override", "DELETE"), ("accept", "text/html")]
    ranged = [("range", "bytes=0-1"), ("if-none-match", "*")]
    answer = await api.get("/threads", headers=[*override, *ranged])
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"


async def test_request_id_of_the_clients_is_ignored(api: Client) -> None:
    sent = [("x-request-id", "mine\r\nX-Injected: 1")]
    answer = await api.get("/threads", headers=sent)
    assert answer.header("x-request-id") not in (None, "mine")


async def test_forwarded_headers_count_for_nothing(nobody: Client) -> None:
    for n in range(25):
        await nobody.get("/threads", headers=[("x-forwarded-for", f"10.0.0.{n}")])
    assert set(limits.account.addresses) == {"127.0.0.1"}


async def test_bound_key_sees_one_subject(
    api: Client, bound: Client, ann: Subject
) -> None:
    await api.put("/threads/hers", {"user_id": "ann"})
    await api.put("/threads/his", {"user_id": "bob"})
    absent = (await bound.get("/threads/absent")).comparable
    assert (await bound.get("/threads/hers")).status == 200
    assert (await bound.get("/threads/his")).comparable == absent
    assert (await bound.patch("/threads/his", {})).comparable == absent
    assert (await bound.put("/threads/new", {"user_id": "bob"})).comparable == absent
    listed = await bound.get("/threads")
    assert [item["thread"] for item in listed.json["items"]] == ["hers"]
    for name in ("his", "new"):
        made = await bound.put(f"/threads/{name}")
        assert (made.status, made.json["subject_id"]) == (201, str(ann.id))


async def test_key_notes_its_use_once_a_minute(api: Client, acme: Project) -> None:
    for _ in range(2):
        assert (await api.get("/threads")).status == 200
        key = ApiKey.objects.get(project=acme)
        # Its first minute began before it was made.
        assert key.last_used_at == key.created_at


async def test_requests_are_refused_while_the_clock_is_off(
    api: Client, nobody: Client
) -> None:
    """A key may have expired by the true clock."""
    clock.compare(-TOLERANCE_NS - 1)
    for client in (api, nobody):
        for answer in (
            await client.get("/threads"),
            await client.post("/threads/t-1/slots", SLOT),
        ):
            assert (answer.status, answer.code) == (503, "clock_skew")
            assert answer.header("retry-after") == "10"
    clock.compare(0)
    assert (await api.get("/threads")).status == 200


@pytest.mark.parametrize("place", ["/threads?after={}", "/threads/{}"])
async def test_key_in_an_address_is_refused(api: Client, place: str) -> None:
    """A client that sends the key there has told it to every log on the way."""
    key = "mh_live_" + "a" * 8 + "_" + "b" * 49
    refused = await api.get(place.format(key))
    assert (refused.status, refused.code) == (400, "key_in_url")
    assert key not in refused.body.decode()


# A person that a header names


def name_person(person: str) -> list[tuple[str, str]]:
    return [(auth.PERSON_HEADER, person)]


async def test_named_person_confines_a_key_as_binding_does(
    api: Client, bound: Client
) -> None:
    await api.put("/threads/anns", {"user_id": "ann"})
    await api.put("/threads/bobs", {"user_id": "bob"})
    for path in ("/threads", "/threads/anns", "/threads/bobs", "/stats"):
        named = await api.get(path, headers=name_person("ann"))
        assert named.status == (404 if path == "/threads/bobs" else 200)
        if path != "/stats":
            assert named.comparable == (await bound.get(path)).comparable
    assert (await bound.get("/threads/anns", headers=name_person("bob"))).status == 404


async def test_unknown_person_is_made_by_the_first_write_alone(api: Client) -> None:
    named = name_person("cleo")
    assert (await api.get("/threads", headers=named)).json["items"] == []
    gone = await api.send("DELETE", "/threads/x/pages/y", headers=named)
    assert gone.status == 404
    who = {"user_id": "cleo"}
    assert (await api.send("POST", "/subjects:resolve", who)).status == 404
    begun = await api.send("POST", "/threads/own/slots", SLOT, headers=named)
    assert begun.status == 201
    subject = (await api.send("POST", "/subjects:resolve", who)).json["id"]
    thread = await api.get("/threads/own", headers=named)
    assert thread.json["subject_id"] == subject


@pytest.mark.parametrize("person", ["", "*", "a\xff", "x" * 257])
async def test_value_that_is_nobodys_id_is_refused(api: Client, person: str) -> None:
    refused = await api.get("/threads", headers=name_person(person))
    assert refused.status == 422
    assert auth.PERSON_HEADER in refused.json["detail"]
