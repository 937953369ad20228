"""Tool definitions, and a model's calls as they come: never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.tools import tools
from memoryhub.kernel.tools.tools import FaultCall, Mistake

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def call(arguments: Any, name: Any = "page_fault") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": function}


def mistake(sent: Any) -> Mistake:
    found = tools.parse_call(sent)
    assert isinstance(found, Mistake)
    return found


def test_definition_is_one_function_with_its_arguments() -> None:
    plain, _ = json.loads(tools.DEFINITIONS[tools.CURRENT])
    strict, _ = json.loads(tools.DEFINITIONS[tools.CURRENT_STRICT])
    for tool in (plain, strict):
        parameters = tool["function"]["parameters"]
        assert tool["type"] == "function"
        assert tool["function"]["name"] == "page_fault"
        names = ["page_id", "target_level", "offset", "limit"]
        assert list(parameters["properties"]) == names
        assert parameters["additionalProperties"] is False
    assert plain["function"]["parameters"]["required"] == ["page_id"]
    assert plain["function"]["parameters"]["properties"]["target_level"]["default"] == 2


def test_strict_form_requires_every_field_and_knows_no_bounds() -> None:
    for tool in json.loads(tools.DEFINITIONS[tools.CURRENT_STRICT]):
        parameters = tool["function"]["parameters"]
        assert tool["function"]["strict"] is True
        assert parameters["required"] == list(parameters["properties"])
        for schema in parameters["properties"].values():
            assert not {"minimum", "maximum", "default"} & schema.keys()


def test_definitions_never_change() -> None:
    assert {form: tools.digest(form)[:16] for form in tools.DEFINITIONS} == {
        "tools/1": "906f3e6ba2045ffc",
        "tools/1-strict": "f26c78a08923b5aa",
        "tools/2": "7e6bbc73db0bd8a4",
        "tools/2-strict": "03510cdef50b1142",
        "tools/3": "0728826913f968d1",
        "tools/3-strict": "c4a5954350052d84",
        "tools/4": "cd171936ddb96799",
        "tools/4-strict": "1038c5a5afc1067a",
    }


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ({"page_id": "slot-1"}, 2),
        ('{"page_id": "slot-1"}', 2),
        ({"page_id": "slot-1", "target_level": 0}, 0),
        ('{"page_id":"slot-1","target_level":3}', 3),
        # The strict form requires this.
        ({"page_id": "slot-1", "target_level": None}, 2),
    ],
)
def test_well_formed_call_is_parsed(arguments: Any, level: int) -> None:
    assert tools.parse_call(call(arguments)) == FaultCall(
        call_id="call_1", page_id="slot-1", level=level
    )


def test_page_id_is_any_text() -> None:
    for page_id in ("", "../../etc/passwd", "slot 1\n", "漢"):
        found = tools.parse_call(call({"page_id": page_id}))
        assert isinstance(found, FaultCall)
        assert found.page_id == page_id


def test_tool_call_may_have_fields_added_by_providers() -> None:
    sent = {**call({"page_id": "a"}), "index": 0}
    assert isinstance(tools.parse_call(sent), FaultCall)


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        (None, "call"),
        ([], "call"),
        ({}, "call"),
        ({"id": 1, "type": "custom", "function": {}}, "call"),
        ({"id": "call_1", "function": "page_fault"}, "call"),
        (call({"page_id": "a"}, name="look"), "tool_unknown"),
        (call({"page_id": "a"}, name=["page_fault"]), "tool_unknown"),
        (call(None), "arguments"),
        (call([]), "arguments"),
        (call("[]"), "arguments"),
        (call(""), "arguments"),
        ([call({"page_id": "a"})] * 2, "call"),
        (call("{'page_id': 'a'}"), "arguments_json"),
        (call('{"page_id":"a","page_id":"b"}'), "arguments_json"),
        (call('{"page_id":"\ud800"}'), "arguments_json"),
        (call("[" * 100_000), "arguments_json"),
        (call({}), "arguments"),
        (call({"page_id": 3}), "arguments"),
        (call({"page_id": "a", "level": 2}), "arguments"),
        (call({"page_id": "a", "target_level": "2"}), "arguments"),
        (call({"page_id": "a", "target_level": 2.5}), "arguments"),
        (call({"page_id": "a", "target_level": True}), "arguments"),
        (call({"page_id": "a", "target_level": 4}), "arguments"),
        (call({"page_id": "a", "target_level": -1}), "arguments"),
    ],
)
def test_malformed_call_is_reported_by_its_code(sent: Any, word: str) -> None:
    found = mistake(sent)
    assert found.error == word
    assert found.sentence == f"This call can't be followed: {found.detail}."


@given(anything | anything.map(call) | st.text().map(call))
def test_parsing_any_call_never_raises(sent: Any) -> None:
    assert isinstance(tools.parse_call(sent), FaultCall | Mistake)


def test_mistake_message_quotes_nothing_of_the_call() -> None:
    found = mistake(call({"page_id": "a", "secret-7": "secret-8"}))
    assert "secret" not in found.detail


def test_malformed_call_is_answered_by_its_id() -> None:
    for sent in ({"id": "c", "function": 7}, {"id": "c", "type": "function"}):
        assert tools.answer(sent, "页") == {
            "role": "tool",
            "tool_call_id": "c",
            "name": "",
            "content": "页",
        }
