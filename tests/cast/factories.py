"""Factories of test data. They go through services and take only what a test varies."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from memoryhub.journal import OrderReceipt
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context import tokens
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.state.events import LabelValue, ThreadConfig
from memoryhub.kernel.state.state import ScopeLabels
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from memoryhub.models.access.api_keys import MEMORY_SCOPES
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.access import api_keys, projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages
from memoryhub.services.paging.pages import PageDraft
from memoryhub.services.people import subjects
from memoryhub.services.threads import slots, threads

Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a service that is a coroutine, on this thread's connection.

    No loop runs: under one, Django gives each task a connection of its own. Without the
    writer's thread a service has nothing to wait for.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise AssertionError("the service waited: is the writer's thread running?")


def make_project(slug: str = "acme", **limits: Any) -> Project:
    return projects.create(slug, **limits)


def make_agent(
    project: Project,
    *,
    scopes: Iterable[str] = MEMORY_SCOPES,
    subject: Subject | None = None,
) -> Agent:
    return make_key(project, scopes=scopes, subject=subject)[0]


def make_key(
    project: Project,
    *,
    scopes: Iterable[str] = MEMORY_SCOPES,
    subject: Subject | None = None,
) -> tuple[Agent, str]:
    """Make an agent and the key it would send."""
    row, key = api_keys.create(project, scopes=scopes, subject=subject)
    agent = Agent(
        key=row.id,
        prefix=row.prefix,
        project=project.id,
        slug=project.slug,
        scopes=frozenset(scopes),
        bound=subject.id if subject else None,
        anonymous=subjects.get_anonymous(project.id).id,
        create_on_write=project.create_on_write,
    )
    return agent, key


def make_slot(content: Any = "hello", **fields: Any) -> NewSlot:
    plain = strict_json.dump_stored(content)
    slot = NewSlot(
        **{
            "from_name": "user",
            "to_name": "assistant",
            "type": "chat.user",
            "content": plain,
            "tokens": tokens.estimate_tokens(render_content_words(content)),
            **fields,
        }
    )
    return measuring.measure_slot(slot, content)


def make_thread(
    agent: Agent,
    name: str = "t-1",
    *,
    user_id: str | None = None,
    scope: ScopeLabels | None = None,
    labels: dict[str, LabelValue] | None = None,
    **limits: Any,
) -> Thread:
    subject = subjects.find_or_create(agent.project, user_id) if user_id else None
    run(
        threads.create(
            agent=agent,
            thread=name,
            subject=subject,
            scope=scope or ScopeLabels(),
            labels=labels,
            config=ThreadConfig(**limits),
        )
    )
    return get_thread(agent, name)


def get_thread(agent: Agent, name: str = "t-1") -> Thread:
    rows = Thread.objects.select_related("subject").filter(project_id=agent.project)
    if agent.bound is not None:
        rows = rows.filter(subject=agent.bound)
    return rows.get(name__in=agent.address(name).names)


def append(
    agent: Agent, thread: str, *contents: Any, **conditions: Any
) -> OrderReceipt:
    return run(
        slots.append(
            agent=agent,
            thread=thread,
            slots=[make_slot(content) for content in contents],
            **conditions,
        )
    )


def make_page(
    agent: Agent,
    page_id: str,
    *,
    thread: str = "t-1",
    text: str = "Fares of class Q can be changed once.",
    **fields: Any,
) -> OrderReceipt:
    draft = PageDraft(
        **{
            "page_id": page_id,
            "type": "artifact",
            "modality": "text",
            "content": {"text": text},
            **fields,
        }
    )
    return run(pages.write_pages(agent=agent, thread=thread, drafts=[draft]))
