"""Alerts: looks for checks that turned amber or red, and queues notices to receivers.

One process looks, under the lease of the reconciler. See decision 98.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub import journal
from memoryhub.models.alerts import Alert, AlertNotice, AlertSilence
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.webhooks import Webhook
from memoryhub.queries.overview import alerts, checks
from memoryhub.queries.overview.alerts import AlertFinding

#: Time for which a check must look well before its alert ends.
WELL_FOR: Final = timedelta(minutes=5)
_RANKS: Final = {"attn": 1, "bad": 2}
Kind = AlertNotice.Kind


class AlertReceiver(NamedTuple):
    """A webhook, or None for mail, and its name for people."""

    webhook: UUID | None
    name: str


@dataclass(slots=True, kw_only=True)
class AlertRound:
    """One look at all projects: what it found stored, and what it has to write."""

    now: datetime
    open_alerts: dict[UUID, dict[str, Alert]]
    silences: set[tuple[UUID, str]]
    receivers: dict[UUID, list[AlertReceiver]]
    made: list[Alert] = field(default_factory=list)
    notices: list[AlertNotice] = field(default_factory=list)
    changed: list[Alert] = field(default_factory=list)

    def look_at(self, project: Project, found: Sequence[AlertFinding]) -> None:
        """Begin, change and end the alerts of a project by what is not well now."""
        stored = self.open_alerts.get(project.id, {})
        wrong = {each.key: each for each in found}
        for key, finding in wrong.items():
            alert = stored.get(key) or self._begin_alert(project, finding)
            self._continue_alert(alert, finding)
            self._queue_raised(project, alert)
        for key in stored.keys() - wrong.keys():
            self._note_well(stored[key])

    def _begin_alert(self, project: Project, finding: AlertFinding) -> Alert:
        alert = Alert(
            project=project,
            check_key=finding.key,
            tone=finding.tone,
            reason=finding.reason,
            since=finding.since or self.now,
            began_at=self.now,
        )
        self.made.append(alert)
        return alert

    def _continue_alert(self, alert: Alert, finding: AlertFinding) -> None:
        """Note that a check is still not well; an alert keeps its worst tone."""
        worse = _RANKS[finding.tone] > _RANKS[alert.tone]
        if worse:
            alert.tone, alert.reason = finding.tone, finding.reason
        if worse or alert.well_at:
            alert.well_at = None
            self.changed.append(alert)

    def _note_well(self, alert: Alert) -> None:
        """Note since when a check looks well; end its alert after some minutes."""
        if alert.well_at is None:
            alert.well_at = self.now
        elif self.now - alert.well_at >= WELL_FOR:
            alert.ended_at = self.now
            self._queue_ended(alert)
        else:
            return
        self.changed.append(alert)

    def _queue_raised(self, project: Project, alert: Alert) -> None:
        """Queue a notice to each receiver that was not told of this tone yet."""
        silent = (project.id, alert.check_key) in self.silences
        if silent or _RANKS[alert.tone] < _RANKS[project.alert_tone]:
            return
        # An alert that begins now has no notices.
        notices = [] if alert._state.adding else alert.notices.all()  # noqa: SLF001
        informed = {each.receiver for each in notices if each.tone == alert.tone}
        for each in self.receivers.get(project.id, ()):
            if each.name not in informed:
                self.notices.append(self._build_notice(alert, Kind.RAISED, each))

    def _queue_ended(self, alert: Alert) -> None:
        """Tell each receiver that learnt of the alert that the check is well again."""
        informed = {
            AlertReceiver(each.webhook, each.receiver) for each in alert.notices.all()
        }
        for each in sorted(informed, key=lambda each: each.name):
            self.notices.append(self._build_notice(alert, Kind.ENDED, each))

    def _build_notice(
        self, alert: Alert, kind: Kind, receiver: AlertReceiver
    ) -> AlertNotice:
        return AlertNotice(
            alert=alert,
            kind=kind,
            tone=alert.tone,
            webhook=receiver.webhook,
            receiver=receiver.name,
            made_at=self.now,
            due_at=self.now,
        )

    def write(self) -> int:
        """Write the round's rows in one transaction; return how many."""
        changed = {each.id: each for each in self.changed if not each._state.adding}  # noqa: SLF001
        written = len(self.made) + len(self.notices) + len(changed)
        if not written:
            return 0
        journal.run(partial(self._write_locked, [*changed.values()]))
        return written

    def _write_locked(self, changed: Sequence[Alert]) -> None:
        with transaction.atomic():
            fields = ["tone", "reason", "well_at", "ended_at"]
            Alert.objects.bulk_update(changed, fields)
            Alert.objects.bulk_create(self.made)
            AlertNotice.objects.bulk_create(self.notices)


def look(now: datetime) -> int:
    """Look at every active project; return how many rows were written.

    About twenty-five small queries, and at most seven for each project.
    """
    shared = checks.list_server_checks(now=now)
    rows = Project.objects.filter(state=Project.State.ACTIVE)
    projects = list(rows.select_related("stats").order_by("id"))
    found = AlertRound(
        now=now,
        open_alerts=_list_open(),
        silences={
            (each.project_id, each.check_key)
            for each in AlertSilence.objects.filter(until__gt=now)
        },
        receivers=_list_receivers(projects),
    )
    for project in projects:
        row: ProjectStats | None = getattr(project, "stats", None)
        found.look_at(project, alerts.list_findings(project, row, shared, now=now))
    return found.write()


def _list_open() -> dict[UUID, dict[str, Alert]]:
    """Return the open alerts by project and check, with notices. Two queries."""
    found: dict[UUID, dict[str, Alert]] = defaultdict(dict)
    for each in Alert.objects.filter(ended_at=None).prefetch_related("notices"):
        found[each.project_id][each.check_key] = each
    return found


def _list_receivers(
    projects: Sequence[Project],
) -> dict[UUID, list[AlertReceiver]]:
    """Return by project who is told of alerts. One query."""
    found: dict[UUID, list[AlertReceiver]] = defaultdict(list)
    rows = Webhook.objects.filter(types__contains=Kind.RAISED.value).order_by("id")
    for webhook, project, url in rows.values_list("id", "project_id", "url"):
        found[project].append(AlertReceiver(webhook, url[:254]))
    for each in projects:
        if each.alert_mail and settings.EMAIL_HOST:
            found[each.id].append(AlertReceiver(None, each.alert_mail))
    return found
