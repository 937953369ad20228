"""Bundles in tests: a person's life in a hub, its export, and its varying parts."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from memoryhub.journal.rows import tombstones
from memoryhub.kernel.paging.page_commands import DeletePage
from memoryhub.kernel.state.events import LabelValue
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.queries.export import bundles
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.export import bundles as taking
from memoryhub.services.export import exports
from memoryhub.services.export.bundles import Bundle, ImportedBundle
from memoryhub.services.people import subjects
from memoryhub.services.threads import threads
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from memoryhub.vault.proof import signing
from tests.cast import factories, graves
from tests.oracles import memory_acts as acts
from tests.oracles.page_acts import act
from tests.services.acts import fork

#: A thread that has room for little, so that pages come and go.
SMALL: dict[str, Any] = {"budget_tokens": 2_400, "reserved_tokens": 800}
WORDS = "Fares of class Q can be changed once. " * 30


def live_in_threads(agent: Agent, user_id: str = "ann", *, prefix: str = "") -> None:
    """Live in threads: messages, pages, turns, all memory, two generations of forks.

    Every part of a bundle is there at least once, except erased records.
    """
    one, two, three = f"{prefix}t-1", f"{prefix}t-2", f"{prefix}t-3"
    labels: dict[str, LabelValue] = {"tier": "gold", "n": 1}
    factories.make_thread(agent, one, user_id=user_id, labels=labels, **SMALL)
    factories.append(agent, one, "hello", {"a": [1, 2.50, None]}, "ünï\n\u2028")
    factories.make_page(agent, "fares", thread=one)
    factories.make_page(agent, "rules", thread=one, provenance=("fares",), hint="H")
    for n in range(6):
        factories.run(turns.begin_turn(agent=agent, thread=one, new=NewTurn()))
        factories.append(agent, one, f"{n} {WORDS}")
    acts.set_key(agent, "seat", "12A", thread=one)
    acts.set_key(agent, "soon", "x", ttl=timedelta(days=1), thread=one)
    acts.add_notes(agent, "she hesitates", thread=one)
    acts.take(agent, "here", thread=one)
    acts.set_key(agent, "seat", "14C", thread=one)
    acts.set_task(agent, thread=one, status="running")
    acts.restore(agent, "here", thread=one)
    row = factories.get_thread(agent, one)
    fork(agent, one, two, seq=row.head_seq - 3)
    factories.append(agent, two, "bye")
    fork(agent, two, three, labels={"deep": True})
    factories.make_page(agent, "own", thread=three)
    factories.run(turns.begin_turn(agent=agent, thread=three, new=NewTurn()))
    close = threads.close(agent=agent, thread=two, reason="completed")
    factories.run(close)


#: Public keys of all that was exported here, though their instance is gone since.
KNOWN: dict[str, bytes] = {}


def export(subject: Subject) -> bytes:
    KNOWN[signing.get_signer().key_id] = signing.get_signer().public
    return b"".join(exports.begin_export(subject, actor="command").stream())


def open_bundle(data: bytes) -> ZipFile:
    return ZipFile(io.BytesIO(data))


def saved(subject: Subject, path: Path) -> Path:
    path.write_bytes(export(subject))
    return path


def manifest(bundle: ZipFile) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(bundle.read("manifest.json"))
    return told


def list_records(bundle: ZipFile, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bundle.read(path).splitlines()]


def load(bundle: ZipFile, path: str) -> Any:
    return json.loads(bundle.read(path))


def comparable(bundle: ZipFile) -> dict[str, Any]:
    """Return a bundle without ids, chains, times, places and makers."""
    told = manifest(bundle)
    renamed = {told["subject"]["id"]: "subject"}
    for n, each in enumerate(told["cut"]):
        renamed[each["thread"]] = f"thread {n}"
    texts: dict[str, Any] = {}
    for file in told["files"]:
        if file["path"].endswith(".jsonl") and file["path"] != "access.jsonl":
            texts[file["path"]] = [
                _to_plain(line, renamed) for line in list_records(bundle, file["path"])
            ]
        elif file["path"].startswith("schemas/"):
            texts[file["path"]] = bundle.read(file["path"])
    texts["cut"] = [_to_plain(each, renamed) for each in told["cut"]]
    texts["user_id"], texts["erased"] = told["subject"]["user_id"], told["erased"]
    return texts


#: New in every instance.
_OWN = {"chain", "head_hash", "parent_chain", "origin"}


def _to_plain(value: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {k: _to_plain(v, renamed) for k, v in value.items() if k not in _OWN}
    if isinstance(value, list):
        return [_to_plain(each, renamed) for each in value]
    return renamed.get(value, value) if isinstance(value, str) else value


def repacked(data: bytes, change: Mapping[str, bytes | None]) -> bytes:
    """Return the bundle with some files replaced, added or left out (None)."""
    out = io.BytesIO()
    with open_bundle(data) as old, ZipFile(out, "w", ZIP_DEFLATED) as new:
        files = {name: old.read(name) for name in old.namelist()}
        for name, text in {**files, **change}.items():
            if text is not None:
                new.writestr(name, text)
    return out.getvalue()


def sign_bundle(data: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """Return the bundle with another manifest, signed by this instance all the same."""
    with open_bundle(data) as bundle:
        told = manifest(bundle)
    edit(told)
    signer = signing.get_signer()
    KNOWN[signer.key_id] = signer.public
    sig = signer.sign(bundles.build_canonical(told))
    told["signature"] = {"key_id": signer.key_id, "sig": sig.hex()}
    return repacked(data, {"manifest.json": json.dumps(told).encode()})


def rewritten(data: bytes, edit: Callable[[list[bytes]], None]) -> bytes:
    """Return the bundle with other lines of events, counted and signed as if right."""
    with open_bundle(data) as bundle:
        lines = bundle.read("events.jsonl").splitlines(keepends=True)
    edit(lines)
    text = b"".join(lines)

    def tell(told: dict[str, Any]) -> None:
        (file,) = (each for each in told["files"] if each["path"] == "events.jsonl")
        file |= {"bytes": len(text), "records": len(lines)}
        file["sha256"] = hashlib.sha256(text).hexdigest()

    return sign_bundle(repacked(data, {"events.jsonl": text}), tell)


def take(data: bytes | Path, project: Project, **options: Any) -> ImportedBundle:
    """Import a bundle."""
    with ExitStack() as stack, TemporaryDirectory() as folder:
        path = data if isinstance(data, Path) else Path(folder) / "bundle.zip"
        if isinstance(data, bytes):
            path.write_bytes(data)
        trusted = options.pop("trusted", KNOWN)
        bundle = Bundle.open(path, stack, trusted=trusted)
        return taking.import_bundle(bundle, project, **options)


def delete_page(agent: Agent, page_id: str, thread: str = "t-1") -> None:
    act(agent, DeletePage(page_id=page_id), thread)


def bury_name(project: Project, name: str) -> None:
    """Lay the tombstone of a thread's name, as the eraser does."""
    erasure = graves.make_erasure(subjects.get_anonymous(project.id), scope="thread")
    tombstones.lay_threads(erasure, [name])
