"""Django models: one module per noun. Here because Django looks here."""

from memoryhub.models.api_keys import ApiKey
from memoryhub.models.events import Event, RequestKey, Snapshot
from memoryhub.models.heartbeats import Heartbeat
from memoryhub.models.keys import (
    DestroyedKey,
    KekCheck,
    KeyMeta,
    ProjectKey,
    SigningKey,
    SubjectKey,
)
from memoryhub.models.leases import Lease
from memoryhub.models.operators import Membership, Operator, SignInLink
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.projects import Instance, Project, ProjectStats
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.models.working_memory import DueValue, Key

__all__ = [
    "ApiKey",
    "DestroyedKey",
    "DueValue",
    "Event",
    "Heartbeat",
    "Instance",
    "KekCheck",
    "Key",
    "KeyMeta",
    "Lease",
    "Membership",
    "Operator",
    "Page",
    "PageLevel",
    "Project",
    "ProjectKey",
    "ProjectStats",
    "RequestKey",
    "SignInLink",
    "SigningKey",
    "Slot",
    "Snapshot",
    "Subject",
    "SubjectKey",
    "Thread",
    "ThreadLabel",
    "Turn",
]
