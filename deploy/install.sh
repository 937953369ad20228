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

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
UV_PROJECT_ENVIRONMENT="$built/env" "$uv" sync --quiet --frozen --only-group build
"$built/env/bin/python" -m hatchling build --target wheel --directory "$built"

UV_PROJECT_ENVIRONMENT="$folder" "$uv" sync --quiet --frozen --no-default-groups --all-extras
"$uv" pip install --quiet --python "$folder/bin/python" --no-deps --no-index "$built"/*.whl
"$folder/bin/memoryhub" --version >/dev/null

case $(readlink -f "$folder/bin/python") in
  /root/* | /home/*) echo "A service can not run $(readlink -f "$folder/bin/python"): set UV_PYTHON to one for all users." >&2 ;;
esac
