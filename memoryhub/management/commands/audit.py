from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from memoryhub.distribution import PROGRAM
from memoryhub.errors import LedgerBrokenError
from memoryhub.management import start
from memoryhub.management.terminal import WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.projects import Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.access import audit
from memoryhub.queries.access.audit import AuditLine
from memoryhub.queries.lists.terms import Period, SearchTerm, WordValue
from memoryhub.queries.verify import anchors

LISTED = 50


class Command(Base):
    help = (
        "Read the audit log: who did what to whose memory. `verify` walks its chain, "
        "compares it with the anchor and ends with code 1 at the first entry that is "
        "not as it was written."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="verb", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="the newest entries, as a table")
        listing.add_argument("--limit", type=int, default=LISTED, metavar="N")
        exporting = actions.add_parser("export", help="all entries, a JSON line each")
        for each in (listing, exporting):
            _add_filters(each)
        actions.add_parser("verify", help="walk the chain from the first entry on")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        start.refuse_old_formats()
        if verb == "verify":
            self._verify_chain()
        elif verb == "list":
            self._print_table(options)
        else:
            self._print_lines(options)

    def _verify_chain(self) -> None:
        verdict = audit.verify()
        if verdict.wrong is not None:
            self.end(
                f"Entry {verdict.wrong} is not as it was written; the audit log is "
                f"whole up to entry {verdict.verified_to}."
            )
        try:
            cut = anchors.find_audit_cut()
        except LedgerBrokenError as broken:
            self.end(f"The anchors: {broken.sentence}")
        if cut is not None:
            self.end(
                f"Entry {cut} is not what was anchored outside of the database; "
                f"`{PROGRAM} verify --all` says more."
            )
        self.say(f"Verified to {verdict.verified_to:,}: every entry is as written.")

    def _print_table(self, options: dict[str, Any]) -> None:
        if not 1 <= options["limit"] <= 10_000:
            self.end("--limit goes from 1 to 10,000.", code=WRONG_USAGE)
        batch = audit.list_entries(
            self._find_project_id(options["project"]),
            terms=self._build_terms(options),
            now=clock.now(),
            limit=options["limit"],
        )
        line = "{:>8}  {:<19}  {:<44}  {:<22}  {:<46}  {}"
        heading = ("entry", "at", "who", "what", "to what", "outcome")
        self.stdout.write(line.format(*heading))
        for each in reversed(batch.items):
            self.stdout.write(line.format(*_build_cells(each)).rstrip())
        if not batch.items:
            self.say("No entry matches.")

    def _print_lines(self, options: dict[str, Any]) -> None:
        chunks = audit.iter_entries(
            self._find_project_id(options["project"]),
            terms=self._build_terms(options),
            now=clock.now(),
        )
        for chunk in chunks:
            for line in chunk:
                self.stdout.write(orjson.dumps(audit.build_record(line)).decode())

    def _find_project_id(self, slug: str | None) -> UUID | None:
        if slug is None:
            return None
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            self.end(f"There is no project {slug}.", code=WRONG_USAGE)
        return project.id

    def _build_terms(self, options: dict[str, Any]) -> list[SearchTerm]:
        words = ("actor", "action", "target", "purpose", "outcome")
        terms = [
            SearchTerm(key=key, values=(_build_word(options[key]),))
            for key in words
            if options[key]
        ]
        since, until = (self._parse_time(options[end]) for end in ("since", "until"))
        if since or until:
            period = Period(begin=since, end=until)
            terms.append(SearchTerm(key="at", values=(period,)))
        return terms

    def _parse_time(self, text: str | None) -> datetime | None:
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.end("Write times as 2026-01-31 or 2026-01-31T12:00.", code=WRONG_USAGE)
        return at if at.tzinfo else at.replace(tzinfo=UTC)


def _add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("--project", metavar="SLUG", help="of this project only")
    parser.add_argument("--actor", help="a kind, an operator's name or id, a prefix")
    parser.add_argument("--action", help="a word like content.read, or erasure.*")
    parser.add_argument("--target", help="an id, or a thread's name")
    parser.add_argument("--purpose", help="what content was looked at for")
    parser.add_argument("--outcome", help="done, refused, failed, opened, closed")
    parser.add_argument("--since", metavar="TIME", help="from this time on, in UTC")
    parser.add_argument("--until", metavar="TIME", help="before this time, in UTC")


def _build_word(text: str) -> WordValue:
    return WordValue(text=text.removesuffix("*"), prefix=text.endswith("*"))


def _build_cells(line: AuditLine) -> tuple[str, ...]:
    target = f"{line.target_kind} {line.target_id}" if line.target_id else ""
    at = line.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return (str(line.seq), at, line.actor, line.action, target, line.outcome)
