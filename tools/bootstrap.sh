#!/usr/bin/env bash
# Make .venv: a virtual environment with the locked dependencies and this project, editable.
# Does nothing when the stamp inside .venv says that it is up to date. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
stamp=.venv/.lancewright-stamp

say() { echo "bootstrap: $*" >&2; }
die() { say "$1"; say "$2"; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    die "No Python 3.11 or newer found (looked at: ${PYTHON:-python3, python3.11, python3.12, python3.13})." \
        "Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3 <target>."
}

# Debian splits venv and ensurepip out of its python3 package.
require_venv_module() {
    local python="$1" package
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    if [[ "$(id -u)" -eq 0 ]] && command -v apt-get >/dev/null; then
        say "installing $package with apt-get"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2
        "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    fi
    die "$python cannot make virtual environments: its modules 'venv' and 'ensurepip' are missing." \
        "Install the package $package (Debian, Ubuntu: sudo apt-get install $package) and run the command again."
}

# The path counts, because a virtual environment does not survive a move.
fingerprint() { { echo "$root $1"; "$1" --version; cat requirements-build.lock requirements.lock pyproject.toml tools/bootstrap.sh; } | sha256sum; }

python="$(find_python)"
wanted="$(fingerprint "$python")"
if [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
    exit 0
fi

require_venv_module "$python"
say "making .venv with $("$python" --version), this takes a few minutes the first time"
rm -rf .venv
"$python" -m venv .venv
pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --require-hashes -r requirements-build.lock
# PySpark is a source distribution: it is built with the locked tools of the line above.
"${pip[@]}" install --require-hashes --no-build-isolation -r requirements.lock
"${pip[@]}" install --no-deps --no-build-isolation --editable .
echo "$wanted" >"$stamp"
say ".venv is ready"
