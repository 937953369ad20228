"""Prices of models, tokens of requests and answers by thread, and times of answers."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.db import migrations, models

_HOUR: Final = (
    "answer_tokens",
    *(f"answered_{250 << step}" for step in range(3)),
    *(f"answered_{1_000 << step}" for step in range(1, 7)),
    "answered_later",
)
_THREAD: Final = ("request_tokens", "prefix_tokens", "answer_tokens")
#: Member of a packed turn's body, by vendor.
_MEMBERS: Final = {
    "sqlite": "json_extract(e.body, '$.{}')",
    "postgresql": "(e.body::jsonb ->> '{}')::bigint",
}
#: Sums of a thread's own packed turns, and of its model's messages in turns.
_PACKED: Final = (
    "SELECT sum({}) FROM memoryhub_turn t JOIN memoryhub_event e"
    " ON e.thread_id = t.thread_id AND e.seq = t.packed_seq"
    " WHERE t.thread_id = memoryhub_thread.id"
)
_ANSWERS: Final = (
    "SELECT sum(s.tokens) FROM memoryhub_slot s"
    " WHERE s.thread_id = memoryhub_thread.id AND s.role = 'assistant' AND s.turn > 0"
)


def sum_tokens(apps: Any, editor: Any) -> None:
    """Sum the tokens of the requests and answers that threads already have."""
    member = _MEMBERS[editor.connection.vendor]
    sums = (
        _PACKED.format(member.format("tokens")),
        _PACKED.format(member.format("prefix_tokens")),
        _ANSWERS,
    )
    sets = ", ".join(
        f"{name} = coalesce(({found}), 0)"
        for name, found in zip(_THREAD, sums, strict=True)
    )
    editor.execute(f"UPDATE memoryhub_thread SET {sets} WHERE turn_count > 0")  # noqa: S608 # names of ours


def _add_number(model: str, name: str) -> migrations.SeparateDatabaseAndState:
    """Add a column in place: SQLite would make the table, and lose its triggers."""
    table = f"ALTER TABLE memoryhub_{model}"
    add = f"{table} ADD COLUMN {name} bigint NOT NULL DEFAULT 0"
    drop = f"{table} DROP COLUMN {name}"
    field = models.BigIntegerField(default=0)
    return migrations.SeparateDatabaseAndState(
        [migrations.RunSQL(add, drop, hints={"home": "default"})],
        [migrations.AddField(model, name, field)],
    )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memoryhub", "0020_turn_marks")]

    operations: ClassVar = [
        migrations.AddField("project", "prices", models.TextField(default="")),
        *(_add_number("projecthour", name) for name in _HOUR),
        *(_add_number("thread", name) for name in _THREAD),
        migrations.RunPython(
            sum_tokens, migrations.RunPython.noop, hints={"home": "default"}
        ),
    ]
