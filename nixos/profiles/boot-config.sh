#!/bin/sh
# boot-config.sh BASE CMDLINE VOLUME LEASES OUT [DAEMON]: writes what a host without a configuration of its own is told at boot.
#
#   BASE     the settings the image was built with, KEY=value
#   CMDLINE  the kernel's command line
#   VOLUME   a block device, or a directory, with the file evalhost.env; may be missing
#   LEASES   a directory with the leases of DHCP, for the resolvers where none are named
#   OUT      where runner.env, egress, resolv.conf and timesyncd.conf go
#   DAEMON   the program that is asked whether it would take the settings
#
# Later wins: the image, the volume, the command line. A line that is no setting is refused by name, so that a slip of
# the pen is not a host that judges with half of what was meant.
set -euf

base=$1 cmdline=$2 volume=$3 leases=$4 out=$5 daemon=${6:-}
newline='
'
return=$(printf '\r')
given="" resolvers="" times="" url=""

refuse() {
  cat >&2 <<TEXT

*** evalhost: $1
*** This machine judges nothing until it is told. Either add to the kernel command line
***   evalhost.server=https://judge.example.org/api/v1
*** or attach a volume with the label EVALHOST and a file evalhost.env with the line
***   AJ_Server__BaseUrl=https://judge.example.org/api/v1
*** and start the machine again. A volume that is attached while the machine runs is read at once.

TEXT
  exit 1
}

# setting LINE: one KEY=value for the daemon.
setting() {
  case ${1%%=*} in *[!A-Za-z0-9_]*) return 1 ;; esac
  case $1 in
  AJ_*=* | EVALHOST_*=*) ;;
  *) return 1 ;;
  esac
  case $1 in AJ_Server__BaseUrl=*) url=${1#*=} ;; esac
  given="$given$1$newline"
}

# machine LINE: what the machine itself needs to know; names and addresses, separated by commas.
machine() {
  case ${1#*=} in "" | *[!0-9A-Za-z.:,-]*) return 1 ;; esac
  case $1 in
  resolver=*) resolvers=$(echo "${1#*=}" | tr ',' ' ') ;;
  time=*) times=$(echo "${1#*=}" | tr ',' ' ') ;;
  *) return 1 ;;
  esac
}

directory=$volume
if [ -b "$volume" ]; then
  directory=$(mktemp -d)
  mount -o ro,nodev,nosuid,noexec "$volume" "$directory" || refuse "the volume EVALHOST ($volume) cannot be mounted"
  trap 'umount "$directory" && rmdir "$directory"' EXIT
fi
if [ -d "$directory" ]; then
  [ -f "$directory/evalhost.env" ] || refuse "the volume EVALHOST has no file evalhost.env"
  [ -r "$directory/evalhost.env" ] || refuse "evalhost.env on the volume EVALHOST cannot be read"
  number=0
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=${line%"$return"}
    case $line in
    "" | "#"*) ;;
    *)
      setting "$line" || machine "$line" ||
        refuse "line $number of evalhost.env on the volume EVALHOST is no setting: $line"
      ;;
    esac
  done <"$directory/evalhost.env"
fi

read -r words <"$cmdline" || true
for word in $words; do
  value=${word#*=}
  case $word in
  evalhost.server=*) setting "AJ_Server__BaseUrl=$value" ;;
  evalhost.name=*) setting "AJ_Runner__Name=$value" ;;
  evalhost.tags=*) setting "AJ_Runner__Tags=$value" ;;
  evalhost.resolver=* | evalhost.time=*)
    machine "${word#evalhost.}" || refuse "the kernel command line has $word, which names no address"
    ;;
  evalhost.*)
    refuse "the kernel command line has $word, which is none of evalhost.server, .name, .tags, .resolver and .time"
    ;;
  esac
done

# Of a key that is named twice the last one counts.
settings=$(printf '%s' "$given" | awk -F= '{ last[$1] = NR; line[NR] = $0; key[NR] = $1 }
  END { for (n = 1; n <= NR; n++) if (last[key[n]] == n) print line[n] }' "$base" -)

[ -n "$url" ] || refuse "no Server is named"
case $url in
https://?*/*) port=443 ;;
http://?*/*) port=80 ;;
*) refuse "the Server is \"$url\", which is no http or https address with a path" ;;
esac
rest=${url#*://}
authority=${rest%%/*}
case $authority in
*@* | "") refuse "the Server is \"$url\", which has no plain host" ;;
"["*"]:"*) host=${authority%%"]"*} port=${authority##*:} host=${host#"["} ;;
"["*"]") host=${authority%"]"} host=${host#"["} ;;
*:*) host=${authority%%:*} port=${authority##*:} ;;
*) host=$authority ;;
esac

if [ -z "$resolvers" ] && [ -d "$leases" ]; then
  # What DHCP offered; the only thing that is taken from it besides an address and a way out.
  set +f
  for lease in "$leases"/*; do
    while read -r line; do
      case $line in DNS=*) resolvers="$resolvers ${line#DNS=}" ;; esac
    done <"$lease"
  done
  set -f
fi
[ -n "$times" ] || times="0.nixos.pool.ntp.org 1.nixos.pool.ntp.org"

# What the daemon would refuse at its start is said here, where somebody looks.
if [ -n "$daemon" ]; then
  set -- "$daemon" --check-config
  while IFS= read -r line; do set -- "$line" "$@"; done <<SETTINGS
$settings
SETTINGS
  said=$(env -i "$@" 2>&1) || refuse "the settings are refused: $said"
fi

mkdir -p "$out"
{
  for address in $resolvers; do echo "resolver $address 53"; done
  for name in $times; do echo "time $name 123"; done
  echo "server $host $port"
} >"$out/egress"
for address in $resolvers; do echo "nameserver $address"; done >"$out/resolv.conf"
printf '[Time]\nNTP=%s\n' "$times" >"$out/timesyncd.conf"
# Quoted, so that systemd reads back what was written, whatever is in it.
# shellcheck disable=SC2016 # nothing of it is the shell's
printf '%s\n' "$settings" | sed -e 's/[\\"$`]/\\&/g' -e 's/=/="/' -e 's/$/"/' >"$out/runner.env"
echo "evalhost: judging for $url"
