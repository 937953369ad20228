#!/usr/bin/env python3
"""MemoryHub's command line: `manage.py help` lists the commands."""

import importlib.util
import sys

if sys.version_info < (3, 11) or importlib.util.find_spec("django") is None:
    sys.exit(
        "MemoryHub's packages are in .venv: run .venv/bin/python manage.py instead. "
        "If there is no .venv yet, `make serve` makes it."
    )

from memoryhub.management.command_line import main

if __name__ == "__main__":
    main()
