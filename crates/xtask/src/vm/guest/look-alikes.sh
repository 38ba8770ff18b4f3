# Covers the identity of endpoints with that of NVIDIA devices, from the plan in /gdr/look-alikes (sourced by init).
# Only endpoints: ports keep their real configuration space.

# cover DEVICE FILE TEXT: replaces the content of a device's file.
cover() {
  [ -e "$1/$2" ] || return 0
  printf '%s\n' "$3" >"$copies/$2"
  mount --bind "$copies/$2" "$1/$2"
}

# poke OFFSET BYTES: writes to the copied configuration space.
poke() {
  printf "$2" | dd of="$copies/config" bs=1 seek="$1" conv=notrunc 2>/dev/null
}

# look_alike KIND NAME DEVICE, then Identity::words of hardware.rs.
look_alike() {
  kind=$1 name=$2 device=$3
  bdf=${device##*/}
  copies=/run/look-alikes/$bdf
  mkdir -p "$copies"
  cat "$device/config" >"$copies/config"
  poke 0 "$4"
  poke 8 "$5"
  poke 44 "$6"
  mount --bind "$copies/config" "$device/config"
  cover "$device" vendor "$7"
  cover "$device" device "$8"
  cover "$device" class "$9"
  shift 9
  cover "$device" revision "$1"
  cover "$device" subsystem_vendor "$2"
  cover "$device" subsystem_device "$3"
  cover "$device" modalias "$4"
  [ "$kind" = nic ] && rdma_device "$name" "$device"
  echo "look-alike: $bdf is a $kind ($name); underneath it is still QEMU's"
}

# rdma_device NAME DEVICE: an entry of the RDMA class, without a verbs device.
rdma_device() {
  directory=/sys/class/infiniband/$1
  mkdir -p "$directory/ports/1/gids" "$directory/ports/1/gid_attrs/types" "$directory/ports/1/counters"
  ln -s "../../../${2#/sys/}" "$directory/device"
  put() { printf '%s\n' "$2" >"$directory/$1"; }
  put node_type '1: CA'
  put node_guid '0200:00ff:fe00:0001'
  put sys_image_guid '0200:00ff:fe00:0001'
  put node_desc "$1 look-alike"
  put hca_type 'look-alike'
  put board_id 'LOOKALIKE'
  put fw_ver '28.0.0'
  put ports/1/state '4: ACTIVE'
  put ports/1/phys_state '5: LinkUp'
  put ports/1/rate '400 Gb/sec (4X NDR)'
  put ports/1/link_layer 'InfiniBand'
  put ports/1/lid '0x1'
}

if [ -s /gdr/look-alikes ]; then
  # A class directory cannot get new entries, but can be mounted over.
  mount -t tmpfs look-alikes /sys/class/infiniband
  while read -r kind name pattern words; do
    set -- $pattern
    if [ ! -e "$1/config" ] || [ $# -ne 1 ]; then
      echo "look-alike: $pattern is not there"
      continue
    fi
    look_alike "$kind" "$name" "$1" $words
  done </gdr/look-alikes
fi
