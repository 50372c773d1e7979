#!/bin/sh
# Builds what the guest suite of the shim runs: the shim as it ships, and the programs beside this file, all static.
# Usage: build.sh <directory to build into>
set -eu
into=$1
here=$(dirname "$0")
mkdir -p "$into"
(cd "$here/.." && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$into/aj-shim" .)
for source in "$here"/*.c; do
	gcc -O2 -static -Wall -Wextra -Wno-unused-result -o "$into/$(basename "$source" .c)" "$source"
done
g++ -O2 -static -Wall -Wextra -o "$into/sum" "$here/sum.cpp"
