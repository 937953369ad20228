"""The facts page: lanes, valid and recorded time, one open fact, and its changes."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from inspector.knowledge import fact_adding, fact_lanes
from inspector.web import read_audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import lanes
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.threads import operator_threads
from tests.cast import factories, forgetting
from tests.cast.knowing import START, claim, every, retract, say, to_spans, write

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, "visit", user_id="ann")
    return forgetting.get_subject(agent, "ann")


def build_path(subject: Subject, page: str = "facts") -> str:
    return f"/p/acme/subjects/{subject.id}/{page}"


def fetch_text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def test_empty_facts_page_shows_the_call_that_fills_it(
    viewer: Client, ann: Subject
) -> None:
    page_path = build_path(ann)
    assert f"/api/v1/subjects/{ann.id}/facts" in fetch_text(viewer, page_path)


def test_axis_of_new_facts_is_mostly_past(agent: Agent, ann: Subject) -> None:
    say(agent, ann, claim("OSL", 0))
    now = START + timedelta(minutes=8)
    axis = fact_lanes.build_axis(lanes.get_lanes(ann, known_at=None), now=now)
    assert axis.to_percent(now) > 60
    assert len([tick for tick in axis.iter_ticks() if tick.label]) >= 2


def test_fact_lanes_are_drawn_as_of_valid_and_recorded_time(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("OSL <b>", 0), claim("tea", 3, predicate="likes"))
    known = say(agent, ann, claim("jam", 4, predicate="likes")).seq
    gone = say(agent, ann, claim("BGO", 31, 60)).seq
    page = fetch_text(viewer, page_path)
    assert "4 facts" not in page
    assert page.count('class="lane"') == 2
    assert "OSL &lt;b&gt;" in page
    assert "BGO" in page
    assert "many values" in page
    before = fetch_text(viewer, f"{page_path}?known={known}")
    assert "BGO" not in before
    retract(agent, ann, gone, "wrong")
    page = fetch_text(viewer, page_path)
    assert "BGO, retracted (was wrong)" in page
    # What was retracted opens as it was known before.
    link = re.search(rf'href="([^"]+known={gone}&amp;fact={gone})"', page)
    assert link
    opened = fetch_text(viewer, link[1].replace("&amp;", "&"))
    assert "BGO, from" in " ".join(opened.split())
    assert "As known at" in opened
    # As of a day: 14 Feb 2026, in minutes.
    of_day = fetch_text(viewer, f"{page_path}?known={gone}&valid=29519280")
    assert re.search(r"home airport</th> <td[^>]*><a [^>]*>BGO</a>", of_day)


def test_fact_that_holds_again_shows_when_that_was_recorded(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("no meat", predicate="eats"))
    say(agent, ann, claim("all", predicate="eats"))
    seq = say(agent, ann, claim("no meat", predicate="eats")).seq
    home = find_home(ann)
    assert home is not None
    recorded = Event.objects.get(thread=home, seq=seq).at
    held = every(ann, valid_at=recorded)
    assert [(each.value, each.begin_recorded_at) for each in held] == [
        ("no meat", recorded)
    ]
    assert held[0].recorded_at < held[0].valid_from
    assert "ahead of time" not in fetch_text(viewer, page_path)
    say(agent, ann, claim("jam", (recorded - START).days + 9, predicate="eats"))
    later = f"{page_path}?valid={int(recorded.timestamp()) // 60 + 60 * 24 * 10}"
    assert "ahead of time" in fetch_text(viewer, later)


def test_fact_links_to_its_sources(agent: Agent, ann: Subject, viewer: Client) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("OSL", 0, confidence=0.5))
    say(agent, ann, claim("OSL", 9))
    page = fetch_text(viewer, page_path)
    link = re.search(r'href="([^"]+\?fact=[^"]+)"', page)
    assert link
    opened = fetch_text(viewer, link[1])
    assert "<span>OSL</span></foreignObject>" in re.sub(r"<span\s+>", "<span>", page)
    assert "Stated 2 times" in opened
    assert "2 different begins" in opened
    assert "</time>." in opened  # no blank before the full stop
    assert "confidence 0.5" in opened
    assert "Retract" not in opened
    for wrong in ("?fact=x", "?fact=1-99999999999", "?from=zz", "?valid=-1"):
        assert viewer.get(page_path + wrong).status_code == 422
    assert "first recorded" not in fetch_text(viewer, f"{page_path}?fact=999-0")


def test_facts_page_reads_are_audited_at_the_home_thread(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    page_path = build_path(ann)
    home = factories.get_thread(agent, say(agent, ann, claim("OSL", 0)).name)
    read_audit.forget()
    for path in ("", "/2/end"):
        fetch_text(owner, page_path + path)
    looks = AuditEntry.objects.filter(action="content.read")
    assert {*looks.values_list("target_id", flat=True)} == {str(home.id)}


def test_facts_stay_editable_when_a_thread_is_closed(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("OSL", 0))
    row = factories.get_thread(agent, "visit")
    operator_threads.close(row, actor="operator:x", reason="completed")
    act = f"{page_path}/2/retract"
    assert f'href="{act}?nth=0"' in fetch_text(owner, f"{page_path}?fact=2-0")
    assert "Show what changes" in fetch_text(owner, act)


def test_fact_change_requires_a_preview(
    agent: Agent, ann: Subject, viewer: Client, owner: Client
) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("OSL", 0))
    say(agent, ann, claim("BGO", 31))
    osl, bgo = (fact.id for fact in every(ann, ended=True))
    assert viewer.get(f"{page_path}/{bgo}/retract").status_code == 403
    # Acts that a home thread refuses are not offered.
    assert not re.search(r'href="[^"]*/(fork|close)"', fetch_text(owner, page_path))
    preview = fetch_text(owner, f"{page_path}/{bgo}/end?at=2026-03-01T00:00")
    # Once in the path: the line of memory by which the person is told.
    assert preview.count("BGO") == 4
    assert "until" in preview
    assert to_spans(every(ann)) == [("BGO", 31, None)]
    sent = owner.post(f"{page_path}/{bgo}/end", {"at": "2026-03-01T00:00"})
    assert "Done: " in fetch_text(owner, sent.headers["Location"])
    assert to_spans(every(ann)) == [("OSL", 59, None)]
    owner.post(f"{page_path}/{bgo}/cardinality", {"cardinality": "multi"})
    assert to_spans(every(ann, ended=True)) == [("OSL", 0, None), ("BGO", 31, 59)]
    owner.post(f"{page_path}/{osl}/retract", {"reason": "duplicate"})
    assert every(ann) == []
    refused = owner.post(f"{page_path}/{bgo}/end", {"at": "1999-03-01T00:00"})
    assert refused.status_code == 422
    assert owner.get(f"{page_path}/{bgo}/burn").status_code == 404
    assert owner.get(f"{page_path}/{osl}/end").status_code == 404


CLAIM = {"entity": "user", "predicate": " home airport", "value": "OSL <b>"}


def test_operator_asserts_a_fact_where_nothing_was_known(
    ann: Subject, owner: Client, viewer: Client
) -> None:
    page_path = build_path(ann)
    add = build_path(ann, "add-fact")
    assert f'href="{add}"' in fetch_text(owner, page_path)
    assert add not in fetch_text(viewer, page_path)
    assert 'value="user"' in fetch_text(owner, add)
    assert (viewer.get(add).status_code, viewer.post(add, CLAIM).status_code) == (
        403,
        403,
    )
    days = {"valid_from": "2026-01-03", "valid_until": "2026-01-09"}
    sent = owner.post(add, {**CLAIM, **days, "many": "1"})
    assert sent.status_code == 302
    page = fetch_text(owner, sent.headers["Location"])
    assert "OSL &lt;b&gt;, from" in page
    assert "many values" in page
    assert '<span class="faint">operator</span>' in page
    assert 'aria-current="true"' in page
    (fact,) = every(ann, ended=True)
    assert (fact.predicate, fact.cardinality) == ("home airport", "multi")
    assert to_spans([fact]) == [("OSL <b>", 2, 8)]


def test_confirming_assertion_opens_the_confirmed_fact(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    add = build_path(ann, "add-fact")
    say(agent, ann, claim("OSL", 0))
    sent = owner.post(add, {**CLAIM, "value": "OSL"})
    assert "Stated 2 times" in fetch_text(owner, sent.headers["Location"])


def test_history_of_fact_says_what_was_known_when_recorded(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    early = say(agent, ann, claim("Ghent", 0)).seq
    say(agent, ann, claim("Trieste", 5))
    form = f"{build_path(ann)}/{early}/correct"
    saved = owner.post(form, {"value": "Bruges", "how": "wrong", "since": ""})
    shown = " ".join(fetch_text(owner, saved.headers["Location"]).split())
    assert "from Ghent to Trieste" in shown
    assert "from Ghent to <b>Bruges</b>" in shown
    assert "Stated 1 time for this period" in shown


def test_near_property_is_asked_about_before_a_fact_is_written(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    add = build_path(ann, "add-fact")
    say(agent, ann, claim("Lindau", 0, predicate="lives_in"))
    assert '<option value="lives_in">' in fetch_text(owner, add)
    typed = {**CLAIM, "predicate": "live in", "value": "Oslo"}
    # An answer to the question about another property is none to this one.
    for form in (typed, {**typed, "use": "home"}, {**typed, "keep": "lives in"}):
        page = owner.post(add, form).content.decode()
        assert "Did you mean <b>lives_in</b>?" in page
        assert 'name="keep" value="live in"' in page
    assert len(every(ann, ended=True)) == 1
    assert owner.post(add, {**typed, "use": "lives_in"}).status_code == 302
    (fact,) = every(ann)
    assert (fact.predicate, fact.value) == ("lives_in", "Oslo")
    assert owner.post(add, {**typed, "keep": "live in"}).status_code == 302
    assert len(every(ann)) == 2
    # Another spelling of a property in use is that property.
    assert owner.post(add, {**typed, "predicate": "Lives-In"}).status_code == 302


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("entity", " "),
        ("predicate", ""),
        ("predicate", "home\x00airport"),
        ("predicate", "x" * 129),
        ("value", "\r\n"),
        ("valid_from", "2026-13-40"),
        ("valid_from", "yesterday"),
        ("valid_from", "0001-01-01"),
        ("valid_until", "9999-12-31"),
        ("valid_until", "2026-01-03"),
        ("valid_until", "2025-12-31"),
    ],
)
def test_invalid_fact_is_explained_beside_the_form(
    ann: Subject, owner: Client, field: str, wrong: str
) -> None:
    add = build_path(ann, "add-fact")
    form = {**CLAIM, "value": "as typed", "valid_from": "2026-01-03", field: wrong}
    refused = owner.post(add, form)
    assert refused.status_code == 422
    page = refused.content.decode()
    assert page.count("aria-invalid") == 1
    assert re.search(f'name="{field}"[^>]*aria-invalid', page)
    assert fact_adding._TEXTS[field] in page
    assert field == "value" or "as typed" in page
    assert find_home(ann) is None


def test_palette_finds_facts_in_the_home_thread(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    home = say(agent, ann, claim("OSL", 0)).name
    found = viewer.post("/p/acme/search", {"q": "airport", "thread": home})
    assert f"{build_path(ann)}?fact=2" in found.content.decode()


def test_fact_is_corrected_in_place_and_undone(
    agent: Agent, ann: Subject, owner: Client, viewer: Client
) -> None:
    seq = say(agent, ann, claim("Oslo", 0)).seq
    write(agent, ann, "guest", "Lives in Oslo.\nLikes tea.")
    page = build_path(ann)
    shown = fetch_text(viewer, f"{page}?fact={seq}")
    # The line does not name the property: it may be about something else.
    assert "said in block" not in shown
    event = re.search(rf'href="([^"]+/events/{seq})"', shown)
    assert event
    assert "home airport Oslo</b>" in fetch_text(viewer, event[1])
    form = f"{page}/{seq}/correct"
    assert viewer.get(form).status_code == 403
    assert ">Oslo</textarea>" in fetch_text(owner, form)
    for wrong in ({"value": "Oslo"}, {"value": " "}, {"how": "x"}):
        sent = {"value": "Bergen", "how": "wrong", **wrong}
        assert owner.post(form, sent).status_code == 422
    changed = {"value": "Bergen", "how": "changed", "since": "2025-12-31"}
    assert "after the old value" in owner.post(form, changed).content.decode()
    assert to_spans(every(ann, ended=True)) == [("Oslo", 0, None)]
    saved = owner.post(form, {"value": "Bergen", "how": "wrong", "since": ""})
    assert to_spans(every(ann, ended=True)) == [("Bergen", 0, None)]
    shown = fetch_text(owner, saved.headers["Location"])
    assert "mentions the earlier value <b>Oslo</b>" in " ".join(shown.split())
    assert "from Oslo to <b>Bergen</b>" in shown
    edit = f'href="{build_path(ann, "blocks")}/guest/edit?line=1"'
    assert edit in shown
    # The line of the earlier value is offered, and not ticked.
    again = fetch_text(
        owner, f"{page}/{saved.headers['Location'].rpartition('=')[2]}/correct"
    )
    assert re.search(r'name="line" value="1:1:guest"(?! checked)', again)
    assert "Line 1 mentions" in " ".join(
        fetch_text(viewer, build_path(ann, "blocks")).split()
    )
    assert edit in fetch_text(owner, build_path(ann, "blocks"))
    undo = re.search(r'action="([^"]+/undo)"', shown)
    assert undo
    opened = f"{page}?fact={saved.headers['Location'].rpartition('=')[2]}"
    assert f'action="{undo[1]}"' in fetch_text(owner, opened)
    assert "/undo" not in fetch_text(viewer, opened)
    undone = owner.post(undo[1])
    assert "Undone: what" in fetch_text(owner, undone.headers["Location"])
    assert to_spans(every(ann, ended=True)) == [("Oslo", 0, None)]
    done = re.search(r"done=(\d+)", undone.headers["Location"])
    assert done
    story = " ".join(fetch_text(viewer, f"{page}?fact={done[1]}").split())
    assert re.search(
        r">undone</a>.*>retracted</a> \(was wrong\);.*>retraction undone</a>", story
    )
    back = 'from Bergen back to <b>Oslo</b><br><span class="faint">undo</span>'
    assert back in story
    # Undone already: the page says that it can't be undone once more.
    repeated = owner.post(undo[1])
    assert "can't be undone" in fetch_text(owner, repeated.headers["Location"])


def test_correction_offers_other_times_of_the_value_and_shows_what_else_changes(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    factories.append(agent, "visit", "I live in Ghent.")
    said = factories.get_thread(agent, "visit").head_seq
    say(agent, ann, claim("Ghent", 3, source=("visit", said)))
    say(agent, ann, claim("Porto", 9))
    seq = say(agent, ann, claim("Ghent", 20)).seq
    form = re.search(
        r'href="([^"]+/correct[^"]*)"',
        fetch_text(owner, f"{build_path(ann)}?fact={seq}"),
    )
    assert form
    page = fetch_text(owner, form[1])
    (other,) = re.findall(r'name="period" value="([^"]+)"(?! checked)', page)
    assert "said in visit" in " ".join(page.split())
    sent = {"value": "Porto", "how": "wrong", "since": "", "period": [other]}
    shown = owner.post(form[1], sent).content.decode()
    # The two times of Porto become one, which the form did not say.
    assert "Nothing is saved yet" in shown
    assert "Porto, from" in " ".join(shown.split("<h2>Now</h2>")[1].split())
    assert f'value="{other}" checked' in shown
    assert len(every(ann, ended=True)) == 3
    seen = re.search(r'name="seen" value="([^"]+)"', shown)
    assert seen
    stale = owner.post(form[1], {**sent, "begin": "2026-01-02"})
    assert stale.status_code == 409
    # What was seen counts for what was sent then.
    changed = {**sent, "seen": seen[1], "period": []}
    assert "Nothing is saved yet" in owner.post(form[1], changed).content.decode()
    assert owner.post(form[1], {**sent, "seen": seen[1]}).status_code == 302
    assert to_spans(every(ann, ended=True)) == [("Porto", 3, None)]


def test_fact_is_corrected_with_lines_of_blocks(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    seq = say(agent, ann, claim("Oslo", 0)).seq
    write(agent, ann, "guest", "Home is OSLO <b>.\n- Oslo\nWorks in Oslo.")
    locked = BlockDraft(block="rules", text="Ships to Oslo.", read_only=True)
    factories.run(blocks.put_block(agent=agent, subject=ann, draft=locked))
    form = f"{build_path(ann)}/{seq}/correct"
    page = fetch_text(owner, form)
    assert "Home is <del>OSLO</del>" in page
    assert "the block is read-only" in page
    assert page.count("may be about something else") == 1
    offered = re.findall(r'name="line" value="([^"]+)" checked', page)
    assert offered == ["1:1:guest", "1:2:guest"]
    sent = {"value": "Bergen", "how": "wrong", "since": "", "offered": offered}
    sent["line"] = offered[:1]
    ahead = {**sent, "how": "changed", "since": "2199-01-01"}
    assert "lies ahead" in owner.post(form, ahead).content.decode()
    write(agent, ann, "guest", "Was in Rome.\nHome is Oslo.")
    refused = owner.post(form, sent)
    assert refused.status_code == 409
    page = refused.content.decode()
    assert "nothing was corrected" in page
    assert 'value="2:2:guest" checked' in page
    assert "<ins data-new-value" in page
    assert ">Bergen</ins" in page
    assert to_spans(every(ann, ended=True)) == [("Oslo", 0, None)]
    saved = owner.post(form, {**sent, "line": ["2:2:guest"]})
    shown = fetch_text(owner, saved.headers["Location"])
    assert re.search(r"It changed line\s+2 of\s+<a [^>]*#block-guest", shown)
    assert "Home is Bergen." in fetch_text(owner, build_path(ann, "blocks"))
    write(agent, ann, "guest", "Lives in Lima.")
    undo = re.search(r'action="([^"]+/undo)"', shown)
    assert undo
    undone = fetch_text(owner, owner.post(undo[1]).headers["Location"])
    assert "Not as before the correction" in undone
    assert to_spans(every(ann, ended=True)) == [("Oslo", 0, None)]


def test_correction_names_lines_that_name_the_property_with_another_value(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    seq = say(agent, ann, claim("the 9th", 0, predicate="birthday")).seq
    text = "Birthday: the 9th\nMy birthday is on the 27th <b>\nLikes tea."
    write(agent, ann, "guest", text)
    form = f"{build_path(ann)}/{seq}/correct"
    page = fetch_text(owner, form)
    assert re.findall(r'name="line" value="([^"]+)"', page) == ["1:1:guest"]
    other = page.split("Other lines that name birthday")[1]
    assert "My birthday is on the 27th &lt;b&gt;" in other
    assert "Likes tea" not in page
    sent = {"value": "the 11th", "how": "wrong", "since": "", "line": ["1:1:guest"]}
    saved = owner.post(form, sent).headers["Location"]
    shown = fetch_text(owner, saved).split("that may contradict")[-1]
    flagged, said = shown.split("</section>")[:2]
    assert "My birthday is on the 27th" in flagged
    assert "Birthday: the 11th" not in flagged
    assert "Birthday: the 11th" in said
    # The same list after the undo, and whenever the fact is opened.
    assert "names birthday" in " ".join(
        fetch_text(owner, saved.split("&", maxsplit=1)[0]).split()
    )


def test_undo_says_how_many_lines_of_blocks_are_back(
    agent: Agent, ann: Subject, owner: Client
) -> None:
    seq = say(agent, ann, claim("Oslo", 0)).seq
    form = f"{build_path(ann)}/{seq}/correct"
    assert "No block says the old value" in fetch_text(owner, form)
    write(agent, ann, "guest", "Lives in Oslo.")
    sent = {"value": "Bergen", "how": "wrong", "since": "", "line": ["1:1:guest"]}
    shown = fetch_text(owner, owner.post(form, sent).headers["Location"])
    undo = re.search(r'action="([^"]+/undo)"', shown)
    assert undo
    undone = fetch_text(owner, owner.post(undo[1]).headers["Location"])
    assert "1 line of blocks reads as before again" in " ".join(undone.split())
    # The entry of the edit names the person, not the home thread.
    entries = fetch_text(owner, "/p/acme/audit")
    assert f">{str(ann.id)[-8:]}</span>" in entries
    assert ">mh.home." not in entries


def test_axis_begins_where_most_facts_begin(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    page_path = build_path(ann)
    say(agent, ann, claim("OSL", -900), *(claim(f"v{n}", n) for n in range(9)))
    page = fetch_text(viewer, page_path)
    assert "Some facts began before" in page
    for query in ("?whole=1", "?valid=28000000"):
        assert "Some facts began before" not in fetch_text(viewer, page_path + query)


def test_axis_ends_where_most_of_it_lies_ahead(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    say(agent, ann, claim("OSL", 0, 30_000))
    page = fetch_text(viewer, build_path(ann))
    assert "Some facts end after" in page
    assert "Some facts end after" not in fetch_text(
        viewer, f"{build_path(ann)}?whole=1"
    )


def test_memory_of_a_thread_shows_facts_as_known_then(
    agent: Agent, ann: Subject, viewer: Client
) -> None:
    thread = "/p/acme/threads/visit"
    say(agent, ann, claim("OSL", 0))
    factories.append(agent, "visit", "hello")
    head = factories.get_thread(agent, "visit").head_seq
    say(agent, ann, claim("BGO", 31))
    now = fetch_text(viewer, f"{thread}/memory")
    assert "home airport: BGO" in now
    assert re.search(r"Facts of the person</a>\s*· 1\b", now)
    then = fetch_text(viewer, f"{thread}?tab=memory&at_seq={head}")
    assert "home airport: OSL" in then
    assert "BGO" not in then
    link = re.search(r'href="([^"]+)" data-row>home airport', then)
    assert link
    opened = fetch_text(viewer, link[1].replace("&amp;", "&"))
    assert "OSL" in opened
    assert "BGO" not in opened
    first = fetch_text(viewer, f"{thread}?tab=memory&at_seq=1")
    assert "home airport" not in first
