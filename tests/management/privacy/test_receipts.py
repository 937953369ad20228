"""The commands `receipt` and `anchor`, as people and scripts use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryhub.models.server.clock import clock
from memoryhub.vault.proof import receipts, signing
from tests.harness.instances import Instance

HERE = "tests.management.privacy.test_receipts"


def write_receipt(file: str) -> None:
    """Make a receipt. Runs in the instance."""
    shape = {
        "v": receipts.RECEIPT,
        "erasure": "0198c0de-0000-7000-8000-000000000001",
        "status": "verified_with_residue",
        "residue": [
            {
                "what": "backups",
                "until": "2026-12-22",
                "control": "contents_sealed",
                "names": ["threads", "keys"],
            }
        ],
    }
    Path(file).write_text(receipts.sign_statement(shape, signing.get_signer()))
    signing.rotate(at=clock.now())


@pytest.fixture
def receipt(instance: Instance, tmp_path: Path) -> Path:
    instance.call(f"{HERE}:write_receipt", str(tmp_path / "receipt.json"))
    return tmp_path / "receipt.json"


def test_receipt_is_verified_on_its_own_hub(instance: Instance, receipt: Path) -> None:
    assert instance.managed("receipt", "verify", receipt).startswith(
        "Good. Erasure 0198"
    )


def test_receipt_is_verified_without_database_and_key_ring(
    instance: Instance, receipt: Path, tmp_path: Path
) -> None:
    keys, elsewhere = tmp_path / "keys.json", tmp_path / "elsewhere"
    keys.write_text(instance.managed("receipt", "keys"))
    printed = instance.managed(
        *("receipt", "verify", receipt, "--pub", keys),
        MEMORYHUB_DATA=str(elsewhere),
        DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing",
        KEYS_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing_keys",
    )
    assert printed.startswith("Good.")
    assert "until 2026-12-22: names of threads and keys in the clear" in printed
    assert list(elsewhere.iterdir()) == []


def test_new_signing_key_signs_and_the_old_one_stays(
    instance: Instance, receipt: Path
) -> None:
    before = signing.decode_keys(instance.managed("receipt", "keys").encode())
    after = signing.decode_keys(
        instance.managed("receipt", "keys", "--rotate").encode()
    )
    assert before.items() < after.items()
    assert len(after) == len(before) + 1
    assert instance.managed("receipt", "verify", receipt).startswith("Good.")
    assert "signing_key.rotated" in instance.managed("audit", "list")


def test_forged_receipt_is_refused_with_one_word(
    instance: Instance, receipt: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(instance.managed("receipt", "keys"))
    good = receipt.read_bytes()
    indented = json.dumps(json.loads(good), indent=2).encode()
    for text in (good + b"\n", good + b" ", indented):
        receipt.write_bytes(text)
        done = instance.manage("receipt", "verify", receipt, "--pub", keys)
        assert (done.returncode, done.stderr) == (0, "")
    for text, word in (
        (good.replace(b"verified", b"complete"), "bad_signature"),
        (indented.replace(b'"status"', b'"status": "", "status"'), "malformed"),
        (b"", "malformed"),
        (b"{}", "not_a_receipt"),
    ):
        receipt.write_bytes(text)
        done = instance.manage("receipt", "verify", receipt, "--pub", keys)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"{word}: ")


def test_unreadable_receipt_is_wrong_usage(
    instance: Instance, receipt: Path, tmp_path: Path
) -> None:
    for words, code in (
        ((tmp_path / "absent",), "unreadable"),
        ((tmp_path,), "unreadable"),
        ((receipt, "--pub", receipt), "bad_keys"),
    ):
        done = instance.manage("receipt", "verify", *words)
        assert done.returncode == 2
        assert done.stderr.startswith(f"{code}: ")
        assert len(done.stderr.splitlines()) == 1
