"""The registry: every field of every model, what it may hold, and what becomes of it.

What is listed neither here nor, for places outside the tables, in `surroundings`
fails the build. A new model joins with one entry, which says what forgetting does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from memoryhub.vault.registry import own_tables
from memoryhub.vault.registry.places import Fate, Holds, Place, Table
from memoryhub.vault.registry.places import fields as _fields

__all__ = ["TABLES", "Fate", "Holds", "Place", "Table", "thread_lookup"]

_EVENTS = "events.jsonl"
_THREADS = "state/threads.jsonl"
_MANIFEST = "manifest.json"

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        # The memory
        "memoryhub.Event": Table(
            subject="thread__subject",
            exported=_EVENTS,
            forget=Fate.NULLED,
            fields=_fields(
                id="thread",
                number="seq erased_by",
                word="type",
                time="at",
                id_word="actor",
                # An id that the agent chose, as in the body.
                name="page",
                digest_name_id_number_word_time="body",
                sealed="payload",
                digest="payload_digest chain",
            ),
        ),
        "memoryhub.Snapshot": Table(
            subject="thread__subject",
            forget=Fate.DELETED,
            fields=_fields(
                id="thread",
                number="seq replay_format",
                sealed="sealed",
                number_word="counters",
            ),
        ),
        "memoryhub.Slot": Table(
            subject="thread__subject",
            exported=_EVENTS,
            forget=Fate.DELETED,
            fields=_fields(
                id="thread",
                number="index seq turn tokens bytes",
                name="from_name to_name type",
                word="role erased",
            ),
        ),
        "memoryhub.Turn": Table(
            subject="thread__subject",
            exported=_EVENTS,
            forget=Fate.DELETED,
            fields=_fields(
                id="thread", number="n seq packed_seq", number_word="counters"
            ),
        ),
        "memoryhub.Page": Table(
            subject="thread__subject",
            exported="state/pages.jsonl",
            forget=Fate.DELETED,
            fields=_fields(
                id="thread full_thread hint_thread",
                name="page_id",
                word="type modality role home",
                number="created_seq created_turn seq deleted_seq version importance"
                " slot full_seq tokens cost hint_seq",
            ),
        ),
        "memoryhub.PageLevel": Table(
            subject="thread__subject",
            exported="state/pages.jsonl",
            forget=Fate.DELETED,
            fields=_fields(
                id="thread source",
                name="page_id",
                word="producer home",
                number="version level seq tokens cost",
            ),
        ),
        "memoryhub.Key": Table(
            subject="thread__subject",
            exported="state/keys.jsonl",
            forget=Fate.DELETED,
            fields=_fields(
                id="thread project value_thread",
                name="key",
                number="version value_seq bytes",
                time="expires_at",
            ),
        ),
        "memoryhub.Checkpoint": Table(
            subject="thread__subject",
            exported="state/checkpoints.jsonl",
            forget=Fate.DELETED,
            fields=_fields(
                id="thread event_thread",
                name="name",
                word="auto",
                number="seq parent touched event_seq",
                number_word="counts",
                time="at",
                id_word="by",
            ),
        ),
        "memoryhub.DueValue": Table(
            subject="thread__subject",
            exported=_EVENTS,
            forget=Fate.DELETED,
            fields=_fields(id="thread project", number="seq", time="due_at"),
        ),
        "memoryhub.Thread": Table(
            subject="subject",
            exported=_THREADS,
            forget=Fate.BLANKED,
            fields=_fields(
                id="id project subject parent",
                name="name agent_type agent_instance session labels",
                # The salt is what makes the digests of names; it is no name itself.
                digest="name_salt head_hash anchored_hash",
                word="status nearly_full last_event_type levels_due",
                number="fork_seq head_seq slot_count turn_count token_count byte_count"
                " listed_slots anchored_seq blanked_seq resident_tokens"
                " capacity_tokens tlb_hits tlb_misses"
                " fault_count eviction_count refault_count exchange_count"
                " faulted_exchange_count faulted_lately_count",
                id_number="lineage",
                id_digest="origin",
                number_word="config",
                time="created_at last_event_at last_active_at listed_at",
            ),
        ),
        "memoryhub.ThreadLabel": Table(
            subject="thread__subject",
            exported=_THREADS,
            forget=Fate.DELETED,
            fields=_fields(id="thread project", name="name value"),
        ),
        "memoryhub.Subject": Table(
            subject="id",
            exported=_MANIFEST,
            forget=Fate.NULLED,
            fields=_fields(
                id="id project",
                digest="subject_ref",
                sealed="external_id",
                word="anonymous state basis",
                number="epoch generation tombstones",
                time="created_at",
            ),
        ),
        "memoryhub.RequestKey": Table(
            # Those about a person are of no thread.
            subject="subject",
            of_thread="thread",
            forget=Fate.DELETED,
            fields=_fields(
                id="id project subject thread erasure",
                digest="digest request",
                number="first_seq last_seq",
                time="created_at",
            ),
        ),
        "memoryhub.Derivation": Table(
            subject="thread__subject",
            exported=_EVENTS,
            forget=Fate.DELETED,
            fields=_fields(id="thread derived_thread", number="source_seq derived_seq"),
        ),
        # What was forgotten, and the proof of it
        "memoryhub.Erasure": Table(
            subject="subject",
            forget=Fate.STAYS,
            fields=_fields(
                id="id project subject thread ticket",
                id_word="actor",
                word="scope reason restrict state waiting_on",
                time="before hit_at created_at expires_at confirmed_at updated_at",
                number="seq epoch ledger_n",
                number_word="planned erased verification",
                id_number="targets",
                time_word="times",
                digest="needles",
            ),
        ),
        "memoryhub.Tombstone": Table(
            subject="subject",
            forget=Fate.STAYS,
            fields=_fields(
                id="id project subject erasure",
                word="kind of",
                digest="digest",
                time="created_at",
            ),
        ),
        "memoryhub.Hold": Table(
            subject="subject",
            exported=_MANIFEST,
            forget=Fate.STAYS,
            fields=_fields(
                id="id project subject reviewer",
                id_word="opened_by lifted_by",
                word="basis",
                time="opened_at expires_at lifted_at",
            ),
        ),
        "memoryhub.Receipt": Table(
            subject="erasure__subject",
            forget=Fate.STAYS,
            fields=_fields(
                id="id project erasure",
                number="n",
                digest_id_number_time_word="text",
                time="issued_at",
            ),
        ),
        "memoryhub.AuditEntry": Table(
            # By its pseudonym alone, which dies with the subject's key.
            forget=Fate.STAYS,
            fields=_fields(
                id="project actor_ref target_id request_id",
                number="seq count first_seq last_seq",
                word="actor_kind action purpose target_kind outcome route",
                digest="subject prev hash",
                time="at",
            ),
        ),
        "memoryhub.DailyUse": Table(
            subject="subject",
            exported="access.jsonl",
            forget=Fate.DELETED,
            fields=_fields(id="subject key", number="reads writes", time="day"),
        ),
        "memoryhub.Total": Table(
            # What is exported tells them as well.
            subject="subject",
            forget=Fate.DELETED,
            fields=_fields(
                id="subject", word="kind", number="records sealed erased bytes"
            ),
        ),
        **own_tables.TABLES,
    }
)


def thread_lookup(label: str) -> str | None:
    """The lookup from a row of the model to its thread's id, a thread's own as well."""
    return "id" if label == "memoryhub.Thread" else TABLES[label].thread
