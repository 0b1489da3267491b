#!/usr/bin/env bash
# Resolve pyproject.toml into the two lock files, with hashes and without any index address. Needs the network and `uv`.
set -euo pipefail
cd "$(dirname "$0")/.."

uv="$(command -v uv || true)"
if [[ -z "$uv" ]]; then
    echo "lock: 'uv' is not on the PATH. Install it (for example 'python3 -m pip install --user uv') and run 'make lock' again." >&2
    exit 1
fi

lock() {
    local output="$1"
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command "make lock" --constraint tools/pins.txt --output-file "$output" "$@"
}

lock requirements-build.lock --group build
lock requirements.lock pyproject.toml --extra connect --extra spatial --group dev
