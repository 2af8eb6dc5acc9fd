#!/usr/bin/env bash
# Installs what tests/browser needs: a headless browser, tools that read its prints, and a font with Chinese characters.
set -euo pipefail

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v pdftotext >/dev/null || missing+=(poppler-utils)
if ! command -v fc-list >/dev/null; then
  missing+=(fontconfig fonts-wqy-microhei)
elif ! fc-list :lang=zh-cn family | grep -q .; then
  missing+=(fonts-wqy-microhei)
fi
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  printf 'error: not installed: %s\n' "${missing[*]}" >&2
  printf 'next: sudo apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
  exit 1
fi
printf '\n== Installing %s\n' "${missing[*]}" >&2
# An old package list is the usual cause of a failed install, a failed update not always fatal.
apt-get update -qq || true
if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; then
  printf 'error: the packages could not be installed\n' >&2
  printf 'next: check the package sources, then: apt-get install %s\n' "${missing[*]}" >&2
  exit 1
fi
