# Records the machine as sysfs and lspci show it, for golden files and other tests. Any machine.
. /lib/gdr-guest.sh

pci=/out/pci
for device in /sys/bus/pci/devices/*; do
  into=$pci/${device##*/}
  mkdir -p "$into"
  readlink -f "$device" >"$into/realpath"
  base64 "$device/config" >"$into/config.base64"
  for link in iommu_group driver; do
    [ -e "$device/$link" ] && basename "$(readlink -f "$device/$link")" >"$into/$link"
  done
  for file in class vendor device subsystem_vendor subsystem_device revision modalias numa_node resource local_cpulist \
    current_link_speed current_link_width max_link_speed max_link_width; do
    cat "$device/$file" >"$into/$file" 2>/dev/null || rm -f "$into/$file"
  done
done

# Class directories hold links; their targets are copied one level below.
for device in /sys/class/infiniband/*; do
  [ -e "$device" ] || continue
  into=/out/infiniband/${device##*/}
  mkdir -p "$into/ports"
  readlink -f "$device" >"$into/realpath"
  [ -e "$device/device" ] && readlink -f "$device/device" >"$into/device"
  for file in node_type node_guid sys_image_guid node_desc hca_type board_id fw_ver parent; do
    cat "$device/$file" >"$into/$file" 2>/dev/null || rm -f "$into/$file"
  done
  for port in "$device"/ports/*; do
    mkdir -p "$into/ports/${port##*/}"
    for file in state phys_state rate link_layer lid; do
      cat "$port/$file" >"$into/ports/${port##*/}/$file" 2>/dev/null
    done
  done
done

mkdir -p /out/node
for node in /sys/devices/system/node/node*; do
  cat "$node/cpulist" >"/out/node/${node##*/}"
done

cat /proc/cmdline >/out/cmdline
cat /proc/modules >/out/modules
uname -a >/out/uname
for iommu in /sys/kernel/iommu_groups/*; do
  [ -e "$iommu" ] && echo "${iommu##*/} $(cat "$iommu/type") $(ls "$iommu/devices" | xargs)"
done >/out/iommu_groups
lspci -tv >/out/lspci-tv.txt
lspci -D -vvv >/out/lspci-vvv.txt 2>/out/lspci-stderr.txt
lspci -D -xxxx >/out/lspci-xxxx.txt

devices=$(ls /sys/bus/pci/devices | wc -l)
expect "devices in the hex dump" "$devices" "$(grep -c '^0000:' /out/lspci-xxxx.txt)"
expect "hex dump can be read back" "$devices" "$(lspci -F /out/lspci-xxxx.txt | wc -l)"
