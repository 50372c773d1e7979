#!/bin/sh
# Loads image archives into a new Docker data directory, with a daemon that lives for this only:
#   import.sh TREE DATA ARCHIVES [DOCKERD-OPTION...]
# TREE is an unpacked Debian tree with docker.io, docker-cli, containerd and runc. The caller gives this script namespaces of
# its own for mounts, processes and network: when it ends, the daemon, its containerd and every mount end with it.
set -eu
tree=$1 data=$2 archives=$3
shift 3

# The daemon changes the propagation of its root, which has to be a mount for that.
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t tmpfs tmpfs "$tree/run"
mount -t tmpfs tmpfs "$tree/tmp"
mkdir "$tree/run/data" "$tree/run/archives"
mount --bind "$data" "$tree/run/data"
mount --bind "$archives" "$tree/run/archives"

inside() { PATH=/usr/sbin:/usr/bin DOCKER_HOST=unix:///run/docker.sock chroot "$tree" "$@"; }

inside dockerd --bridge none --iptables=false --ip6tables=false --storage-driver overlay2 --data-root /run/data \
  --exec-root /run/docker --pidfile /run/docker.pid --host unix:///run/docker.sock --log-level warn "$@" >"$archives/dockerd.log" 2>&1 &
daemon=$!
i=0
until inside docker version >/dev/null 2>&1; do
  i=$((i + 1))
  if [ "$i" -gt 240 ] || ! kill -0 "$daemon" 2>/dev/null; then
    echo "the daemon that imports the images did not answer; it said:" >&2
    tail -n 20 "$archives/dockerd.log" >&2
    exit 1
  fi
  sleep 0.25
done
for archive in "$archives"/*.tar; do
  inside docker load --quiet --input "/run/archives/${archive##*/}" >/dev/null
done
inside docker image inspect $(inside docker image ls --quiet --no-trunc)
kill "$daemon"
wait "$daemon" || true
