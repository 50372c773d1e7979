#!/bin/sh
# Builds the guest's root file system without anything of this project in it: base.sh SUITE ROOT PACKAGE,PACKAGE...
set -eu
suite=$1 root=$2 packages=$3

# The kernel's own initial file system is not wanted (see initrd.go), nor what nobody reads in a guest.
INITRD=No mmdebstrap --quiet --variant=minbase --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*' \
  "$suite" "$root"

# Docker generates its own profile; parsing the hundred others takes an emulated machine longer than the rest of its boot.
find "$root/etc/apparmor.d" -maxdepth 1 -type f -delete

rm -f "$root"/boot/initrd.img* "$root/etc/resolv.conf"
echo evalhost-guest >"$root/etc/hostname"
printf '127.0.0.1 localhost evalhost-guest\n::1 localhost\n' >"$root/etc/hosts"
echo 5e1ec7ed0000400080000000e7a15057 >"$root/etc/machine-id"
rm -f "$root/etc/fstab"
: >"$root/etc/fstab"

ln -sf /usr/lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
