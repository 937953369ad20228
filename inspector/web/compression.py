"""Compression of pages, for navigation within the inspector alone. See decision 92."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class PageCompression(GZipMiddleware):
    """Middleware that compresses pages which a page of ours asked for.

    The size of a compressed answer tells whether what a stranger wrote into the address
    stands elsewhere in the page. No other site can have such an answer made: browsers
    tell who asks, and only answers to our own pages' GET are compressed. Random padding
    hides a few bytes more. Answers to forms may show a key, so they are sent as they
    are, as are the API's answers and live pushes.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        ours = request.headers.get("Sec-Fetch-Site") == "same-origin"
        page = response.headers.get("Content-Type", "").startswith("text/html")
        if request.method != "GET" or not ours or not page or response.streaming:
            return response
        return super().process_response(request, response)
