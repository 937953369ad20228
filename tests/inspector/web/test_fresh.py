from __future__ import annotations

import asyncio

import pytest

from inspector.live.hub import hub
from memoryhub.models.access.operators import Membership
from memoryhub.models.projects import Project
from memoryhub.queries.threads.readers import read
from memoryhub.services.access import operators
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.cast import factories
from tests.cast.sockets import Socket, serving, sign_in

pytestmark = pytest.mark.django_db(transaction=True)


async def test_notice_refreshes_the_list_of_its_own_project_only(
    acme: Project, stranger: Agent
) -> None:
    operator = await read(operators.add, "olga")
    for project in (acme.id, stranger.project):
        row = Membership(project_id=project, operator=operator, role="viewer")
        await read(row.save)
    zeta = stranger.project
    session = await read(sign_in, operator)
    async with serving():
        ours, theirs = Socket(session), Socket(session, path="/ws/live/zeta")
        for socket in (ours, theirs):
            await socket.open()
            await socket.hello({}, fresh=True)
        fresh = hub.audience.fresh
        before = dict(fresh)
        new = [factories.make_slot("theirs")]
        await slots.append(agent=stranger, thread="t-theirs", slots=new)
        async with asyncio.timeout(20):
            while fresh[zeta] == before[zeta]:
                # The notice arrives asynchronously.
                await hub.look()
        assert fresh[acme.id] == before[acme.id]
        for socket in (ours, theirs):
            await socket.leave()
