#!/bin/sh
# boot-config.sh BASE CMDLINE VOLUME LEASES OUT: writes what a host without a configuration of its own is told at boot.
#
#   BASE     the settings the image was built with, KEY=value
#   CMDLINE  the kernel's command line
#   VOLUME   a block device, or a directory, with the file evalhost.env; may be missing
#   LEASES   a directory with the leases of DHCP, for the resolvers where none are named
#   OUT      where runner.env, egress, resolv.conf and timesyncd.conf go
#
# Later wins: the image, the volume, the command line. A line that is no setting is refused by name, so that a slip of
# the pen is not a host that judges with half of what was meant.
set -eu

base=$1 cmdline=$2 volume=$3 leases=$4 out=$5
work=$(mktemp -d)
mounted=""
finish() {
  if [ -n "$mounted" ]; then umount "$work/volume" || true; fi
  rm -rf "$work/settings" "$work/given" "$work/host"
  rmdir "$work/volume" "$work" 2>/dev/null || true
}
trap finish EXIT

refuse() {
  cat >&2 <<TEXT

*** evalhost: $1
*** This machine judges nothing until it is told. Either add to the kernel command line
***   evalhost.server=https://judge.example.org/api/v1
*** or attach a volume with the label EVALHOST and a file evalhost.env with the line
***   AJ_Server__BaseUrl=https://judge.example.org/api/v1
*** and start the machine again.

TEXT
  exit 1
}

mkdir "$work/volume"
: >"$work/given"
: >"$work/host"
directory=$volume
if [ -b "$volume" ]; then
  mount -o ro,nodev,nosuid,noexec "$volume" "$work/volume" ||
    refuse "the volume EVALHOST cannot be mounted"
  mounted=yes
  directory=$work/volume
fi
if [ -d "$directory" ]; then
  [ -f "$directory/evalhost.env" ] || refuse "the volume EVALHOST has no file evalhost.env"
  number=0
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=$(printf '%s' "$line" | sed 's/\r$//')
    case $line in
    "" | "#"*) ;;
    *)
      if printf '%s' "$line" | grep -Eq '^(AJ|EVALHOST)_[A-Za-z0-9_]+='; then
        printf '%s\n' "$line" >>"$work/given"
      elif printf '%s' "$line" | grep -Eq '^(resolver|time)=[0-9A-Za-z.:-]+$'; then
        printf '%s\n' "$line" >>"$work/host"
      else
        refuse "line $number of evalhost.env on the volume EVALHOST is no setting: $line"
      fi
      ;;
    esac
  done <"$directory/evalhost.env"
fi

# The kernel's own words are split at blanks; a value here has none.
tr ' ' '\n' <"$cmdline" | grep '^evalhost\.' >"$work/settings" || true
while IFS= read -r word; do
  value=${word#*=}
  case $word in
  evalhost.server=*) printf 'AJ_Server__BaseUrl=%s\n' "$value" >>"$work/given" ;;
  evalhost.name=*) printf 'AJ_Runner__Name=%s\n' "$value" >>"$work/given" ;;
  evalhost.tags=*) printf 'AJ_Runner__Tags=%s\n' "$value" >>"$work/given" ;;
  evalhost.resolver=* | evalhost.time=*) printf '%s\n' "${word#evalhost.}" >>"$work/host" ;;
  *) refuse "the kernel command line has $word, which is none of evalhost.server, .name, .tags, .resolver and .time" ;;
  esac
done <"$work/settings"

url=$(sed -n 's/^AJ_Server__BaseUrl=//p' "$work/given" | tail -n 1)
[ -n "$url" ] || refuse "no Server is named"
rest=${url#*://}
authority=${rest%%/*}
case $url in
https://?*/*) port=443 ;;
http://?*/*) port=80 ;;
*) refuse "the Server is \"$url\", which is no http or https address with a path" ;;
esac
case $authority in
*@* | "") refuse "the Server is \"$url\", which has no plain host" ;;
"["*"]:"*) host=${authority%%"]"*} port=${authority##*:} host=${host#"["} ;;
"["*"]") host=${authority%"]"} host=${host#"["} ;;
*:*) host=${authority%%:*} port=${authority##*:} ;;
*) host=$authority ;;
esac

resolvers=$(sed -n 's/^resolver=//p' "$work/host" | tr ',' '\n')
if [ -z "$resolvers" ] && [ -d "$leases" ]; then
  resolvers=$(cat "$leases"/* 2>/dev/null | sed -n 's/^DNS=//p' | tr ' ' '\n' | sort -u)
fi
times=$(sed -n 's/^time=//p' "$work/host" | tr ',' '\n')
[ -n "$times" ] || times="0.nixos.pool.ntp.org 1.nixos.pool.ntp.org"

mkdir -p "$out"
{
  for address in $resolvers; do echo "resolver $address 53"; done
  for name in $times; do echo "time $name 123"; done
  echo "server $host $port"
} >"$out/egress.new"
for address in $resolvers; do echo "nameserver $address"; done >"$out/resolv.conf.new"
printf '[Time]\nNTP=%s\n' "$(echo "$times" | tr '\n' ' ')" >"$out/timesyncd.conf.new"
# Of a key that is named twice the last one counts, and systemd would read both.
cat "$base" "$work/given" | awk -F= '{ last[$1] = NR; line[NR] = $0; key[NR] = $1 }
  END { for (n = 1; n <= NR; n++) if (last[key[n]] == n) print line[n] }' >"$out/runner.env.new"
for file in egress resolv.conf runner.env timesyncd.conf; do mv "$out/$file.new" "$out/$file"; done
echo "evalhost: judging for $url"
