from __future__ import annotations

import itertools
import os
import zlib
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memoryhub.errors import SealBrokenError
from memoryhub.kernel.text.padding import pad_size
from memoryhub.models.keys import SubjectKey
from memoryhub.vault.keys import keys, payloads, seal_count
from memoryhub.vault.keys.keys import SubjectKeys
from memoryhub.vault.keys.payloads import PayloadAddress, Purpose, open_sealed, seal

pytestmark = pytest.mark.django_db(databases=["default", "keys"])

#: The keys and the databases do not change between examples.
per_test = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def place_of(opened: SubjectKeys, **changed: Any) -> PayloadAddress:
    place = PayloadAddress(
        project=opened.project,
        subject=opened.subject,
        thread=UUID(int=7),
        seq=3,
        purpose=Purpose.PAYLOAD,
    )
    return replace(place, **changed)


@per_test
@given(
    plain=st.binary(max_size=600)
    | st.builds(bytes.__mul__, st.binary(min_size=1, max_size=9), st.integers(0, 200)),
    seq=st.integers(0, 2**64 - 1),
    purpose=st.sampled_from(Purpose),
)
@example(plain=b"", seq=0, purpose=Purpose.EXTERNAL_ID)
def test_sealed_payload_opens_in_its_place(
    ann: SubjectKeys, plain: bytes, seq: int, purpose: Purpose
) -> None:
    place = place_of(ann, seq=seq, purpose=purpose)
    sealed = seal(ann, place, plain)
    assert open_sealed(ann, place, sealed) == plain
    assert len(sealed) <= pad_size(len(plain) + 1) + payloads.OVERHEAD_BYTES
    assert (len(sealed) - payloads.OVERHEAD_BYTES) % 64 == 0
    assert (sealed[0], sealed[2]) == (2, ann.version)


@pytest.mark.parametrize(
    ("plain", "compressed"),
    [
        (b"a" * 127, False),
        (b"a" * 128, True),
        (os.urandom(128), False),
        (os.urandom(10_000), False),
        (b"a" * 100_000, True),
    ],
    ids=["127 alike", "128 alike", "128 random", "10 kB random", "100 kB alike"],
)
def test_payload_is_compressed_when_long_enough_and_shrinking(
    ann: SubjectKeys, plain: bytes, compressed: bool
) -> None:
    sealed = seal(ann, place_of(ann), plain)
    assert sealed[1] == int(compressed)
    held = len(sealed) - payloads.OVERHEAD_BYTES
    assert (held < pad_size(len(plain) + 1)) is compressed
    assert open_sealed(ann, place_of(ann), sealed) == plain


def test_compression_must_save_a_tenth(ann: SubjectKeys) -> None:
    # Random bytes stay, a tail of zeros goes: somewhere the gain passes a tenth.
    chance = os.urandom(1_000)
    flags = []
    for zeros in range(60, 200):
        plain = chance + bytes(zeros)
        sealed = seal(ann, place_of(ann), plain)
        flags.append(sealed[1])
        held, whole = len(sealed) - payloads.OVERHEAD_BYTES, len(plain)
        if sealed[1]:
            assert held <= pad_size(whole * 9 // 10 + 1)
        else:
            assert held == pad_size(whole + 1)
    assert flags == sorted(flags)
    assert set(flags) == {0, 1}


def test_moved_payload_does_not_open(ann: SubjectKeys, bob: SubjectKeys) -> None:
    """A payload may move between rows, threads, columns, subjects and projects."""
    places = [
        place_of(ann),
        place_of(ann, seq=4),
        place_of(ann, thread=UUID(int=8)),
        *(place_of(ann, purpose=purpose) for purpose in list(Purpose)[1:]),
        place_of(bob),
    ]
    opened = {ann.subject: ann, bob.subject: bob}
    boxes = [seal(opened[place.subject], place, b"hello") for place in places]
    for (home, box), place in itertools.product(
        zip(places, boxes, strict=True), places
    ):
        if home == place:
            assert open_sealed(opened[place.subject], place, box) == b"hello"
        else:
            with pytest.raises(SealBrokenError):
                open_sealed(opened[place.subject], place, box)
    elsewhere = [
        replace(places[0], project=uuid4()),
        replace(places[0], subject=bob.subject),
    ]
    for place in elsewhere:
        with pytest.raises(SealBrokenError):
            open_sealed(ann, place, boxes[0])


def test_keys_never_seal_for_another_subject(
    ann: SubjectKeys, bob: SubjectKeys
) -> None:
    with pytest.raises(AssertionError):
        seal(ann, place_of(bob), b"hello")


@pytest.mark.parametrize("plain", [b"hello", b"hello " * 100], ids=["raw", "zlib"])
def test_any_damaged_byte_is_noticed(ann: SubjectKeys, plain: bytes) -> None:
    place = place_of(ann)
    sealed = seal(ann, place, plain)
    for at in range(len(sealed)):
        for flip in (1, 0x80):
            damaged = bytearray(sealed)
            damaged[at] ^= flip
            with pytest.raises(SealBrokenError):
                open_sealed(ann, place, bytes(damaged))


@per_test
@given(junk=st.binary(max_size=80), cut=st.integers(0, 40))
def test_malformed_sealed_payload_is_refused(
    ann: SubjectKeys, junk: bytes, cut: int
) -> None:
    place = place_of(ann)
    sealed = seal(ann, place, b"hello")
    for bad in (junk, b"\x02\x00\x01" + junk, sealed[: min(cut, 35)], sealed + b"\0"):
        with pytest.raises(SealBrokenError):
            open_sealed(ann, place, bad)


def sealed_by_hand(opened: SubjectKeys, packed: bytes, *, flags: int = 1) -> bytes:
    """Seal any bytes flagged as compressed."""
    header, nonce = bytes((2, flags, opened.version)), os.urandom(12)
    place = place_of(opened)
    bound = b"mh1" + place.project.bytes + place.subject.bytes + place.thread.bytes
    bound += place.seq.to_bytes(8) + bytes((place.purpose,)) + header
    filled = packed + b"\x80" + bytes(9)
    return (
        header + nonce + opened.get_cipher(opened.version).encrypt(nonce, filled, bound)
    )


def test_sealed_bytes_match_the_format(ann: SubjectKeys) -> None:
    sealed = sealed_by_hand(ann, zlib.compress(b"hello"))
    assert open_sealed(ann, place_of(ann), sealed) == b"hello"


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(bytes(payloads.MAX_INFLATED_BYTES + 1), 1),
        zlib.compress(b"hello")[:-1],
        zlib.compress(b"hello") + b"\0",
        b"hello",
        b"",
    ],
    ids=["bomb", "cut", "tail", "not zlib", "nothing"],
)
def test_inflating_is_bounded_and_whole(ann: SubjectKeys, packed: bytes) -> None:
    with pytest.raises(SealBrokenError):
        open_sealed(ann, place_of(ann), sealed_by_hand(ann, packed))


@pytest.mark.parametrize("flags", [2, 3, 0x80])
def test_flag_of_a_later_format_is_refused(ann: SubjectKeys, flags: int) -> None:
    sealed = sealed_by_hand(ann, zlib.compress(b"hello"), flags=flags)
    with pytest.raises(SealBrokenError):
        open_sealed(ann, place_of(ann), sealed)


def test_sealed_length_does_not_reveal_a_short_answer(ann: SubjectKeys) -> None:
    """`true` is as long as `false`, and 1,000,000 bytes as 1,100,000 are not longer."""
    short = (b"null", b"true", b"false", b'"yes"', b"[1,2,3]", b"", b"0" * 62)
    place = place_of(ann)
    assert {len(seal(ann, place, each)) for each in short} == {64 + 31}
    for size in (63, 64, 1_023, 1_024, 5_000, 70_000, 1_000_000):
        noise = os.urandom(size)
        held = len(seal(ann, place, noise)) - payloads.OVERHEAD_BYTES
        assert size < held <= max(size + 64, size * 1.125 + 1)
        assert open_sealed(ann, place, noise and seal(ann, place, noise)) == noise


@pytest.mark.parametrize("beyond", [0, 1])
def test_payload_at_and_beyond_the_inflation_limit_opens(
    ann: SubjectKeys, beyond: int
) -> None:
    plain = bytes(payloads.MAX_INFLATED_BYTES + beyond)
    sealed = seal(ann, place_of(ann), plain)
    assert (len(sealed) < len(plain)) is not bool(beyond)
    assert open_sealed(ann, place_of(ann), sealed) == plain


def test_old_versions_open_and_new_payloads_take_the_newest(ann: SubjectKeys) -> None:
    place = place_of(ann)
    first = seal(ann, place, b"first")
    SubjectKey.objects.update(seals=seal_count.SEAL_LIMIT)
    keys.reset()
    newer = keys.get_subject_keys(ann.subject, epoch=1)
    second = seal(newer, place, b"second")
    assert (first[2], second[2]) == (1, 2)
    for opened in (ann, newer):
        assert open_sealed(opened, place, first) == b"first"
        assert open_sealed(opened, place, second) == b"second"


def test_sealing_twice_never_gives_the_same_bytes(ann: SubjectKeys) -> None:
    sealed = {seal(ann, place_of(ann), b"hello") for _ in range(500)}
    assert (
        len({box[3:15] for box in sealed}) == len({box[15:] for box in sealed}) == 500
    )


def test_external_id_is_bound_to_its_subject_alone(
    ann: SubjectKeys, bob: SubjectKeys
) -> None:
    of_ann, of_bob = (
        place_of(one, thread=UUID(int=0), seq=0, purpose=Purpose.EXTERNAL_ID)
        for one in (ann, bob)
    )
    sealed = seal(ann, of_ann, b"ann@example.com")
    assert open_sealed(ann, of_ann, sealed) == b"ann@example.com"
    with pytest.raises(SealBrokenError):
        open_sealed(bob, of_bob, sealed)


def test_no_plaintext_shows_in_sealed_bytes(ann: SubjectKeys) -> None:
    for plain in (b"canary-4711", b"canary-4711 " * 50):
        sealed = seal(ann, place_of(ann), plain)
        assert b"canary" not in sealed
        assert zlib.compress(plain, 1)[2:10] not in sealed


def test_seal_with_a_marked_nonce_is_counted(
    ann: SubjectKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chance in (bytes(12), b"\1" * 12):
        monkeypatch.setattr(os, "urandom", lambda size, chance=chance: chance[:size])
        seal(ann, place_of(ann), b"hello")
    monkeypatch.undo()
    seal_count.flush()
    assert SubjectKey.objects.get().seals == seal_count.SEALS_PER_MARK
