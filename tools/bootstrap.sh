#!/usr/bin/env bash
# Makes .venv with the package and everything its tests need, installing what Debian must give first.
# Idempotent: a finished environment for this pyproject.toml is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.g35-stamp
digest=$(sha256sum pyproject.toml tools/bootstrap.sh | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$digest" ] && .venv/bin/g35ctl --help >/dev/null 2>&1; then
  exit 0
fi

say() { printf '\n== %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$1" >&2
  printf 'next: %s\n' "$2" >&2
  exit 1
}

python=""
for candidate in python3 python3.13 python3.12 python3.11; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed and was not found" "apt-get install python3"

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  [ "$(id -u)" = 0 ] || fail "Python's venv module is missing and this user cannot install it" "sudo apt-get install python3-venv"
  say "Installing python3-venv"
  if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; }; then
    fail "python3-venv could not be installed" "check the package sources, then: apt-get install python3-venv"
  fi
fi

say "Making the Python environment in .venv (a few minutes the first time)"
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]' ||
  fail "the Python packages could not be installed" "check the package index settings (pip config list), then run make again"
printf '%s' "$digest" >"$stamp"
