"""Search: what was ever said, found by its words. Never writes.

For who shows it:

- `searching.SearchRequest.parse(text, filters=, order=, limit=, versions=)` parses a
  query (InvalidError for a bad one); `ranking.ORDERS`, `searching.KINDS` are its words.
- `searching.search_thread(thread, request, seq=)` and `searching.recall(subject,
  request, threads=, exclude=)` return a `SearchResult`: `items` of `hits.Hit` (thread,
  thread_name, seq, kind, role, type, at, turn, slot, page, key, score, `why` of term,
  tf, idf, exact; `excerpt` of text, matches as [start, end), before, after), `total`,
  `searched`, `reason`, `degraded`, `cut`.
- `project_search.iter_project(project, request)` yields `ThreadFound` (thread,
  subject, result, how far it is) a thread at a time, newest first; who stops asking
  stops it.
"""
