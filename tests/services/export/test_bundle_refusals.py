"""Tampered bundles: refused by their line, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from memoryhub.errors import BadBundleError, Refusal
from memoryhub.models import Event, Project, Subject, Thread
from memoryhub.models.keys import SigningKey
from memoryhub.queries.export import bundles
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.vault.proof import signing
from tests.cast import bundled, factories
from tests.promises.tampering.manipulations import add_key, stranger

pytestmark = pytest.mark.django_db
Edit = Callable[[Any], None]


@pytest.fixture(scope="module")
def kept() -> list[bytes]:
    return []


@pytest.fixture
def data(kept: list[bytes], request: pytest.FixtureRequest) -> bytes:
    """Return ann's bundle, made once, from a project that is gone since."""
    if not kept:
        agent = request.getfixturevalue("agent")
        bundled.live_in_threads(agent)
        kept.append(bundled.export(subjects.find_or_create(agent.project, "ann")))
    return kept[0]


def get_refusal(data: bytes, project: Project, **options: Any) -> Refusal:
    """Return the bundle's refusal, and check that nothing was written."""
    before = Thread.objects.count(), Event.objects.count(), Subject.objects.count()
    with pytest.raises(Refusal) as refusal:
        bundled.take(data, project, **options)
    after = Thread.objects.count(), Event.objects.count(), Subject.objects.count()
    assert after == before
    return refusal.value


def get_refusal_word(data: bytes, project: Project) -> tuple[Any, Any]:
    refusal = get_refusal(data, project)
    assert isinstance(refusal, BadBundleError)
    return refusal.detail["what"], refusal.detail.get("line")


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (
            lambda manifest: manifest.update(format="memoryhub.subject/3"),
            "newer_format",
        ),
        (
            lambda manifest: manifest.update(format="memoryhub.subject/1"),
            "older_format",
        ),
        (lambda manifest: manifest.update(format="other/1"), "unknown_format"),
        (lambda manifest: manifest.pop("format"), "unknown_format"),
        (lambda manifest: manifest.pop("cut"), "manifest"),
        (lambda manifest: manifest.update(more=1), "manifest"),
        (lambda manifest: manifest["cut"][0].update(head_seq="1"), "manifest"),
        (lambda manifest: manifest["subject"].update(user_id=None), "subject"),
        (lambda manifest: manifest["subject"].update(user_id="a\nb"), "subject"),
        (lambda manifest: manifest["cut"].append(manifest["cut"][0]), "cut"),
        (lambda manifest: manifest["cut"].pop(), "line"),
        (lambda manifest: manifest["cut"].reverse(), "thread"),
        (lambda manifest: manifest["cut"][2].update(thread=str(uuid4())), "thread"),
        (lambda manifest: manifest["cut"][0].update(head_seq=2), "chain"),
        (lambda manifest: manifest["cut"][2].update(head_hash="0" * 64), "chain"),
        (lambda manifest: manifest["cut"][0].update(status="erased"), "status"),
        (lambda manifest: manifest["cut"][1].update(parent_seq=1), "birth"),
        (lambda manifest: manifest["subject"].update(id=str(uuid4())), "body"),
        (lambda manifest: manifest["files"].pop(), "files"),
        (lambda manifest: manifest["files"].append(manifest["files"][0]), "files"),
        (lambda manifest: manifest["files"][1].update(bytes=1), "files"),
        (lambda manifest: manifest["files"][1].update(sha256="0" * 64), "sha256"),
        (lambda manifest: manifest["files"][1].update(records=1), "events_missing"),
    ],
)
def test_changed_manifest_is_refused(
    data: bytes, zeta: Project, edit: Edit, word: str
) -> None:
    """Cover row 136 of the bad inputs with changed manifests that are signed."""
    assert get_refusal_word(bundled.sign_bundle(data, edit), zeta)[0] == word


def swap(was: bytes, now: bytes, at: int = 1) -> Edit:
    def edit(lines: list[bytes]) -> None:
        assert was in lines[at]
        lines[at] = lines[at].replace(was, now, 1)

    return edit


@pytest.mark.parametrize(
    ("edit", "word", "line"),
    [
        (lambda lines: lines.__setitem__(4, b"{\n"), "json", 5),
        (lambda lines: lines.__setitem__(4, b"[]\n"), "line", 5),
        (lambda lines: lines.__setitem__(4, lines[4][:-1] + b" \n"), "line", 5),
        (lambda lines: lines.pop(3), "seq", 4),
        (lambda lines: lines.insert(3, lines[3]), "seq", 5),
        (lambda lines: lines.pop(), "events_missing", None),
        (lambda lines: lines.append(lines[-1]), "line", None),
        (swap(b'"slot.appended"', b'"slot.moved"'), "event_type", 2),
        (swap(b'"index":0', b'"index":1'), "fold", 2),
        (swap(b'"index":0', b'"index":"0"'), "body", 2),
        (swap(b'"index":0', b'"index":0,"more":1'), "body", 2),
        (swap(b'"index":0', b'"index": 0'), "line", 2),
        (swap(b'"seq":2', b'"seq":true'), "line", 2),
        (swap(b'"seq":2', b'"seq":3'), "seq", 2),
        (swap(b'"actor":"agent:', b'"actor":"agent\\n'), "line", 2),
        (swap(b'"erased":null', b'"erased":9'), "content", 2),
        (swap(b'"erased":null', b'"erased":1'), "erased", 2),
        (swap(b'"at":"20', b'"at":"19'), "at", 2),
        (swap(b'"replay_format":1', b'"replay_format":1.5', 0), "body", 1),
        (swap(b'"type":"thread.created"', b'"type":"thread.reopened"', 0), "body", 1),
    ],
)
def test_changed_line_is_refused_and_named(
    data: bytes, zeta: Project, edit: Edit, word: str, line: int | None
) -> None:
    """Cover row 136 of the bad inputs with changed lines that are signed."""
    found = get_refusal_word(bundled.rewritten(data, edit), zeta)
    assert found[0] == word
    assert line is None or found[1] == line


def test_bundle_with_two_subjects_is_refused(data: bytes, zeta: Project) -> None:
    ann = bundled.manifest(bundled.open_bundle(data))["subject"]["id"]
    edit = swap(ann.encode(), str(uuid4()).encode(), 0)
    assert get_refusal_word(bundled.rewritten(data, edit), zeta) == ("body", 1)


def test_event_that_does_not_fold_is_refused(data: bytes, zeta: Project) -> None:
    """Change a line into one that is valid elsewhere."""

    def edit(lines: list[bytes]) -> None:
        (at,) = (n for n, each in enumerate(lines) if b'"checkpoint.restored"' in each)
        was = lines[at]
        lines[at] = was.replace(b'"target":', b'"target":9')
        assert lines[at] != was

    assert get_refusal_word(bundled.rewritten(data, edit), zeta)[0] == "fold"


def test_hostile_content_survives_a_bundle(
    agent: Agent, acme: Project, zeta: Project
) -> None:
    hostile = '","erased":null,"chain":"' + "0" * 64 + '"}\n{"content":'
    factories.make_thread(agent, "t-1", user_id="bob")
    factories.append(agent, "t-1", hostile, {"body": {"content": hostile}})
    bob = subjects.find_or_create(acme.id, "bob")
    data = bundled.export(bob)
    bundled.take(data, zeta)
    again = bundled.export(subjects.find_or_create(zeta.id, "bob"))
    lines = bundled.list_records(bundled.open_bundle(again), "events.jsonl")
    assert lines[1]["content"] == {"content": hostile}
    assert lines[2]["content"] == {"content": {"body": {"content": hostile}}}


def test_bundle_with_a_false_signature_is_refused(data: bytes, zeta: Project) -> None:
    manifest = bundled.manifest(bundled.open_bundle(data))
    manifest["signature"]["sig"] = "0" * 128
    text = json.dumps(manifest).encode()
    assert get_refusal_word(bundled.repacked(data, {"manifest.json": text}), zeta) == (
        "signature",
        None,
    )


def test_unknown_signer_is_refused_unless_trusted(
    data: bytes, zeta: Project, settings: Any, tmp_path: Path
) -> None:
    """Act as another instance, which has another ledger."""
    SigningKey.objects.using("keys").all().delete()
    settings.LEDGER = tmp_path / "ledger"
    refusal = get_refusal(data, zeta, trusted={})
    assert refusal.detail == {"what": "unknown_signer"}
    assert bundled.take(data, zeta, trusted=bundled.KNOWN).threads == 3


def test_foreign_key_under_a_known_id_is_refused(data: bytes, zeta: Project) -> None:
    key_id = bundled.manifest(bundled.open_bundle(data))["signature"]["key_id"]
    with pytest.raises(BadBundleError):
        bundled.take(data, zeta, trusted={key_id: bytes(32)})


def test_key_listed_beside_the_ledger_is_no_signer(data: bytes, zeta: Project) -> None:
    own, _ = stranger(), signing.get_signer()
    add_key(own)
    manifest = bundled.manifest(bundled.open_bundle(data))
    sig = own.sign(bundles.build_canonical(manifest))
    manifest["signature"] = {"key_id": own.key_id, "sig": sig.hex()}
    forged = bundled.repacked(data, {"manifest.json": json.dumps(manifest).encode()})
    refusal = get_refusal(forged, zeta, trusted={})
    assert refusal.detail == {"what": "unknown_signer"}


@pytest.mark.parametrize("path", ["manifest.json", "events.jsonl"])
def test_bundle_with_a_missing_file_is_refused(
    data: bytes, zeta: Project, path: str
) -> None:
    found = get_refusal_word(bundled.repacked(data, {path: None}), zeta)
    assert found[0] in ("missing_file", "files")


def test_bundle_with_an_extra_file_is_refused(data: bytes, zeta: Project) -> None:
    assert get_refusal_word(bundled.repacked(data, {"more.txt": b"a"}), zeta) == (
        "files",
        None,
    )


def test_refusal_does_not_quote_the_bundle(data: bytes, zeta: Project) -> None:
    edit = swap(b"hello", b"hell\x00")
    refusal = get_refusal(bundled.rewritten(data, edit), zeta)
    assert "hell" not in refusal.sentence
