#!/usr/bin/env python3
"""MemoryHub's command line: `manage.py help` lists the commands."""

import gc
import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    # Databases, logs and key files are for this user alone.
    os.umask(0o077)
    # Nearly all that imports make stays: looking through it for garbage every 700
    # objects takes a sixth of a start.
    gc.set_threshold(100_000, 10, 10)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    execute_from_command_line(sys.argv)
