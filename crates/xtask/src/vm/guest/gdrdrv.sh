# The fake gdrdrv, for scripts on machine gdrdrv: `. /lib/gdrdrv.sh`, then gdrdrv_load. tests/vm/gdrdrv-fake/README.md has its
# parameters.

# gdrdrv_load [PARAMETER=VALUE…]: loads the module and creates /dev/gdrdrv, as gdrcopy's script does.
gdrdrv_load() {
  insmod /lib/gdrdrv-fake.ko "$@" || return 1
  rm -f /dev/gdrdrv
  mknod -m 666 /dev/gdrdrv c "$(awk '$2 == "gdrdrv" { print $1 }' /proc/devices)" 0
}

# gdrdrv_unload: fails while a process has the node open.
gdrdrv_unload() {
  rmmod gdrdrv_fake && rm -f /dev/gdrdrv
}

# gdrdrv_set PARAMETER VALUE: changes a parameter of the loaded module.
gdrdrv_set() { echo "$2" >"/sys/module/gdrdrv_fake/parameters/$1"; }
