"""Two worlds that differ in truth values alone: nothing in the clear tells which."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from django.apps import apps
from django.db import router
from django.db.models import Model

from memoryhub.models.events import Event
from memoryhub.models.privacy import Holds, Privacy, tables
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client, run
from tests.cast import factories
from tests.cast.forgetting import forget, of
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db(transaction=True)

#: What stands there is compared; of what is sealed, how long it is.
CLEAR = Holds.NUMBER | Holds.WORD
#: What paging is about, and counts what a model reads.
TOKENS = {"tokens", "cost", "token_count", "resident_tokens", "capacity_tokens"}
TOKENS |= {"prefix_tokens", "tokens_before", "policies"}

#: Tell of the forgetting itself: of two, one came first.
ORDERS = {"memoryhub.Erasure", "memoryhub.Receipt"}


@pytest.mark.parametrize("forgotten", [False, True])
def test_nothing_tells_one_from_the_other(agent: Agent, *, forgotten: bool) -> None:
    yes, no = make(agent, "yes", answer=True), make(agent, "nay", answer=False)
    if forgotten:
        forget(yes)
        forget(no)
    for model, privacy in tables().items():
        label = model._meta.label
        if privacy.subject is None or label in ORDERS:
            continue
        assert clear(model, privacy, yes) == clear(model, privacy, no), label
    for one, other in zip(bodies(yes), bodies(no), strict=True):
        assert one == other
    rows = Event.objects.filter(thread__subject=yes)
    assert rows.filter(type="page.faulted", body__contains='"parts":[[900,null,')
    assert rows.filter(type="turn.packed", body__contains="0,true]")


def make(agent: Agent, user_id: str, *, answer: bool) -> Subject:
    """Truth values and nulls in everything that may hold them."""
    name = f"{user_id}-1"
    odd = None if answer else answer
    factories.make_thread(agent, name, user_id=user_id)
    value = {"hiv_positive": answer, "note": odd}
    for key, held in (("bare", answer), ("null", odd), ("deep", [value])):
        memory_acts.set_key(agent, key, held, thread=name)
    factories.append(agent, name, value, answer)
    client = Client(key=factories.make_key(agent_project(agent))[1])
    said = {"type": "artifact", "modality": "structured", "content": {"data": value}}
    handler = {"own_name": "user", "is_self_call": answer}
    sent = {"from": "user", "to": "assistant", "type": "chat.user", "content": "Hi."}
    for method, at, body in (
        ("PUT", "/pages/answer", said),
        ("PUT", "/task", {"data": value, "description": str(answer)}),
        ("POST", "/notes", {"text": str(answer)}),
        ("POST", "/slots", {**sent, "handler": handler}),
        ("POST", "/checkpoints", {"description": str(answer)}),
    ):
        assert run(client.send(method, f"/threads/{name}{at}", body)).status < 300
    about = {"name": "look_up", "description": f"Looks up, {answer}."}
    long = "We speak of the weather, and of boats. " * 200
    text = {"modality": "text", "content": {"text": long + str(answer)}}
    page = {"page_id": "long", "type": "artifact", "map": False, **text}
    asked = {"offset": 900, "reason": "resolve_reference"}
    cut = {"items": [{**sent, "content": f"{answer}! {long}"}], "token_budget": 2_500}
    turns: list[tuple[str, str, dict[str, Any]]] = [
        ("PUT", "/tools", {"items": [about]}),
        ("POST", "/pages", page),
        ("POST", "/turns", {"items": [{**sent, "role": "user"}]}),
        ("POST", "/pages/long/fault", asked),
        ("POST", "/turns", cut),
    ]
    for method, at, asking in turns:
        made = run(client.send(method, f"/threads/{name}{at}", asking))
        assert made.status < 300, (at, made.body)
    return of(agent, user_id)


def bodies(subject: Subject) -> list[Any]:
    """Numbers and truth values in the bodies of a subject's events, but for tokens."""
    rows = Event.objects.filter(thread__subject=subject).order_by("thread", "seq")
    return [(row.type, figures(json.loads(row.body))) for row in rows]


def figures(plain: Any) -> Any:
    if isinstance(plain, dict):
        kept = ((name, each) for name, each in plain.items() if name not in TOKENS)
        return {name: figures(each) for name, each in kept}
    if isinstance(plain, list):
        return [figures(each) for each in plain]
    return plain if isinstance(plain, int) else None


def agent_project(agent: Agent) -> Any:
    return apps.get_model("memoryhub.Project").objects.get(id=agent.project)


def clear(model: type[Model], privacy: Privacy, subject: Subject) -> Counter[Any]:
    """The rows of a subject, by what they tell."""
    assert privacy.subject is not None
    rows = model._default_manager.using(router.db_for_read(model)).filter(
        **{privacy.subject: subject.id}
    )
    return Counter(
        tuple(
            told(getattr(row, _column(model, name)), name, holds)
            for name, holds in sorted(privacy.holds.items())
        )
        for row in rows
    )


def _column(model: type[Model], name: str) -> str:
    return str(getattr(model._meta.get_field(name), "attname", name))


def told(value: Any, name: str, holds: Holds) -> object:
    if holds & Holds.SEALED:
        return None if value is None else len(bytes(value))
    if not holds & CLEAR or name in TOKENS or holds & (Holds.ID | Holds.TIME):
        return None
    return value
