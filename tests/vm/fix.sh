# Repairs of ports on a real kernel: found, applied, checked with setpci, undone byte for byte, and killed at each step.
# Machine: iommu-on; needs the binary `kill-at` (kill-at.c).
. /lib/gdr-guest.sh
host="--platform bare-metal"

# The whole configuration space of all functions.
spaces() { od -An -tx1 -v /sys/bus/pci/devices/*/config >"$1"; }
acs() { # what the doctor says of it: exit status
  gdr doctor $host --only pcie.acs >/tmp/doctor.txt 2>&1
}
control() { setpci -s "$1" ECAP_ACS+0x6.w; }
below="0000:42:00.0 0000:42:01.0 0000:42:02.0"
roots="0000:80:00.0 0000:80:01.0"

spaces /out/before.txt
acs
expect "the doctor finds the ports" 1 $?

gdr fix-acs $host --dry-run --format script >/out/plan.sh
expect "a dry run" 0 $?
spaces /out/dry.txt
cmp -s /out/before.txt /out/dry.txt
expect "a dry run changes nothing" 0 $?
setpriv --reuid 65534 --regid 65534 --clear-groups gdr fix-acs $host --yes >/out/user.txt 2>&1
expect "an ordinary user sees the command" 3 $?
# Without a terminal nothing is asked or done.
gdr fix-acs $host >/dev/null 2>/out/unasked.txt
expect "without --yes" 3 $?

gdr fix-acs $host --yes >/out/fix.txt 2>&1
expect "gdr fix-acs --yes" 0 $?
cat /out/fix.txt
for port in $below $roots; do
  # SrcValid and UpstreamFwd stay set, ReqRedir and CmpltRedir are clear.
  expect "setpci reads $port" 0011 "$(control "$port")"
done
expect "setpci reads the port between the host bridges" 001d "$(control 0000:40:00.0)"
acs
expect "the doctor is content" 0 $?
gdr fix-acs $host --yes >/out/again.txt 2>&1
expect "a second time" 0 $?
expect "a second time makes no repair" 1 "$(ls /var/lib/gdr/journal | wc -l)"
gdr undo --list >/out/list.txt
gdr undo --yes >/out/undo.txt 2>&1
expect "gdr undo" 0 $?
spaces /out/after.txt
cmp /out/before.txt /out/after.txt
expect "every byte of every configuration space is as before" 0 $?

# The script executes the plan with setpci.
sh -e /out/plan.sh >/out/script.txt 2>&1
expect "the script runs" 0 $?
for port in $below $roots; do
  expect "the script mends $port too" 0011 "$(control "$port")"
done
sh -e /out/plan.sh >/out/script-again.txt 2>&1
expect "the script stops where the plan is no longer true" 1 $?
for port in $below $roots; do setpci -s "$port" ECAP_ACS+0x6.w=001d; done
spaces /out/after.txt
cmp /out/before.txt /out/after.txt
expect "set back by hand" 0 $?

# Two at once: one applies it, the other waits, fails, or finds it applied.
gdr fix-acs $host --yes >/out/one.txt 2>&1 &
one=$!
gdr fix-acs $host --yes >/out/two.txt 2>&1
two=$?
wait $one
echo "two at once ended with $? and $two"
for port in $below $roots; do
  expect "two at once: setpci reads $port" 0011 "$(control "$port")"
done
while gdr undo --yes >/dev/null 2>&1; do :; done
spaces /out/after.txt
cmp /out/before.txt /out/after.txt
expect "two at once are taken back" 0 $?

# kill -9 before each of the seven journal writes (the first by renameat2 with NOREPLACE, then renameat) and each of the six steps
# (pwrite64): six bridges in all.
rounds=0
restored() { # WHAT
  gdr undo --yes >/tmp/undo.txt 2>&1
  undone=$?
  spaces /tmp/now.txt
  # 2: nothing to undo yet.
  if [ $undone != 0 ] && [ $undone != 2 ] || ! cmp -s /out/before.txt /tmp/now.txt; then
    fail "killed $1" "undo ended with $undone: $(cat /tmp/undo.txt)"
  fi
  rounds=$((rounds + 1))
}
for call in renameat2 renameat pwrite64; do
  nth=1
  while :; do
    kill-at $call $nth gdr fix-acs $host --all-bridges --yes >/tmp/round.txt 2>&1
    code=$?
    restored "at $call $nth"
    [ $code = 0 ] && break
    nth=$((nth + 1))
  done
  echo "killed at $((nth - 1)) times $call"
  case $call in renameat2) wanted=1 ;; *) wanted=6 ;; esac
  expect "as many $call as a plan of six steps has" "$wanted" "$((nth - 1))"
done
# And at random moments after the start.
number=$(ls /var/lib/gdr/journal | wc -l)
try=0
while [ $try -lt "${GDR_KILLS:-2}" ]; do
  gdr fix-acs $host --all-bridges --yes >/tmp/round.txt 2>&1 &
  pid=$!
  number=$((number + 1))
  while [ ! -e /var/lib/gdr/journal/$number.json ] && kill -0 $pid 2>/dev/null; do :; done
  usleep $(($(od -An -N2 -tu2 /dev/urandom) % 8000))
  kill -9 $pid 2>/dev/null
  wait $pid 2>/dev/null
  number=$(ls /var/lib/gdr/journal | sort -n | tail -n 1)
  number=${number%.json}
  restored "somewhere in round $try"
  try=$((try + 1))
done
pass "$rounds times killed and taken back"
