#!/bin/sh
# lay-out.sh [ROOT]: makes a NixOS machine look like most others, as far as the suites look for something: programs in the usual
# places, and at the places that an attack would write to files that could be written. ROOT is put before each path, for a test.
#
# An attack that is refused must be refused by the sandbox. Outside of one, as root, it has to succeed, and it does not where
# the file is missing, or a link into a store that takes no writes.
set -eu

root=${1:-}
programs=$root/run/current-system/sw/bin

mkdir -p "$root/usr/local/bin"
for directory in "$root/bin" "$root/usr/bin"; do
  mkdir -p "$directory"
  for program in "$programs"/*; do
    place=$directory/${program##*/}
    [ -e "$place" ] || ln -s "$program" "$place"
  done
done

for file in /bin/sh /etc/hostname /etc/hosts /etc/resolv.conf; do
  content=$(readlink -f "$root$file")
  cp --remove-destination "$content" "$root$file"
done

# A setuid program, of which the declared host has none. What is newest in a directory in memory is found first.
cp "$(readlink -f "$programs/true")" "$root/setuid"
chmod 4755 "$root/setuid"
