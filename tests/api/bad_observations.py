"""Requests about observations that must be refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.api.bad_bodies import CANARY, Case

T = "/threads/t-1"
_LINE = {"mark": "low", "text": "x"}
_WHOLE = {"from": 0, "to": 1, "epoch": 0, "lines": [_LINE]}


def _post(row: str, code: str, **fields: Any) -> Case:
    body = {**_WHOLE, **fields}
    body = {name: value for name, value in body.items() if value is not ...}
    target = f"{T}/observations"
    return Case(row=row, target=target, body=body, status=422, code=code)


def _build_line_case(row: str, code: str, **fields: object) -> Case:
    return _post(row, code, lines=[_LINE, {**_LINE, **fields}])


def _read(row: str, path: str, code: str, status: int = 422) -> Case:
    return Case(row=row, method="GET", target=T + path, status=status, code=code)


OBSERVATIONS = [
    replace(_post("114.off", "observer_off"), status=409),
    _post("114.beyond", "value", to=2),
    _post("114.negative", "value", **{"from": -1}),
    _post("114.empty", "value", to=0),
    _post("114.backwards", "value", **{"from": 1}, to=0),
    _post("114.epoch", "value", epoch=-1),
    _post("115.none", "value", lines=[]),
    _post("115.many", "value", lines=[_LINE] * 501),
    _post("115.more", "value", lines=[_LINE] * 2_001),
    _build_line_case("115.long", "value", text="x" * 10_001),
    _build_line_case("115.empty", "value", text=""),
    _build_line_case("115.unseen", "value", text="\u200b \ufeff\u2060"),
    _build_line_case("115.blank", "value", text=" \n\u2028 "),
    _build_line_case("115.mark", "value", mark=CANARY),
    *(
        _build_line_case(f"115.slots.{n}", code, slots=slots)
        for n, (slots, code) in enumerate(
            (
                ([], "value"),
                ([0, 0, 0], "value"),
                ([0, 1], "value"),
                ([1], "value"),
                ([-1], "value"),
                (["0"], "type"),
                (0, "type"),
                ([True], "type"),
            )
        )
    ),
    _post("115.hint", "value", current_task="x" * 501),
    _post("115.response", "value", suggested_response="x" * 501),
    _post("28.from", "integer_range", **{"from": 2**63}),
    *(
        _post(f"30.{n}", "type", **{"from": value})
        for n, value in enumerate((True, 1.0, "1", None))
    ),
    *(_post(f"33.{name}", "missing", **{name: ...}) for name in _WHOLE),
    _build_line_case("24.text", "nul", text="x\0"),
    _post("34.field", "extra_field", tokens=1),
    _build_line_case("34.line", "extra_field", seq=1),
    _build_line_case("44.naive", "time", at="2026-03-01T09:30:00"),
    _build_line_case("45.early", "time_range", at="1969-12-31T00:00:00Z"),
    *(
        Case(
            row=f"34.{verb}",
            target=f"{T}/observer:{verb}",
            body={"now": True},
            status=422,
            code="extra_field",
        )
        for verb in ("run", "activate", "abort", "resume", "reflect")
    ),
    Case(
        row="70.pause",
        target=f"{T}/observer:pause",
        body={},
        status=404,
        code="not_found",
    ),
    *(
        Case(
            row=f"off.{verb}",
            target=f"{T}/observer:{verb}",
            body={},
            status=409,
            code="observer_off",
        )
        for verb in ("run", "reflect")
    ),
    _read("61.observations", "/observations?limit=0", "limit"),
    _read("61.generations", "/generations?limit=201", "limit"),
    _read("63", "/log?state=log", "extra_parameter"),
    _read("64", "/observations?after=x", "bad_cursor", 400),
    _read("64.state", "/observations?state=log&after=x", "bad_cursor", 400),
    _read("122", f"/observations?state={CANARY}", "value"),
    *(
        _read(f"66.{name}", f"/{name}?at_seq=-1", "at")
        for name in ("observer", "log", "observations", "generations")
    ),
    *(
        _read(f"67.{name}", f"/{name}?at_seq=999", "seq_unknown", 404)
        for name in ("observer", "log", "observations", "generations")
    ),
]
