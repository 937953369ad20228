from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.core.handlers.asgi import ASGIRequest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inspector.access import access
from inspector.access.access import SEEN, SIGNED_IN, is_local_peer
from memoryhub.journal import writer
from memoryhub.models.access.operators import SignInFailure
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import TOLERANCE_NS, clock
from memoryhub.services.access import operators
from tests.conftest import DATABASES
from tests.inspector.conftest import Browser, signed_in
from tests.inspector.web.test_looking import iter_stored

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough password"


@pytest.fixture
def token(acme: Project) -> str:
    return operators.make_link(operators.ensure_default())


def test_sign_in_link_works_once(token: str) -> None:
    assert Client().post(f"/sign-in/{token}").status_code == 302
    second = Client().post(f"/sign-in/{token}")
    assert second.status_code == 422
    assert "manage.py signin" in second.content.decode()


def test_sign_in_link_survives_a_preview(token: str) -> None:
    """A GET signs nobody in and leaves the link usable."""
    preview = Client()
    for method in ("GET", "HEAD", "GET"):
        page = preview.generic(method, f"/sign-in/{token}")
        assert page.status_code == 200
    assert set(preview.cookies) == {"mh_csrf"}
    assert not Session.objects.exists()
    assert Client().post(f"/sign-in/{token}").status_code == 302


def test_unknown_used_and_expired_sign_in_links_answer_alike(token: str) -> None:
    Client().post(f"/sign-in/{token}")
    used = Client().post(f"/sign-in/{token}")
    unknown = Client().post(f"/sign-in/{'x' * 43}")
    assert used.status_code == unknown.status_code
    assert get_text_without_token(used) == get_text_without_token(unknown)


def get_text_without_token(answer: object) -> str:
    """Return the page without its token, which differs each time."""
    text: str = answer.content.decode()  # type: ignore[attr-defined]  # a response
    head, _, rest = text.partition('name="csrfmiddlewaretoken" value="')
    return head + rest[64:]


def test_guessed_sign_in_links_are_rate_limited(acme: Project) -> None:
    client = Client()
    codes = [client.post(f"/sign-in/{'x' * 43}").status_code for _ in range(11)]
    assert codes == [422] * 10 + [429]


def test_sign_in_returns_to_the_page_asked_for(token: str) -> None:
    answer = Client().post(f"/sign-in/{token}", {"next": "/p/acme/threads?q=a"})
    assert answer.headers["Location"] == "/p/acme/threads?q=a"


def test_link_returns_once_to_the_page_left_for_the_sign_in(token: str) -> None:
    client = Client()
    client.get("/p/acme/threads?q=a")
    first = client.post(f"/sign-in/{token}")
    assert first.headers["Location"] == "/p/acme/threads?q=a"
    again = operators.make_link(operators.ensure_default())
    assert client.post(f"/sign-in/{again}").headers["Location"] == "/"


def test_used_link_names_the_data_folder_on_this_machine_alone(token: str) -> None:
    folder = f"MEMORYHUB_DATA={django_settings.DATA_DIR}"
    near = Client().post(f"/sign-in/{'x' * 43}").content.decode()
    far = Client(REMOTE_ADDR="203.0.113.9").post(f"/sign-in/{'x' * 43}")
    assert folder in near
    assert folder not in far.content.decode()


@pytest.mark.parametrize(
    "where", ["https://evil.example/", "//evil.example", "javascript:1"]
)
def test_sign_in_never_redirects_to_another_site(token: str, where: str) -> None:
    answer = Client().post(f"/sign-in/{token}", {"next": where})
    assert answer.headers["Location"] == "/"


def test_password_signs_in(acme: Project) -> None:
    operators.set_password(operators.ensure_default(), PASSWORD)
    client = Client()
    form = {"username": "operator", "password": PASSWORD}
    assert client.post("/sign-in", form).status_code == 302
    assert client.get("/p/acme/").status_code == 200


def test_wrong_name_and_wrong_password_answer_alike(acme: Project) -> None:
    operators.set_password(operators.ensure_default(), PASSWORD)
    one = Client().post("/sign-in", {"username": "operator", "password": "wrong"})
    two = Client().post("/sign-in", {"username": "nobody", "password": "wrong"})
    assert one.status_code == two.status_code == 422
    assert get_text_without_token(one) == get_text_without_token(two)


def test_guessed_passwords_lock_the_sign_in(acme: Project) -> None:
    operators.set_password(operators.ensure_default(), PASSWORD)
    client, form = Client(), {"username": "operator", "password": "wrong"}
    codes = [client.post("/sign-in", form).status_code for _ in range(5)]
    assert codes[0] == 422
    right = client.post("/sign-in", {"username": "operator", "password": PASSWORD})
    assert right.status_code == 429
    assert "Too many tries" in right.content.decode()


def test_signing_out_ends_the_session(owner: Client) -> None:
    answer = owner.post("/sign-out")
    assert answer.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert owner.get("/p/acme/").headers["Location"].startswith("/sign-in?next=")


def test_form_without_a_csrf_token_is_refused(acme: Project) -> None:
    client = Client(enforce_csrf_checks=True)
    assert (
        client.post("/sign-in", {"username": "a", "password": "b"}).status_code == 403
    )


@pytest.mark.parametrize(("since", "hours"), [(SIGNED_IN, 13), (SEEN, 9)])
def test_session_ends_when_old_or_idle(owner: Client, since: str, hours: int) -> None:
    session = owner.session
    session[since] = (timezone.now() - timedelta(hours=hours)).isoformat()
    session.save()
    assert owner.get("/p/acme/").status_code == 302
    assert owner.get("/p/acme/").status_code == 302


def test_powerful_operators_idle_shorter_off_loopback(browser: Browser) -> None:
    late = (timezone.now() - timedelta(minutes=31)).isoformat()
    for role, status in (("owner", 302), ("editor", 200)):
        client = browser(role)
        session = client.session
        session[SEEN] = late
        session.save()
        answer = client.get("/p/acme/", REMOTE_ADDR="192.0.2.7")
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("peer", "host", "near"),
    [
        *((peer, "127.0.0.1:8000", True) for peer in ("127.0.0.1", "::1")),
        *(("127.0.0.1", f"{name}:8000", True) for name in ("localhost", "[::1]")),
        *(("127.0.0.1", name, True) for name in ("127.0.0.1", "LOCALHOST", "[::1]")),
        # Requests that a proxy on the machine forwards.
        *(("127.0.0.1", name, False) for name in ("m.example", "m.example:8000")),
        *(("127.0.0.1", name, False) for name in ("localhost.m.example", "", "::1")),
        ("192.0.2.7", "127.0.0.1:8000", False),
        ("", "127.0.0.1", False),
    ],
)
def test_near_requires_a_loopback_peer_and_a_loopback_host(
    peer: str, host: str, *, near: bool
) -> None:
    assert is_local_peer(peer, host=host, headers=["Host", "User-Agent"]) is near


@pytest.mark.parametrize(
    "header",
    [
        *("Forwarded", "Via", "X-Real-IP", "X-Client-IP", "X-Original-Host"),
        *("X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "X-Forwarded"),
        *("True-Client-IP", "CF-Connecting-IP", "X-Envoy-External-Address"),
        *("Client-IP", "Fly-Client-IP", "X-ProxyUser-Ip", "X_Forwarded_For"),
        *("clientip", "Remote-Addr", "X-Azure-SocketIP", "CF-Connecting-IPv6", "X-Via"),
    ],
)
def test_forwarded_request_is_not_near(header: str) -> None:
    """Otherwise a request through a proxy for `localhost` needs only a password."""
    assert not is_local_peer("127.0.0.1", host="localhost", headers=["Host", header])


@pytest.mark.parametrize(("header", "near"), [("accept", True), ("client_ip", False)])
def test_near_reads_headers_that_django_leaves_out(header: str, *, near: bool) -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (header.encode(), b"203.0.113.9")],
    }
    assert access.is_local_request(ASGIRequest(scope, BytesIO())) is near


def test_request_with_browser_headers_stays_near() -> None:
    """Otherwise nobody could sign in by a password at the machine itself."""
    sent = (
        "Host Connection User-Agent Accept Accept-Encoding Accept-Language Cookie"
        " Origin Referer Priority TE DNT Cache-Control Content-Type Content-Length"
        " Upgrade-Insecure-Requests Sec-Fetch-Site Sec-CH-UA-Platform Sec-GPC"
        " Sec-WebSocket-Key HX-Request HX-Current-URL X-CSRFToken Authorization"
    )
    assert is_local_peer("127.0.0.1", host="localhost", headers=sent.split())


def test_request_is_not_near_when_hosts_are_set(settings: Settings) -> None:
    settings.HOSTS = ["m.example"]
    assert not is_local_peer("127.0.0.1", host="localhost", headers=["Host"])


def test_owner_password_alone_is_refused_through_a_proxy(acme: Project) -> None:
    olga = operators.add("olga")
    operators.set_password(olga, PASSWORD)
    operators.set_role(acme, olga, "owner")
    form = {"username": "olga", "password": PASSWORD}
    away = Client(headers={"X-Forwarded-For": "203.0.113.9"})
    assert away.post("/sign-in", form).status_code == 422
    assert Client().post("/sign-in", form).status_code == 302


def test_request_through_a_local_proxy_is_not_near(
    acme: Project, settings: Settings
) -> None:
    """Check the password-only sign-in and the idle time of a session."""
    settings.ALLOWED_HOSTS = ["127.0.0.1", "m.example"]
    olga = operators.add("olga")
    operators.set_password(olga, PASSWORD)
    operators.set_role(acme, olga, "owner")
    form = {"username": "olga", "password": PASSWORD}
    for host, entered, stayed in (("m.example", 422, 302), ("127.0.0.1", 302, 200)):
        client = Client(SERVER_NAME=host)
        assert client.post("/sign-in", form).status_code == entered
        assert client.post(f"/sign-in/{operators.make_link(olga)}").status_code == 302
        session = client.session
        session[SEEN] = (timezone.now() - timedelta(minutes=31)).isoformat()
        session.save()
        assert client.get("/p/acme/").status_code == stayed


def test_session_changes_its_key_at_sign_in(token: str) -> None:
    client = Client()
    client.get("/sign-in")
    before = client.session.session_key
    client.post(f"/sign-in/{token}")
    assert client.session.session_key != before


def test_sign_in_lands_on_the_only_project(owner: Client, acme: Project) -> None:
    assert owner.get("/").headers["Location"] == "/p/acme/"


def test_sign_in_lands_on_the_list_of_several_projects(
    acme: Project, zeta: Project
) -> None:
    client = signed_in(operators.ensure_default())
    assert client.get("/").headers["Location"] == "/projects"
    page = client.get("/projects").content.decode()
    assert 'href="/p/acme/"' in page
    assert 'href="/p/zeta/"' in page


def test_theme_is_remembered(owner: Client) -> None:
    answer = owner.post("/theme", {"theme": "dark", "next": "/p/acme/threads"})
    assert answer.headers["Location"] == "/p/acme/threads"
    assert 'data-theme="dark"' in owner.get("/p/acme/threads").content.decode()
    owner.post("/theme", {"theme": '"><script>'})
    assert "data-theme" not in owner.get("/p/acme/threads").content.decode()


def test_sign_in_page_writes_nothing(
    acme: Project, django_assert_num_queries: Any
) -> None:
    client = Client(enforce_csrf_checks=True)
    with django_assert_num_queries(0):
        page = client.get("/sign-in")
    assert not Session.objects.exists()
    cookie = page.cookies["mh_csrf"]
    assert set(page.cookies) == {"mh_csrf"}
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    token = page.content.decode().partition('csrfmiddlewaretoken" value="')[2][:64]
    form = {"username": "a", "password": "b", "csrfmiddlewaretoken": token}
    assert client.post("/sign-in", form).status_code == 422


@pytest.mark.parametrize("name", ["a\0b", "x" * 65, "x" * 300, "", "ä", " "])
def test_impossible_name_is_refused_like_an_unknown_name(
    acme: Project, name: str
) -> None:
    usual = Client().post("/sign-in", {"username": "nobody", "password": "wrong"})
    answer = Client().post("/sign-in", {"username": name, "password": "wrong"})
    assert answer.status_code == usual.status_code == 422
    assert get_text_without_token(answer) == get_text_without_token(usual)


@pytest.mark.parametrize("password", ["a\0b", "x" * 4097, "ä" * 2049])
def test_impossible_password_is_refused_like_a_wrong_password(
    acme: Project, password: str
) -> None:
    operator = operators.ensure_default()
    # The answer is the same even if the password is the stored one.
    operator.set_password(password)
    operator.save()
    form = {"username": operator.username, "password": password}
    wrong = Client().post("/sign-in", {**form, "password": "wrong"})
    answer = Client().post("/sign-in", form)
    assert answer.status_code == wrong.status_code == 422
    assert get_text_without_token(answer) == get_text_without_token(wrong)


def test_right_password_counts_no_failure(acme: Project) -> None:
    operators.set_password(operators.add("olga"), PASSWORD)
    form = {"username": "olga", "password": PASSWORD}
    for password, status in (("wrong", 422), (PASSWORD, 302), (PASSWORD, 302)):
        answer = Client().post("/sign-in", {**form, "password": password})
        assert answer.status_code == status
    assert not SignInFailure.objects.exists()


def test_failed_sign_in_stores_no_typed_text(acme: Project) -> None:
    """A failure stores two keyed digests and a time, and writes nothing to a log."""
    typed = [f"typed-{n}-{uuid4().hex}" for n in range(7)]
    fields = ("username", "password", "code", "next", "purpose", "anything")
    form = dict(zip(fields, typed, strict=False)) | {"purpose": "debugging"}
    agent = {"User-Agent": typed[-1]}
    answer = Client(headers=agent).post(f"/sign-in?next=/{typed[-1]}", form)
    assert answer.status_code == 422
    (failure,) = SignInFailure.objects.all()
    assert len(failure.name) == len(failure.address) == 32
    rows = [repr(row) for name in DATABASES for _, row in iter_stored(name)]
    assert not [text for text in typed if any(text in row for row in rows)]


def test_sign_in_link_survives_a_stopped_writer(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stopping:
        stopping.setattr(writer, "_stopping", True)
        answer = Client().post(f"/sign-in/{token}")
    assert answer.status_code == 503
    assert "Unavailable for a moment" in answer.content.decode()
    assert Client().post(f"/sign-in/{token}").status_code == 302


def test_sign_in_answers_503_when_the_database_is_away(token: str) -> None:
    def away(*_: Any) -> None:
        raise OperationalError

    form = {"username": "operator", "password": PASSWORD}
    with connection.execute_wrapper(away):
        link = Client().post(f"/sign-in/{token}")
        password = Client().post("/sign-in", form)
    assert link.status_code == password.status_code == 503
    assert Client().post(f"/sign-in/{token}").status_code == 302


def test_sign_in_is_refused_while_the_clock_is_off(owner: Client) -> None:
    """The wrong clock may hide that a session or a link has ended."""
    link = f"/sign-in/{operators.make_link(operators.ensure_default())}"
    clock.compare(-TOLERANCE_NS - 1)
    for answer in (owner.get("/p/acme/"), Client().post(link)):
        assert answer.status_code == 503
        assert "clock_skew" in answer.content.decode()
    clock.compare(0)
    assert owner.get("/p/acme/").status_code == 200
    assert Client().post(link).status_code == 302
