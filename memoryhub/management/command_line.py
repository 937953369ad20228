"""The command line of `manage.py` in a checkout, and of an installed `memoryhub`."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Final

import django
from django.conf import settings
from django.core.management import execute_from_command_line, load_command_class

from memoryhub import __version__
from memoryhub.distribution import PROGRAM

#: Parameters of glibc's `mallopt`, and what they are set to. Each thread has a pool of
#: its own otherwise, up to eight a core, that keeps what it has freed: a third of a
#: server's memory. Large arrays, as of search indexes, go back to the system at once.
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1
_ALLOCATOR: Final = (
    (_M_ARENA_MAX, 2),
    (_M_MMAP_THRESHOLD, 4 << 20),
    (_M_TRIM_THRESHOLD, 8 << 20),
)


def main() -> None:
    """Run the command that `sys.argv` names; without one, list our commands."""
    # Databases, logs and key files are for this user alone.
    os.umask(0o077)
    # Objects between two collections of the youngest, Python's own being 700. Most that
    # imports make stays, and to look through it takes a sixth of a start. A large turn
    # makes tens of thousands that go by themselves, and each collection of the oldest
    # looks through all states that the process keeps.
    gc.set_threshold(100_000, 10, 10)
    _bound_allocator()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    if not sys.argv[1:]:
        # So that the settings see that help is asked for.
        sys.argv.append("help")
    try:
        match sys.argv[1:]:
            case ["help"] | ["--help"] | ["-h"]:
                sys.stdout.write(build_help())
            case ["--version"] | ["version"]:
                sys.stdout.write(f"MemoryHub {__version__}\n")
            case _:
                execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, as `head` is one, has enough. What is left to print goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _bound_allocator() -> None:
    """Bound what glibc keeps of freed memory, where it is the C library."""
    with suppress(OSError, AttributeError):
        set_parameter = ctypes.CDLL(None).mallopt
        for parameter, value in _ALLOCATOR:
            set_parameter(parameter, value)


def build_help() -> str:
    """Return a line for each of our commands: name and first sentence of its help."""
    django.setup()
    folder = Path(__file__).parent / "commands"
    names = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    lines = [
        f"  {name:<18}{_get_first_sentence(load_command_class('memoryhub', name).help)}"
        for name in names
    ]
    return (
        "MemoryHub: memory for agents, and an inspector that shows it.\n\n"
        f"  {PROGRAM} demo          look at it, with agents that write\n"
        f"  {PROGRAM} serve         run it; data is in $MEMORYHUB_DATA, now "
        f"{settings.DATA_DIR}\n\n"
        "Commands:\n" + "\n".join(lines) + "\n\n"
        f"`{PROGRAM} COMMAND --help` explains a command, `{PROGRAM} help --commands` "
        "lists Django's as well.\n"
    )


def _get_first_sentence(text: str) -> str:
    first = " ".join(text.split()).partition(". ")[0].removesuffix(".")
    return textwrap.shorten(f"{first}.", 96, placeholder=" …")
