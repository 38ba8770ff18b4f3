# gdr probe rdma --listen on a kernel with an RDMA stack, met by strangers, by a peer that dies, and by a signal that dumps core: no queue
# pair for a stranger, the right peer is served, and nothing stays. Machine: rxe.
. /lib/gdr-guest.sh

GDR_PROBE_SECRET=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
export GDR_PROBE_SECRET
port=18516

# Queue pairs and memory regions of user processes; the kernel owns queue pairs of its own.
resources() {
  for kind in qp mr cq pd; do rdma resource show "$kind"; done 2>/dev/null | grep -c ' comm gdr'
}

listen() {
  gdr probe rdma --listen "$GDR_ADDRESS" --memory host --quick --size 8 --library-timeout 30 --format json >"/out/$1.json" 2>"/out/$1.txt" &
  server=$!
  tries=0
  until grep -q "gdr probe rdma $GDR_ADDRESS" "/out/$1.txt" || [ "$tries" -gt 60 ]; do
    tries=$((tries + 1))
    sleep 1
  done
}

# Waits until the NIC works for gdr.
works() {
  tries=0
  while [ "$(resources)" -lt 4 ] && [ "$tries" -lt 60 ]; do
    tries=$((tries + 1))
    sleep 1
  done
  if [ "$(resources)" -ge 4 ]; then pass "$1 is at work"; else fail "$1 is at work" "no queue pairs in a minute"; fi
}

# Ends within this many seconds, and leaves no process and nothing at the NIC.
ends() {
  tries=0
  while kill -0 "$server" 2>/dev/null && [ "$tries" -lt "$2" ]; do
    tries=$((tries + 1))
    sleep 1
  done
  if kill -0 "$server" 2>/dev/null; then
    fail "$1 ends" "it runs after $2 s"
    kill -9 "$server"
  fi
  wait "$server"
  code=$?
  sleep 1
  expect "$1 leaves no process" "" "$(pidof gdr)"
  expect "$1 leaves nothing at the NIC" 0 "$(resources)"
}

listen strangers
descriptors=$(find "/proc/$server/fd" -type l | wc -l)
memory=$(awk '/VmRSS/ { print $2 }' "/proc/$server/status")
number=0
while [ "$number" -lt 200 ]; do
  head -c $((number % 80)) /dev/urandom | timeout 2 nc "$GDR_ADDRESS" "$port" >/dev/null 2>&1 &
  number=$((number + 1))
  [ $((number % 20)) = 0 ] && expect "$number strangers have no queue pair" 0 "$(resources)"
done
# These stay and say nothing.
number=0
while [ "$number" -lt 40 ]; do
  sleep 20 | nc "$GDR_ADDRESS" "$port" >/dev/null 2>&1 &
  number=$((number + 1))
done
sleep 5
more=$(($(find "/proc/$server/fd" -type l | wc -l) - descriptors))
[ "$more" -le 16 ] && pass "at most 16 strangers are connected" || fail "at most 16 strangers are connected" "$more more descriptors"
grown=$(($(awk '/VmRSS/ { print $2 }' "/proc/$server/status") - memory))
[ "$grown" -le 1024 ] && pass "strangers take no memory" || fail "strangers take no memory" "$grown KiB more"
gdr probe rdma "$GDR_ADDRESS" --memory host --quick --size 8 --library-timeout 30 --format json >/out/served.json 2>/out/served.txt
expect "the right peer is served" 0 $?
ends "the listener" 60
expect "the listener" 0 "$code"
cat /out/strangers.txt
killall nc

# A peer that dies while the NIC works for it.
listen peer-dies
gdr probe rdma "$GDR_ADDRESS" --memory host --size 4M --library-timeout 30 >/out/dying.txt 2>&1 &
client=$!
works "the peer"
kill -9 "$client"
ends "the listener of a dead peer" 120
expect "the listener of a dead peer" 1 "$code"
cat /out/peer-dies.txt
tail -5 /out/peer-dies.json

# A core dump holds the process until it is written: it must not be of registered memory's size, nor keep the others.
mkdir -p /tmp/cores
echo /tmp/cores/core.%p >/proc/sys/kernel/core_pattern
ulimit -c unlimited
gdr probe rdma --memory host --size 4M --library-timeout 30 >/out/core.txt 2>&1 &
server=$!
works "the probe"
kill -ABRT "$server"
ends "a probe that dumps core" 120
echo "status $code"
ls -l /tmp/cores
cat /out/core.txt
for core in /tmp/cores/*; do
  [ -e "$core" ] || continue
  size=$(wc -c <"$core")
  [ "$size" -le 67108864 ] && pass "core of $size bytes" || fail "core of $size bytes" "more than 64 MiB"
done
