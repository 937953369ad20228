"""Controls: with a fault in the code, the test of a promise must fail.

A test that passes all the same has proved nothing. Each fault stands in a copy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.forget.faults import (
    Control,
    Fault,
    assert_noticed,
    control,
    copy_sources,
    promised,
    run,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_800)]

WRITER, BATCH = (
    "memoryhub/journal/writing/writer.py",
    "memoryhub/journal/writing/batch.py",
)
CLOCK = "memoryhub/models/server/clock.py"
KEEPS = "        requests.keep(self.served, now=self.clock())\n"
RETURNS = "        return self.accept(outcomes)\n"
#: So long the fault shows, so that no luck is needed to see it.
PAUSE = "__import__('time').sleep(0.05)"

REPLIES_FIRST = (
    Fault(WRITER, "    connections,\n)", "    connections,\n    transaction,\n)"),
    Fault(
        WRITER,
        "                    self._serve(jobs)\n",
        "                    with transaction.atomic():\n"
        "                        self._serve(jobs)\n"
        "                        _settle_jobs(jobs)\n"
        f"                        {PAUSE}\n",
    ),
    Fault(
        WRITER,
        "                _settle_jobs(jobs)\n        finally:",
        "        finally:",
    ),
)
COMPARES_NO_HEAD = (
    Fault(
        "memoryhub/journal/rows/statements.py",
        """'WHERE "id" = %s AND "head_seq" = %s'""",
        """'WHERE "id" = %s AND %s >= 0'""",
    ),
    Fault("memoryhub/journal/log/heads.py", ", head_seq=before.state.seq)", ")"),
    Fault(WRITER, "RACES = 1\n", "RACES = 1_000\n"),
)
RECORDS_KEYS_LATE = (
    Fault(BATCH, KEEPS, ""),
    Fault(BATCH, RETURNS, f"        {PAUSE}\n{KEEPS}{RETURNS}"),
)
COMPARES_NO_PRECONDITION = Fault(
    BATCH, "if not state.active_seq <= seq <= state.seq:", "if seq < 0:"
)
WAITS_FOR_NOTICES = Fault(
    "memoryhub/queries/threads/threads.py",
    "\ndef get_thread(",
    "\nimport functools\n@functools.cache\ndef get_thread(",
)
FOLLOWS_THE_WALL = Fault(
    CLOCK, "return self._began_ns + self._ticks()", "return time.time_ns()"
)
GOES_BACK = Fault(BATCH, "now = max(now, head.state.at)", "pass")
SORTS_BY_TIME = Fault(
    "memoryhub/queries/threads/events.py",
    'order_by("seq" if order == "asc" else "-seq")',
    'order_by("at" if order == "asc" else "-at")',
)
FOLLOWS_ANY_CLOCK = Fault(
    CLOCK, "abs(behind_ns) <= TOLERANCE_NS", "behind_ns == behind_ns"
)
SORTS_NO_MAP = Fault(
    "memoryhub/kernel/state_json.py",
    "dict(sorted(plain[name].items()))",
    "dict(plain[name].items())",
)
BELIEVES_KEYS_LONGER = Fault(
    "memoryhub/api/http/auth.py", "BELIEVED_SECONDS = 1.0", "BELIEVED_SECONDS = 10.0"
)
PANELS, RENDERER = "inspector/live/rendered_panels.py", "inspector/live/renderer.py"
RENDERS_FOR_EACH = (
    Fault(PANELS, "LIFE_SECONDS = 1.0", "LIFE_SECONDS = -1.0"),
    Fault(PANELS, "PER_SECOND, BURST = 10.0, 2.0", "PER_SECOND, BURST = 1e6, 1e6"),
    Fault(PANELS, "REST_FACTOR = 3.0", "REST_FACTOR = 0.0"),
    Fault(
        RENDERER,
        "            self._push_if_complete(each, now, heads)\n",
        "            if each is viewer:\n                self._push_due(each)\n",
    ),
)
TRUSTS_NOTICES = Fault(
    "inspector/live/hub.py",
    "LOOK_SECONDS, POLL_SECONDS = 2.0, 1.0",
    "LOOK_SECONDS, POLL_SECONDS = 1e6, 1e6",
)
PUSHES_UNPAINTED = Fault(
    RENDERER, "viewer.pushes + 1, False", "viewer.pushes + 1, True"
)
WATCHED = "test_watching.py::test_fifty_browsers_watch_one_working_set[7]"
KEEPS_THE_FIRST_STATE = (
    Fault(
        "memoryhub/queries/replay/states.py",
        "\n\ndef load_state(",
        "\n_KEPT: dict[object, ThreadState] = {}\n\n\ndef load_state(",
    ),
    Fault(
        "memoryhub/queries/replay/states.py",
        "    return replay.load_state_at(thread, "
        "thread.head_seq if seq is None else seq).state\n",
        "    found = replay.load_state_at(thread, seq or thread.head_seq).state\n"
        "    return _KEPT.setdefault(thread.id, found)\n",
    ),
)
COMPARES_NO_INSTANT = Fault(
    "memoryhub/kernel/state/working_memory.py",
    "return self.expires_at is None or now < self.expires_at",
    "return True",
)
RESTORES_PART_BY_PART = Fault(
    "tests/oracles/memory_acts.py",
    "    return act(agent, RestoreCheckpoint(target=target, parts=parts), thread)",
    "    some = (RestoreCheckpoint(target=target, parts=(p,)) for p in parts)\n"
    "    return [act(agent, each, thread) for each in some][-1]",
)
COMPARES_NO_ANCHOR = Fault(
    "memoryhub/queries/verify/verification.py",
    "or _check_terms(thread) or _check_anchor(thread)",
    "or _check_terms(thread)",
)
KEEPS_BODIES = (
    Fault(
        "memoryhub/api/http/gate.py",
        "\n\nasync def read_body(",
        "\n_KEPT: list[object] = []\n\n\nasync def read_body(",
    ),
    Fault(
        "memoryhub/api/http/gate.py",
        "    size, more = 0, True\n    try:\n",
        "    size, more = 0, True\n    _KEPT.append(chunks)\n    try:\n",
    ),
)
TAKES_NUL = Fault(
    "memoryhub/api/http/gate.py", '        if "\\0" in text:', "        if False:"
)
SORTS_BY_EMPTY = Fault(
    "memoryhub/queries/threads/threads.py",
    "rows.order_by(*ordering)",
    'rows.order_by("parent", *ordering)',
)
TAKES_NO_PATH = Fault(
    "memoryhub/services/export/archives.py",
    "if not (entry.filename and path.parts):",
    "if False:",
)
REPLAYS_NOTHING = Fault(
    "memoryhub/management/drills.py", '    "replay": ("forget", "--replay"),\n', ""
)
LOOKS_AT_NO_END = Fault(
    "memoryhub/queries/verify/verification.py",
    "found = _check_events(walk, progress) or _check_rows(walk)",
    "found = _check_events(walk, progress)",
)


CONTROLS = [
    control(
        "P1",
        "a reply before its commit",
        "test_crash.py::test_acknowledged_write_is_durable",
        "{index: contents.get(index) for index in promised} == promised",
        *REPLIES_FIRST,
    ),
    control(
        "P2",
        "a head that nobody compares",
        "test_dense_order.py::test_processes_append_to_one_thread[3-100]",
        '[each["code"] for each in told if "code" in each] == []',
        *COMPARES_NO_HEAD,
        # SQLite has one writer at a time, so there it would hold even so.
        marks=(pytest.mark.grown,),
    ),
    control(
        "P6",
        "a key that is recorded after the commit",
        "test_requests.py::test_idempotency_key_has_one_effect_across_two_processes[16-100]",
        "sorted(stored) == list(range(keys))",
        *RECORDS_KEYS_LATE,
    ),
    control(
        "P7",
        "a precondition that nobody compares",
        "test_requests.py::test_conditional_writes_lose_no_update[8-30]",
        "stored == list(range(successes + 1))",
        COMPARES_NO_PRECONDITION,
    ),
    control(
        "P8",
        "a state that is served without comparing its head",
        "test_keys.py::test_key_operations_are_linearizable[6-3]",
        "unexplained(found) == []",
        *KEEPS_THE_FIRST_STATE,
    ),
    control(
        "P10",
        "a restore as several commands",
        "test_checkpoints.py::test_restore_is_atomic",
        "[shown for shown in found if shown not in (old, new)] == []",
        RESTORES_PART_BY_PART,
    ),
    control(
        "P11",
        "a state that only a notice renews",
        "test_coherence.py::test_no_process_answers_from_before_a_write[150-3]",
        "[late for _, late in outcomes if late] == []",
        WAITS_FOR_NOTICES,
    ),
    control(
        "P19",
        "a server that keeps each body",
        "test_overload.py::test_memory_is_bounded_under_overload[3]",
        "memory(server) - before < GROWTH_BYTES",
        *KEEPS_BODIES,
    ),
    control(
        "P21",
        "an order of empty values that is left to the database",
        "test_same_answers.py::test_both_databases_answer_the_same[100-1]",
        "differing == []",
        SORTS_BY_EMPTY,
        marks=(pytest.mark.grown,),
    ),
    control(
        "P27",
        "a restore that replays nothing",
        "management/verify/test_drill.py::"
        "test_drill_erases_again_what_was_erased_since_the_backup",
        "done.returncode == code",
        REPLAYS_NOTHING,
    ),
    control(
        "P23",
        "a clock that goes as the machine's does",
        "test_clocks.py::test_clock_that_jumps_ends_nothing",
        '[each["done"].get("retention") for each in found] == [0, 0, 0]',
        FOLLOWS_THE_WALL,
    ),
    control(
        "P23",
        "a clock that is put right however far it is off",
        "test_clocks.py::test_clocks_that_differ_and_jump_reorder_nothing",
        '(answer.status, answer.body.get("code")) == (503, "clock_skew")',
        FOLLOWS_ANY_CLOCK,
    ),
    control(
        "P24",
        "a persistent map in its own order",
        "test_replay.py::test_replay_is_the_same_under_any_hash_seed[3]",
        "len(digests) == 1",
        SORTS_NO_MAP,
    ),
    control(
        "P28",
        "a text for each socket",
        WATCHED,
        'last["renders"] - len(run.seen.texts) in range(LATE)',
        *RENDERS_FOR_EACH,
    ),
    control(
        "P28",
        "pushes that wait for nobody",
        WATCHED,
        "len(stalled.shown) == 1",
        PUSHES_UNPAINTED,
    ),
    control(
        "P26",
        "keys that are believed for 10 seconds",
        "test_secrets.py::test_revoked_key_is_refused_within_a_second",
        "time.monotonic() - done < NOTICED_SECONDS + SLACK_SECONDS",
        BELIEVES_KEYS_LONGER,
    ),
]


#: Of one process, whose database a second run on PostgreSQL would share.
IN_PROCESS = [
    control(
        "P4",
        "a journal whose end is not looked at",
        "test_tamper.py::test_every_damage_to_a_fork_is_found[4]",
        "missed == []",
        LOOKS_AT_NO_END,
        said="cut after",
    ),
    control(
        "P4",
        "anchors that nobody compares",
        "test_anchored.py::test_tail_that_was_cut_without_a_trace_is_found[4]",
        "missed == []",
        COMPARES_NO_ANCHOR,
    ),
    control(
        "P9",
        "keys that are not compared with the time",
        "api/memory/test_key_expiry.py::test_expired_key_is_invisible_without_a_worker",
        "sorted(await names(api, query)) == left",
        COMPARES_NO_INSTANT,
    ),
    control(
        "P20",
        "an address with U+0000 that is let through",
        "api/http/test_bad_inputs.py::test_bad_inputs_are_refused",
        "(answer.status, answer.code) == (status, code)",
        TAKES_NUL,
    ),
    control(
        "P20",
        "an archive whose files need no name",
        "test_fuzz.py::test_no_mutated_input_raises_more_than_a_refusal[3000-bundle]",
        "broken == []",
        TAKES_NO_PATH,
        said="IndexError",
    ),
    control(
        "P28",
        "pages that learn of events by notices alone",
        "e2e/test_live.py::test_lost_notices_lose_no_event",
        'get_shown_seq(page, "events") == last',
        TRUSTS_NOTICES,
        marks=(pytest.mark.browser,),
    ),
    control(
        "P23",
        "a list in the order of time",
        "test_clocks.py::test_writer_whose_clock_jumps_keeps_the_order",
        "[each.seq for each in listed] == list(range(1, 8))",
        *(GOES_BACK, SORTS_BY_TIME),
    ),
]


@pytest.mark.parametrize("control", CONTROLS)
def test_promise_is_broken_by_a_deliberate_fault(
    control: Control, tmp_path: Path
) -> None:
    assert_noticed(control, tmp_path)


@pytest.mark.parametrize("control", IN_PROCESS)
def test_promise_is_broken_by_a_fault_in_one_process(
    sqlite: None, control: Control, tmp_path: Path
) -> None:
    assert_noticed(control, tmp_path)


def test_promises_hold_in_a_copy_without_a_fault(sqlite: None, tmp_path: Path) -> None:
    """This control shows that tests fail only because of their faults."""
    tests = [
        "test_requests.py::test_amendments_of_two_writers_are_both_kept",
        "test_tamper.py::test_fork_of_nothing_keeps_its_parent",
    ]
    ran = run(copy_sources(tmp_path / "copy"), *map(promised, tests))
    assert ran.passed, ran.output
