from __future__ import annotations

import hashlib
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.keys.keys import ProjectKeys, SubjectKeys
from memoryhub.vault.keys.ring_file import Ring

pytestmark = pytest.mark.django_db(databases=["default", "keys"])

per_test = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def all_of(opened: SubjectKeys, text: str) -> list[bytes]:
    return [
        blind_index.digest_term(opened, text),
        blind_index.digest_lookup(opened, text),
        blind_index.digest_content(opened, text.encode()),
        blind_index.digest_sequence(opened, b"", text.encode()),
        stone(opened, text),
        blind_index.digest_audit_subject(opened),
    ]


def stone(opened: SubjectKeys, text: str) -> bytes:
    return blind_index.digest_value(opened, blind_index.fold(text))


@pytest.fixture
def acme(ring: Ring, project: UUID) -> ProjectKeys:
    keys.create_project_key(project)
    return keys.get_project_key(project)


@per_test
@given(text=texts)
def test_digests_are_never_equal_across_subjects(
    ann: SubjectKeys, bob: SubjectKeys, text: str
) -> None:
    assert not set(all_of(ann, text)) & set(all_of(bob, text))


@per_test
@given(text=texts)
def test_blind_index_is_deterministic_within_a_subject(
    ann: SubjectKeys, text: str
) -> None:
    assert all_of(ann, text) == all_of(ann, text)


def test_digest_sizes_match_the_table(ann: SubjectKeys, acme: ProjectKeys) -> None:
    assert [len(digest) for digest in all_of(ann, "text")] == [8, 16, 16, 16, 16, 8]
    assert len(blind_index.digest_user_id(acme, "ann")) == 32
    assert len(blind_index.digest_thread_name(acme, "thread-1")) == 32


@per_test
@given(text=texts)
def test_no_digest_is_a_plain_hash(ann: SubjectKeys, text: str) -> None:
    plain = {
        hashlib.blake2b(text.encode(), digest_size=size).digest() for size in (8, 16)
    }
    assert not plain & set(all_of(ann, text))


@per_test
@given(left=st.lists(texts, max_size=4), right=st.lists(texts, max_size=4))
def test_lookups_keep_their_fields_apart(
    ann: SubjectKeys, left: list[str], right: list[str]
) -> None:
    assume(left != right)
    assert blind_index.digest_lookup(ann, *left) != blind_index.digest_lookup(
        ann, *right
    )


def test_field_may_be_text_or_its_bytes(ann: SubjectKeys) -> None:
    as_text = blind_index.digest_lookup(ann, "café", "x")
    assert as_text == blind_index.digest_lookup(ann, "café".encode(), b"x")


def test_rolling_digest_knows_the_order_and_every_item(ann: SubjectKeys) -> None:
    def rolled(*items: bytes) -> bytes:
        digest = blind_index.digest_sequence(ann, b"", b"info")
        for item in items:
            digest = blind_index.digest_sequence(ann, digest, item)
        return digest

    sequences = [(b"a", b"b"), (b"b", b"a"), (b"ab",), (b"a", b"b", b"c"), (b"a",), ()]
    assert len({rolled(*items) for items in sequences}) == len(sequences)
    first = blind_index.digest_sequence(ann, b"", b"info")
    expected = hashlib.blake2b(first + b"a", digest_size=16, key=ann.dedupe).digest()
    assert rolled(b"a") == expected


SAME = {
    "case": "MIA LI",
    "spaces": " mia\tli\n",
    "a space of another width": "mia\u00a0li",
    "compatibility forms": "\uff2d\uff49\uff41 Li",
    "a soft hyphen": "m\u00adia li",
    "nothing at all": "m\u200bi\u2060a\ufeff l\u200di",
    "a joiner and an order mark": "\u2066mia\u034f li\u2069",
    "tags": "mia li\U000e0061\U000e007f",
    "a variation selector": "mia\ufe0f li",
    "a control": "mia\x08 li\x00",
    "cyrillic": "m\u0456\u0430 l\u0456",
    "cyrillic capitals": "\u041c\u0406\u0410 L\u0406",
    "greek": "mi\u03b1 l\u03b9",
    "greek capitals": "\u039c\u0399\u0391 L\u0399",
    "a dotless i": "m\u0131a li",
}


@pytest.mark.parametrize("how", SAME)
def test_tombstone_stops_every_spelling(ann: SubjectKeys, how: str) -> None:
    assert stone(ann, SAME[how]) == stone(ann, "Mia Li")


def test_accent_counts_whatever_alphabet_its_letter_is_of(ann: SubjectKeys) -> None:
    latin, cyrillic, apart = "zo\u00eb", "zo\u0451", "zo\u0435\u200b\u0308"
    assert len({stone(ann, each) for each in (latin, cyrillic, apart)}) == 1
    assert stone(ann, "zoe") != stone(ann, latin)


def test_words_of_other_alphabets_keep_apart(ann: SubjectKeys) -> None:
    """Only look-alikes fold: a language does not collapse into a few texts."""
    words = [
        "\u043c\u043e\u0441\u043a\u0432\u0430",
        "\u043c\u043e\u0441\u043a\u0432\u044b",
        "\u03b1\u03b8\u03ae\u03bd\u03b1",
        "\u05de\u05d9\u05d4",
        "\u7f8e\u4e9a",
    ]
    assert len({stone(ann, word) for word in words}) == len(words)
    capital = stone(ann, words[0].upper())
    assert capital == stone(ann, words[0])


@pytest.mark.parametrize(
    "content",
    ["mia l i", "mio li", "m1a li"],
)
def test_tombstone_stops_no_other_value(ann: SubjectKeys, content: str) -> None:
    assert stone(ann, content) != stone(ann, "mia li")


def test_pseudonym_can_not_be_computed_without_the_key(
    ann: SubjectKeys, bob: SubjectKeys
) -> None:
    pseudonym = blind_index.digest_audit_subject(ann)
    assert blind_index.digest_audit_subject(replace(ann, audit=bob.audit)) != pseudonym
    assert (
        blind_index.digest_audit_subject(replace(ann, subject=bob.subject)) != pseudonym
    )


@per_test
@given(text=st.text(max_size=60))
def test_folding_twice_is_folding_once(text: str) -> None:
    once = blind_index.fold(text)
    assert blind_index.fold(once) == once


@pytest.mark.parametrize(
    "text", ["lives in", "Lives-In", "lives_in", "_lives - in_", "LIVES\u2011in"]
)
def test_predicate_has_one_spelling(text: str) -> None:
    assert blind_index.fold_predicate(text) == "lives_in"
    assert "lives in" in blind_index.list_predicate_spellings(text)
    assert "lives-in" in blind_index.list_predicate_spellings(text)


@per_test
@given(text=st.text(max_size=60) | st.text("a _-\u0301", max_size=9))
def test_predicate_folded_twice_is_folded_once(text: str) -> None:
    once = blind_index.fold_predicate(text)
    assert blind_index.fold_predicate(once) == once
    assert bool(once) is bool(blind_index.fold(text))


@pytest.mark.parametrize("text", ["STRASSE", "straße", "Straße"])
def test_case_is_folded_not_lowered(ann: SubjectKeys, text: str) -> None:
    assert stone(ann, text) == stone(ann, "strasse")


@per_test
@given(left=texts, right=texts)
def test_subject_ref_is_of_the_exact_bytes(
    acme: ProjectKeys, left: str, right: str
) -> None:
    refs = [blind_index.digest_user_id(acme, text) for text in (left, right)]
    assert (refs[0] == refs[1]) is (left == right)


def test_subject_refs_differ_between_projects_and_from_thread_names(
    acme: ProjectKeys, ring: Ring
) -> None:
    zeta = uuid4()
    keys.create_project_key(zeta)
    ref = blind_index.digest_user_id(acme, "ann")
    assert blind_index.digest_user_id(keys.get_project_key(zeta), "ann") != ref
    assert blind_index.digest_thread_name(acme, "ann") != ref
