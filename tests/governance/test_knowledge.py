"""12, 13, 16, 17: facts that were erased, corrected or retracted stay so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.cast import scripted_model
from tests.cast.scripted_model import ScriptedModel, saying
from tests.governance.hubs import Hub, KnownNames, ok

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DAYS = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 29)]

Claim = dict[str, Any]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model.running() as running:
        yield running


def claim(predicate: str, value: str, *span: int, **more: Any) -> Claim:
    """Build a claim about the user, valid within the days of `span`."""
    names = ("valid_from", "valid_until")
    times = {name: DAYS[day] for name, day in zip(names, span, strict=False)}
    return {
        "entity": "user",
        "predicate": predicate,
        "value": value,
        **times,
        **more,
    }


class Ann:
    """Knowledge about one person, as an agent sees it."""

    def __init__(self, hub: Hub, model: ScriptedModel | None = None) -> None:
        self.hub, self.model, self.client = hub, model, hub.agent("acme")
        made = ok(self.client.put("/threads/t-0", {"user_id": "ann"}))
        self.id, self.threads = made["subject_id"], ["t-0"]
        self.at, self.home = f"/subjects/{self.id}", f"mh.home.{self.id}"
        hub.instance.call("tests.governance.acts:consolidate", hub.slugs["acme"])

    def learn(self, text: str, *claims: Claim) -> dict[str, Any]:
        """Say a text, end the thread, have the model asked; return the notes."""
        assert self.model is not None
        name = f"t-{len(self.threads)}"
        self.threads.append(name)
        ok(self.client.put(f"/threads/{name}", {"user_id": "ann"}))
        ok(self.client.append(name, text))
        ok(self.client.post(f"/threads/{name}:close", {}))
        self.model.script.append(saying(json.dumps(claims)))
        self.hub.work(**self.model.env())
        assert self.model.script == [], "the model was not asked"
        told = ok(self.client.get(f"/threads/{self.home}/events?limit=200"))["items"]
        noted = [each for each in told if each["type"] == "exchange.consolidated"]
        body: dict[str, Any] = noted[-1]["body"]
        return body

    def tell(self, *claims: Claim) -> list[int]:
        ids: list[int] = ok(
            self.client.post(f"{self.at}/facts:batch", {"items": claims})
        )["ids"]
        return ids

    def act(self, fact: int, act: str, **body: str) -> None:
        ok(self.client.post(f"{self.at}/facts/{fact}:{act}", body))

    def search_facts(self, **where: Any) -> list[dict[str, Any]]:
        found = ok(self.client.post(f"{self.at}/facts:search", where))["items"]
        assert isinstance(found, list)
        return found

    def list_values(self, **where: Any) -> set[str]:
        return {each["value"] for each in self.search_facts(**where)}

    def recalled(self, query: str) -> str:
        asked = {"query": query, "kinds": ["fact"], "limit": 50, "ended": True}
        return json.dumps(ok(self.client.post(f"{self.at}/recall", asked)))

    def everything(self) -> str:
        """Return all that any read tells of home and threads."""
        names = KnownNames(thread=[self.home, *self.threads], subject=[self.id])
        return self.hub.everything(self.client, names)


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(12, 13)
def test_erased_value_is_not_extracted_again(hub: Hub, model: ScriptedModel) -> None:
    """The value is refused and counted: neither a valid nor a hidden record has it.

    The question does not hold the value itself, so any place that has it is a copy.
    """
    ann, officer = Ann(hub, model), hub.officer("acme")
    value, other, third = (f"w{uuid4().hex}" for _ in range(3))
    first = claim("locker", value)
    assert ann.learn("About my locker.", first)["learnt"] == 1
    (fact,) = ann.search_facts()
    assert value in ann.everything()
    hub.forget(officer, "ann", scope="record", thread=ann.home, record=fact["id"])
    wide = "".join(chr(ord(each) + 0xFEE0) for each in value.upper())
    again = [first, claim(" LOCKER ", f" {wide}\u200b"), claim("drinks", other)]
    noted = ann.learn("Again about my locker, and what I drink.", *again)
    assert (noted["learnt"], noted["dropped"]) == (1, 2)
    refused = ann.client.post(f"{ann.at}/facts", first)
    assert (refused.status, refused.body["code"]) == (410, "value_erased")
    hub.rebuild()
    assert ann.list_values(ended=True) == {other}
    assert other in ann.recalled(other)
    assert value not in ann.recalled(value)
    everything = ann.everything()
    assert other in everything
    for spelled in (value, value.upper(), wide):
        assert spelled not in everything
    # Its neighbour is welcome: it is the value that is kept out, and no predicate.
    assert ok(ann.client.post(f"{ann.at}/facts", claim("locker", third)))
    assert ann.list_values() == {other, third}


def corrections(ann: Ann) -> None:
    """Correct a wrong fact in each of the five ways."""
    told = ann.tell(
        claim("town", "Oslo", 0),
        claim("eats meat", "yes", 0),
        claim("dentist", "Moreau", 0),
        claim("desk", "north", 0),
        claim("visa", "granted", 0),
    )
    ann.tell(claim("town", "Bergen", 9))
    ann.tell(claim("eats meat", "no", 9))
    ann.act(told[2], "retract", reason="wrong")
    ann.tell(claim("desk", "south", 5, 9))
    ann.act(told[4], "end", at=DAYS[20])


#: Values that held on the seventh day, and on the last.
SEVENTH = {"Oslo", "yes", "south", "granted"}
LAST = {"Bergen", "no", "north"}


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(16)
def test_correction_survives_a_reindex(hub: Hub) -> None:
    """Facts are replaced, reversed, retracted and limited in time: history stays."""
    ann = Ann(hub)
    corrections(ann)
    first = ann.search_facts()[0]["recorded_at"]

    def list_answers() -> list[Any]:
        assert ann.list_values(valid_at=DAYS[6]) == SEVENTH
        assert ann.list_values(valid_at=DAYS[27]) == LAST
        at_first = {"valid_at": DAYS[27], "known_at": first}
        told: list[Any] = [
            ann.search_facts(valid_at=DAYS[27], ended=True),
            ann.search_facts(**at_first),
            ann.recalled("town meat dentist desk visa"),
        ]
        assert "Moreau" not in json.dumps(told[0])
        told += [ok(ann.client.get(f"{ann.at}/facts/{each['id']}")) for each in told[0]]
        return told

    before = list_answers()
    assert len(before[0]) == 8
    hub.rebuild()
    assert list_answers() == before
    hub.work()
    assert list_answers() == before


@pytest.mark.usefixtures("alone")
@pytest.mark.governance(17)
def test_retraction_needs_no_replacement(hub: Hub, model: ScriptedModel) -> None:
    """The fact is said and learnt again: its sibling stays, and the fact is absent."""
    ann = Ann(hub, model)
    value, other = (f"w{uuid4().hex}" for _ in range(2))
    source = f"My dentist is {value}, my bank is {other}."
    claims = [claim("dentist", value), claim("bank", other)]
    ann.learn(source, *claims)
    (fact,) = ann.search_facts(predicate="dentist")
    ann.act(fact["id"], "retract", reason="wrong")
    assert ann.list_values() == {other}
    ann.learn(f"{source} Yes.", *claims)
    hub.rebuild()
    assert ann.list_values(ended=True) == {other}
    (stays,) = ann.search_facts()
    assert stays["confirmations"] == 2
    found = ann.recalled(f"{value} {other}")
    assert other in found
    assert value not in found
