"""Logs: JSON lines of a closed set of fields, for our own code and for libraries.

Fields outside the set are dropped, so that no text of a request, a person or a library
reaches a log. A library's line has the logger and the place, not the message.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import PurePath
from types import TracebackType
from typing import Any, TextIO

import structlog

FIELDS = frozenset(
    {
        *("time", "level", "event", "request_id", "route", "method", "status"),
        *("took_ms", "bytes", "project", "key", "operator", "thread", "seq"),
        *("code", "count", "worker", "logger", "place", "type", "frames"),
    }
)
#: Form of an event, like `writer.failed`; a sentence could contain any text.
WORD = re.compile(r"[a-z_]+(\.[a-z_]+)*")
FRAMES = 30
#: Levels of libraries that would repeat our lines, or log each request.
QUIET = {
    "uvicorn": logging.WARNING,
    "uvicorn.access": logging.CRITICAL,
    "django.request": logging.ERROR,
    # Refusals of foreign hosts and broken requests, which anybody can cause.
    "django.security": logging.CRITICAL,
    "django.server": logging.CRITICAL,
    "asyncio": logging.WARNING,
    # A line for each request to the model.
    "httpx2": logging.WARNING,
    # A line for each session and each refusal of a tool.
    "mcp": logging.WARNING,
    "py.warnings": logging.CRITICAL,
    # The code that needed the connection logs the failure.
    "psycopg.pool": logging.CRITICAL,
}

log = structlog.get_logger()


def configure(stream: TextIO | None = None) -> None:
    """Send every log line of this process to the stream, standard output by default."""
    sink = Sink(stream or sys.stdout)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _replace_failure,
            _drop_unknown_fields,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sink),  # type: ignore[arg-type]  # writes and flushes
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_LibraryHandler()], level=logging.INFO, force=True)
    # A warning's text quotes code, and the line is useless without the text.
    logging.captureWarnings(capture=True)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class Sink:
    """A stream that may be closed by its reader; writes never fail."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _LibraryHandler(logging.Handler):
    """Handler of libraries' log records: logger, place, and type of the exception."""

    def emit(self, record: logging.LogRecord) -> None:
        place = f"{PurePath(record.pathname).name}:{record.lineno}"
        found = record.exc_info[1] if record.exc_info else None
        level = logging.getLevelName(record.levelno).lower()
        speak = getattr(log, level, log.warning)
        speak("library.spoke", logger=record.name, place=place, exc_info=found)


def _replace_failure(
    _: Any, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace `exc_info` by type and frames, without text and local variables."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()[1]
    if isinstance(found, tuple):
        found = found[1]
    if isinstance(found, BaseException):
        event["type"] = type(found).__name__
        event["frames"] = _list_frames(found.__traceback__)
    return event


def _list_frames(found: TracebackType | None) -> list[str]:
    """List module, line and function of each frame, the innermost last."""
    return [
        f"{frame.f_globals.get('__name__')}:{line} {frame.f_code.co_name}"
        for frame, line in list(traceback.walk_tb(found))[-FRAMES:]
    ]


def _drop_unknown_fields(
    _: Any, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop unknown fields, and replace an event that is not a word."""
    word = str(event.get("event", ""))
    first = {"time": event.get("time"), "level": event.get("level")}
    first["event"] = word if WORD.fullmatch(word) else "log"
    return first | {
        name: value
        for name, value in event.items()
        if name in FIELDS and name not in first
    }


def _log_uncaught(
    kind: type[BaseException], value: BaseException, found: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        log.critical("process.failed", type=kind.__name__, frames=_list_frames(found))


def _log_uncaught_in_thread(failure: threading.ExceptHookArgs) -> None:
    frames = _list_frames(failure.exc_traceback)
    log.critical("thread.failed", type=failure.exc_type.__name__, frames=frames)
