from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from memoryhub.errors import (
    DerivedPageError,
    NameTakenError,
    PageErasedError,
    PinnedError,
    TokensRequiredError,
    UnknownPageError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    MapPage,
    PageCommand,
    PinPage,
    UnpinPage,
)
from memoryhub.kernel.state.page_events import PageCompressed
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states
from memoryhub.queries.turns import envelopes
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.pages import PageChange, PageDraft
from tests.cast import factories
from tests.cast.factories import run
from tests.oracles.paging import LOOSE, build_prose
from tests.services.acts import paging

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> None:
    factories.make_thread(agent, **LOOSE)


def do(agent: Agent, command: PageCommand) -> OrderReceipt:
    return run(writing.submit_command(agent, "t-1", command))


def map_at(agent: Agent, page_id: str, level: int) -> OrderReceipt:
    command = MapPage(page_id=page_id, level=level)
    return run(writing.map_page(agent=agent, thread="t-1", command=command))


def update(agent: Agent, page_id: str, **changes: Any) -> OrderReceipt:
    row = factories.get_thread(agent)
    entry = pages.find_entry(states.load_state(row), page_id)
    change = PageChange(**changes)
    return run(writing.amend_page(agent=agent, thread=row, entry=entry, change=change))


def served(agent: Agent, page_id: str, level: int = 0) -> envelopes.Envelope:
    row = factories.get_thread(agent)
    entry = pages.find_entry(states.load_state(row), page_id)
    return envelopes.get_envelope(row, entry, level=level, tier="L2")


def test_pages_of_a_batch_are_made_all_or_none(agent: Agent) -> None:
    drafts = [
        PageDraft(
            page_id=page_id,
            type="claim",
            modality="text",
            content={"text": page_id},
            provenance=sources,
        )
        for page_id, sources in (("a", ()), ("b", ("a",)), ("c", ("nowhere",)))
    ]
    with pytest.raises(UnknownPageError):
        run(writing.write_pages(agent=agent, thread="t-1", drafts=drafts))
    assert paging(agent).pages == 0
    receipt = run(writing.write_pages(agent=agent, thread="t-1", drafts=drafts[:2]))
    assert writing.map_residency(receipt) == {"a": True, "b": True}
    assert pages.get_provenance(
        states.load_state(factories.get_thread(agent)), "b"
    ) == ("a",)


def test_page_id_is_never_reused(agent: Agent) -> None:
    factories.make_page(agent, "a")
    with pytest.raises(NameTakenError):
        factories.make_page(agent, "a")
    do(agent, DeletePage(page_id="a"))
    with pytest.raises(PageErasedError):
        factories.make_page(agent, "a")


def test_envelope_names_the_level_that_was_served(agent: Agent) -> None:
    """Serve the nearest more faithful level for a level that can't be made."""
    factories.make_page(agent, "short", text="Yes.")
    assert (served(agent, "short", 3).level, served(agent, "short", 0).level) == (0, 0)
    text = build_prose(900)
    factories.make_page(agent, "long", text=text)
    seen = [served(agent, "long", level) for level in range(4)]
    assert [each.level for each in seen] == [0, 1, 2, 3]
    sizes = [len(each.content["text"]) for each in seen]
    assert sizes == sorted(sizes, reverse=True)
    assert seen[0].content["text"] == text
    assert seen[3].content["text"].startswith("[artifact] ")


def test_level_read_equals_the_level_written(agent: Agent) -> None:
    factories.make_page(agent, "long", text=build_prose(900))
    before = served(agent, "long", 2)
    map_at(agent, "long", 2)
    entry = pages.find_current_entry(factories.get_thread(agent), "long")
    assert entry is not None
    assert entry.levels[2] is not None
    assert served(agent, "long", 2) == before


def test_full_text_survives_lowering_evicting_and_faulting(agent: Agent) -> None:
    text = build_prose(900)
    factories.make_page(agent, "a", text=text)
    map_at(agent, "a", 3)
    do(agent, EvictPage(page_id="a"))
    do(agent, EvictPage(page_id="a"))
    assert paging(agent).find_tier("a") is None
    assert served(agent, "a").content == {"text": text}
    map_at(agent, "a", 1)
    map_at(agent, "a", 0)
    assert paging(agent).frames["a"].level == 0
    assert served(agent, "a").content == {"text": text}


def test_levels_are_made_only_when_one_may_be_needed(agent: Agent) -> None:
    factories.make_page(agent, "a", text=build_prose(900), map=False)
    assert map_at(agent, "a", 0).list_events(PageCompressed) == []
    do(agent, EvictPage(page_id="a"))
    assert len(map_at(agent, "a", 2).list_events(PageCompressed)) == 1
    do(agent, EvictPage(page_id="a"))
    assert map_at(agent, "a", 3).list_events(PageCompressed) == []


def test_updated_page_is_never_served_stale(agent: Agent) -> None:
    """Serve neither the old text nor a level made of the old version."""
    factories.make_page(agent, "a", text=build_prose(900, "former"))
    map_at(agent, "a", 2)
    assert "former" in served(agent, "a", 2).content["text"]
    update(agent, "a", content={"text": build_prose(900, "latter")})
    for level in range(4):
        text = served(agent, "a", level).content["text"]
        assert "former" not in text.lower()
        assert "latter" in text.lower()
    assert paging(agent).frames["a"].level == 0
    row = factories.get_thread(agent)
    old = pages.find_entry(states.load_state(row, row.head_seq - 1), "a")
    former = envelopes.get_envelope(row, old, level=0, tier="L2")
    assert "former" in former.content["text"]


def test_page_metadata_survives_a_content_update(agent: Agent) -> None:
    meta = {"mime_type": "image/png", "dimensions": [640, 480]}
    factories.make_page(
        agent, "map", modality="image", content={"caption": "Seats"}, meta=meta
    )
    update(agent, "map", content={"caption": "Seats by row"})
    seen = served(agent, "map")
    assert seen.content == {"caption": "Seats by row"}
    assert (seen.mime_type, seen.dimensions) == ("image/png", (640, 480))


def test_meta_that_was_written_meanwhile_survives_a_content_update(
    agent: Agent,
) -> None:
    picture: Any = {"modality": "image", "content": {"caption": "Seats"}}
    factories.make_page(agent, "map", **picture, meta={"mime_type": "image/png"})
    row = factories.get_thread(agent)
    seen = pages.find_entry(states.load_state(row), "map")
    draft = PageDraft(
        page_id="map", type="claim", **picture, meta={"mime_type": "image/webp"}
    )
    where: dict[str, Any] = {"agent": agent, "thread": "t-1"}
    run(writing.write_pages(**where, drafts=[draft], replace=True))
    change = PageChange(content={"caption": "Seats by row"})
    where["thread"] = row
    run(writing.amend_page(**where, entry=seen, change=change))
    found = served(agent, "map")
    assert found.content == change.content
    assert found.mime_type == "image/webp"


def test_page_of_a_message_keeps_its_content(agent: Agent) -> None:
    factories.append(agent, "t-1", "hello")
    update(agent, "slot-0", importance=0.9, hint="a greeting")
    row = factories.get_thread(agent)
    entry = pages.find_entry(states.load_state(row), "slot-0")
    assert entry.importance == 0.9
    assert envelopes.get_hint(row, entry) == "a greeting"
    with pytest.raises(DerivedPageError):
        update(agent, "slot-0", content={"text": "bye"})
    with pytest.raises(DerivedPageError):
        do(agent, DeletePage(page_id="slot-0"))


def test_pinned_page_is_not_evicted_until_unpinned(agent: Agent) -> None:
    factories.make_page(agent, "a")
    do(agent, PinPage(page_id="a"))
    with pytest.raises(PinnedError):
        do(agent, EvictPage(page_id="a"))
    do(agent, UnpinPage(page_id="a"))
    assert writing.list_evicted(do(agent, EvictPage(page_id="a"))) == ["a"]


def test_new_system_prompt_replaces_the_old_one(agent: Agent) -> None:
    for text in ("Be brief.", "Be exact."):
        run(
            writing.write_system_prompt(
                agent=agent,
                thread="t-1",
                text=text,
                tokens=None,
                preconditions=writing.Preconditions(),
            )
        )
    row = factories.get_thread(agent)
    state = states.load_state(row)
    line = pages.build_line(state, pages.find_entry(state, "system-prompt"))
    assert (line.entry.version, line.pinned, line.entry.role) == (2, "system", "system")


def test_foreign_tokenizer_needs_the_agents_count(
    agent: Agent, not_run_here: str
) -> None:
    factories.make_thread(agent, "t-2", tokenizer=not_run_here)
    with pytest.raises(TokensRequiredError):
        factories.make_page(agent, "a", thread="t-2")
    receipt = factories.make_page(agent, "a", thread="t-2", tokens=77)
    assert receipt.state is not None
    assert receipt.state.paging.frames["a"].entry.full.tokens == 77


def test_derived_level_is_weighed_by_the_ratio_of_its_full_text(
    agent: Agent, not_run_here: str
) -> None:
    """Expect est/1 × (sent ÷ est/1 of FULL), rounded up."""
    factories.make_thread(agent, "t-2", tokenizer=not_run_here, **LOOSE)
    text = build_prose(900)
    factories.make_page(agent, "a", thread="t-2", text=text, tokens=1_800)
    command = MapPage(page_id="a", level=2)
    run(writing.map_page(agent=agent, thread="t-2", command=command))
    row = factories.get_thread(agent, "t-2")
    entry = pages.find_current_entry(row, "a")
    assert entry is not None
    for level in (1, 2, 3):
        opened = envelopes.open_level(row, entry, level)
        expected = ceil(estimate_tokens(opened.content) * 1_800 / estimate_tokens(text))
        assert entry.require_level(level).tokens == expected
