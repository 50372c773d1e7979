#!/bin/sh
# format-scratch.sh DEVICE: an empty file system for everything that must not survive a boot.
#
# A device that carries anything but an earlier scratch file system, or nothing, is not touched: a wrong name here would
# cost somebody their data.
set -eu

device=$1
label=evalhost-scratch

if [ ! -w "$device" ]; then
  echo "evalhost-format-scratch: there is no $device to write to; see services.evalhost.scratch.device" >&2
  exit 1
fi

# Exit status 2 says that nothing was found on the device; anything else but success is not knowing.
status=0
found=$(blkid --probe --output export "$device") || status=$?
case $status in
0)
  case "
$found
" in
  *"
LABEL=$label
"*) ;;
  *)
    echo "evalhost-format-scratch: $device carries something else than an evalhost scratch file system and is left alone: $(echo "$found" | tr '\n' ' '). If it is the right partition, wipe it once: wipefs --all $device" >&2
    exit 1
    ;;
  esac
  ;;
2) ;;
*)
  echo "evalhost-format-scratch: $device cannot be read (blkid exited with $status), so it is not known what it carries" >&2
  exit 1
  ;;
esac

exec mkfs.ext4 -q -F -L "$label" -E lazy_itable_init=1 -O ^has_journal "$device"
