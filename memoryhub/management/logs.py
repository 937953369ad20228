"""Logs: JSON lines of a closed set of fields, for our own code and for libraries.

What is not in the set is dropped, so that no text of a request, a person or a library
reaches a log: a library's line says who spoke and where, not what.
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
#: An event is a word like `writer.failed`; a sentence could hold anything.
WORD = re.compile(r"[a-z_]+(\.[a-z_]+)*")
FRAMES = 30
#: Libraries that would say what we say already, or each request.
QUIET = {
    "uvicorn": logging.WARNING,
    "uvicorn.access": logging.CRITICAL,
    "django.request": logging.ERROR,
    # Foreign hosts and broken requests: refusals, which anybody can cause at will.
    "django.security": logging.CRITICAL,
    "django.server": logging.CRITICAL,
    "asyncio": logging.WARNING,
    # A line for each question.
    "httpx2": logging.WARNING,
    "py.warnings": logging.CRITICAL,
    # Whoever wanted the connection says that there is none.
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
            _failure,
            _closed,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sink),  # type: ignore[arg-type]  # writes and flushes
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Libraries()], level=logging.INFO, force=True)
    # A warning quotes what it warns of, and says nothing without it.
    logging.captureWarnings(capture=True)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


class Sink:
    """A stream that nobody may read any more; writing to it never fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Libraries(logging.Handler):
    """What libraries log: who, where, and the type of what they caught."""

    def emit(self, record: logging.LogRecord) -> None:
        place = f"{PurePath(record.pathname).name}:{record.lineno}"
        found = record.exc_info[1] if record.exc_info else None
        level = logging.getLevelName(record.levelno).lower()
        speak = getattr(log, level, log.warning)
        speak("library.spoke", logger=record.name, place=place, exc_info=found)


def _failure(
    _: Any, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Turn `exc_info` into type and frames: no text, no local variables."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()[1]
    if isinstance(found, tuple):
        found = found[1]
    if isinstance(found, BaseException):
        event["type"] = type(found).__name__
        event["frames"] = _frames(found.__traceback__)
    return event


def _frames(found: TracebackType | None) -> list[str]:
    """Module, line and function of each, the innermost last."""
    return [
        f"{frame.f_globals.get('__name__')}:{line} {frame.f_code.co_name}"
        for frame, line in list(traceback.walk_tb(found))[-FRAMES:]
    ]


def _closed(
    _: Any, __: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop what is not in the set, and an event that is no word."""
    word = str(event.get("event", ""))
    first = {"time": event.get("time"), "level": event.get("level")}
    first["event"] = word if WORD.fullmatch(word) else "log"
    return first | {
        name: value
        for name, value in event.items()
        if name in FIELDS and name not in first
    }


def _uncaught(
    kind: type[BaseException], value: BaseException, found: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        log.critical("process.failed", type=kind.__name__, frames=_frames(found))


def _uncaught_in_thread(failure: threading.ExceptHookArgs) -> None:
    frames = _frames(failure.exc_traceback)
    log.critical("thread.failed", type=failure.exc_type.__name__, frames=frames)
