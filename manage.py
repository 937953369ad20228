#!/usr/bin/env python3
"""MemoryHub's command line: `manage.py help` lists the commands."""

import gc
import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    # Databases, logs and key files are for this user alone.
    os.umask(0o077)
    # Objects between two collections of the youngest, Python's own being 700. Most that
    # imports make stays, and to look through it takes a sixth of a start. A large turn
    # makes tens of thousands that go by themselves, and each collection of the oldest
    # looks through all states that the process keeps.
    gc.set_threshold(100_000, 10, 10)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    execute_from_command_line(sys.argv)
