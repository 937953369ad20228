"""Draw the gallery into a file that a browser opens: `python -m tests.gallery FILE`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import django
from django.conf import settings


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gallery", description=__doc__
    )
    default = Path("var", "artefacts", "gallery.html")
    parser.add_argument("file", nargs="?", type=Path, default=default)
    file: Path = parser.parse_args().file
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    # Samples are made of models, which are there from here on.
    from tests.gallery import page  # noqa: PLC0415

    static = Path(settings.BASE_DIR, "static").as_uri()
    drawn = page.text().replace(f'"{settings.STATIC_URL}', f'"{static}/')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(drawn, encoding="utf-8")
    sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main()
