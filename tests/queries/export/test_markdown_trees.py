"""Markdown trees: all that is remembered now, and what was erased, in words."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from memoryhub.errors import SubjectErasedError
from memoryhub.kernel.observing.lines import make_line
from memoryhub.models import Project, Subject
from memoryhub.queries.export import bundle_cuts, bundle_events, markdown_trees
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers
from memoryhub.services.observing.observers import ObservationDraft
from memoryhub.services.people import subjects
from tests.cast import bundled, erasings, factories, knowing, recordings
from tests.oracles import memory_acts as acts

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent, acme: Project) -> Subject:
    bundled.live_in_threads(agent)
    return subjects.find_or_create(acme.id, "ann")


def export(subject: Subject) -> ZipFile:
    cut = bundle_cuts.take(subject)
    return bundled.open_bundle(b"".join(markdown_trees.stream(cut)))


def read(subject: Subject, path: str) -> str:
    return export(subject).read(path).decode()


def test_tree_has_a_file_for_each_kind_of_memory(agent: Agent, ann: Subject) -> None:
    knowing.say(agent, ann, knowing.claim("VIE", 0))
    knowing.write(agent, ann, "human", "Ann is shy.")
    whole = export(ann)
    assert {
        *("README.md", "threads.md", "facts.md", "processing.md", "blocks/human.md"),
        *("threads/t-1.md", "threads/t-2.md", "threads/t-3.md"),
        *("keys/t-1.md", "notes/t-1.md", "checkpoints/t-1.md", "pages/t-1/fares.md"),
    } <= {*whole.namelist()}
    assert "Ann is shy." in whole.read("blocks/human.md").decode()
    assert "hesitates" in whole.read("notes/t-1.md").decode()
    assert "- value: `12A`" in whole.read("keys/t-1.md").decode()
    assert "class Q" in whole.read("pages/t-1/fares.md").decode()
    assert "Nothing here is signed" in whole.read("README.md").decode()


def test_messages_of_a_fork_go_on_from_its_parent(ann: Subject) -> None:
    told = read(ann, "threads/t-2.md")
    assert "see [its messages](t-1.md)" in told
    assert "`user` to `assistant`, " in told
    assert told.endswith("`chat.user`\n\n```\nbye\n```\n\n")


def test_messages_stand_in_order_across_batches(
    ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(ann, "threads/t-1.md")
    monkeypatch.setattr(bundle_events, "BATCH", 3)
    assert read(ann, "threads/t-1.md") == whole
    found = [line for line in whole.splitlines() if line.startswith("## ")]
    assert found == [f"## {n}" for n in range(9)]


def test_heading_of_an_imported_thread_has_its_title(
    acme: Project, tmp_path: Path
) -> None:
    said = {"author": {"role": "user"}, "content": {"parts": ["When?"]}}
    tides = {"id": "a", "title": "Low tides", "mapping": {"m": {"message": said}}}
    path = tmp_path / "gpt.json"
    path.write_text(json.dumps([tides, {**tides, "id": "b", "title": " "}]))
    assert recordings.take(acme, path, user_id="eve")[1] == []
    eve = subjects.find_or_create(acme.id, "eve")
    heads = [read(eve, f"threads/gpt%3A{name}.md").partition("\n")[0] for name in "ab"]
    assert heads == ["# Thread `gpt:a`: `Low tides`", "# Thread `gpt:b`"]


def test_facts_are_told_by_time(agent: Agent, ann: Subject) -> None:
    days = [("VIE", 0), ("FRA", 10), ("JFK", 9_000)]
    knowing.say(agent, ann, *(knowing.claim(v, day) for v, day in days))
    now, past, future = read(ann, "facts.md").split("\n## ")[1:]
    assert now.startswith("Now\n")
    assert "FRA" in now
    assert "until 2026-01-11 00:00:00 UTC" in past
    assert "VIE" in past
    assert "JFK" in future


def test_text_stays_in_its_block(agent: Agent, ann: Subject) -> None:
    factories.append(agent, "t-3", "```\n# Not a heading\n<script>")
    knowing.say(agent, ann, knowing.claim("a`b\n````", predicate="x`y\n# z"))
    assert "````\n```\n# Not a heading\n<script>\n````\n" in read(ann, "threads/t-3.md")
    told = read(ann, "facts.md")
    assert r'``"x`y\n# z"``' in told
    assert "`````\na`b\n````\n`````\n" in told


def test_erased_contents_are_told_in_words(agent: Agent, ann: Subject) -> None:
    bundled.delete_page(agent, "rules")
    whole = export(ann)
    assert "pages/t-1/rules.md" not in whole.namelist()
    assert "*Erased: content of 1 `page.created`.*" in read(ann, "threads/t-1.md")
    assert read(ann, "pages/t-2/rules.md").endswith("\n\n*Erased.*\n")


def test_erased_messages_and_notes_are_told_in_words(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", user_id="ann")
    factories.append(agent, "t-1", "secret", "")
    acts.add_notes(agent, "secret", thread="t-1")
    ann = subjects.find_or_create(agent.project, "ann")
    thread = factories.get_thread(agent)
    erasings.erase(thread, (2, 2), (thread.head_seq, thread.head_seq))
    whole = export(ann)
    erased, empty = whole.read("threads/t-1.md").decode().split("\n## ")[1:]
    assert erased.endswith("`chat.user`\n\n*Erased.*\n")
    assert "*Empty.*" in empty
    told = "# Notes of `t-1`\n\n*Erased: content of 1 `note.added`.*\n\n"
    assert whole.read("notes/t-1.md").decode() == told
    assert b"secret" not in b"".join(map(whole.read, whole.namelist()))


def test_erased_fact_is_told_in_words(agent: Agent, ann: Subject) -> None:
    knowing.say(agent, ann, knowing.claim("VIE", 0))
    home = find_home(ann)
    assert home is not None
    erasings.erase(home, (home.head_seq, home.head_seq))
    told = read(ann, "facts.md")
    assert told == "# Facts\n\n*Erased: content of 1 `fact.asserted`.*\n\n"


@pytest.mark.parametrize("purged", [False, True])
def test_erased_thread_is_told_without_its_names(
    agent: Agent, ann: Subject, purged: bool
) -> None:
    thread = factories.get_thread(agent, "t-3")
    erasure = erasings.end(thread)
    if purged:
        erasings.purge(thread)
        erasings.close_erasure(erasure)
    whole = export(ann)
    (path,) = (each for each in whole.namelist() if each.startswith("threads/%7E"))
    assert "This thread was erased." in whole.read(path).decode()
    assert not {each for each in whole.namelist() if "t-3" in each}
    assert b"t-3" not in b"".join(map(whole.read, whole.namelist()))


def test_observations_are_told_with_their_messages(agent: Agent) -> None:
    factories.make_thread(agent, "t-1", user_id="ann", observe=True)
    factories.append(agent, "t-1", *(f"Number {n}" for n in range(6)))
    lines = [make_line("They greeted.", first=0, end=2)]
    draft = ObservationDraft(begin=0, end=2, epoch=0, lines=lines)
    made = observers.create_observation(agent=agent, thread="t-1", draft=draft)
    factories.run(made)
    whole = export(subjects.find_or_create(agent.project, "ann"))
    told = whole.read("observations/t-1.md").decode()
    assert "## Messages 0 to 1\n" in told
    assert "They greeted." in told
    assert not {each for each in whole.namelist() if each.startswith("pages/")}


def test_threads_without_messages_and_capitals_have_files(agent: Agent) -> None:
    factories.make_thread(agent, "Desk", user_id="bob")
    acts.add_notes(agent, "n", thread="Desk")
    bob = subjects.find_or_create(agent.project, "bob")
    assert read(bob, "threads/%44esk.md") == "# Thread `Desk`\n\n*No messages.*\n\n"
    assert "notes/%44esk.md" in export(bob).namelist()


def test_tree_of_a_subject_erased_meanwhile_never_opens(ann: Subject) -> None:
    parts = markdown_trees.stream(bundle_cuts.take(ann))
    next(parts)
    Subject.objects.filter(id=ann.id).update(epoch=ann.epoch + 1)
    with pytest.raises(SubjectErasedError):
        list(parts)
    Subject.objects.filter(id=ann.id).update(epoch=ann.epoch)
