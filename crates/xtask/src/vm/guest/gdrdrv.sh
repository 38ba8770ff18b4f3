# The fake of gdrdrv, for scripts on the machine gdrdrv: `. /lib/gdrdrv.sh`, then gdrdrv_load.
# What it can play is in tests/vm/gdrdrv-fake/README.md.

# gdrdrv_load [PARAMETER=VALUE…]: loads the module and makes /dev/gdrdrv, as gdrcopy's own script does.
gdrdrv_load() {
  insmod /lib/gdrdrv-fake.ko "$@" || return 1
  rm -f /dev/gdrdrv
  mknod -m 666 /dev/gdrdrv c "$(awk '$2 == "gdrdrv" { print $1 }' /proc/devices)" 0
}

# gdrdrv_unload: fails while a process has the node open.
gdrdrv_unload() {
  rmmod gdrdrv_fake && rm -f /dev/gdrdrv
}

# gdrdrv_set PARAMETER VALUE: plays something else from now on.
gdrdrv_set() { echo "$2" >"/sys/module/gdrdrv_fake/parameters/$1"; }
