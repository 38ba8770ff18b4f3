# The fake gdrdrv implements the driver's ABI. Machine: gdrdrv; needs the binary `exercise` (gdrdrv-fake/exercise.c and ask.c), which
# makes the assertions.
. /lib/gdr-guest.sh
. /lib/gdrdrv.sh

# exercised NAME WORD…: a result of the exercise.
exercised() {
  name=$1
  shift
  exercise "$@" >/tmp/exercise.txt
  expect "$name" 0 $?
  echo "$name: $(cat /tmp/exercise.txt)" | tee -a /out/exercise.txt
}

gdrdrv_load
expect "it loads" 0 $?
expect "node" "crw-rw-rw-" "$(stat -c %A /dev/gdrdrv)"
exercised "all" all
expect "no pin is left" "" "$(cat /proc/gdrdrv-fake/pins)"
gdrdrv_unload
expect "it unloads" 0 $?

# Mapped from a BAR, and the memory type that the kernel reports.
gdrdrv_load bar=1
expect "it loads on the BAR" 0 $?
mount -t debugfs debugfs /sys/kernel/debug
expect "write-combining BAR" 1 "$(grep -c write-combining /sys/kernel/debug/x86/pat_memtype_list)"
exercised "bar" data 1
gdrdrv_unload

gdrdrv_load cached=1
exercised "cached" data 2
gdrdrv_unload
expect "it unloads in the end" 0 $?

dmesg >/out/dmesg.txt
expect "complaints of the kernel" "" "$(grep -E 'BUG|WARNING|Oops|leak|x86/PAT.*(conflict|got)' /out/dmesg.txt)"
