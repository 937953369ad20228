#!/usr/bin/env python3
"""MemoryHub's command line: `manage.py help` lists the commands."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    # Databases, logs and key files are for this user alone.
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    execute_from_command_line(sys.argv)
