"""Every page, form, export and panel of the inspector by every kind of visitor.

The routes are read from the URLconf: a route without a row fails.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from inspector.access import access, sign_in
from memoryhub.models.access.operators import Membership, Operator
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.access import operators
from tests.cast import factories
from tests.inspector.conftest import signed_in
from tests.inspector.routes import SINCE, Route, list_routes, make_family, variants

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.promise("P12")]

ROLES = Membership.Role.values
#: By route: the least role, None for routes without a sign-in; and the methods
#: that the route takes.
ROWS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "home": ("viewer", ("GET",)),
    "projects": ("viewer", ("GET",)),
    "project-new": ("owner", ("GET", "POST")),
    "sign-in": (None, ("GET", "POST")),
    "sign-in-link": (None, ("GET", "POST")),
    "sign-out": (None, ("POST",)),
    "theme": (None, ("POST",)),
    "second-factor": ("viewer", ("GET", "POST")),
    "passkey-challenge": (None, ("POST",)),
    "sso": (None, ("POST",)),
    "sso-callback": (None, ("GET",)),
    "passkey-proposal": ("viewer", ("POST",)),
    "overview": ("viewer", ("GET",)),
    "overview-panel": ("viewer", ("GET",)),
    "refusals": ("viewer", ("GET",)),
    "threads": ("viewer", ("GET",)),
    "threads-export": ("viewer", ("GET",)),
    "chosen-threads": ("editor", ("GET", "POST")),
    "chosen-threads-export": ("viewer", ("GET",)),
    "list-panel": ("viewer", ("GET",)),
    "imports": ("viewer", ("GET",)),
    "imports-export": ("viewer", ("GET",)),
    "settings": ("owner", ("GET", "POST")),
    "api-keys": ("owner", ("GET",)),
    "api-key-new": ("owner", ("GET", "POST")),
    "api-key-rotate": ("owner", ("GET", "POST")),
    "api-key-revoke": ("owner", ("GET", "POST")),
    "alerts": ("owner", ("GET", "POST")),
    "webhooks": ("owner", ("GET",)),
    "webhook-new": ("owner", ("GET", "POST")),
    "webhook": ("owner", ("GET", "POST")),
    "facts": ("viewer", ("GET",)),
    "fact-act": ("editor", ("GET", "POST")),
    "fact-correct": ("editor", ("GET", "POST")),
    "connect": ("viewer", ("GET",)),
    "connect-key": ("owner", ("GET", "POST")),
    "connect-panel": ("viewer", ("GET",)),
    "words": ("viewer", ("GET",)),
    "search": ("viewer", ("GET", "POST")),
    "search-panel": ("viewer", ("GET", "POST")),
    "members": ("owner", ("GET",)),
    "member-new": ("owner", ("GET", "POST")),
    "member": ("owner", ("GET", "POST")),
    "audit": ("officer", ("GET",)),
    "audit-entry": ("officer", ("GET",)),
    "audit-export": ("officer", ("GET",)),
    "health": ("viewer", ("GET",)),
    "subjects": ("viewer", ("GET",)),
    "subjects-export": ("officer", ("GET",)),
    "subject-look-up": ("officer", ("POST",)),
    "subject-readmit": ("officer", ("POST",)),
    "subject": ("viewer", ("GET",)),
    "subject-panel": ("viewer", ("GET",)),
    "episodes": ("viewer", ("GET",)),
    "subject-reveal": ("officer", ("POST",)),
    "subject-export": ("officer", ("GET", "POST")),
    "subject-restrict": ("officer", ("GET", "POST")),
    "subject-unrestrict": ("officer", ("POST",)),
    "subject-hold": ("officer", ("GET", "POST")),
    "forget": ("officer", ("GET", "POST")),
    "erasures": ("officer", ("GET",)),
    "erasures-export": ("officer", ("GET",)),
    "erasure": ("officer", ("GET",)),
    "erasure-panel": ("officer", ("GET",)),
    "erasure-confirm": ("officer", ("POST",)),
    "erasure-cancel": ("officer", ("POST",)),
    "erasure-keep-out": ("officer", ("POST",)),
    "erasure-needles": ("officer", ("POST",)),
    "receipts": ("officer", ("GET",)),
    "receipts-export": ("officer", ("GET",)),
    "receipt": ("officer", ("GET",)),
    "receipt-download": ("officer", ("GET",)),
    "receipt-verify": ("officer", ("GET", "POST")),
    "holds": ("officer", ("GET",)),
    "holds-export": ("officer", ("GET",)),
    "hold-lift": ("officer", ("GET", "POST")),
    "hold-renew": ("officer", ("GET", "POST")),
    "tombstones": ("officer", ("GET", "POST")),
    "tombstone-lift": ("officer", ("GET", "POST")),
    "health-privacy": ("officer", ("GET",)),
    "thread": ("viewer", ("GET",)),
    "memory": ("viewer", ("GET",)),
    "panel": ("viewer", ("GET",)),
    "tail": ("viewer", ("GET",)),
    "working-set": ("viewer", ("GET",)),
    "pages": ("viewer", ("GET",)),
    "page": ("viewer", ("GET",)),
    "page-act": ("editor", ("GET", "POST")),
    "page-delete": ("editor", ("GET", "POST")),
    "keys": ("viewer", ("GET",)),
    "keys-export": ("viewer", ("GET",)),
    "key": ("viewer", ("GET",)),
    "key-act": ("editor", ("GET", "POST")),
    "key-add": ("editor", ("GET", "POST")),
    "keys-clear": ("editor", ("GET", "POST")),
    "task": ("viewer", ("GET",)),
    "task-edit": ("editor", ("GET", "POST")),
    "notes": ("viewer", ("GET",)),
    "blocks": ("viewer", ("GET",)),
    "observer": ("viewer", ("GET",)),
    "observer-act": ("editor", ("GET", "POST")),
    "observer-instructions": ("editor", ("GET", "POST")),
    "notes-export": ("viewer", ("GET",)),
    "checkpoints": ("viewer", ("GET",)),
    "checkpoints-export": ("viewer", ("GET",)),
    "checkpoint-take": ("editor", ("GET", "POST")),
    "checkpoint-restore": ("editor", ("GET", "POST")),
    "checkpoint-delete": ("editor", ("GET", "POST")),
    "compare": ("viewer", ("GET",)),
    "turns": ("viewer", ("GET",)),
    "turn": ("viewer", ("GET",)),
    "turn-go": ("viewer", ("GET",)),
    "turn-request": ("viewer", ("GET",)),
    "turn-diff": ("viewer", ("GET",)),
    "turn-missing": ("viewer", ("GET",)),
    "marked-turns": ("viewer", ("GET",)),
    "lacking-turns": ("viewer", ("GET",)),
    "turn-mark": ("editor", ("POST",)),
    "turn-prefix": ("viewer", ("GET",)),
    "turn-panel": ("viewer", ("GET",)),
    "prefixes": ("viewer", ("GET",)),
    "paging": ("viewer", ("GET",)),
    "paging-curves": ("viewer", ("GET",)),
    "paging-prefetch": ("viewer", ("GET",)),
    "procedures": ("viewer", ("GET",)),
    "paging-export": ("viewer", ("GET",)),
    "paging-settings": ("editor", ("GET", "POST")),
    "paging-flush": ("editor", ("POST",)),
    "paging-prefetch-clear": ("editor", ("POST",)),
    "close": ("editor", ("GET", "POST")),
    "reopen": ("editor", ("POST",)),
    "retention": ("editor", ("GET", "POST")),
    "fork": ("editor", ("GET", "POST")),
    "forks": ("viewer", ("GET",)),
    "events": ("viewer", ("GET",)),
    "event": ("viewer", ("GET",)),
    "event-undo": ("editor", ("POST",)),
    "episodes-consolidate": ("editor", ("POST",)),
    "episode-retry": ("editor", ("POST",)),
    "fact-add": ("editor", ("GET", "POST")),
    "block-add": ("editor", ("GET", "POST")),
    "block-edit": ("editor", ("GET", "POST")),
    "recall": ("viewer", ("GET", "POST")),
    "thread-facts": ("viewer", ("GET",)),
    "thread-fact-add": ("viewer", ("GET",)),
    "thread-fact-act": ("viewer", ("GET",)),
    "thread-blocks": ("viewer", ("GET",)),
    "thread-block-add": ("viewer", ("GET",)),
    "thread-block-edit": ("viewer", ("GET",)),
    "thread-recall": ("viewer", ("GET",)),
    "events-export": ("viewer", ("GET",)),
    "slots": ("viewer", ("GET",)),
    "slot": ("viewer", ("GET",)),
    "slot-picture": ("viewer", ("GET",)),
    "slots-export": ("viewer", ("GET",)),
    "messages-export": ("viewer", ("GET",)),
}
#: Values of parameters that find no record.
OTHERS = {
    "thread": "t-2",
    "prefix": "12345678",
    **dict.fromkeys(("subject", "erasure", "receipt", "hold"), str(UUID(int=4))),
    "tombstone": str(UUID(int=4)),
    "operator": str(UUID(int=4)),
}
#: Routes whose first call removes the record that a second call needs.
ONCE = {"POST tombstone-lift", "POST fact-act retract"}
ROUTES = {route.name: route for route in list_routes()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to ask for one route."""

    route: Route
    method: str
    choice: tuple[tuple[str, str], ...]

    @property
    def needs(self) -> str:
        return ROWS[self.route.name][0] or ""

    @property
    def panel(self) -> bool:
        return self.route.name.endswith("panel")

    def ask(self, client: Client, values: dict[str, str], *, key: str = "") -> Any:
        path = self.route.fill({**values, **dict(self.choice)})
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return client.generic(self.method, f"{path}?{SINCE}", headers=headers)

    def __str__(self) -> str:
        words = [self.method, self.route.name, *(word for _, word in self.choice)]
        return " ".join(words)


def _cases() -> Iterator[Case]:
    for name, route in ROUTES.items():
        needs, methods = ROWS.get(name, (None, ()))
        for method in methods if needs else ():
            for choice in variants(route):
                chosen = tuple(choice.items())
                yield Case(route=route, method=method, choice=chosen)


CASES = [*_cases()]
IN_A_PROJECT = [case for case in CASES if "project" in case.route.parameters]
OF_A_THREAD = [case for case in CASES if "thread" in case.route.parameters]


@pytest.fixture(autouse=True)
def nobody_has_tried() -> None:
    sign_in.link_limit.forget()


@pytest.fixture(scope="module")
def acme(standing: None) -> Project:
    return factories.make_project("acme")


@pytest.fixture(scope="module", autouse=True)
def family(acme: Project) -> dict[str, str]:
    """Make records in acme; return them by the names of their address parameters."""
    return make_family(factories.make_agent(acme), remembering=True)


Visitor = Callable[[str], Client]


@pytest.fixture(scope="module")
def sessions(acme: Project) -> dict[str, SimpleCookie]:
    """Return the cookies of a browser for each role in acme."""
    return {role: signed_in(_make_member(acme, role)).cookies for role in ROLES}


@pytest.fixture
def visitor(sessions: dict[str, SimpleCookie]) -> Visitor:
    """Return a browser of someone with this role in acme."""
    return lambda role: _browser(sessions[role])


@pytest.fixture(scope="module")
def foreign(standing: None) -> SimpleCookie:
    """Return the cookies of an owner of another project."""
    return signed_in(_make_member(factories.make_project("zeta"), "owner")).cookies


@pytest.fixture
def stranger(foreign: SimpleCookie) -> Client:
    return _browser(foreign)


def _browser(kept: SimpleCookie) -> Client:
    """Return a fresh browser with these cookies, which a test may change."""
    client = Client()
    client.cookies = copy.deepcopy(kept)
    return client


def _make_member(project: Project, role: str) -> Operator:
    # The last owner can't give the role away, so there is always one more.
    operators.set_role(project, operators.ensure_default(), "owner")
    name = f"{role}-of-{project.slug}"
    operator = operators.find(name) or operators.add(name)
    operators.set_role(project, operator, role)
    return operator


def comparable(answer: Any, **different: str) -> tuple[int, dict[str, str], str]:
    """Return an answer without the form's token, its view, these words and white space.

    `PageReader` evens out white space, which a plain client does not.
    """
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    text = re.sub(r'(name="csrfmiddlewaretoken" value=)"\w+"', r"\1", body.decode())
    text = re.sub(r'data-view="[^"]+"', "", text)
    headers = dict(answer.headers)
    headers.pop("Content-Length", None)
    for word, common in different.items():
        text = text.replace(word, common)
    return answer.status_code, headers, " ".join(text.split())


def test_html_matrix_covers_every_route() -> None:
    assert ROWS.keys() == ROUTES.keys()


def test_html_matrix_refuses_every_other_method(family: dict[str, str]) -> None:
    """Methods that a row leaves out are refused to every visitor."""
    for name, (_, methods) in ROWS.items():
        case = Case(route=ROUTES[name], method="", choice=())
        values = {**family, "panel": "head", "kind": "json"}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"}.difference(methods):
            answer = Client().generic(method, case.route.fill(values))
            assert answer.status_code == 405, (name, method)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pages_are_refused_without_a_session(
    case: Case, family: dict[str, str], acme: Project
) -> None:
    """A missing session, an API key and every dead session are answered alike."""
    answer = case.ask(Client(), family)
    if case.panel:
        assert answer.status_code == 401
        assert answer.headers["MH-Panel"] == "1"
    else:
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/sign-in?next=")
    key = factories.make_key(acme)[1]
    bearer = case.ask(Client(), family, key=key)
    assert comparable(bearer) == comparable(answer)
    for client in _dead(acme):
        dead = case.ask(client, family)
        dead.headers.pop("Vary", None)
        alike = comparable(dead)
        assert (alike[0], alike[2]) == (answer.status_code, comparable(answer)[2])


def _dead(project: Project) -> Iterator[Client]:
    """Make sessions that are signed out, too old, or of a disabled operator."""
    operator = _make_member(project, "owner")
    out, old, disabled = (signed_in(operator) for _ in range(3))
    out.post("/sign-out")
    session = old.session
    long_ago = timezone.now() - timedelta(hours=access.SESSION_HOURS, seconds=1)
    session[access.SIGNED_IN] = long_ago.isoformat()
    session.save()
    yield from (out, old)
    Operator.objects.filter(id=operator.id).update(is_active=False)
    yield disabled


@pytest.mark.parametrize("case", IN_A_PROJECT, ids=str)
def test_foreign_page_answers_like_an_absent_one(
    case: Case, family: dict[str, str], stranger: Client
) -> None:
    """A foreign project, thread or key answers, to the byte, as an absent one."""
    foreign = case.ask(stranger, family)
    absent = case.ask(stranger, {**family, "project": "acmf"})
    assert foreign.status_code == 404
    assert comparable(foreign) == comparable(absent, acmf="acme")
    for name, other in OTHERS.items():
        if name not in case.route.parameters:
            continue
        own = {**family, "project": "zeta"}
        foreign = case.ask(stranger, own)
        absent = case.ask(stranger, {**own, name: other})
        assert foreign.status_code == 404
        assert comparable(foreign) == comparable(absent, **{other: own[name]})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_viewer_reads_pages_and_a_missing_role_is_named(
    case: Case, family: dict[str, str], visitor: Visitor
) -> None:
    let = {200, 302, 409, 422}
    for role in ROLES:
        answer = case.ask(visitor(role), family)
        if ROLES.index(role) >= ROLES.index(case.needs):
            assert answer.status_code in let, role
            assert not answer.headers.get("Location", "").startswith("/sign-in"), role
            let = {404} if str(case) in ONCE else let
            continue
        assert answer.status_code == 403
        assert f"the role {case.needs}" in answer.content.decode()


@pytest.mark.parametrize("case", OF_A_THREAD, ids=str)
def test_pages_of_a_restricted_or_erased_subject_are_refused(
    case: Case, family: dict[str, str], visitor: Visitor
) -> None:
    """Officers see restricted subjects; nobody sees erased ones."""
    editor, officer = visitor("editor"), visitor("officer")
    ann = Subject.objects.filter(threads__name="t-1")
    ann.update(state=Subject.State.RESTRICTED)
    refused, shown = case.ask(editor, family), case.ask(officer, family)
    Subject.objects.update(state=Subject.State.ERASED)
    gone = case.ask(officer, family)
    Subject.objects.update(state=Subject.State.ACTIVE)
    assert refused.status_code == 403
    assert "the role officer" in refused.content.decode()
    assert shown.status_code < 500
    assert shown.status_code not in {403, 404, 410}
    assert gone.status_code == 410
    for answer in (refused, gone):
        assert answer.headers.get("MH-Panel") == ("1" if case.panel else None)
