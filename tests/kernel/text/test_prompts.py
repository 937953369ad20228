"""The rules a model is given: short, versioned, and true of what is built."""

from __future__ import annotations

import hashlib

import pytest

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.text import prompts
from memoryhub.kernel.text.json_text import escape_for_string


@pytest.mark.parametrize("version", prompts.RULES)
def test_rules_are_short_even_with_their_escapes(version: str) -> None:
    assert estimate_tokens(escape_for_string(prompts.RULES[version])) <= 400


@pytest.mark.parametrize("version", prompts.RULES)
def test_rules_name_only_what_the_mode_offers(version: str) -> None:
    rules = prompts.RULES[version]
    words = ["page_fault", "[ref: page_id]", "data"]
    words += ["page_list", "shortened", "faults are left"]
    assert all(word in rules for word in words)
    assert "search" not in rules


def test_each_mode_has_its_rules_and_passive_has_none() -> None:
    assert prompts.CURRENT["passive"] is None
    for mode in ("strict", "relaxed"):
        assert prompts.CURRENT[mode] in prompts.RULES


def test_prompt_wording_never_changes() -> None:
    """Recorded contexts hold the wording: a new one needs a new version."""
    digests = {
        version: hashlib.sha256(rules.encode()).hexdigest()[:16]
        for version, rules in prompts.RULES.items()
    }
    assert digests == {
        "strict/3": "8e398d12b68d5d80",
        "relaxed/3": "0cce64d684489372",
    }
