"""Plugin of pytest that gives each run a data folder before Django's settings."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.harness import places

ROOT = Path(__file__).resolve().parent.parent
#: Bytes that a run may need.
ROOM = 2**30

# As manage.py does: data that others may read is refused.
os.umask(0o077)
if "MEMORYHUB_TEST_FOLDER" not in os.environ:
    # The first process makes it; xdist's workers inherit it.
    folder = tempfile.mkdtemp(prefix="memoryhub-tests-", dir=places.fast(ROOM))
    os.environ["MEMORYHUB_TEST_FOLDER"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

if sys.dont_write_bytecode:
    # A hundred processes are started, and half of each start would be compiling. Kept
    # where pytest keeps what it knows, so that the next run need not compile either.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# One for each worker of xdist: a scan looks through all of the data folder, and would
# find what a neighbour's test has written.
own = Path(
    os.environ["MEMORYHUB_TEST_FOLDER"], os.environ.get("PYTEST_XDIST_WORKER", "alone")
)
own.mkdir(exist_ok=True)
os.environ["MEMORYHUB_DATA"] = str(own)
os.environ["MEMORYHUB_TESTING"] = "1"
# In a folder that may be in memory; a test that wants one says so.
os.environ["MEMORYHUB_BALLAST_MIB"] = "0"
# Fixtures and inline writes use the ORM while a loop runs.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
for name in ("MEMORYHUB_KEK_FILE", "MEMORYHUB_DEBUG", "MEMORYHUB_HOSTS"):
    os.environ.pop(name, None)
