#!/usr/bin/env python3
"""MemoryHub's command line: `manage.py help` lists the commands."""

from memoryhub.management.command_line import main

if __name__ == "__main__":
    main()
