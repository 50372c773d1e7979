#!/bin/sh
# Builds the guest's root file system without anything of this project in it: base.sh SUITE ROOT PACKAGE,PACKAGE...
set -eu
suite=$1 root=$2 packages=$3

# The kernel's own initial file system is not wanted: the disk's is made by disk.go. Leaving out paths while unpacking would
# take longer than everything else here, so what nobody reads in a guest is removed at the end.
INITRD=No mmdebstrap --quiet --variant=essential --include="$packages" --dpkgopt=force-unsafe-io "$suite" "$root"
rm -rf "$root/usr/share/man" "$root/usr/share/locale" "$root/usr/share/doc" "$root/usr/share/info"

# Docker generates its own profile; parsing the hundred others takes an emulated machine longer than the rest of its boot.
find "$root/etc/apparmor.d" -maxdepth 1 -type f -delete

rm -rf "$root"/var/cache/apt "$root"/var/lib/apt
rm -f "$root"/boot/initrd.img* "$root/etc/resolv.conf"
echo evalhost-guest >"$root/etc/hostname"
printf '127.0.0.1 localhost evalhost-guest\n::1 localhost\n' >"$root/etc/hosts"
echo 5e1ec7ed0000400080000000e7a15057 >"$root/etc/machine-id"
rm -f "$root/etc/fstab"
: >"$root/etc/fstab"

ln -sf /usr/lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
