# ACS redirection on a real kernel: gdr finds the ports and names bits and command, and the command fixes them. Machines: iommu-on,
# iommu-off. Leaves the output of gdr and lspci in /out for the host to compare.
. /lib/gdr-guest.sh

# The kernel enables ACS with a translating IOMMU, not without. The expected values come from lspci and the table of machines.
case $GDR_MACHINE in
  iommu-on) want='SrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+' ;;
  iommu-off) want='SrcValid- ReqRedir- CmpltRedir- UpstreamFwd-' ;;
  *) fail machine "$GDR_MACHINE has no ACS to look at" && exit 1 ;;
esac

lspci -D -vvv >/out/lspci-vvv.txt
lspci -D -xxxx >/out/lspci-xxxx.txt
lspci -D -PP >/out/lspci-path.txt
lspci -tv >/out/lspci-tv.txt
cat /out/lspci-tv.txt

# ACS of each port: three root ports, and the switch's three downstream ports.
ports=0
awk '/^[0-9a-f]/ { bdf = $1 } sub(/.*ACSCtl:[ \t]*/, "") { print bdf, $0 }' /out/lspci-vvv.txt >/tmp/acs
while read -r bdf control; do
  ports=$((ports + 1))
  got=
  for bit in SrcValid ReqRedir CmpltRedir UpstreamFwd; do
    for word in $control; do
      case $word in "$bit"[+-]) got="$got${got:+ }$word" ;; esac
    done
  done
  expect "acs $bdf" "$want" "$got"
done </tmp/acs
expect "ports with ACS" 6 "$ports"

# The kernel's own messages of a healthy boot are not symptoms: exit status 1.
dmesg >/out/dmesg.txt
expect "messages of the boot" yes "$([ "$(wc -l </out/dmesg.txt)" -gt 200 ] && echo yes)"
gdr explain --no-run /out/dmesg.txt >/out/explain.txt && code=0 || code=$?
expect "causes in them" 1 "$code"

# Writes to ports are real.
port=$(lspci -D -d 1b36:000c | cut -d' ' -f1 | head -n 1)
before=$(setpci -s "$port" ECAP_ACS+6.w)
setpci -s "$port" ECAP_ACS+6.w=0001
expect "setpci sticks" 0001 "$(setpci -s "$port" ECAP_ACS+6.w)"
setpci -s "$port" ECAP_ACS+6.w="$before"
expect "setpci goes back" "$before" "$(setpci -s "$port" ECAP_ACS+6.w)"

# The look-alikes in lspci: configuration space and sysfs.
expect "gpu look-alikes" 3 "$(lspci -n -d 10de: | grep -c ' 0302: ')"
expect "nic look-alikes" 2 "$(lspci -n -d 15b3:1021 | grep -c ' 0200: ')"
expect "rdma devices" "mlx5_0 mlx5_1" "$(ls /sys/class/infiniband | xargs)"
for device in /sys/bus/pci/devices/*; do
  case $(cat "$device/vendor") in 0x10de | 0x15b3) ;; *) continue ;; esac
  expect "config of ${device##*/}" "$(cut -c3- "$device/vendor")" "$(hexdump -n 2 -e '"%04x"' "$device/config")"
done

# Below one switch, on one node, and on the other node.
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

# gdr's output as root and as an ordinary user; the host runs the same commands on the snapshots. One command per line.
cat >/out/questions.txt <<'END'
topo
topo --nvme --format json
topo --pairs
doctor
doctor --format json
doctor --platform bare-metal --profile p2p
END
answers() { # DIRECTORY [user]
  mkdir "/out/$1"
  while read -r what; do
    name=/out/$1/$(echo "$what" | tr ' ' _)
    $2 gdr $what >"$name" 2>/dev/null </dev/null
    echo $? >"$name.status"
  done </out/questions.txt
}
user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
answers root
answers user user
gdr snapshot -o /out/snapshot-root.json.zst
expect "gdr snapshot" 0 $?
gdr snapshot --mask -o /out/snapshot-masked.json.zst
expect "gdr snapshot --mask" 0 $?
user gdr snapshot -o - >/out/snapshot-user.json
expect "gdr snapshot of a user" 0 $?

gdr topo --format json >/out/topo.json
expect "gdr topo" 0 $?
# With --platform bare-metal it judges the ports, unlike in a guest.
gdr doctor --platform bare-metal -v >/out/doctor-before.txt
gdr doctor --platform bare-metal --format json >/out/doctor-before.json

# All port commands that gdr names, run as written.
sed -n 's/^ *by hand: *\(setpci .*\)/\1/p' /out/doctor-before.txt >/out/commands.txt
sh -e /out/commands.txt
expect "the named commands run" 0 $?
lspci -D -vvv >/out/lspci-vvv-after.txt
gdr doctor --platform bare-metal --format json >/out/doctor-after.json

# An ordinary user reads only 64 bytes of configuration space: the result is unknown.
user gdr doctor --platform bare-metal --format json >/out/doctor-user.json

pass "collected"
