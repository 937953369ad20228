"""Checks of the server: whether each part is well, and what to do if it is not.

Never writes. One list of the process's parts, as `GET /health/ready` sees them, and of
the checks of privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import Min, Sum

from memoryhub.models.activity import RefusalCount
from memoryhub.models.projects import Project
from memoryhub.queries.forget.erasures import LATE
from memoryhub.queries.knowledge import model_use
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import Tone
from memoryhub.queries.verify import health, privacy_checks
from memoryhub.queries.verify.health import HealthCheck
from memoryhub.queries.verify.privacy_checks import PrivacyCheck

#: Tones by the state of a part or of a check of privacy.
_TONES: Final[Mapping[str, Tone]] = MappingProxyType(
    {"away": "bad", "degraded": "attn", "warn": "attn"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCheck:
    """Result of one check of the server."""

    #: The check's anchor on the page of Health.
    key: str
    title: str
    #: None while the check is well, or cannot tell yet.
    tone: Tone | None
    text: str
    #: What to do, and with which command; empty when nothing has to be done.
    fix: str = ""
    command: str = ""
    #: The threshold in a few words, and where it is set; empty for yes and no.
    limit: str = ""
    set_in: str = ""
    #: Column of the project that sets the threshold, or one of two; empty: fixed.
    column: str = ""
    #: Since when the check is not well, where that is known.
    since: datetime | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    #: Whether this is a check of privacy, which the console of privacy shows, too.
    guards: bool = False


class _PartTexts(NamedTuple):
    """Texts of a part: its title and purpose, and what is wrong when it is not well."""

    title: str
    about: str
    wrong: str
    fix: str
    limit: str = ""
    set_in: str = ""


def _render_limit(time: timedelta) -> str:
    return f"limit {int(time.total_seconds())} s"


#: Minutes in which refusals are counted.
_REFUSED_MINUTES: Final = 10
#: Texts by part, in the order shown. Checks of privacy cover erasures, by project.
_PARTS: Final[Mapping[str, _PartTexts]] = MappingProxyType(
    {
        "clock": _PartTexts(
            "Clock of this server",
            "Stamps events and ends what has a deadline.",
            "It is off, so every request is refused.",
            "Set the machine's time.",
        ),
        "journal": _PartTexts(
            "Journal",
            "Holds every event.",
            "Without it nothing can be read.",
            "See whether the database answers.",
        ),
        "keys": _PartTexts(
            "Keys",
            "Open what is sealed.",
            "Without them content stays closed.",
            "See whether the keys database answers.",
        ),
        "writer": _PartTexts(
            "Writer of this process",
            "Commits what agents and operators do.",
            "It does not run, or too much waits for it.",
            "Restart this process if it stays so.",
            f"limit {health.CROWDED * 100:.0f} % of the queue",
            "MEMORYHUB_QUEUE_COMMANDS",
        ),
        "live": _PartTexts(
            "Live view",
            "Tells open pages what moved.",
            "Notices of commits are lost, so pages look by themselves.",
            "See whether Redis answers.",
        ),
        "worker": _PartTexts(
            "Background work",
            "Sums, sweeps and keeps retention.",
            "Nobody does it, so what is shown of threads here is old.",
            "Start one:",
            _render_limit(health.BEAT),
            "fixed, since workers say every 10 s that they live",
        ),
        "expiry": _PartTexts(
            "Expiry of keys and values",
            "Sweeps what has expired and erases its values; no read waits for it.",
            "What has expired waits too long to be swept.",
            "See whether the background work is done.",
            _render_limit(health.SWEPT_WITHIN),
            "MEMORYHUB_EXPIRY_INTERVAL_SECONDS",
        ),
    }
)
_COMMANDS: Final = MappingProxyType({"worker": "worker"})
#: Figures of the key ring's backup.
_BACKUP: Final = frozenset({"backed_up", "backup_age_seconds"})
#: Title of each check of privacy, its threshold, and why that is fixed.
_PRIVACY: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "ledger": ("Ledger of erasures", "", ""),
        "anchors": ("Anchors", "limit 2 h", "a line is due every hour"),
        "keys database": ("Keys database", "", ""),
        "key ring": ("Rotation of the key file", "", ""),
        "backup of the ring": (
            "Key file of this server",
            "limit 1 day",
            "without a backup everything may be lost",
        ),
        "last scan": (
            "Scan for what was erased",
            "limit 2 days",
            "a scan is due every night",
        ),
        "unfinished erasures": (
            "Erasures",
            f"limit {LATE.seconds // 60} min",
            "an erasure takes seconds",
        ),
        "answers in 30 days": (
            "Answers to wishes",
            "limit 30 days",
            "the law gives one month",
        ),
    }
)
#: Title of each check by its key.
TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: part.title for name, part in _PARTS.items()},
        "model": "Language model",
        "refusals": "Refused requests",
        **{name.replace(" ", "-"): each[0] for name, each in _PRIVACY.items()},
    }
)


def list_checks(
    project: Project, *, now: datetime, counted: bool = False
) -> tuple[ServerCheck, ...]:
    """Check every part, and return well and unwell parts alike.

    About two dozen small queries; with `counted`, a count of all keys, too.
    """
    whole = list_server_checks(now=now, counted=counted)
    both = (*whole, *list_project_checks(project, now=now))
    return tuple(sorted(both, key=lambda each: each.guards))


def list_server_checks(
    *, now: datetime, counted: bool = False
) -> tuple[ServerCheck, ...]:
    """Check the parts that all projects share. About twenty small queries."""
    parts = health.get_readiness().parts
    guards = privacy_checks.list_server_checks(now=now, counted=counted)
    return (
        *(
            _build_part_check(name, parts[name], now)
            for name in _PARTS
            if name in parts
        ),
        *(_build_privacy_check(each) for each in guards),
    )


def list_project_checks(project: Project, *, now: datetime) -> tuple[ServerCheck, ...]:
    """Check what each project has of its own. At most seven small queries."""
    guards = privacy_checks.list_project_checks(project, now=now)
    return (
        *_iter_model_checks(project, now),
        _check_refusals(project, now),
        *(_build_privacy_check(each) for each in guards),
    )


def _build_part_check(name: str, part: HealthCheck, now: datetime) -> ServerCheck:
    about, tone = _PARTS[name], _TONES.get(part.state)
    return ServerCheck(
        key=name,
        title=about.title,
        tone=tone,
        text=about.wrong if tone else about.about,
        fix=about.fix if tone else "",
        command=_COMMANDS.get(name, "") if tone else "",
        limit=about.limit,
        set_in=about.set_in,
        since=_compute_since(part, now) if tone else None,
        # Whether the key file has a backup is a check of its own.
        figures={n: v for n, v in part.figures.items() if n not in _BACKUP},
    )


def _iter_model_checks(project: Project, now: datetime) -> Iterator[ServerCheck]:
    """Yield the check of the language model, where one is configured. One query."""
    if settings.MODEL is None:
        return
    use = model_use.get_use(project.id, now=now)
    wanted = project.consolidate == Project.Consolidate.AUTO
    used_up = use.tokens >= settings.MODEL_DAILY_TOKENS
    most = Thresholds.from_project(project).most_model_failures
    away = use.failures > most and use.failures * 2 > use.calls
    text = "Asked for what is to be remembered, and to observe long threads."
    if used_up:
        text = "This project has used up what it may ask in 24 hours; the rest waits."
    elif away:
        text = "Most questions are in vain; what is to be asked waits, nothing is lost."
    elif not wanted:
        text = (
            "Asked to observe threads that want it; not for what is to be remembered,"
            " as this project's settings say."
        )
    yield ServerCheck(
        key="model",
        title=TITLES["model"],
        tone="attn" if used_up or away else None,
        text=text,
        fix="See whether it answers at its address." if away and not used_up else "",
        limit=f"limit {settings.MODEL_DAILY_TOKENS:,} tokens, {most:,} failed calls"
        " in 24 hours",
        set_in="MEMORYHUB_MODEL_DAILY_TOKENS",
        column="most_model_failures",
        figures={"host": settings.MODEL.host, **use._asdict()},
    )


def _check_refusals(project: Project, now: datetime) -> ServerCheck:
    """Check how many requests were refused lately. One query."""
    since = now - timedelta(minutes=_REFUSED_MINUTES)
    rows = RefusalCount.objects.filter(
        project=project, thread=None, minutes=1, at__gte=since
    )
    counts = rows.values("code").annotate(refused=Sum("count"), first=Min("at"))
    found = sorted(counts.order_by(), key=lambda each: -each["refused"])
    refused = sum(each["refused"] for each in found)
    most = Thresholds.from_project(project).most_refusals
    wrong = refused > most
    text = "Requests of agents that the server answered with a refusal."
    if wrong:
        code = found[0]["code"]
        text = f"{refused:,} requests were refused in ten minutes, most with `{code}`."
    return ServerCheck(
        key="refusals",
        title=TITLES["refusals"],
        tone="attn" if wrong else None,
        text=text,
        fix="See which, under Refusals, and mend the client." if wrong else "",
        limit=f"limit {most:,} in {_REFUSED_MINUTES} minutes",
        column="most_refusals",
        since=min(each["first"] for each in found) if wrong else None,
        figures={"refused": refused},
    )


def _compute_since(part: HealthCheck, now: datetime) -> datetime | None:
    """Compute since when a part is silent or behind, from the part's own figures."""
    for name in ("age_seconds", "lag_seconds"):
        if seconds := part.figures.get(name):
            return now - timedelta(seconds=seconds)
    return None


def _build_privacy_check(check: PrivacyCheck) -> ServerCheck:
    title, limit, why = _PRIVACY[check.name]
    return ServerCheck(
        key=check.name.replace(" ", "-"),
        title=title,
        tone=_TONES.get(check.state),
        text=check.text,
        fix=check.fix,
        command=check.command,
        limit=limit,
        set_in=f"fixed, since {why}" if limit else "",
        since=check.since,
        figures=check.figures,
        guards=True,
    )
