#!/bin/sh
# Unpacks Debian packages into a tree that is used from outside or through chroot: tree.sh SUITE ROOT PACKAGE,PACKAGE...
set -eu
suite=$1 root=$2 packages=$3
mmdebstrap --quiet --variant=extract --include="$packages" "$suite" "$root"
# The extract variant runs no maintainer script: the links of a merged /usr and the mount points are made here.
for dir in bin sbin lib lib64; do
  mkdir -p "$root/usr/$dir"
  [ -e "$root/$dir" ] || ln -s "usr/$dir" "$root/$dir"
done
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/etc" "$root/var/lib"
[ -e "$root/etc/passwd" ] || echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
[ -e "$root/etc/group" ] || printf 'root:x:0:\ndocker:x:999:\n' >"$root/etc/group"
rm -rf "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale" "$root/var/cache/apt" "$root/var/lib/apt/lists"
