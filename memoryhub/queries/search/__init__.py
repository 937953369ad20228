"""Search over all content of threads, by words. Never writes.

Interface for callers:

- `searching.SearchRequest.parse(text, filters=, order=, limit=, versions=)` parses a
  query (InvalidError for a bad one); `ranking.ORDERS`, `searching.KINDS` are its words.
- `searching.search_thread(thread, request, seq=)` and `searching.recall(subject,
  request, threads=, exclude=)` return a `SearchResult`: `items` of `hits.SearchHit`
  (thread, thread_name, seq, kind, role, type, at, turn, slot, page, key, score, `why`
  of term, tf, idf, exact; `excerpt` of text, matches as [start, end), before, after),
  `total`, `searched`, `reason`, `degraded`, `cut`.
- `project_search.iter_project(project, request)` yields `ThreadFound` (thread, result,
  number of threads searched) a thread at a time, newest first. A caller stops the
  search by not asking for the next thread.
"""
