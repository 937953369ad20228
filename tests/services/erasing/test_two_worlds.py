"""Two memories that differ in truth values alone: no clear column tells which."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from django.apps import apps
from django.db import router
from django.db.models import Model

from memoryhub.models.events import Event
from memoryhub.models.privacy import Holds, Privacy, list_declared_models
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from tests.api.client import Client, run
from tests.cast import factories
from tests.cast.forgetting import forget, get_subject
from tests.oracles import memory_acts

pytestmark = pytest.mark.django_db(transaction=True)

#: Columns compared by value; sealed columns are compared by length.
CLEAR = Holds.NUMBER | Holds.WORD
#: Fields of paging, which count what a model reads.
TOKENS = {"tokens", "cost", "token_count", "resident_tokens", "capacity_tokens"}
TOKENS |= {"prefix_tokens", "tokens_before", "policies"}
TOKENS |= {"request_tokens", "answer_tokens"}

#: Tables about the erasures themselves, which ran one after the other.
ORDERS = {"memoryhub.Erasure", "memoryhub.Receipt"}


@pytest.mark.parametrize("forgotten", [False, True])
def test_clear_columns_do_not_reveal_truth_values(
    agent: Agent, *, forgotten: bool
) -> None:
    yes, no = make(agent, "yes", answer=True), make(agent, "nay", answer=False)
    if forgotten:
        forget(yes)
        forget(no)
    for model, privacy in list_declared_models().items():
        label = model._meta.label
        if privacy.subject is None or label in ORDERS:
            continue
        assert count_clear_rows(model, privacy, yes) == count_clear_rows(
            model, privacy, no
        ), label
    for one, other in zip(bodies(yes), bodies(no), strict=True):
        assert one == other
    rows = Event.objects.filter(thread__subject=yes)
    assert rows.filter(type="page.faulted", body__contains='"parts":[[900,null,')
    assert rows.filter(type="turn.packed", body__contains="0,true]")


def make(agent: Agent, user_id: str, *, answer: bool) -> Subject:
    """Write truth values and nulls everywhere that a client may."""
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
    return get_subject(agent, user_id)


def bodies(subject: Subject) -> list[Any]:
    """List numbers and truth values in a subject's event bodies, except tokens."""
    rows = Event.objects.filter(thread__subject=subject).order_by("thread", "seq")
    return [(row.type, keep_figures(json.loads(row.body))) for row in rows]


def keep_figures(plain: Any) -> Any:
    if isinstance(plain, dict):
        kept = ((name, each) for name, each in plain.items() if name not in TOKENS)
        return {name: keep_figures(each) for name, each in kept}
    if isinstance(plain, list):
        return [keep_figures(each) for each in plain]
    return plain if isinstance(plain, int) else None


def agent_project(agent: Agent) -> Any:
    return apps.get_model("memoryhub.Project").objects.get(id=agent.project)


def count_clear_rows(
    model: type[Model], privacy: Privacy, subject: Subject
) -> Counter[Any]:
    """Count a subject's rows by their values in the clear."""
    assert privacy.subject is not None
    rows = model._default_manager.using(router.db_for_read(model)).filter(
        **{privacy.subject: subject.id}
    )
    return Counter(
        tuple(
            to_clear_value(getattr(row, _column(model, name)), name, holds)
            for name, holds in sorted(privacy.holds.items())
        )
        for row in rows
    )


def _column(model: type[Model], name: str) -> str:
    return str(getattr(model._meta.get_field(name), "attname", name))


def to_clear_value(value: Any, name: str, holds: Holds) -> object:
    if holds & Holds.SEALED:
        return None if value is None else len(bytes(value))
    if not holds & CLEAR or name in TOKENS or holds & (Holds.ID | Holds.TIME):
        return None
    return value
