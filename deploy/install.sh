#!/bin/sh
# Install this checkout into a folder of its own: sh deploy/install.sh /opt/memoryhub
# Builds the wheel, then installs it with exactly what uv.lock pins, extras included.
# Needs uv: of UV=…, of the PATH, or the one that `make` fetched. The command is then FOLDER/bin/memoryhub.
set -eu
folder=${1:?'say where to: sh deploy/install.sh /opt/memoryhub'}
cd "$(dirname "$0")/.."
uv=${UV:-$(command -v uv || echo .tools/bin/uv)}
# An interpreter that uv fetches lies in the folder, so that any user may run it.
export UV_PYTHON_INSTALL_DIR="$folder/python"
# A service's user can't write bytecode here: without it each start would compile all sources.
export UV_COMPILE_BYTECODE=1

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
UV_PROJECT_ENVIRONMENT="$built/env" "$uv" sync --quiet --frozen --only-group build
"$built/env/bin/python" -m hatchling build --target wheel --directory "$built"

UV_PROJECT_ENVIRONMENT="$folder" "$uv" sync --quiet --frozen --no-default-groups --all-extras
"$uv" pip install --quiet --python "$folder/bin/python" --no-deps --no-index "$built"/*.whl
"$folder/bin/memoryhub" --version >/dev/null

# A service's user must reach the interpreter, which uv may have found in somebody's home.
"$folder/bin/python" - <<'CHECK'
import pathlib, stat, sys

python = pathlib.Path(sys.executable).resolve()
if not all(place.stat().st_mode & stat.S_IXOTH for place in [python, *python.parents]):
    print(f"Only you can run {python}: set UV_PYTHON to an interpreter for all users.")
CHECK
