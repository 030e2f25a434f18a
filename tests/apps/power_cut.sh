#!/bin/sh
# Does a finished file outlive a power cut? A small disk in a file is copied while it is mounted, which is what a disk
# holds at that moment, and the copy is mounted. Usage: power_cut.sh NARROW TENSORS. Ends with 77 where it cannot run.
narrow=$1 tensors=$2
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "only root can mount"
command -v mkfs.ext4 >/dev/null || skip "no mkfs.ext4"
work=$(mktemp -d) || exit 1
trap 'umount "$work/now" "$work/then" 2>/dev/null; rm -rf "$work"' EXIT
mkdir "$work/now" "$work/then"
truncate -s 64M "$work/disk" && mkfs.ext4 -q -F "$work/disk" || exit 1
# The system itself would write after 300 s, not within this test.
mount -o loop,commit=300 "$work/disk" "$work/now" 2>/dev/null || skip "no loop device"

# The files as they are on the disk now, in then/.
cut_power() {
  umount "$work/then" 2>/dev/null
  cp --sparse=always "$work/disk" "$work/copy" && mount -o loop "$work/copy" "$work/then" || exit 1
}

echo old >"$work/now/old.safetensors"
sync -f "$work/now/old.safetensors"
for name in old new; do
  "$narrow" cast "$tensors" "$work/now/$name.safetensors" --to fp16 >/dev/null || exit 1
done
cut_power
for name in old new; do
  cmp "$work/now/$name.safetensors" "$work/then/$name.safetensors" || { echo "$name: lost"; exit 1; }
done
# Without syncs the same disk has nothing of it: this test can tell.
NARROW_NO_SYNC=1 "$narrow" cast "$tensors" "$work/now/fast.safetensors" --to fp16 >/dev/null || exit 1
cut_power
cmp -s "$work/now/fast.safetensors" "$work/then/fast.safetensors" && echo "note: something else synced the disk"
exit 0
