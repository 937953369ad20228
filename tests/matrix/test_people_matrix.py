"""Every operation about people, by every kind of credential and state of a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from memoryhub.api.http import auth
from memoryhub.models import ApiKey, Project, Subject
from memoryhub.models.server.clock import clock
from memoryhub.services.access import api_keys
from memoryhub.services.knowledge import blocks, items
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.people import restrictions, subjects
from tests.api.client import Answer, Client, run
from tests.cast import factories, graves, knowing
from tests.matrix.people import PEOPLE, Refused, Row
from tests.matrix.routes import OPERATIONS

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.promise("P12")]

MEMORY, PRIVACY = ("memory:read", "memory:write"), ("subject:export", "subject:forget")
SCOPES = (*MEMORY, *PRIVACY, "admin")
#: Pairs of operation and scope: accepted, and refused.
ADMITTED = [
    (label, scope)
    for label in PEOPLE
    for scope in sorted(auth.get_admitting_scopes(OPERATIONS[label]["x-scope"]))
]
KEPT_OUT = [
    (label, scope)
    for label in PEOPLE
    for scope in SCOPES
    if (label, scope) not in ADMITTED
]
NAMING = [label for label, row in PEOPLE.items() if row.absent is not None]


class People:
    """Ann with a thread, an open plan and an erasure that is done; and nobody."""

    def __init__(self, project: Project) -> None:
        agent = factories.make_agent(project)
        factories.make_thread(agent, "ann-1", user_id="ann")
        factories.append(agent, "ann-1", "hello")
        self.ann = subjects.find_or_create(project.id, "ann")
        knowing.say(agent, self.ann, knowing.claim("Gold", predicate="tier"))
        draft = BlockDraft(block="persona", text="Ann.")
        factories.run(blocks.put_block(agent=agent, subject=self.ann, draft=draft))
        seat = items.put_item(
            agent=agent,
            subject=self.ann,
            namespace="trips:oslo",
            key="seat",
            value="12A",
        )
        factories.run(seat)
        now = clock.now()
        self.plan = graves.make_erasure(
            self.ann,
            state="planned",
            confirmed_at=None,
            expires_at=now + timedelta(minutes=15),
        )
        self.done = graves.make_erasure(self.ann, scope="record")
        graves.make_receipt(self.done)
        self.names = {
            "{s}": str(self.ann.id),
            "{e}": str(self.plan.id),
            "{d}": str(self.done.id),
            "{u}": "ann",
        }


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module")
def people(acme: Project) -> People:
    return People(acme)


NOBODY = {"{s}": str(uuid4()), "{e}": str(uuid4()), "{d}": str(uuid4()), "{u}": "eve"}


def _fill_names(text: Any, names: dict[str, str]) -> Any:
    for name, value in names.items():
        text = text.replace(name, value) if isinstance(text, str) else text
    return text


def _ask(client: Client, label: str, names: dict[str, str]) -> Answer:
    row = PEOPLE[label]
    body = row.body and {name: _fill_names(v, names) for name, v in row.body.items()}
    method = label.partition(" ")[0].upper()
    return run(client.send(method, _fill_names(row.target, names), body or row.body))


def _client(project: Project, *scopes: str, subject: Subject | None = None) -> Client:
    return Client(key=factories.make_key(project, scopes=scopes, subject=subject)[1])


def _get_scope(label: str) -> str:
    return min(
        auth.get_admitting_scopes(OPERATIONS[label]["x-scope"]), key=SCOPES.index
    )


def _is(answer: Answer, expected: Refused | None, row: Row) -> None:
    expected = expected or row.conflict
    if expected is None:
        assert answer.status < 300, answer.body
    else:
        assert (answer.status, answer.code) == expected


@pytest.mark.parametrize(("label", "scope"), ADMITTED)
def test_right_key_is_accepted(
    acme: Project, people: People, label: str, scope: str
) -> None:
    _is(_ask(_client(acme, scope), label, people.names), None, PEOPLE[label])


@pytest.mark.parametrize(("label", "scope"), KEPT_OUT)
def test_wrong_scope_is_refused(
    acme: Project, people: People, label: str, scope: str
) -> None:
    """The scope is checked before any look-up, so that the refusal reveals nothing."""
    client = _client(acme, scope)
    answer = _ask(client, label, people.names)
    assert (answer.status, answer.code) == (403, "scope")
    assert OPERATIONS[label]["x-scope"] in answer.json["detail"]
    assert _ask(client, label, NOBODY).comparable == answer.comparable


@pytest.mark.parametrize("label", PEOPLE)
def test_missing_and_dead_credentials_answer_alike(
    acme: Project, people: People, label: str
) -> None:
    scope = _get_scope(label)
    revoked, expired = _client(acme, scope), _client(acme, scope)
    rows = ApiKey.objects.order_by("-created_at")
    api_keys.revoke(rows[1])
    row = rows[0]
    row.expires_at = timezone.now() - timedelta(seconds=1)
    row.save(update_fields=["expires_at"])
    expected = _ask(Client(key=None), label, people.names)
    assert expected.status == 401
    for client in (revoked, expired, Client(key="mh_live_x"), Client(key="")):
        assert _ask(client, label, people.names).comparable == expected.comparable


@pytest.mark.parametrize("label", NAMING)
def test_foreign_subject_answers_like_an_absent_one(
    zeta: Project, people: People, label: str
) -> None:
    stranger = _client(zeta, _get_scope(label))
    foreign = _ask(stranger, label, people.names)
    assert (foreign.status, foreign.code) == PEOPLE[label].absent
    assert foreign.comparable == _ask(stranger, label, NOBODY).comparable


@pytest.mark.parametrize("label", NAMING)
def test_bound_key_finds_no_other_subject(
    acme: Project, people: People, label: str
) -> None:
    bob = subjects.find_or_create(acme.id, "bob")
    bound = _client(acme, _get_scope(label), subject=bob)
    foreign = _ask(bound, label, people.names)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.comparable == _ask(bound, label, NOBODY).comparable


def test_erasure_list_is_limited_to_the_keys_own_subjects(
    acme: Project, zeta: Project, people: People
) -> None:
    label = "get /api/v1/erasures"
    bob = subjects.find_or_create(acme.id, "bob")
    for client, count in (
        (_client(acme, "subject:forget"), 2),
        (_client(acme, "subject:forget", subject=people.ann), 2),
        (_client(acme, "subject:forget", subject=bob), 0),
        (_client(zeta, "subject:forget"), 0),
    ):
        assert len(_ask(client, label, people.names).json["items"]) == count


@pytest.mark.parametrize(("label", "scope"), ADMITTED)
def test_restricted_subject_is_kept_from_agents_only(
    acme: Project, people: People, label: str, scope: str
) -> None:
    """Agents are refused; officers and keys for people are not."""
    restrictions.restrict_subject(people.ann.id, basis="claims", actor="command")
    row = PEOPLE[label]
    expected = row.restricted if scope in MEMORY else None
    _is(_ask(_client(acme, scope), label, people.names), expected, row)


@pytest.mark.no_replay
@pytest.mark.parametrize(("label", "scope"), ADMITTED)
def test_erased_subject_answers_as_its_row_says(
    acme: Project, people: People, label: str, scope: str
) -> None:
    erasure = graves.bury_subject(people.ann)
    answer = _ask(_client(acme, scope), label, people.names)
    expected = PEOPLE[label].erased
    if expected is None:
        assert answer.status < 300, answer.body
    else:
        assert (answer.status, answer.code) == expected
    if answer.status == 410:
        assert answer.json["erasure"] == str(erasure.id)
