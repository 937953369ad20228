"""Django models: one module per noun. Django requires this package's path."""

from memoryhub.models.access.api_keys import ApiKey
from memoryhub.models.access.audit import AuditEntry, DailyUse
from memoryhub.models.access.operators import Identity, Membership, Operator, SignInLink
from memoryhub.models.activity import ProjectHour, RefusalCount
from memoryhub.models.alerts import Alert, AlertNotice, AlertSilence
from memoryhub.models.assertions import Assertion
from memoryhub.models.cold import ColdObject
from memoryhub.models.derivations import Derivation
from memoryhub.models.erasures import Erasure, Hold, Receipt, Tombstone
from memoryhub.models.events import Event, RequestKey, Snapshot, ThreadTerms
from memoryhub.models.keys import (
    DestroyedKey,
    DestroyedProjectKey,
    KekCheck,
    KeyMeta,
    NewestLine,
    OperatorKey,
    Passkey,
    ProjectKey,
    SigningKey,
    SubjectKey,
    WebhookKey,
)
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.projects import Instance, Project, ProjectStats
from memoryhub.models.server.heartbeats import Heartbeat
from memoryhub.models.server.leases import Lease
from memoryhub.models.slots import MarkedTurn, Slot, Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.models.totals import Total
from memoryhub.models.webhooks import Webhook, WebhookQueue
from memoryhub.models.working_memory import Checkpoint, DueValue, Key

__all__ = [
    "Alert",
    "AlertNotice",
    "AlertSilence",
    "ApiKey",
    "Assertion",
    "AuditEntry",
    "Checkpoint",
    "ColdObject",
    "DailyUse",
    "Derivation",
    "DestroyedKey",
    "DestroyedProjectKey",
    "DueValue",
    "Erasure",
    "Event",
    "EvictedPage",
    "Heartbeat",
    "Hold",
    "Identity",
    "Instance",
    "KekCheck",
    "Key",
    "KeyMeta",
    "Lease",
    "MarkedTurn",
    "Membership",
    "NewestLine",
    "Operator",
    "OperatorKey",
    "Page",
    "PageLevel",
    "Passkey",
    "Project",
    "ProjectHour",
    "ProjectKey",
    "ProjectStats",
    "Receipt",
    "RefusalCount",
    "RequestKey",
    "SignInLink",
    "SigningKey",
    "Slot",
    "Snapshot",
    "Subject",
    "SubjectKey",
    "Thread",
    "ThreadLabel",
    "ThreadTerms",
    "Tombstone",
    "Total",
    "Turn",
    "Webhook",
    "WebhookKey",
    "WebhookQueue",
]
