"""Controls of what is promised of erasing and exporting: each fault must show.

As in the other controls, each stands in a copy of the code, and a test that passes all
the same has proved nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.forget.faults import Control, Fault, assert_noticed, control
from tests.promises.forget.test_forget import small_disk

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_800)]

BATCH = "memoryhub/journal/writing/batch.py"
VERIFICATION = "memoryhub/queries/verify/verification.py"
EVENTS = "memoryhub/queries/export/bundle_events.py"
#: So long the fault shows, so that no luck is needed to see it.
PAUSE = "__import__('time').sleep(2)"
FINAL = "test_forget.py::test_forget_is_final[few]"
FULL = "test_no_fallback.py::test_writes_are_refused_on_a_full_disk_and_reads_go_on"

#: Somebody goes on with it, it was not counted, it is waited for, or it stays.
RESURRECTED = (
    "race.late == []",
    "found[subject] == erased",
    "time.monotonic() < deadline, told",
    '(row["state"], row["left"], row["threads"]) == ',
)

CHAINS_PLAIN_TEXT = (
    Fault(
        "memoryhub/journal/writing/sealing.py",
        "chain=chain.link(head.chain, canonical, digest),",
        "chain=chain.link(\n"
        "            head.chain,\n"
        "            canonical,\n"
        "            payload and hashlib.sha256(payload).digest(),\n"
        "        ),",
    ),
    Fault(
        VERIFICATION,
        "    digest = None if row.payload_digest is None "
        "else bytes(row.payload_digest)\n",
        "    plain = texts.open_payload(\n"
        "        walk.thread.subject, walk.thread.project_id, row\n"
        "    )\n"
        "    digest = plain and hashlib.sha256(orjson.dumps(plain)).digest()\n",
    ),
    Fault(
        VERIFICATION,
        "from django.db.models import Exists, Model, OuterRef\n",
        "import hashlib\nimport orjson\n"
        "from django.db.models import Exists, Model, OuterRef\n",
    ),
)
SHARES_NO_LOCK = (
    Fault(
        "memoryhub/journal/rows/statements.py",
        """+ (" FOR SHARE OF s" if is_postgres() else ""),""",
        """+ "",""",
    ),
    # Between what a writer reads of her and its commit, of a thread that is new.
    Fault(
        BATCH,
        "            self._write()\n",
        "            if self.born:\n"
        f"                {PAUSE}\n"
        "            self._write()\n",
    ),
)
LETS_EVERYBODY_IN = (
    Fault(
        BATCH,
        'if subject is None or subject.state in ("erasing", "erased"):',
        "if subject is None:",
    ),
    # Before her key goes, without which nothing is sealed.
    Fault(
        "memoryhub/services/forget/erasure_steps.py",
        "    if not row.needles:\n",
        f"    {PAUSE}\n    if not row.needles:\n",
    ),
)
ERASES_BY_VALUE = Fault(
    "memoryhub/queries/forget/erasure_closures.py",
    "    return compute_closure([(thread.id, seq, seq)], taught=taught)\n",
    "    same = Event.objects.filter(\n"
    "        body=Event.objects.get(thread=thread, seq=seq).body\n"
    "    )\n"
    "    places = [(row.thread_id, row.seq, row.seq) for row in same]\n"
    "    return compute_closure(places, taught=taught)\n",
)
LISTS_NO_NOTES = Fault("memoryhub/queries/nouns.py", "    notes.STATES,\n", "")
STOPS_AFTER_A_BATCH = (
    Fault(EVENTS, "BATCH = 1_000\n", "BATCH = 10\n"),
    Fault(
        EVENTS,
        "            after = lines[-1].seq\n",
        "            after = part.head_seq\n",
    ),
)
ACCEPTS_IN_MEMORY = Fault(
    BATCH,
    '            if [*map(bytes, last.values_list("chain", flat=True))] '
    "!= [after.chain]:\n"
    "                return None\n",
    "",
)
KEEPS_NO_BALLAST = Fault(
    "memoryhub/services/forget/ballast.py",
    "    if is_complete():\n",
    "    if wanted:\n",
)

CONTROLS = [
    control(
        "P14",
        "a fence that holds nobody, in two processes",
        FINAL,
        RESURRECTED,
        *SHARES_NO_LOCK,
        # SQLite has one writer at a time, so there it would hold even so.
        marks=(pytest.mark.grown,),
    ),
    control(
        "P14",
        "a fence that nobody looks at",
        FINAL,
        "race.late == []",
        *LETS_EVERYBODY_IN,
    ),
]
#: Of one process, whose database a second run on PostgreSQL would share.
IN_PROCESS = [
    control(
        "P5",
        "a chain over plain text",
        "test_erasures.py::test_erasure_keeps_the_chain_valid[some]",
        "verify(row, origins=origins) is None",
        *CHAINS_PLAIN_TEXT,
    ),
    control(
        "P15",
        "an erasure by value",
        "test_forget.py::test_forget_is_exact[some]",
        "[each for each in others if after[each] != before[each]] == []",
        ERASES_BY_VALUE,
    ),
    control(
        "P16",
        "a kind that is not listed",
        "queries/export/test_bundles.py::test_bundle_holds_the_canary_of_each_place",
        "canary in texts[part]",
        LISTS_NO_NOTES,
    ),
    control(
        "P16",
        "an export that ends after a batch",
        "queries/export/test_bundles.py::test_bundle_holds_every_event_byte_for_byte",
        "len(lines) == rows.count()",
        *STOPS_AFTER_A_BATCH,
    ),
    control(
        "P17",
        "what is not stored is kept in memory",
        FULL,
        "statuses == dict.fromkeys(answers, 503)",
        ACCEPTS_IN_MEMORY,
    ),
]


@pytest.mark.parametrize("control", CONTROLS)
def test_privacy_promise_is_broken_by_a_deliberate_fault(
    control: Control, tmp_path: Path
) -> None:
    assert_noticed(control, tmp_path)


@pytest.mark.parametrize("control", IN_PROCESS)
def test_privacy_promise_is_broken_by_a_fault_in_one_process(
    sqlite: None, control: Control, tmp_path: Path
) -> None:
    assert_noticed(control, tmp_path)


WITHOUT_BALLAST = control(
    "P18",
    "a disk without a byte left, and no ballast",
    "test_forget.py::test_forget_begins_on_a_full_disk",
    "process.returncode == 0",
    KEEPS_NO_BALLAST,
    said="memoryhub.errors.trouble.UnavailableError",
)


@pytest.mark.parametrize("control", [WITHOUT_BALLAST])
def test_full_disk_without_ballast_keeps_the_subject(
    sqlite: None, control: Control, tmp_path: Path
) -> None:
    """The test shows nothing where nobody may mount a disk."""
    with small_disk(tmp_path / "probe", 1):
        assert_noticed(control, tmp_path)
