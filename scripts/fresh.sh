#!/bin/bash
# Tries make's targets on a bare system, in a chroot under build/fresh. It must run as root. Packages come from this machine's own mirror if it
# runs that distribution, else from debootstrap's default mirror; MIRROR names another one.
# Usage: fresh.sh [-s SUITE] [-u nothing|needed|everything] [TARGET...]
#   -s   bookworm (default), trixie, jammy, noble: Debian 12 and 13, Ubuntu 22.04 and 24.04
#   -u   as a user without root and sudo. Installed before: only make, what a build must have, or everything that the tests can use
#   TARGET...   of the Makefile; default: demo test
set -eu
cd "$(dirname "$0")/.."
usage() { sed -n '/^# Usage/,/^#   TARGET/s/^# //p' "scripts/fresh.sh" >&2; exit 2; }
suite=bookworm user=
while getopts s:u: option; do
    case $option in
    s) suite=$OPTARG ;;
    u) user=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
case $user in '' | nothing | needed | everything) ;; *) usage ;; esac
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || { echo "make fresh must run as root: it makes a chroot" >&2; exit 1; }
scripts/need.sh fresh
base=$PWD/build/fresh/$suite root=$PWD/build/fresh/root

case $suite in
jammy | noble) distribution=ubuntu options=(--components=main,universe) ;;
*) distribution=debian options=() ;;
esac
mirror=${MIRROR:-}
if [ -z "$mirror" ] && grep -q "^ID=$distribution\$" /etc/os-release; then
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' | head -n 1)
fi

release() { umount -l "$root/proc" "$root/dev/shm" "$root/dev/pts" 2>/dev/null || true; }
release
trap release EXIT
mkdir -p build/fresh
if [ ! -f "$base.complete" ]; then
    rm -rf --one-file-system "$base"
    # A debootstrap older than the suite has no script of that name. Ubuntu's scripts are all the same.
    cp -r /usr/share/debootstrap build/fresh/debootstrap
    [ -e "build/fresh/debootstrap/scripts/$suite" ] || ln -s gutsy "build/fresh/debootstrap/scripts/$suite"
    # The packages of another distribution cannot be checked without its keys. This chroot is thrown away.
    [ "$distribution" = debian ] || [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || options+=(--no-check-gpg)
    echo "+ debootstrap --variant=minbase --include=make,ca-certificates ${options[*]} $suite build/fresh/$suite $mirror"
    # shellcheck disable=SC2086 # an empty mirror must not become an argument
    DEBOOTSTRAP_DIR=$PWD/build/fresh/debootstrap debootstrap --variant=minbase --include=make,ca-certificates ${options[@]+"${options[@]}"} \
        "$suite" "$base" $mirror >build/fresh/debootstrap.log 2>&1 || { tail -n 5 build/fresh/debootstrap.log; exit 1; }
    rm -rf build/fresh/debootstrap
    sed -i "p; s/ $suite / $suite-updates /" "$base/etc/apt/sources.list"
    touch "$base.complete"
fi
rm -rf --one-file-system "$root"
cp -a "$base" "$root"

echo "+ this machine's proxies, resolver and certificates, and the working tree without build outputs"
for part in apt.conf apt.conf.d auth.conf.d; do
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

# The sanitizers read /proc; the library uses shared memory.
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm" "$root/dev/pts" && mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" && ln -sf pts/ptmx "$root/dev/ptmx"
inside() { # inside ROOT-OR-USER COMMAND...
    local as=()
    [ "$1" = root ] || as=(--userspec=1000:1000)
    shift
    chroot ${as[@]+"${as[@]}"} "$root" /usr/bin/env -i HOME=/src PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${JOBS:+JOBS="$JOBS"} "$@"
}
who=root
if [ -n "$user" ]; then
    who=user
    echo 'user:x:1000:1000::/src:/bin/sh' >>"$root/etc/passwd"
    case $user in
    needed) inside root /src/iter/scripts/need.sh build must ;;
    everything) inside root /src/iter/scripts/need.sh test ;;
    esac
    chown -R 1000:1000 "$root/src"
fi
for target in "$@"; do
    printf '\n+ make %s, in the chroot%s\n' "$target" "${user:+, as a user; installed: $user}"
    begin=$SECONDS
    inside $who make -C /src/iter --no-print-directory "$target"
    echo "+ make $target: done after $((SECONDS - begin)) s"
done
