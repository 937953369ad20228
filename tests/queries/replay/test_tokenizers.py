from __future__ import annotations

import json
import lzma
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tiktoken_ext import openai_public

from memoryhub.kernel.context.tokens import EST, Count
from memoryhub.kernel.packing import packing
from memoryhub.queries.replay import o200k, tokenizers
from tests.cast import sample
from tests.kernel.packs import pages, thread_of

O200K = "o200k_base"


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the loaded tokenizers, as in a process that has counted nothing yet."""
    monkeypatch.setattr(tokenizers, "_held", {})


@pytest.fixture
def no_extra(monkeypatch: pytest.MonkeyPatch, nothing_held: None) -> None:
    """Hide the extra, as where it is not installed."""
    monkeypatch.delitem(sys.modules, tokenizers.ADAPTERS[O200K])
    monkeypatch.setitem(sys.modules, "tiktoken", None)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of the recorded runs, except names of keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def tiktokens_own(monkeypatch: pytest.MonkeyPatch) -> tiktoken.Encoding:
    """Return the encoding as tiktoken itself defines it, over our ranks."""

    def ranks(_: str, expected_hash: str) -> dict[bytes, int]:
        assert expected_hash == o200k.SHA256
        lines = lzma.decompress(o200k.RANKS.read_bytes()).splitlines()
        pairs = (line.split() for line in lines)
        return {b64decode(token): int(rank) for token, rank in pairs}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", ranks)
    return tiktoken.Encoding(**openai_public.o200k_base())


def test_o200k_tokenizer_counts_as_tiktoken_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs, ours = tiktokens_own(monkeypatch), tokenizers.get_nearest(O200K)
    runs = json.loads(sample.require_path().read_text(encoding="utf-8"))
    texts = [*texts_in(runs), "", " ", "naïve 漢字 😀 DON'T 12345", "\r\n\t \n x"]
    assert len(texts) > 10_000
    assert ours.name == O200K
    for text in texts:
        assert ours.count(text) == len(theirs.encode(text, disallowed_special=()))


def test_special_token_in_a_text_is_text() -> None:
    assert tokenizers.get_nearest(O200K).count("<|endoftext|>") > 1


@pytest.mark.parametrize("space", [" ", "\t", "\u3000"])
def test_o200k_tokenizer_counts_any_text(space: str) -> None:
    """tiktoken itself panics at so many spaces in a row."""
    count = tokenizers.get_nearest(O200K).count
    assert 0 < count(f"a{space * 1_000_000}b") < 70_000
    assert count("x" * 1_000_000) == 125_000


def test_est_1_is_always_available() -> None:
    assert tokenizers.find("est/1") is EST
    assert tokenizers.find("some/7") is None
    assert tokenizers.get_nearest("some/7") is EST


def test_o200k_tokenizer_is_absent_without_the_extra(no_extra: None) -> None:
    assert tokenizers.find(O200K) is None
    assert tokenizers.get_nearest(O200K) is EST


@pytest.mark.parametrize(
    "ranks", [lzma.compress(b"YQ== 0\n"), b"no archive", None], ids=["other", "no", "-"]
)
def test_other_ranks_are_refused(
    ranks: bytes | None,
    nothing_held: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = tmp_path / "ranks"
    if ranks is not None:
        path.write_bytes(ranks)
        with pytest.raises(o200k.DamagedError):
            o200k.load(path)
    load = o200k.load
    monkeypatch.setattr(o200k, "load", lambda: load(path))
    with capture_logs() as logged:
        assert [tokenizers.find(O200K) for _ in range(3)] == [None] * 3
    assert [line["event"] for line in logged] == ["tokenizer.failed"]


def test_o200k_tokenizer_is_loaded_once_by_concurrent_callers(
    nothing_held: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, load = list[Count](), o200k.load

    def load_counted() -> Count:
        loads.append(load())
        return loads[-1]

    monkeypatch.setattr(o200k, "load", load_counted)
    asking = [threading.Thread(target=tokenizers.find, args=[O200K]) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(loads) == 1


def test_tokenizer_package_is_not_imported_when_unused() -> None:
    """Neither the package nor the ranks are in a process that counts by est/1."""
    code = (
        "import sys; from memoryhub.management.serving import joined; import django\n"
        "django.setup(); import memoryhub.api.application\n"
        "from memoryhub.queries.replay import tokenizers\n"
        "assert tokenizers.get_nearest('est/1').count('hello') == 1\n"
        "print(sorted({'tiktoken', 'memoryhub.queries.replay.o200k'} & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


#: Texts of which each takes a token more beside the others than alone.
SHIFTY = [
    *[("", "page", 0.0, False)] * 5,
    ("", "structured", 0.7, False),
    ("i°", "page", 0.98, False),
    ("nil", "structured", 0.36, False),
    ("ªcÝÔ", "tool", 0.54, False),
    ("The erasure's i.", "page", 0.0, False),
    ('"{"a":1}\n0\x81', "tool", 0.0, False),
    (
        "\n\n</VM:CONTEXT>0:0:0:0\x81\U00010000\ue040\x1f0:0\U00013b56\U00018cd6\n",
        *("tool", 0.0, False),
    ),
]


@example(SHIFTY, 292, "passive")
@settings(deadline=None, max_examples=60)
@given(pages, st.integers(100, 3_000), st.sampled_from(["strict", "passive"]))
def test_request_within_budget_with_framing(
    drawn: list[tuple[str, str, float, bool]], budget: int, mode: str
) -> None:
    """Counts of parts of a text do not add up to the count of the whole."""
    tokenizer, thread = tokenizers.get_nearest(O200K), thread_of(drawn)
    wanted = thread.build_input(token_budget=budget, mode=mode)
    packed = packing.pack(wanted, thread.texts, tokenizer=tokenizer)
    assert packed.tokens == tokenizer.count(packed.request.decode()) <= budget
    assert packed.record.tokenizer == O200K
