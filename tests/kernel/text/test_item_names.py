from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.text import item_names, names

TEXTS = st.text(alphabet="aZ0.@-: \n", max_size=6) | st.sampled_from(
    ["n" * size for size in (125, 126, 127)]
)


@given(TEXTS, TEXTS)
def test_item_name_is_split_into_the_namespace_and_the_key(
    namespace: str, key: str
) -> None:
    name = item_names.build_item_name(namespace, key)
    valid = item_names.is_namespace(namespace) and item_names.is_item_key(key)
    if valid and names.is_valid(name):
        assert item_names.is_item_name(name)
        assert item_names.split_item_name(name) == (namespace, key)
    elif item_names.is_item_name(name):
        # The key has colons, which belong to the namespace.
        assert ":" in key


@given(TEXTS)
def test_patterns_of_the_document_tell_valid_texts(text: str) -> None:
    short = len(text) <= item_names.MAX_CHARS
    for pattern, is_valid in (
        (item_names.NAMESPACE_PATTERN, item_names.is_namespace),
        (item_names.KEY_PATTERN, item_names.is_item_key),
    ):
        told = short and re.fullmatch(pattern[1:-1], text) is not None
        assert is_valid(text) is told
