"""Alerts: thresholds, receivers and silences of a project, and words of a notice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from memoryhub.errors import InvalidError
from memoryhub.models.alerts import AlertNotice, AlertSilence
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.models.webhooks import Webhook
from memoryhub.queries.overview.alerts import TITLES
from memoryhub.queries.threads.thresholds import BOUNDS
from memoryhub.services.access import projects
from memoryhub.services.access.webhooks import ALERT_TYPES

#: Words of tones, as pages and notices say them.
TONES: Final[Mapping[str, str]] = {"bad": "red", "attn": "amber"}


def set_thresholds(
    project: Project, values: Mapping[str, int | None], *, actor: str
) -> None:
    """Set thresholds by column; None is the default. Raises InvalidError out of bounds.

    Pages follow at once, stored verdicts of threads within ten seconds.
    """
    for name, value in values.items():
        _, least, most = BOUNDS[name]
        if value is not None and not least <= value <= most:
            raise InvalidError(loc=name, least=least, most=most)
    for name, value in values.items():
        setattr(project, name, value)
    projects.write_change(
        project,
        lambda: project.save(update_fields=[*values]),
        area="thresholds",
        actor=actor,
    )


def set_receivers(
    project: Project,
    *,
    tone: str,
    mail: str,
    webhooks: Collection[UUID],
    actor: str,
) -> None:
    """Set from which tone on these webhooks and this address are told of alerts.

    Raises InvalidError on an address that is none, and where mail is not set up.
    """
    if tone not in TONES:
        raise InvalidError(loc="tone")
    if mail:
        try:
            validate_email(mail)
        except ValidationError:
            raise InvalidError(loc="mail") from None
        if not settings.EMAIL_HOST:
            raise InvalidError(loc="mail")
    project.alert_tone, project.alert_mail = tone, mail

    def write() -> None:
        project.save(update_fields=["alert_tone", "alert_mail"])
        for row in Webhook.objects.filter(project=project):
            types = {*row.types.split()} - ALERT_TYPES
            if row.id in webhooks:
                types |= ALERT_TYPES
            Webhook.objects.filter(id=row.id).update(types=" ".join(sorted(types)))

    projects.write_change(project, write, area="receivers", actor=actor)


def set_silence(
    project: Project, check: str, *, until: datetime | None, actor: str
) -> None:
    """Tell nobody of a check until an instant; None: tell of it again.

    Raises InvalidError on an unknown check, and on an instant that is past.
    """
    if check not in TITLES:
        raise InvalidError(loc="check")
    if until is not None and until <= clock.now():
        raise InvalidError(loc="until")

    def write() -> None:
        rows = AlertSilence.objects
        if until is None:
            rows.filter(project=project, check_key=check).delete()
        else:
            rows.update_or_create(
                project=project, check_key=check, defaults={"until": until}
            )

    projects.write_change(project, write, area="silence", actor=actor)


def build_data(project: Project, notice: AlertNotice) -> dict[str, Any]:
    """Build the words of a notice: the check, and nothing of a thread or a person."""
    alert = notice.alert
    return {
        "project": project.slug,
        "check": alert.check_key,
        "title": TITLES.get(alert.check_key, alert.check_key),
        "tone": TONES[notice.tone],
        "reason": alert.reason,
        "since": _render_time(alert.since),
        "well_since": _render_time(alert.well_at)
        if notice.kind == AlertNotice.Kind.ENDED and alert.well_at
        else None,
        "url": f"{_get_origin()}/p/{project.slug}/health#{alert.check_key}",
    }


def _render_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _get_origin() -> str:
    """Return the first origin that the server has; without any, URLs are paths."""
    return next((str(each).rstrip("/") for each in settings.ORIGINS), "")
