"""Which tests run on which engine, by where they stand."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Never near the database of a run, so the pass on SQLite is enough. The demo brings a
#: database of its own, which is always SQLite.
FREE = (
    # Of the server before the application: it ends such connections by itself.
    "api/test_connections.py",
    "gallery",
    "governance/test_table.py",
    "inspector/test_privacy_words.py",
    "kernel",
    "management/test_demo.py",
    "management/test_frames.py",
    "management/test_heads.py",
    "management/test_joined.py",
    "management/test_logs.py",
    "models/test_clock.py",
    "queries/test_cursors.py",
    "queries/test_tokenizers.py",
    "services/test_archives.py",
    "services/test_bundle_passes.py",
    "test_lock.py",
    "test_promised.py",
    "test_readme.py",
    "test_rooms.py",
    "vault/test_backup.py",
    "vault/test_key_cache.py",
    "vault/test_needles.py",
    "vault/test_receipts.py",
    "vault/test_ring_file.py",
    "vault/test_wrapping.py",
)
#: Where engines differ, by what they lock, scrub, search and keep in files: `make test`
#: runs what is quick of these on both; `make test-all` runs all on both.
DIFFER = (
    "journal/test_audit.py",
    "journal/test_batch.py",
    "journal/test_chain.py",
    "journal/test_dead_names.py",
    "journal/test_erasing.py",
    "journal/test_log.py",
    "journal/test_memory_rows.py",
    "journal/test_page_rows.py",
    "journal/test_purging.py",
    "journal/test_scrub.py",
    "journal/test_statements.py",
    "journal/test_totals.py",
    "journal/test_trouble.py",
    "journal/test_writer.py",
    "models",
    "promises/test_anchored.py",
    "promises/test_coherence.py",
    "promises/test_crash.py",
    "promises/test_dense_order.py",
    "promises/test_manipulated.py",
    "promises/test_paging.py",
    "promises/test_races.py",
    "promises/test_requests.py",
    "promises/test_tamper.py",
    "queries/test_erasure_waits.py",
    "queries/test_health.py",
    "queries/test_readers.py",
    "queries/test_retention.py",
    "queries/test_rewrites.py",
    "queries/test_surfaces.py",
    "queries/test_threads.py",
    "services/test_erasure_fences.py",
    "services/test_erasure_races.py",
    "services/test_erasure_rows.py",
    "services/test_erasure_steps.py",
    "services/test_forks.py",
    "services/test_projects.py",
    "services/test_scan_probes.py",
    "services/test_slots.py",
    "services/test_uses.py",
    "vault/test_checks.py",
    "vault/test_key_races.py",
    "vault/test_keys.py",
    "vault/test_rotation.py",
    "workers",
)
#: What needs a database but says nothing of one, files or functions: by day its pass on
#: SQLite is enough. Of matrices, walks and generated requests every route is tried on
#: both where it stands; sockets and sign-in read a row or two that others read, too.
#: What pages, packs and folds is the kernel's doing; what shows the rules of governance
#: stands on tests of erasing, which run on both.
BY_NIGHT = (
    "api/test_schema.py",
    "api/test_socket.py",
    "governance",
    "inspector/test_consumers.py",
    "inspector/test_content_reads.py",
    "inspector/test_erased_screens.py",
    "inspector/test_event_search.py",
    "inspector/test_looking.py",
    "inspector/test_timeline.py",
    "journal/test_log.py::test_a_chain_of_forks_is_folded_once",
    "journal/test_log.py::test_each_fork_more_costs_as_many_queries",
    "management/test_serve.py",
    "management/test_sso.py",
    "matrix",
    "promises/test_clocks.py",
    "promises/test_contexts.py",
    "promises/test_forget_recorded.py",
    "promises/test_no_row_cap.py",
    "promises/test_replay.py",
    "promises/test_sockets.py",
    "queries/test_page_verification.py",
    "queries/test_prefixes.py",
    "services/test_fork_histories.py",
    "services/test_imports.py",
    "services/test_lost_needles.py",
    "services/test_receipt_counts.py",
)
#: The fixtures by which a test comes to a database.
REACHING = {"db", "transactional_db", "instance", "empty", "shared", "pair"}


def sqlite_only(item: pytest.Item) -> bool:
    """Whether it says nothing of another engine."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if not within(item, FREE):
        # SQLite's own promises are tried in the pass that runs on it.
        return "sqlite" in fixtures
    # Without either, pytest-django keeps it from every database.
    assert not fixtures & REACHING, item.nodeid
    assert item.get_closest_marker("django_db") is None, item.nodeid
    return True


def differ(item: pytest.Item) -> bool:
    """Whether engines differ in what it tries."""
    return within(item, DIFFER)


def by_night(item: pytest.Item) -> bool:
    """Whether only `make nightly` runs it on PostgreSQL."""
    return within(item, BY_NIGHT)


def within(item: pytest.Item, places: Collection[str]) -> bool:
    """Whether it stands in one of these files or folders, or is one of these."""
    place = item.path.relative_to(HERE).as_posix()
    if f"{place}::{getattr(item, 'originalname', item.name)}" in places:
        return True
    return f"{place}/".startswith(tuple(f"{each}/" for each in places))
