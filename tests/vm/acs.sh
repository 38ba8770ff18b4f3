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

# A snapshot says what the machine says, to root and to an ordinary user.
lspci -D -xxxx >/out/lspci-xxxx.txt
user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
gdr snapshot -o /out/snapshot.json.zst
gdr snapshot --mask -o /out/snapshot-masked.json.zst
user gdr snapshot -o - >/out/snapshot-user.json
expect "gdr snapshot" 0 $?
replays() { # SNAPSHOT [user]
  for what in "topo" "topo --nvme --format json" "topo --format svg" "topo --pairs" "doctor" "doctor --format json" \
    "doctor --platform bare-metal --profile p2p"; do
    $2 gdr $what >/tmp/live.txt 2>/dev/null
    code=$?
    gdr --from "$1" $what >/tmp/replayed.txt 2>/dev/null
    expect "exit status of $what from $1" $code $?
    cmp /tmp/live.txt /tmp/replayed.txt
    expect "bytes of $what from $1" 0 $?
  done
}
replays /out/snapshot.json.zst
replays /out/snapshot-user.json user

# Every command it names for a port, as a user would copy it.
sed -n 's/^ *fix: *\(setpci .*\)/\1/p' /out/doctor-before.txt >/out/commands.txt
sh -e /out/commands.txt
expect "the named commands run" 0 $?
lspci -D -vvv >/out/lspci-vvv-after.txt
gdr doctor --platform bare-metal --format json >/out/doctor-after.json

# An ordinary user reads 64 bytes of configuration space: unknown, never clean.
setpriv --reuid 65534 --regid 65534 --clear-groups gdr doctor --platform bare-metal --format json >/out/doctor-user.json
pass "collected"
