"""Search without a store of its own: terms, queries, segments, ranking, excerpts. Pure.

Events determine the records: `searched` of an event names the members of its payload
that hold texts, and the kind of its record.
"""
