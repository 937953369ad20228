"""Tables that are about tenants, keys and the installation itself, of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from memoryhub.vault.registry.places import Fate, Table, fields

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        # Tenants and who may do what
        "memoryhub.Project": Table(
            fields=fields(
                id="id deletion_ticket",
                id_word="deletion_actor",
                # It outlives what the project held, so that this can be proved.
                staff="slug",
                word="create_on_write state deletion_reason",
                number="max_threads thread_count retention_idle_days"
                " default_ttl_seconds expired_value_grace_seconds",
                time="created_at deletion_at deleted_at",
            ),
        ),
        "memoryhub.ProjectStats": Table(
            fields=fields(
                id="project",
                time="taken_at",
                number="open_threads closed_threads retired_threads erased_threads"
                " nearly_full_threads slots tokens bytes",
            ),
        ),
        "memoryhub.Instance": Table(
            fields=fields(
                id="id",
                time="created_at",
                number="ledger_n audit_seq",
                digest="ledger_hash audit_hash",
            ),
        ),
        "memoryhub.ApiKey": Table(
            # A key bound to a subject refers to it by id alone.
            subject="subject",
            forget=Fate.STAYS,
            fields=fields(
                id="id project prefix subject",
                digest="digest",
                word="scopes",
                time="created_at expires_at revoked_at last_used_at",
            ),
        ),
        "memoryhub.Lease": Table(
            # Of an export the name has the project's id.
            fields=fields(id_word="name", id="holder", time="beaten_at expires_at"),
        ),
        "memoryhub.Heartbeat": Table(
            fields=fields(id="id process", time="beaten_at", number="ticks_ns"),
        ),
        "memoryhub.Operator": Table(
            fields=fields(
                id="id",
                staff="username password last_login created_at",
                word="is_active",
            ),
        ),
        "memoryhub.Membership": Table(
            fields=fields(id="project operator", word="role"),
        ),
        "memoryhub.Identity": Table(
            fields=fields(id="id operator", staff="issuer subject", time="created_at"),
        ),
        "memoryhub.SignInLink": Table(
            fields=fields(id="id operator", digest="digest", time="expires_at used_at"),
        ),
        "memoryhub.SignInFailure": Table(
            fields=fields(id="id", digest="name address", time="at"),
        ),
        # The keys database
        "memoryhub.ProjectKey": Table(
            fields=fields(id="project kek_id", sealed="wrapped"),
        ),
        "memoryhub.SubjectKey": Table(
            subject="subject",
            forget=Fate.DESTROYED,
            fields=fields(
                id="subject kek_id project",
                number="version seals",
                sealed="wrapped",
                time="created_at",
            ),
        ),
        "memoryhub.DestroyedKey": Table(
            subject="subject",
            forget=Fate.STAYS,
            fields=fields(id="subject erasure", time="at"),
        ),
        "memoryhub.DestroyedProjectKey": Table(
            fields=fields(id="project", time="at"),
        ),
        "memoryhub.SigningKey": Table(
            fields=fields(
                id="id kek_id public endorser endorsement",
                sealed="wrapped",
                time="created_at retired_at",
            ),
        ),
        "memoryhub.NewestLine": Table(
            fields=fields(id="kek_id", word="file", number="n", sealed="wrapped"),
        ),
        "memoryhub.OperatorKey": Table(
            fields=fields(
                id="operator kek_id",
                sealed="wrapped",
                number="last_step wrong",
                time="created_at wrong_at",
            ),
        ),
        "memoryhub.Passkey": Table(
            fields=fields(
                id="id operator credential public",
                staff="host name",
                number="signed",
                time="created_at used_at",
            ),
        ),
        "memoryhub.KekCheck": Table(
            fields=fields(
                id="kek_id",
                sealed="sealed",
                word="state",
                time="created_at backed_up_at retired_at",
            ),
        ),
        "memoryhub.KeyMeta": Table(
            fields=fields(id="id instance"),
        ),
        # Django's own
        "contenttypes.ContentType": Table(
            fields=fields(id="id", word="app_label model")
        ),
        "auth.Permission": Table(
            fields=fields(id="id content_type", word="name codename"),
        ),
        "auth.Group": Table(fields=fields(id="id", staff="name")),
        "auth.Group_permissions": Table(fields=fields(id="id group permission")),
        "sessions.Session": Table(
            fields=fields(staff="session_key session_data", time="expire_date"),
        ),
    }
)
