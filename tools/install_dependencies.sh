#!/usr/bin/env bash
# Installs the Debian packages that Ulmus needs and that are missing. Asks nothing; without anything
# missing it does nothing and needs no network.
#
#   tools/install_dependencies.sh [--build]   what the program needs to be built (the default)
#   tools/install_dependencies.sh --test      the same, and what the tests need
#   tools/install_dependencies.sh --dev       the same, and what the gates of .ci/run need
#   tools/install_dependencies.sh --list [--build|--test|--dev]   only prints the packages
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config
  libopenblas-dev libfmt-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
  zlib1g-dev libopenmpi-dev openmpi-bin
  xz-utils  # quickstart.sh measures how well xz compresses the same text
)
test_packages=(libgtest-dev libgmock-dev libpcre2-dev python3)
dev_packages=(clang-format-19 clang-tidy-19 ccache git libbenchmark-dev)

say() { printf 'install_dependencies: %s\n' "$*" >&2; }
usage() {
  sed -n '5,8s/^# \{0,3\}//p' "$0" >&2
  exit 2
}

only_list=no
level=--build
for argument in "$@"; do
  case $argument in
    --list) only_list=yes ;;
    --build | --test | --dev) level=$argument ;;
    *) say "unknown argument: $argument"; usage ;;
  esac
done
packages=("${build_packages[@]}")
[ "$level" = --build ] || packages+=("${test_packages[@]}")
[ "$level" != --dev ] || packages+=("${dev_packages[@]}")

if [ "$only_list" = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "this is no Debian system, so nothing is checked or installed. On Debian 12 the packages are:"
  say "${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

# apt-get under another user's name: sudo may ask on a terminal for the user's password, never else.
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    say "missing: ${missing[*]}"
    say "neither root nor sudo; as root run: apt-get install --no-install-recommends ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
fi

run_apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

say "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A stale list may still serve, so only the second command decides.
if ! { run_apt update || true; run_apt install -y --no-install-recommends "${missing[@]}"; } \
  >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "apt-get failed (above); still missing: ${missing[*]}"
  exit 1
fi
