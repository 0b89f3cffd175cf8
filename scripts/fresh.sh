#!/bin/bash
# Tries `make demo` and `make test` on a bare Debian 12, in a chroot under build/fresh. Root only; takes the package
# mirror from this machine's own apt. Usage: fresh.sh [demo|test...] (default: both)
set -eu
cd "$(dirname "$0")/.."
root=$PWD/build/fresh
[ "$(id -u)" = 0 ] || { echo "make fresh needs root: it makes a chroot" >&2; exit 1; }
scripts/need.sh debootstrap
[ $# -gt 0 ] || set -- demo test

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' | head -n 1)
[ -n "$mirror" ] || { echo "no package source in /etc/apt" >&2; exit 1; }

release() { umount -l "$root/proc" "$root/dev/shm" 2>/dev/null || true; }
release
trap release EXIT
rm -rf --one-file-system "$root"
mkdir -p "$root"
echo "+ debootstrap --variant=minbase --include=make bookworm build/fresh"
debootstrap --variant=minbase --include=make,ca-certificates bookworm "$root" "$mirror" >build/fresh.log 2>&1 ||
    { tail -n 5 build/fresh.log; exit 1; }

echo "+ this machine's package sources, resolver and certificates, and the working tree without build outputs"
rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d" "$root/etc/apt/apt.conf.d"
for part in sources.list sources.list.d apt.conf apt.conf.d auth.conf.d keyrings trusted.gpg trusted.gpg.d; do
    if [ -e "/etc/apt/$part" ]; then cp -rL "/etc/apt/$part" "$root/etc/apt/"; fi
done
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
if [ -f /etc/pip.conf ]; then cp -L /etc/pip.conf "$root/etc/"; fi
mkdir -p "$root/src/iter"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
else
    find . \( -path ./build -o -path ./data -o -path ./.git \) -prune -o -type f -print0
fi | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null -T - -cf - | tar -xf - -C "$root/src/iter"

# The sanitizers read /proc; shared memory is what a real machine has.
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
for target in "$@"; do
    printf '\n+ make %s, in the chroot\n' "$target"
    begin=$SECONDS
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${JOBS:+JOBS="$JOBS"} \
        make -C /src/iter --no-print-directory "$target"
    echo "+ make $target: done after $((SECONDS - begin)) s"
done
