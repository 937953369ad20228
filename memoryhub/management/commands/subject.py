from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.core.management.base import CommandParser

from memoryhub.distribution import PROGRAM
from memoryhub.management import people, start
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.people import profiles
from memoryhub.queries.people.profiles import Profile
from memoryhub.services.access import audit
from memoryhub.services.imports import readmissions
from memoryhub.services.people import restrictions

ABOUT: Final = f"""\
Look at what is held of one person, keep agents out of it, or let an erased person
in again.

  echo customer-7 | {PROGRAM} subject show --project acme
  echo customer-7 | {PROGRAM} subject restrict --project acme --basis claims
  {PROGRAM} subject unrestrict --project acme --subject 0193…
  echo customer-7 | {PROGRAM} subject readmit --project acme

A person's id is read from standard input, alone there: arguments end up in
histories and in lists of processes. What is printed has only our own id, which
--subject takes. Each of these is an entry of the audit log."""

ABOUT_SHOW: Final = """\
Count what is held of a person: threads, records and bytes by kind, pages, keys,
who read and wrote, holds, erasures, and when retention ends the first thread. No
content is opened."""

ABOUT_RESTRICT: Final = """\
Keep agents out of a person's memory, reading and writing, while nothing of it
changes (Article 18 of the GDPR). Export and viewing by officers go on. Bases:

  accuracy_contested   the person says it is wrong; that is being looked into
  unlawful_objected    it is unlawful; the person wants it kept, not erased
  claims               the person needs it for a legal claim
  objection_pending    the person objected; that is being weighed"""

ABOUT_UNRESTRICT: Final = """\
Let agents in again. What a plan of erasing keeps them out for ends with that plan."""

ABOUT_READMIT: Final = """\
Let a person in again who was erased to the end: as somebody new, with a new
key, to whom nothing of before attaches. Names of erased threads stay unusable."""

_COUNTS: Final = (
    "slots", "turns", "pages", "deleted_pages", "keys", "blocks", "facts",
)  # fmt: skip


class Command(people.Command):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        showing = people.add_action(actions, "show", "what is held", ABOUT_SHOW)
        restricting = people.add_action(
            actions, "restrict", "keep agents out", ABOUT_RESTRICT
        )
        restricting.add_argument(
            "--basis", required=True, choices=restrictions.BASES, metavar="WORD"
        )
        lifting = people.add_action(
            actions, "unrestrict", "let agents in again", ABOUT_UNRESTRICT
        )
        for each in (showing, restricting, lifting):
            people.add_person(each)
        readmitting = people.add_action(
            actions, "readmit", "let an erased person in again", ABOUT_READMIT
        )
        people.add_project(readmitting)

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        start.prepare_existing()
        getattr(self, f"do_{action}")(options)

    def do_show(self, options: dict[str, Any]) -> None:
        person = self.require_person(options)
        # The look-up is audited before the profile is shown.
        audit.record(
            actor=audit.COMMAND_ACTOR,
            action="subject.looked_up",
            project=person.project_id,
            target_kind="subject",
            target_id=str(person.id),
            subject=person.id,
        )
        found = profiles.get_subject(person.project_id, person.id)
        for name, text in _iter_lines(profiles.get_profile(found, now=clock.now())):
            self.stdout.write(f"{name:<14} {text}")

    def do_restrict(self, options: dict[str, Any]) -> None:
        person = self.require_person(options)
        self._print_subject(
            restrictions.restrict_subject(
                person.id, basis=options["basis"], actor=audit.COMMAND_ACTOR
            )
        )

    def do_unrestrict(self, options: dict[str, Any]) -> None:
        person = self.require_person(options)
        self._print_subject(
            restrictions.unrestrict_subject(person.id, actor=audit.COMMAND_ACTOR)
        )

    def do_readmit(self, options: dict[str, Any]) -> None:
        project, user_id = (
            self.require_project(options["project"]),
            people.read_user_id(self),
        )
        self._print_subject(
            readmissions.readmit_subject(project.id, user_id, actor=audit.COMMAND_ACTOR)
        )

    def _print_subject(self, subject: Subject) -> None:
        basis = f" ({subject.basis})" if subject.basis else ""
        self.stdout.write(
            f"{subject.id}  {subject.state}{basis}, generation {subject.generation}"
        )


def _iter_lines(found: Profile) -> Iterator[tuple[str, str]]:
    """Yield the lines of a profile, each a name and a text."""
    threads = ", ".join(f"{count:,} {word}" for word, count in found.threads.items())
    yield "subject", f"{found.id}, generation {found.generation}, epoch {found.epoch}"
    yield "state", found.state + (f" ({found.basis})" if found.basis else "")
    yield (
        "seen",
        f"{_render_moment(found.first_seen)} to {_render_moment(found.last_seen)}",
    )
    yield "threads", threads or "none"
    yield "events", f"{found.events:,}, {found.bytes:,} bytes of content"
    for name, kind in found.kinds.items():
        yield (
            f"  {name}",
            f"{kind.events:,}, {kind.bytes:,} bytes, {kind.erased:,} erased",
        )
    counts = {name: getattr(found, name) for name in _COUNTS} | {**found.counts}
    for name, count in counts.items():
        yield name.replace("_", " "), f"{count:,}"
    for level, count in found.levels.items():
        yield f"level {level}", f"{count:,}"
    yield from _iter_uses_and_acts(found)


def _iter_uses_and_acts(found: Profile) -> Iterator[tuple[str, str]]:
    """Yield the lines of uses, holds, erasures, tombstones and retention."""
    for use in found.uses:
        text = f"{use.reads:,} reads, {use.writes:,} writes, last on {use.last_day}"
        yield f"key {use.prefix}", text
    for hold in found.holds:
        if hold.in_force:
            until = _render_moment(hold.expires_at)
            yield "hold", f"{hold.id} {hold.basis}, until {until}"
    for each in found.erasures:
        yield "erasure", f"{each.id} {each.scope}, {each.state}"
    for kind, count in found.tombstones.items():
        yield "tombstones", f"{count:,} {kind}"
    yield "retention due", _render_moment(found.retention_due_at)


def _render_moment(at: Any) -> str:
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
