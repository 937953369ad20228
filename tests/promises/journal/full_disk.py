"""Forgetting on a disk without a free byte; runs in an instance of its own."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from memoryhub.errors import Refusal, UnavailableError
from memoryhub.models.erasures import Receipt
from memoryhub.models.keys import SubjectKey
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries import tombstones
from memoryhub.queries.verify.verification import verify
from memoryhub.services.forget import ballast
from memoryhub.services.people import subjects
from tests.cast import forgetting
from tests.promises.forget.erasing import remember


def forget(slug: str) -> None:
    """Plan with room, confirm without; print the state then, and later."""
    remember(slug)
    assert ballast.ensure_ballast()
    project = Project.objects.get(slug=slug)
    ann, bob = (subjects.find(project.id, name) for name in ("ann", "bob"))
    assert ann is not None
    assert bob is not None
    row, kept = forgetting.plan(ann), forgetting.list_records(bob)
    filling = settings.DATA_DIR.parent / "filling"
    fill(filling)
    row = forgetting.confirm(row)
    told = {"confirmed": row.state, "ballast": settings.BALLAST.exists()}
    told["answer"] = get_refusal_code(ann)
    # Whatever the ballast gave is gone as well.
    fill(filling)
    with suppress(UnavailableError):
        row = forgetting.finish(row)
    told["early"] = Receipt.objects.exists()
    filling.unlink()
    row = forgetting.finish(row)
    told |= {"state": row.state, "receipts": Receipt.objects.count()}
    told["keys"] = SubjectKey.objects.using("keys").filter(subject=ann.id).count()
    told["twin"] = forgetting.list_records(bob) == kept
    told["broken"] = sum(verify(thread) is not None for thread in Thread.objects.all())
    sys.stdout.write(json.dumps(told))


def get_refusal_code(subject: Subject) -> str:
    try:
        tombstones.require_subject(Subject.objects.get(id=subject.id))
    except Refusal as refusal:
        return refusal.code
    return ""


def fill(path: Path) -> None:
    """Fill the disk with blocks, and with bytes where no block fits."""
    for size in (1 << 20, 1 << 9):
        with suppress(OSError), path.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(size))
