"""The operator's commands: effects, output and errors."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from memoryhub.management.serving import address
from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.operators import Membership, Operator, SignInLink
from memoryhub.models.projects import MAX_THREADS, Project
from memoryhub.services.access import api_keys, operators
from memoryhub.services.access.api_keys import KEY_PATTERN
from memoryhub.services.people import subjects

pytestmark = pytest.mark.django_db

STRONG = "seven herons on the jetty"


class Ended(Exception):
    """A command that ended early: its exit code, and its one line of output."""


def run(*words: str) -> tuple[str, str]:
    """Run the command; return its standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=err, no_color=True)
    except SystemExit as end:
        printed = err.getvalue().strip()
        assert "\n" not in printed
        assert out.getvalue() == ""
        raise Ended(end.code, printed) from None
    return out.getvalue(), err.getvalue()


def require_refusal(*words: str, code: int = 1) -> str:
    with pytest.raises(Ended) as ended:
        run(*words)
    assert ended.value.args[0] == code
    return str(ended.value.args[1])


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


# create_project


def test_create_project_makes_an_owner() -> None:
    _, printed = run("create_project", "acme")
    assert "create_key acme" in printed
    made = Project.objects.get(slug="acme")
    assert made.max_threads == MAX_THREADS
    owner = Membership.objects.get(project=made)
    assert (owner.operator.username, owner.role) == ("operator", "owner")


def test_create_project_sets_max_threads() -> None:
    run("create_project", "acme", "--max-threads", "7")
    assert Project.objects.get().max_threads == 7


@pytest.mark.parametrize("slug", ["", "Acme", "a b", "a/b", "ä", "x" * 41, "a\n"])
def test_bad_project_slug_is_refused(slug: str) -> None:
    assert "a-z, 0-9" in require_refusal("create_project", slug)
    assert not Project.objects.exists()


@pytest.mark.parametrize("number", ["0", "-1", "10000001"])
def test_bad_max_threads_is_refused(number: str) -> None:
    assert "--max-threads" in require_refusal(
        "create_project", "acme", "--max-threads", number
    )


def test_project_slug_is_unique(acme: Project) -> None:
    assert "another name" in require_refusal("create_project", acme.slug)


# create_key, revoke_key


def test_create_key_prints_the_key_alone(acme: Project) -> None:
    out, printed = run("create_key", "acme")
    key = out.strip()
    row = ApiKey.objects.get()
    shape = KEY_PATTERN.fullmatch(key)
    assert shape is not None
    assert shape[1] == row.prefix
    assert api_keys.is_valid_key(row, key, now=timezone.now())
    assert row.scopes == "memory:read memory:write"
    assert (row.subject, row.expires_at) == (None, None)
    assert "Bearer $KEY" in printed
    assert key not in printed


def test_create_key_prints_an_example_with_the_server_address(
    acme: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path
    usual = "http://127.0.0.1:8000/api/v1/threads"
    assert usual in run("create_key", "acme")[1]
    address.note_address("http://127.0.0.1:8123")
    assert "http://127.0.0.1:8123/api/v1/threads" in run("create_key", "acme")[1]
    settings.ORIGINS = ["https://m.example"]
    assert "https://m.example/api/v1/threads" in run("create_key", "acme")[1]


def test_create_key_sets_scopes_and_expiry(acme: Project) -> None:
    words = ("--scopes", "admin,subject:export", "--expires-days", "30")
    run("create_key", "acme", *words)
    row = ApiKey.objects.get()
    assert row.scopes == "admin subject:export"
    assert row.expires_at is not None
    left = row.expires_at - timezone.now()
    assert timedelta(days=29) < left <= timedelta(days=30)


def test_key_is_bound_to_the_person_on_standard_input(
    acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "ann-17\n")
    out, printed = run("create_key", "acme", "--user-id")
    assert ApiKey.objects.get().subject == subjects.find(acme.id, "ann-17")
    assert "ann-17" not in out + printed


@pytest.mark.parametrize("text", ["", "\n", "x" * 257 + "\n", " ann\n", "a\nb\n"])
def test_bad_user_id_is_refused(
    acme: Project, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    answer(monkeypatch, text)
    assert "a person's id" in require_refusal("create_key", "acme", "--user-id", code=2)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--scopes", "memory:read,admin"], "never go together"),
        (["--scopes", "everything"], "--scopes takes"),
        (["--scopes", "memory:read,everything"], "--scopes takes"),
        (["--scopes", "Memory:read"], "--scopes takes"),
        (["--scopes", ""], "--scopes takes"),
        (["--scopes", ","], "--scopes takes"),
        (["--expires-days", "0"], "--expires-days"),
        (["--expires-days", "-1"], "--expires-days"),
        (["--expires-days", "99999"], "--expires-days"),
    ],
)
def test_row_94_invalid_key_options_are_refused(
    acme: Project, monkeypatch: pytest.MonkeyPatch, words: list[str], printed: str
) -> None:
    """The refused command makes no subject either."""
    answer(monkeypatch, "ann-17\n")
    assert printed in require_refusal("create_key", "acme", *words, "--user-id", code=2)
    assert not ApiKey.objects.exists()
    assert subjects.find(acme.id, "ann-17") is None


def test_create_key_without_a_project_says_how_to_make_one() -> None:
    assert "manage.py create_project nobody" in require_refusal("create_key", "nobody")


def test_key_is_revoked_by_its_prefix(acme: Project) -> None:
    row, key = api_keys.create(acme)
    _, printed = run("revoke_key", row.prefix)
    assert row.prefix in printed
    row.refresh_from_db()
    assert row.revoked_at is not None
    assert not api_keys.is_valid_key(row, key, now=timezone.now())
    _, again = run("revoke_key", row.prefix)
    assert "has been revoked" in again


def test_unknown_key_prefix_is_refused(acme: Project) -> None:
    assert "No key" in require_refusal("revoke_key", "nowhere0")


# signin, add_operator


def test_sign_in_link_signs_the_operator_in(acme: Project) -> None:
    out, printed = run("signin")
    link = out.strip()
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    assert "15 minutes" in printed
    used = operators.use_link(link.rpartition("/")[2])
    assert used is not None
    assert used.username == "operator"


def test_sign_in_link_names_its_operator_minutes_and_origin(acme: Project) -> None:
    ann = operators.add("ann")
    words = ("--operator", "ann", "--minutes", "60", "--origin", "https://m.example/")
    out, _ = run("signin", *words)
    assert out.startswith("https://m.example/sign-in/")
    link = SignInLink.objects.get()
    assert link.operator == ann
    left = link.expires_at - timezone.now()
    assert timedelta(minutes=59) < left <= timedelta(minutes=60)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--operator", "nobody"], "add_operator"),
        (["--minutes", "0"], "--minutes"),
        (["--minutes", "1441"], "--minutes"),
    ],
)
def test_impossible_sign_in_link_is_refused(words: list[str], printed: str) -> None:
    assert printed in require_refusal("signin", *words)
    assert not SignInLink.objects.exists()


def test_operator_is_added_to_projects(acme: Project, zeta: Project) -> None:
    words = ("--project", "acme", "--project", "zeta", "--role", "editor")
    _, printed = run("add_operator", "ann", *words)
    ann = Operator.objects.get(username="ann")
    assert [operators.get_role(each, ann) for each in (acme, zeta)] == ["editor"] * 2
    assert "signin --operator ann" in printed
    run("add_operator", "ann", "--project", "acme", "--role", "viewer")
    assert operators.get_role(acme, ann) == "viewer"


def test_password_comes_from_standard_input(
    acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, f"{STRONG}\n")
    out, printed = run("add_operator", "ann", "--project", "acme", "--password")
    assert Operator.objects.get(username="ann").check_password(STRONG)
    assert STRONG not in out + printed


def test_weak_password_is_refused_with_the_rule(
    acme: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "hunter2\n")
    printed = require_refusal("add_operator", "ann", "--project", "acme", "--password")
    assert "12 characters" in printed
    assert "hunter2" not in printed


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["ann", "--project", "nowhere"], "create_project nowhere"),
        (["a b", "--project", "acme"], "A name begins"),
    ],
)
def test_invalid_operator_is_refused(
    acme: Project, words: list[str], printed: str
) -> None:
    assert printed in require_refusal("add_operator", *words)


def test_last_owner_cannot_be_removed(acme: Project) -> None:
    operators.set_role(acme, operators.add("ann"), "owner")
    printed = require_refusal(
        "add_operator", "ann", "--project", "acme", "--role", "viewer"
    )
    assert "somebody else owner" in printed


def test_operator_role_is_removed(acme: Project, zeta: Project) -> None:
    words = ("add_operator", "ann", "--project", "acme", "--project", "zeta")
    run(*words, "--role", "editor")
    _, printed = run("add_operator", "ann", "--project", "acme", "--role", "none")
    assert "no role in acme" in printed
    ann = Operator.objects.get(username="ann")
    assert [operators.get_role(each, ann) for each in (acme, zeta)] == [None, "editor"]
    operators.set_role(acme, ann, "owner")
    operators.set_role(acme, operators.ensure_default(), None)
    printed = require_refusal(
        "add_operator", "ann", "--project", "acme", "--role", "none"
    )
    assert "somebody else owner" in printed
    assert operators.get_role(acme, ann) == "owner"
    printed = require_refusal(
        "add_operator", "bob", "--project", "acme", "--role", "none"
    )
    assert "no operator" in printed
    assert operators.find("bob") is None


# disable_operator


def test_disabled_operator_is_enabled_but_not_added_again(
    acme: Project,
) -> None:
    run("add_operator", "ann", "--project", "acme")
    _, printed = run("disable_operator", "ann")
    assert "disable_operator ann --enable" in printed
    assert operators.find("ann") is None
    assert "disabled" in require_refusal("add_operator", "ann", "--project", "acme")
    assert "add_operator" in require_refusal("signin", "--operator", "ann")
    run("disable_operator", "ann", "--enable")
    assert operators.find("ann") is not None


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("nobody", "no operator"),
        ("ann", "somebody else owner"),
        ("operator", "the way back in"),
    ],
)
def test_last_owner_and_default_operator_cannot_be_disabled(
    acme: Project, name: str, printed: str
) -> None:
    operators.ensure_default()
    operators.set_role(acme, operators.add("ann"), "owner")
    operators.set_role(acme, operators.ensure_default(), None)
    assert printed in require_refusal("disable_operator", name)
    assert not Operator.objects.filter(is_active=False).exists()
