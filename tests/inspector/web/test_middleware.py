from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.test import AsyncClient, Client

from inspector.web.middleware import HEADERS

pytestmark = pytest.mark.django_db

PATHS = [
    "/sign-in",
    "/p/acme/",
    "/p/acme/threads",
    "/p/acme/threads.csv",
    "/p/acme/panels/facets",
    "/p/nowhere/",
    "/nothing/here",
    "/api/v1/docs",
    "/health/live",
    "/metrics",
]


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_the_security_headers(owner: Client, path: str) -> None:
    answer = owner.get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/nothing/here", "/health/live", "/api/v1/docs"])
async def test_every_async_response_has_the_security_headers(path: str) -> None:
    answer = await AsyncClient().get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


async def test_static_files_may_be_cached() -> None:
    answer: Any = await AsyncClient().get("/static/css/base.css")
    assert b"".join([chunk async for chunk in answer.streaming_content])
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "no-store" not in answer.headers["Cache-Control"]


def test_pages_have_no_inline_code_and_no_foreign_address(owner: Client) -> None:
    for path in ("/sign-in", "/p/acme/", "/p/acme/threads", "/p/acme/api-keys/new"):
        page = owner.get(path).content.decode()
        assert " style=" not in page
        assert "<script>" not in page
        assert 'src="http' not in page
        assert "//unpkg" not in page


def test_pages_are_compressed_for_our_own_pages_alone(owner: Client) -> None:
    browser = Client()
    browser.cookies = owner.cookies

    def fetch(path: str, *, site: str, method: str = "GET") -> Any:
        headers = {"Accept-Encoding": "gzip", "Sec-Fetch-Site": site}
        return browser.generic(method, path, headers=headers)

    plain = fetch("/p/acme/threads", site="none").content
    small = fetch("/p/acme/threads", site="same-origin")
    assert small.headers["Content-Encoding"] == "gzip"
    assert len(small.content) < len(plain) / 2
    assert b"<h1>Threads" in gzip.decompress(small.content)
    for path, site, method in (
        ("/p/acme/threads", "cross-site", "GET"),
        ("/p/acme/threads", "same-site", "GET"),
        ("/p/acme/threads.csv", "same-origin", "GET"),
        ("/p/acme/api-keys/new", "same-origin", "POST"),
        ("/api/v1/docs", "cross-site", "GET"),
    ):
        answer = fetch(path, site=site, method=method)
        assert "Content-Encoding" not in answer.headers, path
