"""Manipulations by a holder of memory database and ledger folder, without a key.

The holder keeps copies of both over time, and puts them back, whole or in part.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import connection, transaction

from memoryhub.journal import audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.projects import Instance
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import ledgers
from memoryhub.vault.proof import anchors, ledger, signing
from memoryhub.vault.proof.signing import Signer, compute_fingerprint
from memoryhub.workers.anchors import move
from tests.cast.factories import append, get_thread, make_thread
from tests.promises.tampering.damages import FORK, Copy, flipped, vanish
from tests.promises.tampering.test_tamper import drop_triggers, undone

AT: Final = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
#: Number of stages, each with an anchor.
STAGES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Copy of everything at an anchor."""

    thread: Copy
    audit: tuple[int, bytes]
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Stages of both stores, the oldest first. The newest is the present one."""

    stages: tuple[Kept, ...]

    @property
    def now(self) -> Kept:
        return self.stages[-1]

    def earlier(self, chance: random.Random) -> Kept:
        return chance.choice(self.stages[:-1])

    @property
    def thread(self) -> Thread:
        return Thread.objects.select_related("subject").get(id=self.now.thread.row.id)


#: Manipulations by name; the seed chooses the place.
Manipulation = Callable[[World, random.Random], Any]


def make_world(agent: Agent) -> World:
    """Make two threads, an audit log, a ledger and keys, and let each go on."""
    make_thread(agent, "other", labels={"a": "x"})
    make_thread(agent, "t-1", labels={"a": "x"})
    append(agent, "t-1", *range(5))
    drop_triggers()
    on = " ON memoryhub_auditentry" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in ("update", "delete"):
            cursor.execute(f"DROP TRIGGER memoryhub_auditentry_{name}{on}")
    return World(stages=tuple(_stage(agent) for _ in range(STAGES)))


def _stage(agent: Agent) -> Kept:
    append(agent, "other", "more")
    append(agent, "t-1", "more", "and more")
    for _ in range(3):
        with transaction.atomic():
            audit.append(actor="command", action="verified", project=None)
    promise(agent)
    signing.rotate(at=AT) if signing.list_public_keys() else signing.get_signer()
    move(at=AT)
    seq, digest = Instance.objects.values_list("audit_seq", "audit_hash").get()
    return Kept(
        thread=Copy.from_thread(get_thread(agent, "t-1")),
        audit=(seq, bytes(digest)),
        files={path.name: path.read_bytes() for path in settings.LEDGER.iterdir()},
    )


def promise(agent: Agent) -> None:
    """Append a line to the ledger and apply it."""
    line = ledger.append(
        kind="intent",
        erasure=uuid4(),
        project=agent.project,
        subject=uuid4(),
        subject_ref=None,
        scope="subject",
        reason="test",
        targets=[],
        at=AT,
    )
    ledgers.record_applied(line)


@contextmanager
def restore_world(world: World) -> Iterator[None]:
    """Undo at its end whatever the block changes."""
    try:
        with undone():
            yield
    finally:
        for name, data in world.now.files.items():
            (settings.LEDGER / name).write_bytes(data)


def cut_thread(world: World, chance: random.Random) -> None:
    """Restore a thread to an earlier stage, with its anchor of then."""
    kept = world.earlier(chance).thread
    kept.put_back(
        anchored_seq=kept.row.anchored_seq, anchored_hash=kept.row.anchored_hash
    )


def unanchor_thread(world: World, chance: random.Random) -> None:
    world.earlier(chance).thread.put_back(anchored_seq=0, anchored_hash=b"")


def damage_thread(world: World, chance: random.Random) -> None:
    name = chance.choice(sorted(FORK))
    FORK[name](world.thread, chance)


def cut_audit(world: World, chance: random.Random) -> None:
    seq, digest = world.earlier(chance).audit
    AuditEntry.objects.filter(seq__gt=seq).delete()
    Instance.objects.update(audit_seq=seq, audit_hash=digest)


def some_entry(chance: random.Random) -> Any:
    return AuditEntry.objects.filter(seq=chance.choice(range(1, 3 * STAGES + 1)))


def file_of(name: str) -> Path:
    folder: Path = settings.LEDGER
    return folder / name


def on_file(name: str) -> dict[str, Manipulation]:
    def older(world: World, chance: random.Random) -> None:
        kept = [each.files[name] for each in world.stages]
        file_of(name).write_bytes(chance.choice([x for x in kept if x != kept[-1]]))

    def flip(world: World, chance: random.Random) -> None:
        file_of(name).write_bytes(flipped(file_of(name).read_bytes(), chance))

    def drop_line(world: World, chance: random.Random) -> None:
        lines = file_of(name).read_bytes().splitlines(keepends=True)
        del lines[chance.randrange(len(lines))]
        file_of(name).write_bytes(b"".join(lines))

    return {
        f"{name} older": older,
        f"{name} gone": lambda world, chance: file_of(name).unlink(),
        f"{name} emptied": lambda world, chance: file_of(name).write_bytes(b""),
        f"{name} flipped": flip,
        f"{name} without a line": drop_line,
    }


def stranger() -> Signer:
    """Return a key that was never ours."""
    key = Ed25519PrivateKey.generate()
    root = compute_fingerprint(key.public_key().public_bytes_raw())
    return Signer(key_id=str(uuid4()), root=root, _key=key)


def add_key(signer: Signer, *, by: str | None = None) -> None:
    """Put a key into the list beside the ledger, endorsed by itself."""
    path = file_of(signing.FILE)
    told = json.loads(path.read_bytes())
    public = signer.public.hex()
    sig = signer.sign(f"memoryhub.public-key/1|{signer.key_id}|{public}".encode())
    told["keys"][signer.key_id] = {
        "public": public,
        "by": by or signer.key_id,
        "sig": sig.hex(),
    }
    path.write_bytes(json.dumps(told, indent=1).encode() + b"\n")


def some_key(chance: random.Random) -> str:
    told = json.loads(file_of(signing.FILE).read_bytes())
    return str(chance.choice(sorted(told["keys"])))


def remove_key(world: World, chance: random.Random) -> None:
    told = json.loads(file_of(signing.FILE).read_bytes())
    del told["keys"][chance.choice(sorted(told["keys"]))]
    text = json.dumps(told, indent=1).encode() + b"\n"
    file_of(signing.FILE).write_bytes(text)


def replace_key(world: World, chance: random.Random) -> None:
    own = stranger()
    told = json.loads(file_of(signing.FILE).read_bytes())
    key = told["keys"][chance.choice(sorted(told["keys"]))]
    key["public"] = own.public.hex()
    text = json.dumps(told, indent=1).encode() + b"\n"
    file_of(signing.FILE).write_bytes(text)


#: By what they are done to. Two to different things can not make up for each other.
MANIPULATIONS: Final[Mapping[str, Mapping[str, Manipulation]]] = MappingProxyType(
    {
        "thread": {
            "cut": cut_thread,
            "cut, without an anchor": unanchor_thread,
            "vanished": lambda world, chance: vanish(world.thread),
            "damaged": damage_thread,
        },
        "audit": {
            "cut": cut_audit,
            "an entry altered": lambda world, chance: some_entry(chance).update(
                outcome="refused"
            ),
            "an entry dropped": lambda world, chance: some_entry(chance).delete(),
        },
        "anchors": on_file(anchors.path().name),
        "ledger": on_file(ledger.path().name),
        "keys": {
            **on_file(signing.FILE),
            "own key": lambda world, chance: add_key(stranger()),
            "own key, vouched for": lambda world, chance: add_key(
                stranger(), by=some_key(chance)
            ),
            "a key removed": remove_key,
            "a key replaced": replace_key,
        },
    }
)
ALL: Final = tuple(
    (target, name) for target, some in MANIPULATIONS.items() for name in some
)
