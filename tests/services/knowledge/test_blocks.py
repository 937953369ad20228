"""Blocks: written whole, appended to, changed in one place, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.errors import (
    BlockReadOnlyError,
    BlocksFullError,
    InvalidError,
    NameTakenError,
    NotInBlockError,
    NotUniqueError,
    PageErasedError,
    PageUnknownError,
    StaleError,
    ValueErasedError,
    ValueTooLargeError,
)
from memoryhub.journal import KeyedRequest, OrderReceipt
from memoryhub.kernel.knowledge import blocks as kernel
from memoryhub.kernel.state.pages import MAX_BLOCK_BYTES
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks as reading
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks, homes
from memoryhub.services.knowledge.blocks import BlockConditions, BlockDraft
from tests.cast import factories, forgetting
from tests.cast.factories import run

pytestmark = pytest.mark.django_db
MODEL = BlockConditions(by="model")


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann")
    return forgetting.get_subject(agent, "ann")


def put(agent: Agent, ann: Subject, text: str = "Ann.", **more: Any) -> OrderReceipt:
    draft = BlockDraft(**{"block": "persona", "text": text, **more})
    return run(blocks.put_block(agent=agent, subject=ann, draft=draft))


def append(agent: Agent, ann: Subject, text: str, **more: Any) -> OrderReceipt:
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "persona"} | more
    return run(blocks.append_text(text=text, **where))


def replace(
    agent: Agent, ann: Subject, old: str, new: str, **more: Any
) -> OrderReceipt:
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "persona"} | more
    return run(blocks.replace_text(old=old, new=new, **where))


def require_home(ann: Subject) -> Thread:
    found = find_home(ann)
    assert found is not None
    return found


def read(ann: Subject, block: str = "persona") -> BlockView:
    return reading.get_block(find_home(ann), block)


def test_block_is_read_as_it_was_written(agent: Agent, ann: Subject) -> None:
    made = put(agent, ann, "Ann flies.", description="Who it is.", read_only=True)
    found = read(ann)
    assert found == BlockView(
        block="persona",
        page_id="persona",
        version=1,
        seq=made.seq,
        text="Ann flies.",
        description="Who it is.",
        read_only=True,
        tokens=found.tokens,
        bytes=10,
    )
    put(agent, ann, "Ann sails.")
    assert (read(ann).version, read(ann).description) == (2, "Who it is.")
    put(agent, ann, "A place.", block="home-town")
    assert [each.block for each in reading.list_blocks(require_home(ann))] == [
        "persona",
        "home-town",
    ]
    (then,) = reading.list_blocks(require_home(ann), seq=made.seq)
    assert then.text == "Ann flies."


def test_appended_text_stands_at_the_end_of_a_block(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "Ann.", description="Who it is.")
    append(agent, ann, "\nShe flies.")
    assert read(ann).text == "Ann.\nShe flies."
    assert read(ann).description == "Who it is."
    with pytest.raises(ValueTooLargeError):
        append(agent, ann, "x" * MAX_BLOCK_BYTES)
    assert read(ann).version == 2


def test_append_makes_a_missing_block(agent: Agent, ann: Subject) -> None:
    with pytest.raises(PageUnknownError):
        append(agent, ann, "Ann.", conditions=BlockConditions(version=2))
    append(agent, ann, "Ann", conditions=MODEL)
    append(agent, ann, " flies.", conditions=MODEL)
    append(agent, ann, "Oslo.", block="places/home")
    texts = [(each.block, each.text) for each in reading.list_blocks(require_home(ann))]
    assert texts == [("persona", "Ann flies."), ("places/home", "Oslo.")]
    run(blocks.delete_block(agent=agent, subject=ann, block="persona"))
    with pytest.raises(PageErasedError):
        append(agent, ann, "again")
    assert verify(require_home(ann)) is None


def test_block_replace_needs_one_exact_match(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "aaa b (c) b. ünï")
    for old, refusal in (("d", NotInBlockError), ("b", NotUniqueError)):
        with pytest.raises(refusal):
            replace(agent, ann, old, "x")
    with pytest.raises(NotUniqueError):
        # Occurrences may overlap.
        replace(agent, ann, "aa", "x")
    replace(agent, ann, "(c) b. ü", r"\1")
    assert read(ann).text == r"aaa b \1nï"
    assert read(ann).version == 2


def test_inserted_lines_stand_after_their_line(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "a\n\nc")
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "persona"}
    for line, text, now in (
        (0, "top\n", "top\na\n\nc\n"),
        (4, "end", "top\na\n\nc\nend\n"),
        (2, "x\n\n", "top\na\nx\n\n\nc\nend\n"),
    ):
        run(blocks.insert_lines(line=line, text=text, **where))
        assert read(ann).text == now
    with pytest.raises(InvalidError) as refused:
        run(blocks.insert_lines(line=8, text="x", **where))
    assert refused.value.allowed == "0 to 7"
    versions = reading.list_versions(require_home(ann), "persona")
    assert [each.inserted for each in versions] == [2, 4, 0, None]
    put(agent, ann, "")
    run(blocks.insert_lines(line=0, text="a", **where))
    assert read(ann).text == "a\n"


def rename(
    agent: Agent, ann: Subject, name: str, *, block: str = "persona", **more: Any
) -> OrderReceipt:
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": block}
    return run(blocks.rename_block(name=name, **where, **more))


def test_renamed_block_keeps_its_history(agent: Agent, ann: Subject) -> None:
    made = put(agent, ann, "Ann.", description="Who it is.")
    rename(agent, ann, "people/ann")
    append(agent, ann, " Flies.", block="people/ann")
    found = read(ann, "people/ann")
    assert (found.version, found.text, found.page_id) == (3, "Ann. Flies.", "persona")
    assert found.description == "Who it is."
    versions = reading.list_versions(require_home(ann), found.page_id)
    assert [(each.name, each.renamed_from) for each in versions] == [
        ("people/ann", None),
        ("people/ann", "persona"),
        ("persona", None),
    ]
    for block, seq in (("people/ann", None), ("persona", made.seq)):
        (listed,) = reading.list_blocks(require_home(ann), seq=seq)
        assert listed == reading.get_block(require_home(ann), block, seq=seq)
        assert listed.block == block
    for act in (read, lambda _: put(agent, ann), lambda _: append(agent, ann, "")):
        with pytest.raises(PageErasedError):
            act(ann)
    with pytest.raises(PageUnknownError):
        reading.get_block(require_home(ann), "people/ann", seq=made.seq)
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "people/ann"}
    run(blocks.revert_block(version=1, **where))
    rename(agent, ann, "persona", block="people/ann")
    assert read(ann).text == "Ann."


def test_name_of_another_block_is_refused(agent: Agent, ann: Subject) -> None:
    put(agent, ann)
    for block in ("a/b", "c", "gone"):
        put(agent, ann, block=block)
    run(blocks.delete_block(agent=agent, subject=ann, block="gone"))
    rename(agent, ann, "d", block="c")
    taken = dict.fromkeys(("persona", "a/b", "d"), NameTakenError)
    erased = dict.fromkeys(("a::b", "c", "gone"), PageErasedError)
    for name, refusal in (taken | erased).items():
        with pytest.raises(refusal):
            rename(agent, ann, name)
    run(blocks.delete_block(agent=agent, subject=ann, block="d"))
    for act in (rename, lambda *_: put(agent, ann, block="d")):
        with pytest.raises(PageErasedError):
            act(agent, ann, "d")
    with pytest.raises(PageErasedError):
        read(ann, "d")
    left = reading.list_blocks(require_home(ann))
    assert [each.block for each in left] == ["persona", "a/b"]


def test_operator_undoes_a_rename(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "Ann.")
    made = rename(agent, ann, "ann")
    edit = reading.find_edit(require_home(ann), made.seq)
    assert edit is not None
    assert (edit.block, edit.name) == ("persona", "ann")
    blocks.undo_for_operator(require_home(ann), "persona", seq=made.seq, actor="user:1")
    assert read(ann).text == "Ann."


def test_text_of_a_renamed_block_is_erased_with_its_record(
    agent: Agent, ann: Subject
) -> None:
    text = "Ann is afraid of heights."
    put(agent, ann, text)
    renamed = rename(agent, ann, "ann")
    forgetting.forget(
        ann, "record", thread=require_home(ann), seq=renamed.seq, until="caches_purged"
    )
    for act in (read, lambda *_: rename(agent, ann, "eve", block="ann")):
        with pytest.raises(PageErasedError):
            act(ann, "ann")
    with pytest.raises(ValueErasedError):
        put(agent, ann, text, block="eve")


def test_revert_restores_an_earlier_version(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "one", description="first")
    put(agent, ann, "two", description="second")
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "persona"}
    run(blocks.revert_block(version=1, **where))
    found = read(ann)
    assert (found.version, found.text, found.description) == (3, "one", "first")
    assert [
        each.text for each in reading.list_versions(require_home(ann), "persona")
    ] == [
        "one",
        "two",
        "one",
    ]
    for version in (0, 4):
        with pytest.raises(InvalidError):
            run(blocks.revert_block(version=version, **where))
    # Pretend that a record was erased since the subject was read.
    ann.epoch -= 1
    with pytest.raises(StaleError):
        run(blocks.revert_block(version=2, **where))


def test_model_changes_no_read_only_block(agent: Agent, ann: Subject) -> None:
    put(agent, ann, "Ann.", read_only=True)
    draft = BlockDraft(block="persona", text="Eve.", description="", read_only=False)
    where: dict[str, Any] = {"agent": agent, "subject": ann, "conditions": MODEL}
    acts: tuple[Callable[[], object], ...] = (
        lambda: append(agent, ann, "!", conditions=MODEL),
        lambda: rename(agent, ann, "eve", conditions=MODEL),
        lambda: run(blocks.put_block(draft=draft, **where)),
        lambda: run(blocks.revert_block(block="persona", version=1, **where)),
    )
    for act in acts:
        with pytest.raises(BlockReadOnlyError):
            act()
    append(agent, ann, "!")
    assert read(ann).text == "Ann.!"


def test_expected_version_is_checked_against_its_own_block_alone(
    agent: Agent, ann: Subject
) -> None:
    put(agent, ann, "one")
    seen = BlockConditions(version=1)
    put(agent, ann, block="other")
    where: dict[str, Any] = {"agent": agent, "subject": ann, "conditions": seen}
    draft = BlockDraft(block="persona", text="two")
    run(blocks.put_block(draft=draft, **where))
    head = require_home(ann).head_seq
    acts: tuple[Callable[[], object], ...] = (
        lambda: run(blocks.put_block(draft=draft, **where)),
        lambda: append(agent, ann, "!", conditions=seen),
        lambda: replace(agent, ann, "not there", "", conditions=seen),
        lambda: rename(agent, ann, "eve", conditions=seen),
        lambda: run(blocks.revert_block(block="persona", version=1, **where)),
        lambda: run(blocks.delete_block(block="persona", **where)),
    )
    for act in acts:
        with pytest.raises(StaleError) as stale:
            act()
        assert stale.value.detail == {"version": 2}
    assert require_home(ann).head_seq == head
    now = {**where, "conditions": BlockConditions(version=2)}
    run(blocks.delete_block(block="persona", **now))


@pytest.mark.parametrize("there", [True, False])
def test_absent_field_stays_as_it_was_written_meanwhile(
    agent: Agent, ann: Subject, *, there: bool
) -> None:
    """A command of an absent field holds for the version that was read, or for none."""
    if there:
        put(agent, ann)
    draft = BlockDraft(block="persona", text="Eve.")
    late = blocks._build_write(ann, draft, blocks.ANY)
    put(agent, ann, description="Who it is.", read_only=True)
    with pytest.raises(StaleError):
        homes.perform(ann, late, actor=agent.actor)
    run(blocks.put_block(agent=agent, subject=ann, draft=draft))
    found = read(ann)
    assert (found.text, found.description) == ("Eve.", "Who it is.")
    assert found.read_only


def test_delete_spares_a_block_that_was_renamed_meanwhile(
    agent: Agent, ann: Subject
) -> None:
    put(agent, ann)
    rename(agent, ann, "eve")
    late = kernel.DeleteBlock(page_id="persona", called="persona")
    with pytest.raises(PageErasedError):
        homes.perform(ann, late, actor=agent.actor)
    assert read(ann, "eve").text == "Ann."


def test_deleted_block_does_not_come_back(agent: Agent, ann: Subject) -> None:
    put(agent, ann)
    run(blocks.delete_block(agent=agent, subject=ann, block="persona"))
    for act in (lambda: read(ann), lambda: put(agent, ann)):
        with pytest.raises(PageErasedError):
            act()
    assert reading.list_blocks(require_home(ann)) == []


def test_subject_has_a_limited_number_of_blocks(
    agent: Agent, ann: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "MAX_BLOCKS", 2)
    put(agent, ann, block="a")
    put(agent, ann, block="b")
    with pytest.raises(BlocksFullError):
        put(agent, ann, block="c")
    put(agent, ann, "another version", block="b")
    run(blocks.delete_block(agent=agent, subject=ann, block="a"))
    put(agent, ann, block="c")


def test_erased_text_stays_out_of_blocks(agent: Agent, ann: Subject) -> None:
    text = "Ann is afraid of heights."
    made = put(agent, ann, text)
    put(agent, ann, "Ann.")
    forgetting.forget(
        ann, "record", thread=require_home(ann), seq=made.seq, until="caches_purged"
    )
    with pytest.raises(ValueErasedError):
        put(agent, ann, text)
    where: dict[str, Any] = {"agent": agent, "subject": ann, "block": "persona"}
    with pytest.raises(PageErasedError):
        run(blocks.revert_block(version=1, **where))
    assert read(ann).text == "Ann."


def test_repeated_replace_is_answered_without_being_done_again(
    agent: Agent, ann: Subject
) -> None:
    put(agent, ann, "Flies often.")
    once = BlockConditions(request=KeyedRequest(key="k", fingerprint=b"same"))
    first = replace(agent, ann, "often", "seldom", conditions=once)
    again = replace(agent, ann, "often", "seldom", conditions=once)
    assert (again.replayed, again.seq) == (True, first.seq)
    other = BlockConditions(request=KeyedRequest(key="another", fingerprint=b"same"))
    with pytest.raises(NotInBlockError):
        replace(agent, ann, "often", "seldom", conditions=other)
