"""The registry: every field of every model, what it may hold, and what becomes of it.

What is listed neither here nor, for places outside the tables, in `surroundings`
fails the build. A new model joins with one entry, which says what forgetting does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from types import MappingProxyType


class Holds(Flag):
    """What may stand in a field. Several for a field that has parts, such as JSON."""

    SEALED = auto()
    DIGEST = auto()
    #: Chosen by a client, in the clear.
    NAME = auto()
    ID = auto()
    NUMBER = auto()
    #: Of a closed vocabulary; truth values too.
    WORD = auto()
    TIME = auto()
    #: About operators or the installation itself, never about a subject.
    STAFF = auto()


class Fate(StrEnum):
    """What forgetting a subject does to its part of a place."""

    NULLED = "sealed bytes become NULL, names their digests; the place stays"
    DELETED = "the rows are deleted"
    BLANKED = "names become their digests, the rest NULL; the row stays"
    DESTROYED = "destroyed and scrubbed"
    VOID = "void by head and epoch before it is used; gone with the process"
    PASSES = "goes by itself within seconds; nothing to do"
    ROTATES = "kept as it holds ids only; gone after its time"
    STAYS = "kept: it holds ids, counts and keyed digests only"
    NOT_ITS = "it holds nothing of a subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A model: the class of each field, and the subject's part of its rows."""

    fields: Mapping[str, Holds]
    #: The lookup from a row to its subject's id: finds, exports, erases and counts
    #: that part. None where rows are about no subject.
    subject: str | None = None
    #: The part of the export that shows the rows; None where none needs to.
    exported: str | None = None
    forget: Fate = Fate.NOT_ITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place outside the tables: what it holds, and how a subject's part is found."""

    holds: str
    found: str = "nothing to find"
    forget: Fate = Fate.NOT_ITS


def _fields(**named: str) -> Mapping[str, Holds]:
    """`id="a b", name_word="c"`: the fields a and b hold ids, c names and words."""
    fields: dict[str, Holds] = {}
    for classes, names in named.items():
        holds = Holds(0)
        for word in classes.split("_"):
            holds |= Holds[word.upper()]
        for name in names.split():
            assert name not in fields
            fields[name] = holds
    return MappingProxyType(fields)


_EVENTS = "events.jsonl"
_THREADS = "manifest.json"

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
            exported=_EVENTS,
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
            exported=_EVENTS,
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
            exported=_EVENTS,
            forget=Fate.DELETED,
            fields=_fields(
                id="thread project value_thread",
                name="key",
                word="json_type",
                number="version value_seq bytes",
                time="expires_at",
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
                name="name agent_type agent_instance session",
                # The salt is what makes the digests of names; it is no name itself.
                digest="name_salt head_hash",
                word="status nearly_full last_event_type levels_due",
                number="fork_seq head_seq slot_count turn_count token_count byte_count"
                " listed_slots resident_tokens capacity_tokens tlb_hits tlb_misses"
                " fault_count eviction_count refault_count",
                id_number="lineage",
                name_number_word="labels",
                number_word="config",
                time="created_at last_event_at last_active_at listed_at",
            ),
        ),
        "memoryhub.ThreadLabel": Table(
            subject="thread__subject",
            exported=_THREADS,
            forget=Fate.DELETED,
            fields=_fields(id="thread project", name="name", name_number_word="value"),
        ),
        "memoryhub.Subject": Table(
            subject="id",
            exported=_THREADS,
            forget=Fate.NULLED,
            fields=_fields(
                id="id project",
                digest="subject_ref",
                sealed="external_id",
                word="anonymous state",
                number="epoch generation",
                time="created_at",
            ),
        ),
        "memoryhub.RequestKey": Table(
            subject="thread__subject",
            forget=Fate.DELETED,
            fields=_fields(
                id="id project thread",
                digest="digest request",
                number="first_seq last_seq",
                time="created_at",
            ),
        ),
        # Tenants and who may do what
        "memoryhub.Project": Table(
            fields=_fields(
                id="id",
                staff="slug",
                word="create_on_write",
                number="max_threads thread_count retention_idle_days"
                " default_ttl_seconds expired_value_grace_seconds",
                time="created_at",
            ),
        ),
        "memoryhub.ProjectStats": Table(
            fields=_fields(
                id="project",
                time="taken_at",
                number="open_threads closed_threads retired_threads erased_threads"
                " nearly_full_threads slots tokens bytes",
            ),
        ),
        "memoryhub.Instance": Table(fields=_fields(id="id", time="created_at")),
        "memoryhub.ApiKey": Table(
            # A key bound to a subject refers to it by id alone.
            subject="subject",
            forget=Fate.STAYS,
            fields=_fields(
                id="id project prefix subject",
                digest="digest",
                word="scopes",
                time="created_at expires_at revoked_at last_used_at",
            ),
        ),
        "memoryhub.Lease": Table(
            fields=_fields(word="name", id="holder", time="beaten_at expires_at"),
        ),
        "memoryhub.Heartbeat": Table(
            fields=_fields(id="id process", time="beaten_at", number="ticks_ns"),
        ),
        "memoryhub.Operator": Table(
            fields=_fields(
                id="id",
                staff="username password last_login created_at",
                word="is_active",
            ),
        ),
        "memoryhub.Membership": Table(
            fields=_fields(id="project operator", word="role"),
        ),
        "memoryhub.SignInLink": Table(
            fields=_fields(
                id="id operator", digest="digest", time="expires_at used_at"
            ),
        ),
        # The keys database
        "memoryhub.ProjectKey": Table(
            fields=_fields(id="project kek_id", sealed="wrapped"),
        ),
        "memoryhub.SubjectKey": Table(
            subject="subject",
            forget=Fate.DESTROYED,
            fields=_fields(
                id="subject kek_id project",
                number="version seals",
                sealed="wrapped",
                time="created_at",
            ),
        ),
        "memoryhub.DestroyedKey": Table(
            subject="subject",
            forget=Fate.STAYS,
            fields=_fields(id="subject erasure", time="at"),
        ),
        "memoryhub.SigningKey": Table(
            fields=_fields(
                id="id kek_id public", sealed="wrapped", time="created_at retired_at"
            ),
        ),
        "memoryhub.KekCheck": Table(
            fields=_fields(
                id="kek_id",
                sealed="sealed",
                word="state",
                time="created_at backed_up_at retired_at",
            ),
        ),
        "memoryhub.KeyMeta": Table(
            fields=_fields(id="id instance", number="ledger_n"),
        ),
        # Django's own and its sign-in guard
        "contenttypes.ContentType": Table(
            fields=_fields(id="id", word="app_label model")
        ),
        "auth.Permission": Table(
            fields=_fields(id="id content_type", word="name codename"),
        ),
        "auth.Group": Table(fields=_fields(id="id", staff="name")),
        "auth.Group_permissions": Table(fields=_fields(id="id group permission")),
        "sessions.Session": Table(
            fields=_fields(staff="session_key session_data", time="expire_date"),
        ),
        "axes.AccessAttempt": Table(
            fields=_fields(
                id="id",
                staff="user_agent ip_address username http_accept path_info get_data"
                " post_data",
                number="failures_since_start",
                time="attempt_time",
            ),
        ),
        "axes.AccessAttemptExpiration": Table(
            fields=_fields(id="access_attempt", time="expires_at"),
        ),
        "axes.AccessFailureLog": Table(
            fields=_fields(
                id="id",
                staff="user_agent ip_address username http_accept path_info",
                word="locked_out",
                time="attempt_time",
            ),
        ),
        "axes.AccessLog": Table(
            fields=_fields(
                id="id",
                staff="user_agent ip_address username http_accept path_info"
                " session_hash",
                time="attempt_time logout_time",
            ),
        ),
    }
)
