"""Single sign-on with a real server, and good and bad providers on loopback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from http.cookies import SimpleCookie
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from inspector.web.middleware import POLICY
from tests.cast import provider as providing
from tests.cast.provider import CLIENT_ID, SECRET, Provider
from tests.harness.instances import Instance, Server, prepare_instance
from tests.harness.instances import instance as fresh_instance

# Sign-on does not differ by database engine.

FAR = (f"10.9.{n // 250}.{n % 250 + 1}" for n in count())
SUBJECTS = {"vera": "subject-vera", "olga": "subject-olga"}


class Person:
    """A browser without scripts, at an address of its own."""

    def __init__(self, port: int) -> None:
        self.port, self.address = port, next(FAR)
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> Any:
        line = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {
            "X-Forwarded-For": self.address,
            "Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items()),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        line.request(method, path, urlencode(form or {}), headers)
        answer: Any = line.getresponse()
        answer.text = answer.read().decode()
        line.close()
        for sent in answer.headers.get_all("Set-Cookie", []):
            for name, morsel in SimpleCookie(sent).items():
                self.cookies[name] = morsel.value
        return answer

    def set_off(self, **form: str) -> HTTPResponse:
        """Press the button; return the answer, which leads to the provider."""
        page = self.ask("GET", "/sign-in").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        sent = {"csrfmiddlewaretoken": token[1], **form}
        answer: HTTPResponse = self.ask("POST", "/sso", sent)
        return answer

    def way_back(self, answer: HTTPResponse) -> str:
        """Go to the provider; return the address that it sends us back to."""
        away = urlsplit(answer.headers["Refresh"].removeprefix("0; url="))
        assert away.port is not None
        line = HTTPConnection("127.0.0.1", away.port, timeout=30)
        line.request("GET", f"{away.path}?{away.query}")
        back = urlsplit(line.getresponse().headers["Location"])
        line.close()
        assert back.port == self.port
        return f"{back.path}?{back.query}"

    def sign_in(self, **form: str) -> Any:
        return self.ask("GET", self.way_back(self.set_off(**form)))


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with providing.serving() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.subject, running.deed, running.wrong = SUBJECTS["vera"], "", {}
    running.at = ""
    running.hung_up.clear()
    return running


@pytest.fixture(scope="module")
def hub(
    running: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("sso")
    secret = folder / "secret"
    secret.write_text(f"{SECRET}\n")
    given = {
        "MEMORYHUB_SSO_ISSUER": running.issuer,
        "MEMORYHUB_SSO_CLIENT_ID": CLIENT_ID,
        "MEMORYHUB_SSO_CLIENT_SECRET_FILE": str(secret),
        "MEMORYHUB_TRUSTED_PROXIES": "127.0.0.1",
    }
    with prepare_instance(folder, **given) as made:
        made.managed("create_project", "acme")
        for name, role in (("vera", "viewer"), ("olga", "owner")):
            words = ("--project", "acme", "--role", role, "--sso", SUBJECTS[name])
            made.managed("add_operator", name, *words)
        yield made


@pytest.fixture(scope="module")
def server(hub: Instance) -> Iterator[Server]:
    with hub.serve() as running:
        yield running


@pytest.fixture
def person(server: Server) -> Person:
    return Person(server.port)


def test_bound_operator_signs_in_and_lands_on_the_page_asked_for(
    provider: Provider, person: Person
) -> None:
    answer = person.sign_in(next="/p/acme/threads", purpose="support")
    assert (answer.status, answer.headers["Location"]) == (302, "/p/acme/threads")
    assert person.ask("GET", "/p/acme/threads").status == 200


def test_provider_is_asked_only_for_the_identity(
    provider: Provider, person: Person
) -> None:
    answer = person.set_off(next="https://evil.example/", purpose="support")
    assert answer.status == 200
    assert answer.headers["Content-Security-Policy"] == POLICY
    query = parse_qs(urlsplit(answer.headers["Refresh"]).query)
    assert query["scope"] == ["openid"]
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"http://127.0.0.1:{person.port}/sso/callback"]
    assert query["max_age"] == ["3600"]
    assert len(query["nonce"][0]) == 43
    # A foreign `next` is replaced by the first page.
    back = person.ask("GET", person.way_back(answer))
    assert back.headers["Location"] == "/"


def test_sso_callback_works_once_and_in_the_same_browser(
    provider: Provider, person: Person, server: Server
) -> None:
    back = person.way_back(person.set_off())
    other = Person(server.port)
    other.set_off()
    assert other.ask("GET", back).status == 422
    assert person.ask("GET", back).status == 302
    again = Person(server.port)
    again.cookies = dict(person.cookies)
    assert again.ask("GET", back).status == 422


@pytest.mark.parametrize(
    ("wrong", "deed"),
    [
        ({"iss": "http://127.0.0.1:9"}, ""),
        ({"aud": "somebody-else"}, ""),
        ({"aud": [CLIENT_ID, "somebody-else"]}, ""),
        ({"azp": "somebody-else"}, ""),
        ({"nonce": "another"}, ""),
        ({"nonce": None}, ""),
        ({"exp": 1_700_000_000}, ""),
        ({"exp": None}, ""),
        ({"iat": 4_000_000_000}, ""),
        ({"auth_time": 1_700_000_000}, ""),
        ({"sub": "subject-of-nobody"}, ""),
        ({"sub": None}, ""),
        ({"sub": 7}, ""),
        # An e-mail address identifies nobody here, verified or not.
        ({"sub": "x", "email": "vera", "email_verified": False}, ""),
        ({"sub": "x", "email": "vera", "email_verified": True}, ""),
        *(({}, deed) for deed in ("forged", "unsigned", "hashed")),
    ],
    ids=str,
)
def test_invalid_sso_replies_are_refused_alike(
    provider: Provider, person: Person, wrong: dict[str, Any], deed: str
) -> None:
    provider.wrong, provider.deed = wrong, deed
    answer = person.sign_in()
    provider.wrong, provider.deed, provider.subject = {}, "", "unknown"
    unknown = person.sign_in()
    assert answer.status == unknown.status == 422
    assert remove_changing_parts(answer.text) == remove_changing_parts(unknown.text)
    assert "did not let you in" in answer.text
    assert person.ask("GET", "/p/acme/").status == 302


def test_failed_sso_sign_ins_are_counted(provider: Provider, person: Person) -> None:
    provider.subject = "unknown"
    assert [person.sign_in().status for _ in range(6)] == [422] * 5 + [429]
    provider.subject = SUBJECTS["vera"]
    assert person.sign_in().status == 429


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sso/callback", 422),
        ("/sso/callback?code=x", 422),
        ("/sso/callback?code=x&state=y", 422),
        ("/sso/callback?state=y&error=access_denied", 422),
    ],
)
def test_sso_callback_without_a_started_sign_in_is_refused(
    provider: Provider, person: Person, path: str, status: int
) -> None:
    assert person.ask("GET", path).status == status


@pytest.mark.parametrize("deed", ["away", "moved", "stranger"])
def test_unusable_sso_provider_answers_503(
    provider: Provider, person: Person, deed: str
) -> None:
    provider.deed = deed
    answer = person.set_off()
    assert answer.status == 503
    assert "Refresh" not in answer.headers


def test_owner_off_loopback_needs_two_factors_with_sso(
    provider: Provider, person: Person, server: Server
) -> None:
    provider.subject = SUBJECTS["olga"]
    assert person.sign_in().status == 422
    provider.wrong = {"amr": "no list of mfa"}
    assert person.sign_in().status == 422
    provider.wrong = {"amr": ["pwd", "otp", "mfa"]}
    assert Person(server.port).sign_in().status == 302
    provider.wrong = {}
    # A request through a proxy is never near, whatever its headers.
    near = Person(server.port)
    near.address = "127.0.0.1"
    assert near.sign_in().status == 422


def test_setting_declares_that_the_provider_checks_two_factors(
    provider: Provider, hub: Instance
) -> None:
    provider.subject = SUBJECTS["olga"]
    with hub.serve(MEMORYHUB_SSO_MFA="1") as trusting:
        assert Person(trusting.port).sign_in().status == 302


def test_unbound_operator_cannot_sign_in_by_sso(
    provider: Provider, hub: Instance, server: Server
) -> None:
    words = ("--project", "acme", "--role", "viewer")
    hub.managed("add_operator", "bert", *words, "--sso", "subject-bert")
    taken = hub.manage("add_operator", "carl", *words, "--sso", "subject-bert")
    assert (taken.returncode, "already" in taken.stderr) == (1, True)
    provider.subject = "subject-bert"
    assert Person(server.port).sign_in().status == 302
    hub.managed("add_operator", "bert", *words, "--no-sso")
    assert Person(server.port).sign_in().status == 422


def test_provider_tokens_are_not_stored(
    provider: Provider, hub: Instance, person: Person
) -> None:
    person.sign_in()
    listing = (
        "from django.db import connection as c; print(*c.introspection.table_names())"
    )
    tables = hub.managed("shell", "--verbosity", "0", "-c", listing).split()
    assert "memoryhub_identity" in tables
    assert not [name for name in tables if "account" in name]
    assert "opens nothing" not in hub.log.read_text()


def test_sso_needs_no_migration_and_no_check_warning(hub: Instance) -> None:
    assert "No changes" in hub.managed("makemigrations", "--check", "--dry-run")
    done = hub.manage("check", "--deploy", MEMORYHUB_TLS="1")
    assert "account" not in done.stdout + done.stderr


# Settings


def _build_settings(issuer: str = "https://id.example") -> dict[str, str]:
    return {
        "MEMORYHUB_SSO_ISSUER": issuer,
        "MEMORYHUB_SSO_CLIENT_ID": CLIENT_ID,
        "MEMORYHUB_SSO_CLIENT_SECRET": SECRET,
    }


def _omit_setting(name: str) -> Callable[[], dict[str, str]]:
    return lambda: {k: v for k, v in _build_settings().items() if not k.endswith(name)}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (_omit_setting("ISSUER")(), "MEMORYHUB_SSO_ISSUER"),
        (_omit_setting("CLIENT_ID")(), "MEMORYHUB_SSO_CLIENT_ID"),
        (_omit_setting("SECRET")(), "MEMORYHUB_SSO_CLIENT_SECRET"),
        (_build_settings("http://id.example"), "MEMORYHUB_SSO_ISSUER"),
        (_build_settings("id.example"), "MEMORYHUB_SSO_ISSUER"),
        (
            {
                **_build_settings(),
                "MEMORYHUB_SSO_CLIENT_SECRET_FILE": "/nowhere/at-all",
            },
            "MEMORYHUB_SSO_CLIENT_SECRET_FILE",
        ),
    ],
)
def test_incomplete_or_unsafe_sso_settings_do_not_start(
    tmp_path: Path, given: dict[str, str], named: str
) -> None:
    with fresh_instance(tmp_path) as made:
        refused = made.manage("check", **given)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert named in refused.stderr
    assert SECRET not in refused.stderr


def test_sso_subject_cannot_be_bound_when_sso_is_off(tmp_path: Path) -> None:
    with prepare_instance(tmp_path) as made:
        made.managed("create_project", "acme")
        words = ("--project", "acme", "--sso", "x")
        refused = made.manage("add_operator", "vera", *words)
    assert (refused.returncode, "is off" in refused.stderr) == (1, True)


def remove_changing_parts(text: str) -> str:
    """Remove the form's token and the callback address, which differ each time."""
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text)
    return re.sub(r'"/sso/callback\?[^"]*"', "", text)


@pytest.mark.parametrize("path", ["/.well-known", "/token", "/keys"])
def test_endless_sso_provider_counts_as_away(
    provider: Provider, person: Person, path: str
) -> None:
    """At each request the endless provider is given up, and signs nobody in."""
    provider.deed, provider.at = "endless", path
    answer = person.set_off(purpose="support")
    if answer.status == 200:
        answer = person.ask("GET", person.way_back(answer))
    assert answer.status == 503
    assert provider.hung_up.wait(20)
    provider.at = ""
    assert person.sign_in(purpose="support").status == 302
