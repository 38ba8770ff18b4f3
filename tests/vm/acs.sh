# The fault that users meet, on a real kernel: gdr finds the ports, names bits and command, and the command cures it.
# Machines: iommu-on, iommu-off. Leaves what gdr and lspci said in /out for the host to compare.
. /lib/gdr-guest.sh

lspci -D -vvv >/out/lspci-vvv.txt
lspci -tv >/out/lspci-tv.txt
lspci -D -PP >/out/lspci-path.txt
gdr topo >/out/topo.txt
gdr topo --format json >/out/topo.json
gdr topo --format svg >/out/topo.svg
expect "gdr topo" 0 $?

# The guest looks like one: what it cannot set it does not judge.
gdr doctor --format json >/out/doctor-guest.json
# Told that this is the host, it judges the ports.
gdr doctor --platform bare-metal >/out/doctor-before.txt
gdr doctor --platform bare-metal --format json >/out/doctor-before.json

# Every command it names for a port, as a user would copy it.
sed -n 's/^ *fix: *\(setpci .*\)/\1/p' /out/doctor-before.txt >/out/commands.txt
sh -e /out/commands.txt
expect "the named commands run" 0 $?
lspci -D -vvv >/out/lspci-vvv-after.txt
gdr doctor --platform bare-metal --format json >/out/doctor-after.json

# An ordinary user reads 64 bytes of configuration space: unknown, never clean.
setpriv --reuid 65534 --regid 65534 --clear-groups gdr doctor --platform bare-metal --format json >/out/doctor-user.json
pass "collected"
