"""Calls that Anthropic's servers answer: back as they came, or in words."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context import costs, tokens
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.messages import reading, writing
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.writing import ShownMessage
from tests.kernel.messages.test_writing import Json, build_request, say_as
from tests.kernel.messages.vendors import require_types
from tests.validators import require_request

URL = "https://tide.example/"


def call(n: int, name: str = "web_search", **more: Any) -> Json:
    """Return a server's call, and `answer` its result."""
    used = {"type": "server_tool_use", "id": f"srvtoolu_{n}", "name": name}
    return {**used, "input": {"query": "tide"}, **more}


def answer(n: int, name: str = "web_search", **more: Any) -> Json:
    page = {"type": "web_search_result", "url": f"{URL}{n}", "title": "Tides"}
    found: Any = [{**page, "encrypted_content": "EqB", "page_age": None}]
    if name == "bash_code_execution":
        found = {"type": "bash_code_execution_result", "content": [], "stdout": "6"}
        found |= {"stderr": "", "return_code": 0}
    elif name == "web_fetch":
        source = {"type": "text", "media_type": "text/plain", "data": "High at six."}
        document = {"type": "document", "source": source, "title": "Tides"}
        found = {"type": "web_fetch_result", "url": f"{URL}{n}", "content": document}
    kind = f"{name}_tool_result"
    return {"type": kind, "tool_use_id": f"srvtoolu_{n}", "content": found, **more}


def cite(n: int) -> Json:
    cited = {"type": "web_search_result_location", "cited_text": "High at six."}
    cited |= {"url": f"{URL}{n}", "title": "Tides", "encrypted_index": "Eo8B"}
    return {"type": "text", "text": "It is high at six.", "citations": [cited]}


def build_content(*blocks: Json, **shown: Any) -> list[Json]:
    """Return all blocks of the valid request of one answer with these blocks."""
    said = reading.read({"role": "assistant", "content": [*blocks]})
    talk = [ShownMessage(message=said, seed="1", **{"thoughts": True, **shown})]
    request = build_request([say_as("user", "Go."), *talk], "anthropic")
    require_types("anthropic", request)
    require_request("anthropic", request)
    content = (each["content"] for each in request["messages"][1:])
    return [block for each in content if isinstance(each, list) for block in each]


@st.composite
def block_lists(draw: st.DrawFn) -> list[Json]:
    numbers, blocks = count(), list[Json]()
    names = st.sampled_from(["web_search", "web_fetch", "bash_code_execution"])
    for kind in draw(st.lists(st.sampled_from("tpsn"), min_size=1, max_size=5)):
        n = next(numbers)
        if kind == "t":
            blocks.append({"type": "thinking", "thinking": "?", "signature": f"E{n}B"})
        elif kind == "p":
            # Calls one after another, or at once; results in any order.
            called = [
                *enumerate(draw(st.lists(names, min_size=1, max_size=3)), n * 9 + 10)
            ]
            blocks += [call(*each) for each in called]
            blocks += [answer(*each) for each in draw(st.permutations(called))]
        elif kind == "n":
            by = {"type": "code_execution_20260120", "tool_id": f"srvtoolu_{n}"}
            inner = [call(n + 90, caller=by), answer(n + 90, caller=by)]
            code = "bash_code_execution"
            blocks += [call(n, code), *inner, answer(n, code), cite(n + 90)]
        else:
            blocks += [{"type": "text", "text": "I look: "}, call(n), answer(n)]
            blocks.append(cite(n))
    return blocks


ENDS = [
    {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    {"type": "text", "text": "So."},
]


@given(block_lists(), st.sampled_from(ENDS))
def test_blocks_go_back_as_they_came(blocks: list[Json], end: Json) -> None:
    blocks.append(end)
    sent = build_content(*blocks)[: len(blocks)]
    assert sent == blocks
    before, again = (
        reading.read({"role": "assistant", "content": each}) for each in (blocks, sent)
    )
    assert before == again


def test_cache_points_stay_while_the_exchange_runs() -> None:
    point = {"cache_control": {"type": "ephemeral"}}
    pointed, plain = ([{**each, **point} for each in (USE, cite(1))], [USE, cite(1)])
    for running, expected in ((True, pointed), (False, plain)):
        sent = build_content(pointed[0], FOUND, pointed[1], thoughts=running)
        assert sent == [expected[0], FOUND, expected[1]]


USE, FOUND = call(1), answer(1)
PDF: Json = {"type": "document", "title": None} | {
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE" * 99}
}


@pytest.mark.parametrize(
    ("blocks", "shown"),
    [
        ([USE, FOUND], {"text": "[shortened] High"}),
        ([USE, FOUND], {"media": False}),
        ([USE], {}),
        ([FOUND, USE], {}),
        ([USE, FOUND, USE, FOUND], {}),
        ([{**USE, "id": "s1"}, {**FOUND, "tool_use_id": "s1"}], {}),
        ([USE, {**FOUND, "content": "High"}], {}),
        ([USE, {**FOUND, "content": [{"url": f"{URL}1"}]}], {}),
        ([{**USE, "stamp": 1}, FOUND], {}),
        ([{**USE, "caller": {"type": "?", "tool_id": "srvtoolu_2"}}, FOUND], {}),
        ([USE, {**FOUND, "content": {"type": "web_fetch_result", "content": PDF}}], {}),
    ],
)
def test_pair_that_is_not_whole_leaves_no_citation(blocks: Any, shown: Any) -> None:
    sent = json.dumps(build_content(*blocks, cite(1), **shown))
    assert not any(each in sent for each in ("server_tool", "EqB", "Eo8B", "JVBE"))


def test_no_pair_is_written_twice_in_a_request() -> None:
    said = reading.read({"role": "assistant", "content": [USE, FOUND, cite(1)]})
    talk = [ShownMessage(message=said, seed=seed) for seed in "12"]
    for ids in (RequestIds(), RequestIds()):
        once, again = writing.write(talk, "anthropic", ids=ids)
        assert "Eo8B" in "".join(once)
        assert "Eo8B" not in "".join(again)
        assert writing.write(talk[:1], "anthropic", ids=ids) == [once]


def test_cost_of_a_page_counts_blocks_and_citations() -> None:
    content = {"role": "assistant", "content": [USE, FOUND, cite(1)]}
    page = OpenedPage(
        page_id="slot:1", type="transcript", modality="text", content=content, slot=1
    )
    shown = ShownMessage(message=page.message, seed="1")
    (sent,) = writing.write([shown], "anthropic", ids=RequestIds())
    assert costs.compute_cost(page) >= tokens.estimate_tokens("".join(sent)) > 0
