"""Assignment of tests to engines, by their paths."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Never near the database of a run, so the pass on SQLite is enough. The demo brings a
#: database of its own, which is always SQLite.
FREE = (
    # Of the server before the application: it ends such connections by itself.
    "api/http/test_connections.py",
    "governance/test_table.py",
    "inspector/forget/test_privacy_words.py",
    "kernel",
    "management/server/test_demo.py",
    "management/server/test_frames.py",
    "management/server/test_heads.py",
    "management/server/test_joined.py",
    "management/server/test_logs.py",
    "models/test_clock.py",
    "promises/tampering/test_fuzz.py",
    "queries/lists/test_cursors.py",
    "queries/replay/test_tokenizers.py",
    "services/export/test_archives.py",
    "services/export/test_bundle_passes.py",
    "sources",
    "test_lock.py",
    "test_promised.py",
    "test_docs.py",
    "test_names.py",
    "test_rooms.py",
    "vault/keys/test_backup.py",
    "vault/scan/test_targets.py",
    "vault/proof/test_receipts.py",
    "vault/registry/test_lru.py",
    "vault/keys/test_ring_file.py",
    "vault/keys/test_wrapping.py",
)
#: Where engines differ, by what they lock, scrub, search and keep in files: `make test`
#: runs what is quick of these on both; `make test-all` runs all on both.
DIFFER = (
    "api/threads/test_strikes.py",
    "journal/test_audit.py",
    "journal/writing/test_batch.py",
    "journal/log/test_chain.py",
    "journal/writing/test_dead_names.py",
    "journal/forget/test_erasing.py",
    "journal/log/test_log.py",
    "journal/rows/test_memory_rows.py",
    "journal/rows/test_page_rows.py",
    "journal/forget/test_purging.py",
    "journal/forget/test_scrub.py",
    "journal/rows/test_statements.py",
    "journal/rows/test_totals.py",
    "journal/log/test_trouble.py",
    "journal/writing/test_writer.py",
    "models",
    "promises/journal/test_anchored.py",
    "promises/paging/test_coherence.py",
    "promises/journal/test_crash.py",
    "promises/journal/test_dense_order.py",
    "promises/tampering/test_manipulated.py",
    "promises/paging/test_paging.py",
    "promises/tampering/test_races.py",
    "promises/tampering/test_requests.py",
    "promises/tampering/test_tamper.py",
    "queries/forget/test_erasure_waits.py",
    "queries/verify/test_health.py",
    "queries/threads/test_readers.py",
    "queries/threads/test_retention.py",
    "queries/scan/test_rewrites.py",
    "queries/scan/test_surfaces.py",
    "queries/search/test_searching.py",
    "queries/threads/test_threads.py",
    "services/erasing/test_erasure_fences.py",
    "services/erasing/test_erasure_races.py",
    "services/erasing/test_erasure_rows.py",
    "services/erasing/test_erasure_steps.py",
    "services/threads/test_forks.py",
    "services/access/test_projects.py",
    "services/observing/test_journal_fuzz.py",
    "services/scan/test_scan_probes.py",
    "services/threads/test_slots.py",
    "services/forget/test_uses.py",
    "vault/keys/test_checks.py",
    "vault/keys/test_key_races.py",
    "vault/keys/test_keys.py",
    "vault/keys/test_rotation.py",
    "workers",
)
#: What needs a database but says nothing of one, files or functions: by day its pass on
#: SQLite is enough. Of matrices, walks and generated requests every route is tried on
#: both where it stands; sockets and sign-in read a row or two that others read, too.
#: What pages, packs and folds is the kernel's doing; what shows the rules of governance
#: stands on tests of erasing, which run on both.
BY_NIGHT = (
    "api/document/test_schema.py",
    "api/threads/test_socket.py",
    "gallery",
    "governance",
    "inspector/live/test_consumers.py",
    "inspector/web/test_content_reads.py",
    "inspector/forget/test_erased_screens.py",
    "inspector/threads/test_event_search.py",
    "inspector/web/test_looking.py",
    "inspector/threads/test_timeline.py",
    "journal/log/test_log.py::test_chain_of_forks_is_folded_once",
    "journal/log/test_log.py::test_each_additional_fork_costs_the_same_queries",
    "management/server/test_serve.py",
    "management/operators/test_sso.py",
    "matrix",
    "promises/tampering/test_clocks.py",
    "promises/paging/test_contexts.py",
    "promises/forget/test_forget_recorded.py",
    "promises/paging/test_no_row_cap.py",
    "promises/export/test_replay.py",
    "promises/live/test_sockets.py",
    "queries/verify/test_page_verification.py",
    "queries/turns/test_prefixes.py",
    "services/threads/test_fork_histories.py",
    "services/imports/test_imports.py",
    "services/forget/test_lost_needles.py",
    "services/forget/test_receipt_counts.py",
)
#: The fixtures by which a test comes to a database.
REACHING = {"db", "transactional_db", "instance", "empty", "shared", "pair"}


def sqlite_only(item: pytest.Item) -> bool:
    """Tell whether a marker names no other engine."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if not is_within(item, FREE):
        # SQLite's own promises are tried in the pass that runs on it.
        return "sqlite" in fixtures
    # Without either, pytest-django keeps it from every database.
    assert not fixtures & REACHING, item.nodeid
    assert item.get_closest_marker("django_db") is None, item.nodeid
    return True


def differ(item: pytest.Item) -> bool:
    """Tell whether engines differ in what a test tries."""
    return is_within(item, DIFFER)


def by_night(item: pytest.Item) -> bool:
    """Tell whether only `make nightly` runs a test on PostgreSQL."""
    return is_within(item, BY_NIGHT)


def is_within(item: pytest.Item, places: Collection[str]) -> bool:
    """Tell whether a test stands in, or is, one of these files or folders."""
    place = item.path.relative_to(HERE).as_posix()
    if f"{place}::{getattr(item, 'originalname', item.name)}" in places:
        return True
    return f"{place}/".startswith(tuple(f"{each}/" for each in places))
