"""Draw the gallery, for a browser to open: `python -m tests.gallery`."""

import sys
from pathlib import Path

import pytest

sys.exit(pytest.main(["-q", str(Path(__file__).parent)]))
