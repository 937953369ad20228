"""People in every state that the privacy console shows.

`ann` is active; `bob` has a plan; `cid` was forgotten; `dan` is being forgotten; `eve`
is under a hold, which stopped an erasure; `fay` is restricted, and has a value
tombstone; `gus` lost one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from memoryhub.models.access.operators import Membership
from memoryhub.models.erasures import Erasure, Hold, Receipt, Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.people import holds, restrictions, subjects
from memoryhub.workers import erasures as workers
from memoryhub.workers import leases
from tests.cast import factories, graves
from tests.oracles import memory_acts

CAROL = "operator:carol"
#: Texts that nobody may read after the erasure.
TEXTS = ("Where is my parcel PX-7?", "It was due on Monday, the 3rd of March.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """People of the town, and their erasures, holds and receipts."""

    people: dict[str, Subject]
    planned: Erasure
    under_way: Erasure
    held: Erasure
    complete: Erasure
    receipt: Receipt
    hold: Hold
    stone: Tombstone

    @property
    def values(self) -> dict[str, str]:
        """Return the value of each address parameter."""
        return {
            "project": "acme",
            "subject": str(self.people["ann"].id),
            "erasure": str(self.planned.id),
            "receipt": str(self.receipt.id),
            "hold": str(self.hold.id),
            "tombstone": str(self.stone.id),
        }


def make_person(agent: Agent, user_id: str) -> Subject:
    """Make a person with two threads, whose words are the same as everybody's."""
    one, two = f"{user_id}-1", f"{user_id}-2"
    for name in (one, two):
        factories.make_thread(agent, name, user_id=user_id, labels={"team": "red"})
        factories.append(agent, name, *TEXTS)
    memory_acts.set_key(agent, "seat", "12A by the window, please", thread=two)
    memory_acts.add_notes(agent, "She likes to sit by the window.", thread=two)
    found = subjects.find(agent.project, user_id)
    assert found is not None
    return found


def minutes_ago(minutes: int) -> datetime:
    return clock.now() - timedelta(minutes=minutes)


def plan(subject: Subject, **more: object) -> Erasure:
    options = {
        "scope": "subject",
        "reason": "consent_withdrawn",
        "actor": CAROL,
        **more,
    }
    return erasures.plan(subject, **options)  # type: ignore[arg-type]  # by the caller


def confirm(row: Erasure) -> Erasure:
    count = ErasureLine.from_row(row).count
    token = erasures.build_token(row)
    return erasures.confirm(row, token=token, count=count, actor=CAROL)


def finish(row: Erasure) -> Erasure:
    """Run the erasure as the worker does, until it ends."""
    for _ in Erasure.State.values:
        row = erasures.advance_erasure(row)
    return row


def make_hold(subject: Subject, *, days: int = 90) -> Hold:
    reviewer = operators.find("rita") or operators.add("rita")
    project = subject.project
    operators.set_role(project, operators.ensure_default(), Membership.Role.OWNER)
    operators.set_role(project, reviewer, Membership.Role.OFFICER)
    until = clock.now() + timedelta(days=days)
    return holds.open_hold(
        subject, basis="legal_claims", reviewer=reviewer, expires_at=until, actor=CAROL
    )


def keep_workers_away() -> None:
    """Lease the open erasures for most of a minute, so that no worker takes them."""
    ahead = clock.now() + timedelta(seconds=25)
    assert leases.hold(workers.LEASE, holder=uuid7(), now=ahead)


def make_town(agent: Agent) -> Town:
    """Make everybody; for a while no other process continues the erasure of dan."""
    names = ("ann", "bob", "cid", "dan", "eve", "fay", "gus")
    people = {name: make_person(agent, name) for name in names}
    hold = make_hold(people["eve"])
    restrictions.restrict_subject(
        people["fay"].id, basis="accuracy_contested", actor=CAROL
    )
    complete = finish(confirm(plan(people["cid"], ticket="PRIV-12")))
    one = factories.get_thread(agent, "gus-1")
    finish(confirm(plan(people["gus"], scope="record", thread=one, seq=2)))
    graves.bury_values(people["fay"], [("note", "She likes to sit by the window.")])
    keep_workers_away()
    return Town(
        people=people,
        planned=plan(people["bob"], ticket="PRIV-13"),
        under_way=confirm(plan(people["dan"])),
        held=confirm(plan(people["eve"])),
        complete=complete,
        receipt=Receipt.objects.get(erasure=complete, n=0),
        hold=hold,
        stone=Tombstone.objects.get(kind="value"),
    )
