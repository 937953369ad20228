"""Memory of a person that holds an event of every registered type."""

from __future__ import annotations

from datetime import timedelta

from memoryhub.kernel import commands
from memoryhub.kernel.commands import RunMessage, StrikeSlots
from memoryhub.kernel.knowledge.consolidation import (
    ConsolidateExchange,
    RequestExchanges,
    RetryExchange,
)
from memoryhub.kernel.memory.keys import EraseValues, ExpireKeys
from memoryhub.kernel.memory.notes import ClearNotes
from memoryhub.kernel.memory.tasks import ClearTask, UpdateTask
from memoryhub.kernel.observing.observing import (
    FailObserver,
    InstructObservers,
    PauseObserver,
    ResumeObserver,
)
from memoryhub.kernel.paging import page_commands as paging
from memoryhub.kernel.state.events import LabelValue, RunRecorded
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.kernel.turns.marks import MarkTurn
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import homes
from memoryhub.services.observing import observers
from memoryhub.services.paging import levels
from memoryhub.services.people import subjects
from tests.cast import factories, knowing
from tests.cast.factories import get_thread, run
from tests.cast.forgetting import forget
from tests.oracles import memory_acts as memory
from tests.oracles.page_acts import act, levels_of, new_text
from tests.services.acts import amend, fork, state_of
from tests.services.observing.test_extraction import SETTINGS, talk
from tests.services.paging.test_levels import add, crowd


def types_of(subject: Subject) -> set[str]:
    """Return types of the events that the subject's threads hold."""
    rows = Event.objects.filter(thread__subject=subject)
    return {*rows.values_list("type", flat=True)}


def remember(agent: Agent, user_id: str, text: str) -> Subject:
    """Make threads of all kinds: a home, a fork, an import, one idle and one erased.

    Each sealed text is `text`, and each name begins with the user id.
    """
    talk_, fork_ = f"{user_id}-talk", f"{user_id}-fork"
    _observe(agent, user_id, talk_, text)
    _change_pages(agent, user_id, f"{user_id}-pages", text)
    _work(agent, user_id, f"{user_id}-work", text)
    _import(agent, user_id, f"{user_id}-run", text)
    fork(agent, talk_, fork_)
    factories.append(agent, fork_, text)
    subject = subjects.find_or_create(agent.project, user_id)
    _know(agent, subject, talk_, text)
    _end(agent, subject, user_id, text)
    return subject


def _observe(agent: Agent, user_id: str, name: str, text: str) -> None:
    labels: dict[str, LabelValue] = {f"{user_id}-label": f"{user_id}-value"}
    factories.make_thread(agent, name, user_id=user_id, labels=labels, **SETTINGS)
    factories.append(agent, name, text)
    talk(agent, 0, 100, name)
    run(observers.reflect_log(agent=agent, thread=name))
    observing = state_of(get_thread(agent, name)).observing
    failed = FailObserver(
        role="observer",
        begin=observing.watermark,
        end=observing.watermark + 2,
        epoch=observing.epoch,
        failure="empty",
        retry_at=clock.now(),
        host="model.example",
    )
    instructed = InstructObservers(texts={"observer": text, "reflector": text})
    for command in (failed, PauseObserver(), ResumeObserver(), instructed):
        run(observers.submit_command(agent=agent, thread=name, command=command))


def _change_pages(agent: Agent, user_id: str, name: str, text: str) -> None:
    one, two = f"{user_id}-one", f"{user_id}-two"
    levels.make_levels(crowd(agent, name, count=20, evict_to=0.6, user_id=user_id))
    add(agent, name, count=7)
    factories.make_page(agent, one, thread=name, text=f"{text} {'It goes on. ' * 200}")
    factories.make_page(
        agent, two, thread=name, text=text, provenance=(one,), hint=text
    )
    answer = factories.make_slot(f"{text} [ref: {one}, x]", type="chat.assistant")
    act(agent, commands.AppendSlots(slots=(answer,)), name)
    definitions = f'[{{"description":"{text}"}}]'.encode()
    for command in (
        paging.WriteLevels(made=levels_of(one, {1: text, 2: text, 3: text})),
        paging.EvictPage(page_id=one),
        paging.MapPage(page_id=one),
        paging.EvictPage(page_id=one),
        paging.PinPage(page_id=two),
        paging.UnpinPage(page_id=two),
        paging.ReferencePages(page_ids=(two,)),
        paging.RecordSearch(results=1),
        paging.SetTools(definitions=definitions, names=("find",), tokens=9),
        RecordCall(
            tool="find",
            arguments={"for": text},
            outcome="success",
            has_result=True,
            result=text,
        ),
        paging.InvalidateTlb(page_id=two),
        paging.FlushTlb(),
        paging.ClearPrefetch(),
        new_text(two, f"{text} And more."),
        paging.FaultPage(page_id=one),
        paging.FaultPage(page_id=f"{user_id}-none"),
        paging.DeletePage(page_id=two),
        StrikeSlots(indexes=(0,)),
    ):
        act(agent, command, name)


def _work(agent: Agent, user_id: str, name: str, text: str) -> None:
    key, soon, point = f"{user_id}-key", f"{user_id}-soon", f"{user_id}-point"
    said = f'"{text}"'.encode()
    with memory.travel_to(clock.now() - timedelta(days=2)):
        factories.make_thread(agent, name, user_id=user_id)
        memory.set_key(agent, soon, text, ttl=timedelta(seconds=1), thread=name)
    row = get_thread(agent, name)
    act(agent, ExpireKeys(keys=((soon, row.head_seq),)), name)
    act(agent, EraseValues(seqs=(row.head_seq,), grace=timedelta()), name)
    memory.set_key(agent, key, text, thread=name)
    memory.set_key(agent, soon, text, ttl=timedelta(days=1), thread=name)
    memory.retime(agent, soon, timedelta(days=2), thread=name)
    memory.add_notes(agent, text, thread=name)
    memory.set_task(agent, name, fields={"description": said})
    memory.take(agent, point, name)
    memory.set_key(agent, key, f"{text} Or not.", thread=name)
    act(agent, UpdateTask(fields={"data": said}), name)
    memory.restore(agent, point, thread=name)
    memory.forget_checkpoint(agent, point, name)
    memory.delete_key(agent, key, name)
    for command in (ClearNotes(), ClearTask()):
        act(agent, command, name)
    memory.set_key(agent, soon, text, ttl=timedelta(seconds=1), thread=name)
    memory.clear(agent, name)
    amend(agent, name, labels={f"{user_id}-label": 2})
    amend(agent, name, config={"max_keys": 9})
    act(agent, commands.CloseThread(), name)
    act(agent, commands.ReopenThread(), name)
    memory.set_key(agent, key, text, thread=name)
    memory.add_notes(agent, text, thread=name)
    memory.take(agent, point, name)


def _import(agent: Agent, user_id: str, name: str, text: str) -> None:
    factories.make_thread(agent, name, user_id=user_id)
    act(
        agent,
        commands.ImportMessages(
            after=0,
            messages=(RunMessage(slot=factories.make_slot(text), turn=True),),
            digest="ab" * 16,
            run=RunRecorded(format="runs", messages=1),
            info=f'{{"task":"{text}"}}'.encode(),
        ),
        name,
    )
    act(agent, paging.RateTurn(turn=1, corrected=True, cited=("slot-0",)), name)
    comment = f'"{text}"'.encode()
    act(agent, MarkTurn(turn=1, mark="wrong", comment=comment), name)


def _know(agent: Agent, subject: Subject, thread: str, text: str) -> None:
    (seq, *_) = [
        each.seq
        for each in knowing.say(
            agent,
            subject,
            knowing.claim(text, 0),
            knowing.claim(f"{text} Not.", 3, predicate="other"),
        ).events
        if each.event.event_type == "fact.asserted"
    ]
    knowing.configure(agent, subject, "single", "home airport")
    knowing.retract(agent, subject, seq)
    knowing.write(agent, subject, "notes", text)
    told = str(get_thread(agent, thread).id)
    now = clock.now()
    for command in (
        ConsolidateExchange(
            thread=told, begin=0, end=2, failed="no_answer", retry_at=now
        ),
        RetryExchange(thread=told, begin=0, retry_at=now),
        RequestExchanges(exchanges=((told, 2),)),
    ):
        run(homes.submit(agent=agent, subject=subject, command=command))


def _end(agent: Agent, subject: Subject, user_id: str, text: str) -> None:
    idle, gone = f"{user_id}-idle", f"{user_id}-gone"
    for name in (idle, gone):
        factories.make_thread(agent, name, user_id=user_id)
        factories.append(agent, name, text, "hi")
    row = get_thread(agent, gone)
    forget(subject, "record", thread=row, seq=row.head_seq)
    forget(subject, "thread", thread=row)
    act(agent, commands.RetireThread(policy_days=1, idle_days=2), idle)
