# Covers the identity of endpoints with that of NVIDIA parts, by the plan in /gdr/look-alikes (sourced by init).
# Only endpoints: a port's configuration space stays alive, so that writes to it are real.

# cover DEVICE FILE TEXT: the file of a device says TEXT from now on.
cover() {
  [ -e "$1/$2" ] || return 0
  cover_copy="$cover_directory/$2"
  printf '%s\n' "$3" >"$cover_copy"
  mount --bind "$cover_copy" "$1/$2"
}

# poke FILE OFFSET HEX...: bytes of a copied configuration space.
poke() {
  poke_file=$1 poke_at=$2
  shift 2
  for byte in "$@"; do
    printf "\\x$byte" | dd of="$poke_file" bs=1 seek="$poke_at" conv=notrunc 2>/dev/null
    poke_at=$((poke_at + 1))
  done
}

low() { echo "${1#??}"; }
high() { echo "${1%??}"; }

look_alike() {
  kind=$1 name=$2 device=$3 vendor=$4 id=$5 class=$6 revision=$7 subvendor=$8 subdevice=$9
  bdf=${device##*/}
  cover_directory=/run/look-alikes/$bdf
  mkdir -p "$cover_directory"
  config="$cover_directory/config"
  cat "$device/config" >"$config"
  base=${class%????} rest=${class#??}
  poke "$config" 0 "$(low "$vendor")" "$(high "$vendor")" "$(low "$id")" "$(high "$id")"
  poke "$config" 8 "$revision" "$(low "$rest")" "$(high "$rest")" "$base"
  poke "$config" 44 "$(low "$subvendor")" "$(high "$subvendor")" "$(low "$subdevice")" "$(high "$subdevice")"
  mount --bind "$config" "$device/config"

  upper() { echo "$1" | tr a-f A-F; }
  modalias="pci:v0000$(upper "$vendor")d0000$(upper "$id")sv0000$(upper "$subvendor")sd0000$(upper "$subdevice")"
  modalias="${modalias}bc$(upper "$base")sc$(upper "$(high "$rest")")i$(upper "$(low "$rest")")"
  cover "$device" vendor "0x$vendor"
  cover "$device" device "0x$id"
  cover "$device" class "0x$class"
  cover "$device" revision "0x$revision"
  cover "$device" subsystem_vendor "0x$subvendor"
  cover "$device" subsystem_device "0x$subdevice"
  cover "$device" modalias "$modalias"
  cover "$device" uevent "PCI_CLASS=$(upper "${class#0}")
PCI_ID=$(upper "$vendor"):$(upper "$id")
PCI_SUBSYS_ID=$(upper "$subvendor"):$(upper "$subdevice")
PCI_SLOT_NAME=$bdf
MODALIAS=$modalias"
  [ "$kind" = nic ] && rdma_device "$name" "$device"
  echo "look-alike: $bdf is a $kind${name#-}, underneath still QEMU's"
}

# rdma_device NAME DEVICE: an entry of the RDMA class. There is no verbs device behind it.
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
  # A class directory takes no new entry, but it takes a mount.
  mount -t tmpfs look-alikes /sys/class/infiniband
  while read -r kind name pattern rest; do
    set -- $pattern
    if [ ! -e "$1/config" ] || [ $# -ne 1 ]; then
      echo "look-alike: $pattern is not there"
      continue
    fi
    look_alike "$kind" "$name" "$1" $rest
  done </gdr/look-alikes
fi
