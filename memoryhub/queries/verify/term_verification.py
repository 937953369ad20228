"""Verification that a thread's segments hold exactly the terms of its records."""

from __future__ import annotations

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.search import segments
from memoryhub.kernel.search.arrays import np
from memoryhub.models.events import ThreadTerms
from memoryhub.models.threads import Thread


def find_wrong_terms(thread: Thread) -> int | None:
    """Return the first seq of a segment that differs from its events; else None.

    `thread` comes with its subject. Opens all records that are in segments.
    """
    rows = ThreadTerms.objects.filter(thread=thread).order_by("upto_seq")
    end = 0
    for row in rows.iterator():
        span = (row.first_seq, row.upto_seq)
        if not end < row.first_seq <= row.upto_seq <= thread.head_seq:
            return row.first_seq
        end = row.upto_seq
        kept = thread_terms.open_segment(thread, row)
        if kept is None:
            continue
        made = segments.build(thread_terms.read(thread, span, most=end).records)
        pairs = (
            (kept.records["seq"], made.records["seq"]),
            (kept.records["length"], made.records["length"]),
            (kept.postings.records, made.postings.records),
            (kept.postings.counts, made.postings.counts),
        )
        same = all(np.array_equal(before, after) for before, after in pairs)
        if not same or kept.postings.words != made.postings.words:
            return row.first_seq
    return None
