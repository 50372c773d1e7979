#!/bin/sh
# Builds the root file system of one language image from Debian packages.
#   rootfs.sh SUITE LAYER.tar "PACKAGE..." "COMPILER..."
# The layer is the same bytes for the same packages: sorted, without times, compiled Python files checked by nothing.
set -eu
suite=$1 layer=$2 packages=$3 compilers=$4
root=$layer.root

mmdebstrap --quiet --variant=extract --include="$(echo "$packages" | tr ' ' ',')" "$suite" "$root"

# The extract variant runs no maintainer script, so what those would have made is made here.
for dir in bin sbin lib lib64; do
  mkdir -p "$root/usr/$dir"
  [ -e "$root/$dir" ] || ln -s "usr/$dir" "$root/$dir"
done
[ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
mkdir -p "$root/etc" "$root/tmp" "$root/out" "$root/proc" "$root/sys" "$root/dev"
cat >"$root/etc/passwd" <<EOF
root:x:0:0:root:/root:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
EOF
cat >"$root/etc/group" <<EOF
root:x:0:
nogroup:x:65534:
EOF
chmod 1777 "$root/tmp"
chown 65534:65534 "$root/out"
chmod 0755 "$root/out"

# Runs a program of the new tree without this machine's environment.
inside() { env -i PATH=/usr/sbin:/usr/bin LC_ALL=C chroot "$root" "$@"; }

# Nothing here is read by a compiler or an interpreter.
rm -rf "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/info" "$root/usr/share/locale" \
  "$root/usr/share/lintian" "$root/usr/share/bug" "$root/var/cache" "$root/var/lib/apt" "$root/var/lib/dpkg" "$root/var/log"
rm -rf "$root"/dev/* "$root"/etc/apt "$root"/etc/dpkg
rm -f "$root"/usr/bin/*lto-dump* "$root"/usr/bin/gp-* "$root"/usr/bin/*gprofng* "$root"/usr/lib/x86_64-linux-gnu/libgprofng*

# A read-only container cannot keep compiled modules, so they are compiled now. "unchecked-hash" because all times in the
# layer are the same.
for python in python3 pypy3; do
  if [ -x "$root/usr/bin/$python" ]; then
    find "$root/usr/lib" -name __pycache__ -prune -exec rm -rf {} +
    find "$root/usr/lib" -type d \( -name test -o -name tests -o -name idlelib -o -name tkinter \) -prune -exec rm -rf {} +
    # Some files of the library are examples of what does not compile.
    inside "/usr/bin/$python" -m compileall -q --invalidation-mode unchecked-hash /usr/lib >/dev/null 2>&1 || true
  fi
done

: >"$root/etc/algojudge-toolchain"
for compiler in $compilers; do
  line=$(inside "/usr/bin/$compiler" --version 2>/dev/null | tr '\n' ' ' | sed 's/ Copyright.*//; s/ Target:.*//; s/ *$//')
  [ -n "$line" ] || { echo "$compiler --version printed nothing in the new image" >&2; exit 1; }
  echo "$line" >>"$root/etc/algojudge-toolchain"
done

tar --create --file="$layer" --directory="$root" --sort=name --mtime=@0 --numeric-owner --format=gnu .
rm -rf "$root"
