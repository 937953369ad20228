#!/bin/sh
# Install this checkout into a folder of its own: sh deploy/install.sh /opt/memoryhub
# Builds the wheel, then installs it with exactly what uv.lock pins, extras included.
# Needs uv (another path of it: UV=…). The command is then FOLDER/bin/memoryhub.
set -eu
folder=${1:?'say where to: sh deploy/install.sh /opt/memoryhub'}
uv=${UV:-uv}
cd "$(dirname "$0")/.."

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
UV_PROJECT_ENVIRONMENT="$built/env" "$uv" sync --quiet --frozen --only-group build
"$built/env/bin/python" -m hatchling build --target wheel --directory "$built"

UV_PROJECT_ENVIRONMENT="$folder" "$uv" sync --quiet --frozen --no-default-groups --all-extras
"$uv" pip install --quiet --python "$folder/bin/python" --no-deps --no-index "$built"/*.whl
"$folder/bin/memoryhub" --version >/dev/null
