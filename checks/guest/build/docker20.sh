#!/bin/sh
# Keeps of an unpacked tree what Docker 20.10 needs to run on a newer system: docker20.sh TREE OUT
set -eu
tree=$1 out=$2
mkdir -p "$out/bin" "$out/lib"
for program in usr/sbin/dockerd usr/sbin/runc usr/bin/docker usr/bin/docker-init usr/bin/containerd usr/bin/containerd-shim \
  usr/bin/containerd-shim-runc-v1 usr/bin/containerd-shim-runc-v2; do
  cp -a "$tree/$program" "$out/bin/"
done
# The one library that the guest does not have.
find "$tree/lib" "$tree/usr/lib" -name 'libdevmapper.so.*' -exec cp -a {} "$out/lib/" \;
