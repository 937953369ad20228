"""Words of recall: texts for how a turn found an earlier text that it adds."""

from __future__ import annotations

#: Texts for how a recalled text was found; the words that it shares with the question
#: follow.
RECALL_SOURCES = {
    "search": "found by",
    "elsewhere": "in an earlier thread, found by",
    "summary": "the newest summary",
    "claim": "a claim that is used often",
    "prerequisite": "usually read before the tools called last",
}
