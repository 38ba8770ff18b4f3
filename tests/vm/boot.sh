# The ACS that the kernel sets, which is what `gdr fix-acs` is about: on with a translating IOMMU, off without.
# Machines: iommu-on, iommu-off. What is expected comes from lspci and from the table of machines, not from gdr.
. /lib/gdr-guest.sh

case $GDR_MACHINE in
  iommu-on) want='SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+' ;;
  iommu-off) want='SrcValid- ReqRedir- CmpltRedir- UpstreamFwd-' ;;
  *) fail machine "$GDR_MACHINE has no ACS to look at" && exit 1 ;;
esac

lspci -vvv >/out/lspci-vvv.txt
lspci -tv >/out/lspci-tv.txt
cat /out/lspci-tv.txt

# ACS of each port: three root ports, and the three downstream ports of the switch.
ports=0
for device in /sys/bus/pci/devices/*; do
  bdf=${device##*/}
  control=$(lspci -vvv -s "$bdf" | sed -n 's/.*ACSCtl:[[:space:]]*//p')
  [ -n "$control" ] || continue
  ports=$((ports + 1))
  got=
  for bit in SrcValid ReqRedir CmpltRedir UpstreamFwd; do
    for word in $control; do
      case $word in "$bit"[+-]) got="$got${got:+ }$word" ;; esac
    done
  done
  expect "acs $bdf" "$want" "$got"
done
expect "ports with ACS" 6 "$ports"

# A write is a real write.
port=$(lspci -D -d 1b36:000c | cut -d' ' -f1 | head -n 1)
before=$(setpci -s "$port" ECAP_ACS+6.w)
setpci -s "$port" ECAP_ACS+6.w=0001
expect "setpci sticks" 0001 "$(setpci -s "$port" ECAP_ACS+6.w)"
setpci -s "$port" ECAP_ACS+6.w="$before"
expect "setpci goes back" "$before" "$(setpci -s "$port" ECAP_ACS+6.w)"

# The look-alikes, as lspci sees them in configuration space and in sysfs.
expect "gpu look-alikes" 3 "$(lspci -n -d 10de: | grep -c ' 0302: ')"
expect "nic look-alikes" 2 "$(lspci -n -d 15b3:1021 | grep -c ' 0200: ')"
expect "rdma devices" "mlx5_0 mlx5_1" "$(ls /sys/class/infiniband | xargs)"
for device in /sys/bus/pci/devices/*; do
  case $(cat "$device/vendor") in 0x10de | 0x15b3) ;; *) continue ;; esac
  expect "config of ${device##*/}" "$(cut -c3- "$device/vendor")" "$(hexdump -n 2 -e '"%04x"' "$device/config")"
done

# Below one switch, on one node; and on the other node.
switch_of() { readlink -f "$1" | cut -d/ -f5-6; }
nic=/sys/class/infiniband/mlx5_0/device
near=0
for device in /sys/bus/pci/devices/*; do
  [ "$(cat "$device/vendor")" = 0x10de ] || continue
  [ "$(switch_of "$device")" = "$(switch_of $nic)" ] && near=$((near + 1))
done
expect "gpus below the switch of mlx5_0" 2 "$near"
expect "node of mlx5_0" 0 "$(cat $nic/numa_node)"
expect "node of mlx5_1" 1 "$(cat /sys/class/infiniband/mlx5_1/device/numa_node)"
