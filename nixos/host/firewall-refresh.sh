#!/bin/sh
# firewall-refresh.sh FILE [HOSTS BASE]: lets out to what FILE names, one "SET HOST PORT" a line: resolver, time or
# server, a name or an address, and a port. Packet filters know addresses only, so names are looked up here, at the
# resolvers the rules already let out to, and what was found counts for an hour. A name that cannot be found keeps what it
# had.
#
# HOSTS is written anew, BASE first and then what was found: a name behind which there are many addresses gives everybody
# others, and whoever asks on this host must get those that are let out to.
set -eu

file=$1
hosts=${2:-}
base=${3:-/dev/null}
pins=""
newline='
'
lifetime=1h
table="inet evalhost"
failed=0

# element SET ADDRESS PORT: adding what is there already would not prolong it, so it is taken out in the same step.
element() {
  case $2 in
  *:*) family=6 ;;
  *) family=4 ;;
  esac
  case $1 in
  server) value="$2 . $3" ;;
  *) value=$2 ;;
  esac
  printf 'add element %s %s%s { %s timeout %s }\n' "$table" "$1" "$family" "$value" "$lifetime"
  printf 'delete element %s %s%s { %s }\n' "$table" "$1" "$family" "$value"
  printf 'add element %s %s%s { %s timeout %s }\n' "$table" "$1" "$family" "$value" "$lifetime"
}

# addresses HOST: every address of it once. Of a host without IPv6, getent makes mapped addresses up.
addresses() {
  case $1 in
  *:* | *[0-9].[0-9]*.[0-9]*.*[0-9])
    # An address already, which is not worth a question, and which getent denies to a machine that has none yet.
    case $1 in *[!0-9a-fA-F.:]*) ;; *) printf '%s\n' "$1" && return ;; esac
    ;;
  esac
  # Only the name service is asked, not the file that was written from its last answer.
  {
    getent -s hosts:dns ahostsv4 "$1" || true
    getent -s hosts:dns ahostsv6 "$1" || true
  } | while read -r address _; do
    case $address in
    ::ffff:*) ;;
    *) printf '%s\n' "$address" ;;
    esac
  done | sort -u
}

while read -r set host port; do
  case $set in
  "" | "#"*) continue ;;
  resolver | time | server) ;;
  *)
    echo "firewall-refresh: $file: \"$set\" is none of resolver, time and server" >&2
    exit 1
    ;;
  esac
  found=$(addresses "$host")
  if [ -z "$found" ]; then
    echo "firewall-refresh: no address of $host ($set): see whether the declared resolvers answer; what was let out before stays for an hour" >&2
    failed=1
    if [ -n "$hosts" ] && [ -e "$hosts" ]; then
      while read -r address name; do
        if [ "$name" = "$host" ]; then pins="$pins$address $name$newline"; fi
      done <"$hosts"
    fi
    continue
  fi
  for address in $found; do
    element "$set" "$address" "$port"
  done | nft -f -
  for address in $found; do
    if [ "$address" != "$host" ]; then pins="$pins$address $host$newline"; fi
  done
done <"$file"

if [ -n "$hosts" ]; then
  { cat "$base" && printf '%s' "$pins"; } >"$hosts.new"
  mv "$hosts.new" "$hosts"
fi
exit "$failed"
