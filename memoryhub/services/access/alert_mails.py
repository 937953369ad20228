"""Mails about alerts, by the mail server of the settings. Loaded when one is due."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.core.mail import send_mail

from memoryhub import journal
from memoryhub.models.alerts import AlertNotice
from memoryhub.models.projects import Project
from memoryhub.services.access import alerts, webhooks

log = structlog.get_logger()


def send_due(notices: list[AlertNotice], *, now: datetime) -> int:
    """Send these notices by mail; return how many the mail server took.

    A notice that fails is tried again after a pause that grows to an hour.
    """
    return sum(_send_notice(each, now) for each in notices)


def _send_notice(notice: AlertNotice, now: datetime) -> int:
    """Send a notice by mail; return 1 if the mail server took the mail, else 0."""
    project: Project = notice.alert.project
    data = alerts.build_data(project, notice)
    ended = notice.kind == AlertNotice.Kind.ENDED
    state = "well again" if ended else data["tone"]
    lines = [
        data["reason"],
        f"Since {data['since']}.",
        f"Well since {data['well_since']}." if ended else "",
        data["url"],
    ]
    try:
        send_mail(
            f"{project.slug}: {data['title']} is {state}",
            "\n\n".join(each for each in lines if each),
            None,
            [notice.receiver],
        )
        good = True
    except OSError as failure:
        # Errors of SMTP and of connections; their texts may hold the address.
        log.warning("alert.mail_failed", code=type(failure).__name__)
        good = False
    journal.run(lambda: webhooks.move_notice(notice, good=good, now=now))
    return int(good)
