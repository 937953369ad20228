"""PostgreSQL's least role, which owns its databases and is no superuser."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from memoryhub.journal.forget import scrub
from memoryhub.models.erasures import Erasure
from tests.cast.factories import make_agent, make_project
from tests.cast.forgetting import confirm, finish, make_person, plan
from tests.harness.instances import Instance, instance

PLACE = "tests.management.server.test_least_role"
ROLE = "least"

pytestmark = [pytest.mark.slow, pytest.mark.grown]


# What runs in the instance


def forget() -> None:
    """Erase one subject as far as possible; print its state and the open rewrite."""
    agent = make_agent(make_project("zeta"))
    for name in ("ann", "bob"):
        make_person(agent, name)
    row = finish(confirm(plan(make_person(agent, "eve"))))
    tell(row)


def go_on() -> None:
    tell(finish(Erasure.objects.get()))


def tell(row: Erasure) -> None:
    figures = {"state": row.state, "waiting_on": row.waiting_on}
    sys.stdout.write(f"{json.dumps(figures | {'rewrite': scrub.rewrite()})}\n")


# The tests


@pytest.fixture
def least(tmp_path: Path) -> Iterator[Instance]:
    """Make an instance whose databases belong to a role with no other rights."""
    role = f"{ROLE}_{secrets.token_hex(6)}"
    admin = os.environ["DATABASE_URL"]
    run(admin, "CREATE ROLE {} LOGIN PASSWORD {}", role, literal=password(admin))
    try:
        with instance(tmp_path) as made:
            for url in made.urls:
                run(admin, "ALTER DATABASE {} OWNER TO {}", name_of(url), role)
            own = {
                name: as_role(made.env[name], role)
                for name in ("DATABASE_URL", "KEYS_DATABASE_URL")
            }
            theirs = replace(made, env={**made.env, **own})
            theirs.call("tests.harness.instances:make_tables")
            yield theirs
    finally:
        run(admin, "DROP OWNED BY {}", role)
        run(admin, "DROP ROLE {}", role)


def run(url: str, statement: str, *names: str, literal: str | None = None) -> None:
    words: list[sql.Composable] = [sql.Identifier(name) for name in names]
    if literal is not None:
        words.append(sql.Literal(literal))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*words))


def password(url: str) -> str:
    return urlsplit(url).password or secrets.token_hex(16)


def name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def as_role(url: str, role: str) -> str:
    address = urlsplit(url)
    _, _, where = address.netloc.rpartition("@")
    secret = f":{address.password}" if address.password else ""
    return urlunsplit(address._replace(netloc=f"{role}{secret}@{where}"))


def role_of(made: Instance) -> str:
    return urlsplit(made.env["DATABASE_URL"]).username or ""


def answer_of(made: Instance, function: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(made.call(f"{PLACE}:{function}"))
    return found


def test_least_role_forgets_and_names_the_rights_a_rewrite_needs(
    least: Instance,
) -> None:
    found = answer_of(least, "forget")
    assert found == {"state": "complete", "waiting_on": "", "rewrite": "rights"}
    assert {"W006", *GRANTED} <= list_warnings(least)
    refused = least.manage("forget", "--rewrite")
    assert refused.returncode != 0
    assert "rights" in refused.stderr
    for grant in GRANTED:
        for url in least.urls:
            run(url, f"{grant} TO {{}}", role_of(least))
    assert not {"W006", *GRANTED} & list_warnings(least)
    assert answer_of(least, "go_on")["rewrite"] == ""
    assert "1 receipts have an addendum" in least.managed("forget", "--rewrite")
    assert "every chain is whole" in least.managed("verify", "--all")


#: As they stand in docs/operations.md.
GRANTED = ("GRANT EXECUTE ON FUNCTION pg_switch_wal()", "GRANT pg_checkpoint")


def list_warnings(made: Instance) -> set[str]:
    """Return which of the warning and its parts `check --deploy` prints."""
    databases = ("--database", "default", "--database", "keys")
    printed = made.manage("check", "--deploy", *databases).stderr
    every = {"W006", "table memoryhub_slot", *GRANTED}
    return {each for each in every if each in printed}


def test_table_owned_by_another_role_blocks_the_erasure(least: Instance) -> None:
    """VACUUM would skip the table, and every byte would stay."""
    url = least.urls[0]
    run(url, "ALTER TABLE memoryhub_slot OWNER TO CURRENT_USER")
    run(url, "GRANT ALL ON memoryhub_slot TO {}", role_of(least))
    assert {"W006", "table memoryhub_slot"} <= list_warnings(least)
    found = answer_of(least, "forget")
    assert (found["state"], found["waiting_on"]) == ("caches_purged", "rights")
    assert found["rewrite"] == "rights"
    run(url, "ALTER TABLE memoryhub_slot OWNER TO {}", role_of(least))
    assert answer_of(least, "go_on")["state"] == "complete"


def test_erasure_waits_for_a_reader_of_another_role(least: Instance) -> None:
    """Our role sees little of a foreign session, and must not take it for none."""
    with hold_snapshot(least.urls[0]):
        found = answer_of(least, "forget")
        assert (found["state"], found["waiting_on"]) == ("caches_purged", "reader")
    assert answer_of(least, "go_on")["state"] == "complete"


@contextmanager
def hold_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT COUNT(*) FROM memoryhub_event").fetchone()
        yield
