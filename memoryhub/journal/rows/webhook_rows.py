"""Queues of webhooks: which threads have events that a webhook waits for.

Written in the transaction of the events, so that no event is missed, whichever process
writes it. See decision 76.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventTableRow, WebhookQueueRow
from memoryhub.models.webhooks import Webhook


def write(
    moves: Mapping[UUID, tuple[UUID, int, int]], events: Sequence[EventTableRow]
) -> None:
    """Queue events for the webhooks of their types. Two statements.

    `moves` has the project and the seqs before and after, by thread.
    """
    hooks: dict[UUID, list[tuple[UUID, set[str]]]] = defaultdict(list)
    found = Webhook.objects.filter(project__in={move[0] for move in moves.values()})
    for webhook, project, words in found.values_list("id", "project_id", "types"):
        hooks[project].append((webhook, {*words.split()}))
    rows: dict[tuple[UUID, UUID], WebhookQueueRow] = {}
    for event in events:
        if event.thread_id not in moves:
            continue
        project, before, after = moves[event.thread_id]
        for webhook, types in hooks[project]:
            if event.type in types:
                rows[event.thread_id, webhook] = WebhookQueueRow(
                    event.thread_id, webhook, before, after, event.at, 0
                )
    # Sorted by key, so that no two processes can deadlock.
    statements.WEBHOOK_QUEUES.write(sorted(rows.values()))
