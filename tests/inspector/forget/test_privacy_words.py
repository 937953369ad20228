"""Words of the privacy console: screens explain each word of the engine."""

from __future__ import annotations

import re
from typing import get_args

from django.template import Context

from inspector.people import subject_acts
from inspector.templatetags.actors import recipient
from inspector.web import forgetting
from memoryhub.kernel.state.erase_events import Reason
from memoryhub.models.erasures import Erasure, Hold
from memoryhub.queries.forget import exclusions
from memoryhub.services.forget import receipts
from memoryhub.services.people import restrictions


def test_every_choice_of_the_erasure_engine_is_offered() -> None:
    assert set(forgetting.SCOPES) == set(Erasure.Scope.values)
    assert set(forgetting.REASONS) == set(get_args(Reason))
    assert set(subject_acts.HOLDS) == set(Hold.Basis.values)
    assert set(subject_acts.RESTRICTIONS) == set(restrictions.BASES)


def test_every_word_of_a_receipt_is_explained() -> None:
    assert set(receipts.RESIDUE) == exclusions.PLACES.keys()
    ways = {control for control, _ in receipts.RESIDUE.values()}
    ends = {until for _, until in receipts.RESIDUE.values()} - {"backup", "keys"}
    assert ways == exclusions.CONTROL.keys()
    assert ends == exclusions.UNTIL.keys()
    retained = receipts.list_retained("record")
    assert {each["reason"] for each in retained} <= forgetting.KEPT.keys()
    assert {each["what"] for each in retained} == forgetting.STAYS.keys()


def test_recipients_of_a_receipt_have_names() -> None:
    context = Context({"actors": {"agent:k1": "concierge", "operator:7": "Ann"}})
    told = [
        re.sub("<[^>]+>", "", recipient(context, word))
        for word in ("key:k1", "export:operator:7", "export:command", "model:host")
    ]
    assert told == [
        "API key concierge", "Export by Ann", "Export by a command", "Model at host"
    ]  # fmt: skip


def test_remaining_copies_are_told_in_plain_words() -> None:
    """Tell copies by kind, with the day, and never call a plain name sealed."""
    backup = {
        "what": "backups",
        "until": "2026-12-22",
        "control": "contents_sealed",
        "names": ["threads", "types", "keys"],
    }
    restart = {
        "what": "process_memory",
        "until": "restart",
        "control": "process",
        "names": [],
    }
    first, second = map(str, exclusions.list_residue_lines([backup, restart]))
    assert first == (
        "backups of the memory, until 2026-12-22: names of threads, message types and "
        "keys in the clear; contents, sealed under the person's key"
    )
    assert second == (
        "memory of running processes, until they restart: contents and names, which "
        "the server's user alone can read"
    )
