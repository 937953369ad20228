"""Words of recall: texts for why a turn adds an earlier text."""

from __future__ import annotations

#: Texts for why a text is recalled. The words that a found text shares with the
#: question follow, or the page whose exchange a question or an answer belongs to.
RECALL_SOURCES = {
    "search": "found by",
    "elsewhere": "in an earlier thread, found by",
    "summary": "the newest summary",
    "claim": "a claim that is used often",
    "prerequisite": "usually read before the tools called last",
    "exchange": "belongs to the exchange of",
    "elsewhere_exchange": "in an earlier thread, belongs to the exchange of",
}
