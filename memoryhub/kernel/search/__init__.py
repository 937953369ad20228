"""Search without a store of its own: terms, queries, segments, ranking, excerpts. Pure.

What may be found follows from the events: each says by `searched` which members of its
payload hold texts, and of which kind its record is.
"""
