# Functions for persist.sh: repairs of modules, options, device nodes and IOMMU groups on a real kernel with the real modprobe, udev and
# systemd. Machine: systemd. nvidia, nvidia_peermem and gdrdrv are FAKES (tests/vm/module-fakes), ib_uverbs and mlx5_ib are Debian's.
#
# Limits of these guests: QEMU's devices do not change their read request size, so the mrrs repair fails, and must leave nothing; mlx5_ib
# finds no NIC, so Soft-RoCE provides the RDMA device once the modules are loaded; no kernel device is both a NIC and an RDMA device, so
# peermem relies on the look-alikes' class. stream-memops is handled like peer-mapping, for drivers before 515; persistence is a state of
# NVIDIA's driver; the disk has no update-initramfs, which is slow under emulation. tests/fix_*.rs cover these.
nic=0000:44:00.0
loaded() { grep -c "^$1 " /proc/modules; }
# All files that a repair may change, the types of the IOMMU groups, the modules.
state() {
  (
    cd /etc && find modprobe.d modules-load.d udev systemd/system -type f -exec sha256sum {} + | sort -k2
    find modprobe.d modules-load.d udev systemd/system | sort
    find /usr/lib/modprobe.d -type f -exec sha256sum {} + | sort -k2
    grep . /sys/kernel/iommu_groups/*/type
    cut -d' ' -f1 /proc/modules | sort
  ) >"$1"
}
# The groups of the three GPUs and the two NICs.
types() {
  cat /sys/bus/pci/devices/0000:4[345]:00.0/iommu_group/type /sys/bus/pci/devices/0000:8[12]:00.0/iommu_group/type |
    sort | uniq -c | xargs
}
# Number and mode of the node: the number from the kernel, the mode from the rule.
node_is_right() {
  expect "$1" "$(sed -n 's/ gdrdrv$//p' /proc/devices | xargs):0 666" \
    "$(printf '%d:%d %s' $(stat -c '0x%t 0x%T %a' /dev/gdrdrv))"
}
warned() { grep -c -E "^(WARN|FAIL|info) +$1 " /tmp/found.txt; }

# fix NAME ID…
fix() {
  name=$1
  shift
  gdr fix "$@" $host --yes >"/out/fix-$name.txt" 2>&1
  code=$?
  cat "/out/fix-$name.txt"
  expect "gdr fix $*" 0 $code
}

# A device that ignores a write: nothing is left of the repair.
refused_by_the_device() {
  # udev loaded e1000e for the look-alikes; the devices must be unbound.
  udevadm settle
  modprobe -r e1000e
  config=$(readlink -f /sys/bus/pci/devices/$nic/config)
  # Uncovers the look-alike for a moment: this is QEMU's e1000e.
  umount "$config"
  od -tx1 "$config" >/tmp/config
  gdr fix mrrs $host --yes >/out/fix-mrrs.txt 2>&1
  expect "gdr fix mrrs" 1 $?
  cat /out/fix-mrrs.txt
  expect "mrrs says why" 1 "$(grep -c 'ignores the write' /out/fix-mrrs.txt)"
  od -tx1 "$config" | cmp - /tmp/config
  expect "mrrs leaves every byte" 0 $?
  mount --bind "/run/look-alikes/$nic/config" "$config"
}

# Files of an administrator and a vendor: a line that blocks the driver, one that blocks the NICs' driver, and options of which later ones
# override earlier ones.
broken_machine() {
  mkdir -p /run/class
  cp -a /sys/class/infiniband/. /run/class/
  umount /sys/class/infiniband
  modprobe -r ib_uverbs
  cat >/etc/modprobe.d/site.conf <<'END'
# by hand
install nvidia /bin/false
blacklist mlx5_core
options nvidia NVreg_RegistryDwords="Site=1"
END
  echo 'options nvidia NVreg_RegistryDwords="Vendor=2"' >/usr/lib/modprobe.d/vendor.conf
  # As packaged.
  echo gdrdrv >/etc/modules-load.d/gdrdrv.conf
}

# First the lines that block modules, and repairs that need no driver.
make_first() {
  fix "$1" modprobe rdma-modules
  modprobe nvidia && modprobe gdrdrv
  expect "$1: the fakes of nvidia and gdrdrv load" 0 $?
}
make_second() {
  mount --bind /run/class /sys/class/infiniband
  fix "$1" iommu peermem gdrdrv-node peer-mapping
}

# A software RDMA device, because mlx5_ib has no NIC.
soft_card() {
  modprobe e1000e && modprobe crc32_generic && modprobe rdma_rxe && udevadm settle
  rdma link add mlx5_0 type rxe netdev "$(ls /sys/bus/pci/devices/$nic/net)"
  expect "a Soft-RoCE device" 0 $?
  expect "the kernel makes its verbs node" "character special file" "$(stat -c %F /dev/infiniband/uverbs0)"
  gdr doctor $host --only rdma.modules >/tmp/found.txt 2>&1
  expect "rdma.modules holds" 0 $?
  rdma link delete mlx5_0
  modprobe -r rdma_rxe e1000e crc32_generic
}

fixes_in_the_first_boot() {
  echo "SIMULATED: nvidia, nvidia_peermem and gdrdrv are fakes"
  refused_by_the_device
  broken_machine
  state /out/state-before.txt
  cp /out/state-before.txt /var/lib/first-state
  gdr doctor $host --only rdma.modules,param.conflict >/tmp/found.txt 2>&1
  expect "the doctor fails" 1 $?
  cat /tmp/found.txt
  expect "found: rdma.modules" 1 "$(warned rdma.modules)"
  expect "found: param.conflict" 3 "$(warned param.conflict)"
  expect "modprobe loads no driver" 1 "$(modprobe -n -v nvidia | grep -c '^install /bin/false')"

  make_first first
  for module in ib_core ib_uverbs mlx5_core mlx5_ib; do
    expect "the kernel has $module" 1 "$(loaded $module)"
  done
  modprobe --showconfig >/out/showconfig.txt
  expect "no line keeps modules out" 0 "$(grep -c -E '^(install nvidia|blacklist mlx5_core)' /out/showconfig.txt)"
  cat /proc/driver/nvidia/params
  expect "modprobe gave the fake both keys" 2 \
    "$(grep '^RegistryDwords:' /proc/driver/nvidia/params | grep -o -E 'Site=1|Vendor=2' | wc -l)"
  soft_card

  make_second second
  expect "found: peermem.loaded, gdrdrv.node, pcie.iommu, param.peer-mapping" 9 \
    "$(grep -c -E '^  for (peermem.loaded mlx5_|gdrdrv.node|pcie.iommu [GN]|param.peer-mapping)' /out/fix-second.txt)"
  expect "each of them holds now" 4 "$(grep -c ': fixed\.' /out/fix-second.txt)"
  expect "IOMMU groups" "5 identity" "$(types)"
  expect "no other group" 5 "$(grep -l identity /sys/kernel/iommu_groups/*/type | wc -l)"
  cat /proc/modules
  expect "the kernel has the fake of nvidia_peermem, a user of ib_core and of nvidia" 2 \
    "$(grep -E '^(ib_core|nvidia) ' /proc/modules | grep -c nvidia_peermem,)"
  node_is_right "node"
  rm /dev/gdrdrv && rmmod gdrdrv && modprobe gdrdrv
  tries=0
  until [ -c /dev/gdrdrv ] || [ $tries -gt 60 ]; do sleep 0.5; tries=$((tries + 1)); done
  node_is_right "node by udev"
  expect "modprobe would open peer mappings" 1 \
    "$(modprobe --show-depends nvidia | grep -c 'NVreg_RegistryDwords=.*PeerMappingOverride=1')"
  gdr doctor $host --only pcie.iommu,param.conflict,peermem.loaded,peermem.boot,gdrdrv.node >/tmp/found.txt 2>&1
  expect "the doctor is content" 0 $?
  cat /tmp/found.txt
  expect "nothing is warned of" 0 "$(grep -c -E '^(WARN|FAIL)' /tmp/found.txt)"

  state /tmp/made.txt
  repairs=$(ls /var/lib/gdr/journal | wc -l)
  fix again iommu modprobe rdma-modules peermem gdrdrv-node peer-mapping
  state /tmp/made-again.txt
  cmp /tmp/made.txt /tmp/made-again.txt
  expect "a second time changes nothing" 0 $?
  expect "a second time makes no repair" "$repairs" "$(ls /var/lib/gdr/journal | wc -l)"

  gdr undo --yes
  expect "gdr undo" 0 $?
  [ -e /dev/gdrdrv ]
  expect "the node is gone" 1 $?
  umount /sys/class/infiniband
  rmmod gdrdrv && rmmod nvidia
  gdr undo --yes
  expect "gdr undo of the first" 0 $?
  state /out/state-after.txt
  diff /out/state-before.txt /out/state-after.txt
  expect "files, types and modules are as before" 0 $?

  # Again, persistently.
  make_first third
  make_second fourth
}

fixes_in_the_second_boot() {
  for module in ib_uverbs mlx5_ib nvidia nvidia_peermem gdrdrv; do
    expect "after the boot the kernel has $module" 1 "$(loaded $module)"
  done
  cat /proc/driver/nvidia/params
  expect "after the boot the fake of nvidia has all keys" 3 \
    "$(grep '^RegistryDwords:' /proc/driver/nvidia/params | grep -o -E 'Site=1|Vendor=2|PeerMappingOverride=1' | wc -l)"
  node_is_right "after the boot udev has made the node"
  expect "after the boot the groups translate again" "5 DMA-FQ" "$(types)"
}

# The boot loads the modules; the rest is in files.
fixes_are_taken_back() {
  state /out/state-undone.txt
  for of in /var/lib/first-state /out/state-undone.txt; do
    grep -E '^[0-9a-f]{64} |^modprobe|^modules-load|^udev' $of >$of-files
  done
  diff /var/lib/first-state-files /out/state-undone.txt-files
  expect "files are as before the first repair" 0 $?
}
