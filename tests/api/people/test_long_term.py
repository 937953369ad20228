"""Memory of a subject as an agent loads it at its start."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.services.people import subjects
from tests.api.client import Client
from tests.cast import factories

pytestmark = pytest.mark.django_db


async def make_memory(api: Client, subject: Subject) -> str:
    """Make a block and three facts, two of which hold; return the memory's address."""
    path = f"/subjects/{subject.id}"
    await api.put(f"{path}/blocks/persona", {"text": "Flies twice a month."})
    fact: dict[str, Any] = {"entity": "user", "predicate": "tier", "value": "Gold"}
    for predicate, begin, end in (("b", 2, None), ("a", 3, None), ("c", 1, 4)):
        times = {
            f"valid_{name}": f"2026-01-0{day}T00:00:00Z"
            for name, day in (("from", begin), ("until", end))
            if day is not None
        }
        await api.post(f"{path}/facts", {**fact, "predicate": predicate, **times})
    return f"{path}/memory"


async def test_memory_is_blocks_facts_and_counts(api: Client, ann: Subject) -> None:
    loaded = (await api.get(await make_memory(api, ann))).json
    listed = {
        name: (await api.get(f"/subjects/{ann.id}/{name}")).json["items"]
        for name in ("blocks", "facts")
    }
    assert loaded["blocks"] == listed["blocks"]
    assert [block["text"] for block in loaded["blocks"]] == ["Flies twice a month."]
    assert [fact["predicate"] for fact in loaded["facts"]] == ["a", "b"]
    assert sorted(loaded["facts"], key=str) == sorted(listed["facts"], key=str)
    counts = {"blocks": 1, "facts": 2, "assertions": 3, "episodes": 0}
    assert loaded["counts"] == counts
    profile = (await api.get(f"/subjects/{ann.id}")).json
    assert {name: profile[name] for name in counts} == counts
    assert profile["sample"] == loaded["facts"]


async def test_profile_lists_sessions_for_keys_that_may_read(
    api: Client, acme: Project, ann: Subject
) -> None:
    api.connect()
    key = factories.make_key(acme, scopes=["subject:export"])
    officer = Client(key=key[1])
    talk = {"thread": "talk", "input": "Is 12A free?", "output": "Yes."}
    said = (await api.post(f"/subjects/{ann.id}/episodes", talk)).json
    (session,) = (await api.get(f"/subjects/{ann.id}")).json["sessions"]
    assert (session["thread"], session["messages"]) == ("talk", 2)
    assert session["last_event_at"] == said["at"]
    counted = (await officer.get(f"/subjects/{ann.id}")).json
    assert (counted["slots"], counted["sessions"], counted["sample"]) == (2, [], [])


async def test_memory_of_another_subject_is_absent(
    api: Client, bound: Client, acme: Project, ann: Subject
) -> None:
    api.connect()
    bob = subjects.find_or_create(acme.id, "bob")
    path = await make_memory(api, bob)
    absent = await bound.get(f"/subjects/{acme.id}/memory")
    assert (absent.status, absent.code) == (404, "not_found")
    assert (await bound.get(path)).comparable == absent.comparable
    own = (await bound.get(f"/subjects/{ann.id}/memory")).json
    assert (own["blocks"], own["facts"], set(own["counts"].values())) == ([], [], {0})


async def test_nobodys_memory_is_empty(api: Client, acme: Project) -> None:
    await api.append("t-1", "hello")
    nobody = subjects.get_anonymous(acme.id)
    loaded = (await api.get(f"/subjects/{nobody.id}/memory")).json
    assert (loaded["blocks"], loaded["facts"]) == ([], [])
    assert loaded["counts"]["episodes"] == len(loaded["episodes"]) == 1


async def test_anonymous_thread_beside_subjects_is_created_with_a_warning(
    api: Client, bound: Client, foreign: Client, ann: Subject
) -> None:
    """The warning comes once, at creation, and never to a key bound to a subject."""
    made = await api.put("/threads/t-1")
    assert (made.status, made.json["warnings"]) == (201, ["anonymous_bucket"])
    for other in (
        await api.put("/threads/t-1"),
        await api.put("/threads/t-2", {"user_id": "ann"}),
        await bound.put("/threads/t-3"),
        await foreign.put("/threads/t-1"),
    ):
        assert other.status < 300
        assert "warnings" not in other.json
