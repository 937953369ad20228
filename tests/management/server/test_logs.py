"""Logs: a closed set of fields, and no text from outside the code."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from memoryhub.management import logs

CANARY = "canary-7f3a"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Redirect the log to a stream; restore the logging setup afterwards."""
    kept, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    hooks = sys.excepthook, threading.excepthook
    stream = io.StringIO()
    logs.configure(stream)
    yield stream
    logging.captureWarnings(capture=False)
    sys.excepthook, threading.excepthook = hooks
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.configure(**kept)


def parse_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    text = stream.getvalue()
    assert CANARY not in text
    return [json.loads(line) for line in text.splitlines()]


def fail(text: str) -> None:
    raise ValueError(text)


def test_log_writes_only_known_fields(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    log.info("slot.appended", seq=7, thread="t", user_id=CANARY, path=CANARY)
    (line,) = parse_lines(stream)
    assert list(line) == ["time", "level", "event", "seq", "thread"]
    assert (line["level"], line["event"], line["seq"]) == ("info", "slot.appended", 7)


def test_log_event_that_is_a_sentence_is_dropped(stream: io.StringIO) -> None:
    structlog.get_logger().warning(f"could not store {CANARY}", code="full")
    (line,) = parse_lines(stream)
    assert (line["event"], line["code"]) == ("log", "full")


def test_log_of_a_failure_has_its_type_and_frames(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    try:
        fail(CANARY)
    except ValueError:
        log.exception("request.failed", status=500)
    (line,) = parse_lines(stream)
    assert (line["type"], line["level"]) == ("ValueError", "error")
    assert line["frames"][-1].startswith(f"{__name__}:")
    assert line["frames"][-1].endswith(" fail")


def test_library_log_line_has_its_source_but_no_message(stream: io.StringIO) -> None:
    try:
        fail(CANARY)
    except ValueError:
        logging.getLogger("library").exception("saw %s", CANARY)
    logging.getLogger("library").warning(CANARY)
    first, second = parse_lines(stream)
    assert (first["event"], first["logger"], first["type"]) == (
        "library.spoke",
        "library",
        "ValueError",
    )
    assert second["place"].startswith("test_logs.py:")
    assert second["level"] == "warning"


def test_python_warning_is_not_logged(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn(CANARY, stacklevel=1)
    assert parse_lines(stream) == []


def test_failed_thread_is_logged_by_its_type(stream: io.StringIO) -> None:
    thread = threading.Thread(target=fail, args=[CANARY])
    thread.start()
    thread.join()
    (line,) = parse_lines(stream)
    assert (line["event"], line["type"]) == ("thread.failed", "ValueError")


def test_refused_hosts_and_missing_pages_are_not_errors(stream: io.StringIO) -> None:
    logging.getLogger("django.security.DisallowedHost").error(CANARY)
    logging.getLogger("django.request").warning("Not Found: %s", CANARY)
    logging.getLogger("uvicorn.access").info(CANARY)
    assert parse_lines(stream) == []


def test_closed_log_stream_stops_nothing() -> None:
    closed = io.StringIO()
    closed.close()
    logs.Sink(closed).write("x")
    logs.Sink(closed).flush()
