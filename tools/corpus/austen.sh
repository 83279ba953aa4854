#!/bin/sh
# austen.sh AUSTEN_TEXT [OUTDIR]
#
# Makes the quickstart's corpus: Jane Austen's six novels (public domain) from Debian's package
# r-cran-janeaustenr, as text files under OUTDIR (default: corpus/austen of this repository).
# AUSTEN_TEXT is the built program austen_text. Does nothing when the result is there; the package
# is only unpacked, not installed, and is kept in OUTDIR/cache.
set -eu

package=r-cran-janeaustenr
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: austen.sh AUSTEN_TEXT [OUTDIR]" >&2
  exit 2
fi
program=$1
out=${2:-$root/corpus/austen}
done_mark=$out/complete

if [ -f "$done_mark" ]; then
  echo "$out is there already" >&2
  exit 0
fi
if [ ! -x "$program" ]; then
  echo "austen.sh: $program is not there; build it:" >&2
  echo "cmake --build build/release --target austen_text" >&2
  exit 2
fi

mkdir -p "$out/cache"
cache=$(CDPATH='' cd -- "$out/cache" && pwd)
find_package_file() {
  find "$cache" -maxdepth 1 -name "${package}_*.deb" | sort | tail -n 1
}

deb=$(find_package_file)
if [ -z "$deb" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "austen.sh: no apt-get on this machine. Put Debian's ${package}_1.0.0-1_all.deb into" >&2
    echo "$cache and run this again." >&2
    exit 1
  fi
  # Under its name only when it is whole.
  rm -rf "$cache/download"
  mkdir "$cache/download"
  if ! (cd "$cache/download" && apt-get -q download "$package" >../download.log 2>&1); then
    cat "$cache/download.log" >&2
    echo "austen.sh: apt-get cannot download $package. Needed: Debian 12 or newer" >&2
    echo "(component main), the network, and package lists ('apt-get update' as root)." >&2
    echo "Or put Debian's ${package}_1.0.0-1_all.deb into $cache." >&2
    exit 1
  fi
  mv "$cache/download"/*.deb "$cache"
  rmdir "$cache/download"
  deb=$(find_package_file)
fi

if ! command -v dpkg-deb >/dev/null 2>&1; then
  echo "austen.sh: no dpkg-deb on this machine (Debian package dpkg) to unpack $deb" >&2
  exit 1
fi
rm -rf "$cache/unpacked"
if ! dpkg-deb -x "$deb" "$cache/unpacked"; then
  rm -f "$deb"
  echo "austen.sh: $deb was damaged and is removed; run this again" >&2
  exit 1
fi
rdb=$(find "$cache/unpacked" -name Rdata.rdb | head -n 1)
if [ -z "$rdb" ]; then
  echo "austen.sh: $deb holds no Rdata.rdb" >&2
  exit 1
fi
"$program" "$rdb" "$out"
rm -rf "$cache/unpacked"
: >"$done_mark"
echo "wrote $out" >&2
