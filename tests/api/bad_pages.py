"""Requests about pages, turns and settings of paging that must be refused."""

from __future__ import annotations

from tests.api.bad_bodies import CANARY, Case
from tests.api.client import PAGE

T = "/threads/t-1"


def _post(row: str, path: str, body: object, code: str, status: int = 422) -> Case:
    return Case(row=row, target=T + path, body=body, status=status, code=code)


def _build_page_case(row: str, code: str, status: int = 422, **fields: object) -> Case:
    return _post(row, "/pages", {**PAGE, **fields}, code, status)


def _build_content_case(row: str, modality: str, content: object) -> Case:
    return _build_page_case(
        f"content.{row}", "value", modality=modality, content=content
    )


def _config(row: str, config: dict[str, object], code: str = "value") -> Case:
    return Case(
        row=f"113.{row}",
        method="PUT",
        target="/threads/t-2",
        body={"config": config},
        status=422,
        code=code,
    )


def _read(row: str, path: str, code: str, status: int = 422) -> Case:
    return Case(row=row, method="GET", target=T + path, status=status, code=code)


_LEVELS = ((-1, "value"), (4, "value"), ("2", "type"), (2.5, "type"), (True, "type"))

_FAULTS = [
    _post("109.unknown", "/pages/nowhere/map", {}, "page_unknown", 404),
    *(
        _post(f"109.{verb}.{level}", f"/pages/slot-0/{verb}", {"level": level}, code)
        for verb in ("fault", "map")
        for level, code in _LEVELS
    ),
    _post("109.reason", "/pages/slot-0/fault", {"reason": CANARY}, "value"),
    _post("109.by", "/pages/slot-0/fault", {"by": "system"}, "value"),
    _post("109.name", "/pages/a%20b/fault", {}, "name"),
    _post("109.how", "/pages/slot-0/reference", {"how": "fault"}, "value"),
    _read("109.read", "/pages/slot-0?level=4", "value"),
    _read("109.read.minus", "/pages/slot-0?level=-1", "value"),
    _read("109.absent", "/pages/nowhere", "page_unknown", 404),
    _read("109.history", "/pages/nowhere/history", "page_unknown", 404),
]

_IDS = [
    *(
        _build_page_case(f"112.{page_id}", "reserved_id", page_id=page_id)
        for page_id in ("slot-0", "slot-", "obs-1", "ref-7", "system-prompt")
    ),
    *(
        Case(
            row=f"112.put.{page_id}",
            method="PUT",
            target=f"{T}/pages/{page_id}",
            body=PAGE,
            status=422,
            code="reserved_id",
        )
        for page_id in ("slot-0", "obs-1", "system-prompt")
    ),
    Case(
        row="112.delete",
        method="DELETE",
        target=f"{T}/pages/slot-0",
        status=409,
        code="derived_page",
    ),
    Case(
        row="112.update",
        method="PATCH",
        target=f"{T}/pages/slot-0",
        body={"content": {"text": "x"}},
        status=409,
        code="derived_page",
    ),
    _build_page_case("112.many", "value", provenance=["slot-0"] * 65),
    _build_page_case("112.itself", "unknown_page", page_id="a", provenance=["a"]),
    _build_page_case("112.foreign", "unknown_page", provenance=["elsewhere"]),
    *(
        Case(
            row=f"112.put.{row}",
            method="PUT",
            target=f"{T}/pages/a",
            body={**PAGE, "provenance": sources},
            status=422,
            code=code,
        )
        for row, sources, code in (
            ("many", ["slot-0"] * 65, "value"),
            ("itself", ["a"], "unknown_page"),
            ("foreign", ["elsewhere"], "unknown_page"),
        )
    ),
    _build_page_case("112.name", "name", page_id=f"{CANARY} x"),
    _post(
        "112.batch",
        "/pages:batch",
        {"items": [{**PAGE, "page_id": "a"}, {**PAGE, "page_id": "slot-9"}]},
        "reserved_id",
    ),
    _post("112.none", "/pages:batch", {"items": []}, "batch_size"),
    _post(
        "112.twice",
        "/pages:batch",
        {"items": [{**PAGE, "page_id": "a"}] * 2},
        "name_taken",
        409,
    ),
]

_FIELDS = [
    _build_page_case("type", "value", type=CANARY),
    _build_page_case("modality", "value", modality=CANARY),
    _build_page_case("importance", "value", importance=1.1),
    _build_page_case("importance.minus", "value", importance=-0.1),
    _build_page_case("importance.text", "type", importance="1"),
    _build_page_case("32.nan", "type", importance="NaN"),
    _build_page_case("32.infinity", "type", importance="Infinity"),
    _build_page_case("hint", "value", hint="x" * 1_025),
    _build_page_case("meta", "value", meta={"note": "x" * 17_000}),
    _build_page_case("meta.size", "value", meta={"dimensions": [1]}),
    _build_page_case("meta.mime", "value", meta={"mime_type": 7}),
    _build_page_case("tokens", "value", tokens=-1),
    _build_page_case("map", "type", map=1),
    _build_page_case("by", "value", by="system"),
    _build_page_case("extra", "extra_field", **{CANARY: 1}),
    Case(
        row="tokens.alone",
        method="PATCH",
        target=f"{T}/pages/slot-0",
        body={"tokens": 5},
        status=422,
        code="value",
    ),
    _build_content_case("text", "text", {"caption": "x"}),
    _build_content_case("text.type", "text", {"text": 7}),
    _build_content_case("text.more", "text", {"text": "x", "note": "y"}),
    _build_content_case("image.empty", "image", {}),
    _build_content_case("image.base64", "image", {"base64": "###"}),
    _build_content_case(
        "image.embedding", "image", {"caption": "x", "embedding": [0.1] * 4_097}
    ),
    _build_content_case("image.alone", "image", {"embedding": [0.1]}),
    _build_content_case("audio", "audio", {"duration_seconds": -1}),
    _build_content_case("audio.stamp", "audio", {"timestamps": [{"text": "x"}]}),
    _build_content_case("video", "video", {"scenes": [{"caption": "x"}]}),
    _build_content_case("structured", "structured", {}),
    _build_content_case("structured.name", "structured", {"data": 1, "schema_name": 7}),
    _build_page_case("content.list", "type", content=[1]),
    _build_page_case("content.none", "type", content=None),
    _post(
        "content.missing", "/pages", {"type": "claim", "modality": "text"}, "missing"
    ),
    _read("list.type", "/pages?type=x", "value"),
    _read("list.tier", "/pages?tier=L9", "value"),
    _read("list.pinned", "/pages?pinned=yes", "value"),
    _read("list.cursor", "/pages?after=x", "bad_cursor", 400),
    _read("mutations.cursor", "/mutations?after=x", "bad_cursor", 400),
    _read("mutations.type", "/mutations?type=delete", "value"),
    _read("mutations.turn", "/mutations?turn=-1", "value"),
    _read("turns.cursor", "/turns?after=x", "bad_cursor", 400),
    *(
        _read(f"{path}.{query}", f"/{path}?{query}", code, status)
        for path in (
            "pages",
            "working-set",
            "tlb",
            "paging",
            "manifest",
            "prefetch",
            "mutations",
        )
        for query, code, status in (
            ("at_seq=-1", "at", 422),
            ("at_seq=99", "seq_unknown", 404),
            ("at_turn=99", "seq_unknown", 404),
            ("at_seq=1&at_turn=0", "at", 422),
            ("x=1", "extra_parameter", 422),
        )
    ),
    _post("invalidate.none", "/tlb:invalidate", {}, "value"),
    _post("invalidate.two", "/tlb:invalidate", {"page_id": "a", "tier": "L0"}, "value"),
    _post("invalidate.tier", "/tlb:invalidate", {"tier": "L9"}, "value"),
]

_TURNS = [
    _post("113.token_budget", "/turns", {"token_budget": 0}, "value"),
    _post("113.token_budget.much", "/turns", {"token_budget": 2_000_001}, "value"),
    _post("turn.mode", "/turns", {"mode": CANARY}, "value"),
    _post("turn.abi", "/turns", {"abi": {}}, "extra_field"),
    _post("turn.slots", "/turns", {"items": [{}]}, "missing"),
    _post("turn.continues", "/turns", {"continues": 1}, "type"),
    _read("context.budget", "/context?token_budget=0", "value"),
    _read("context.mode", "/context?mode=loud", "value"),
    _read("turn.absent", "/turns/1", "not_found", 404),
    _read("turn.context", "/turns/1/context", "not_found", 404),
    _read("turn.word", "/turns/x", "not_found", 404),
    _read("turn.huge", "/turns/" + "9" * 5_000, "not_found", 404),
    _post("turn.tools", "/turns", {"tools": {}}, "type"),
    _post("call.list", "/tool-calls", [], "object_expected"),
    _post("call.name", "/tool-calls?x=1", {}, "extra_parameter"),
]

_CONFIGS = [
    _config("budget.1999", {"budget_tokens": 1_999}),
    _config("budget.2000001", {"budget_tokens": 2_000_001}),
    _config("budget.text", {"budget_tokens": "4000"}, "type"),
    _config("budget.true", {"budget_tokens": True}, "type"),
    _config("reserved.799", {"reserved_tokens": 799}),
    _config("reserved.half", {"budget_tokens": 2_000, "reserved_tokens": 1_001}),
    _config("evict.same", {"evict_at": 0.7, "evict_to": 0.7}),
    _config("evict.over", {"evict_to": 0.9}),
    _config("pin_share", {"pin_share": 0.91}),
    _config("claim_share", {"claim_share": 0.91}),
    _config("share.minus", {"pin_share": -0.1}),
    _config("l1", {"l1_pages": 0}),
    _config("tlb", {"tlb_entries": 4_097}),
    _config("policy", {"policy": CANARY}),
    _config("mode", {"mode": CANARY}),
    _config("threshold", {"fault_confidence_threshold": CANARY}),
    _config("lower_first", {"lower_first": "yes"}, "type"),
    _config("tokenizer", {"tokenizer": f"{CANARY} x"}),
    _config("tokenizer.unknown", {"tokenizer": "cl100k_base"}),
    Case(
        row="113.tokenizer.fixed",
        method="PATCH",
        target=T,
        body={"config": {"tokenizer": "o200k_base"}},
        status=422,
        code="value",
    ),
]

PAGES = [*_FAULTS, *_IDS, *_FIELDS, *_TURNS, *_CONFIGS]
