"""Lines that tell people in a list from each other."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from memoryhub.queries.people import remembered
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories, forgetting
from tests.cast.knowing import claim, retract, say, write

pytestmark = pytest.mark.django_db


def test_first_line_is_of_a_block_or_else_of_the_newest_fact(
    agent: Agent, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    people = {}
    for name in ("ann", "bea", "cem", "dan"):
        factories.make_thread(agent, f"visit-{name}", user_id=name)
        people[name] = forgetting.get_subject(agent, name)
    say(agent, people["ann"], claim("OSL", 0))
    write(agent, people["ann"], "guest", "\n Ann keeps bees.\nLikes tea.")
    write(agent, people["ann"], "rules", "Be brief.")
    say(agent, people["bea"], claim("BGO", 0), claim("tea", 0, predicate="likes"))
    retract(agent, people["bea"], say(agent, people["bea"], claim("TRS", 3)).seq)
    retract(agent, people["cem"], say(agent, people["cem"], claim("OSL", 0)).seq)
    subjects = [each.id for each in people.values()]
    remembered.find_first_lines(subjects, restricted=False)  # Caches keys.
    with django_assert_max_num_queries(4):
        found = remembered.find_first_lines(subjects, restricted=False)
    assert {subject: line.text for subject, line in found.items()} == {
        people["ann"].id: "Ann keeps bees.",
        people["bea"].id: "likes: tea",
    }
