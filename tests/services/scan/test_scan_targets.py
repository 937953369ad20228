from __future__ import annotations

import pytest

from memoryhub.models.erasures import Erasure
from memoryhub.models.projects import Project
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.people import subjects
from memoryhub.services.scan import collecting, scan_targets
from memoryhub.vault.scan import targets
from memoryhub.vault.scan.targets import ScanTarget, TargetKind
from tests.cast.factories import make_thread
from tests.cast.graves import make_erasure

RANDOM = [ScanTarget(kind=TargetKind.NONCE, data=bytes([n]) * 12) for n in range(3)]


def erasure(acme: Project, user_id: str, kept: ScanTarget, **fields: object) -> Erasure:
    subject = subjects.find_or_create(acme.id, user_id)
    given = {"needles": targets.pack_targets([kept]), **fields}
    return make_erasure(subject, **given)


@pytest.mark.django_db
def test_unfinished_targets_are_erasures_whose_rows_are_gone(
    acme: Project, agent: Agent
) -> None:
    thread = make_thread(agent, user_id="bob")
    whole = erasure(acme, "ann", RANDOM[0], state="scrubbed")
    part = erasure(
        acme, "bob", RANDOM[1], state="rows_erased", scope="thread", thread=thread
    )
    erasure(acme, "cleo", RANDOM[2], state="fenced")
    erasure(acme, "dan", RANDOM[2], state="cancelled")
    found = scan_targets.gather_unfinished()
    assert found.by_erasure == {whole.id: [RANDOM[0]], part.id: [RANDOM[1]]}
    assert found.subjects == {whole.subject_id}
    assert found.threads == {part.thread_id}


@pytest.mark.django_db
def test_nightly_targets_are_scrubbed_erasures_and_new_receipts(acme: Project) -> None:
    waits = erasure(acme, "ann", RANDOM[0], state="scrubbed")
    proved = erasure(acme, "bob", RANDOM[1], state="complete")
    # The first is not to be judged yet, and the second was judged already.
    erasure(acme, "cleo", RANDOM[2], state="rows_erased")
    erasure(acme, "dan", RANDOM[2], state="complete", needles=b"")
    assert scan_targets.list_nightly() == [waits, proved]
    assert proved.subject_id in scan_targets.gather_unfinished().subjects


@pytest.mark.django_db
def test_clear_needles_are_searched_while_remembered(
    acme: Project,
) -> None:
    row = erasure(acme, "ann", RANDOM[0], state="scrubbed")
    clear = targets.build_name_target("a name of hers")
    collecting.remembered.put(row.id, [clear])
    assert scan_targets.gather_targets([row], collecting.list_targets).by_erasure == {
        row.id: [RANDOM[0], clear]
    }
    collecting.remembered.pop(row.id)
    assert scan_targets.gather_targets([row], collecting.list_targets).by_erasure == {
        row.id: [RANDOM[0]]
    }


@pytest.mark.django_db
def test_scan_targets_are_empty_without_erasures() -> None:
    assert scan_targets.gather_unfinished() == scan_targets.ScanTargets()
