# Both ends of gdr probe rdma over Soft-RoCE: all operations verified, with host and simulated GPU memory, and each result beside perftest's
# in the same boot, GDR_ROUNDS times (default 1); and streams and messages through the proxy. Machine: rxe.
. /lib/gdr-guest.sh

# Both ends of perftest on this guest, and its result row; no row if a pair fails, which happens on emulated CPUs.
peer() {
  "$1" -d rxe0 -x 1 -u 20 -F -s "$2" -n "$3" >/tmp/server.txt 2>&1 &
  server=$!
  sleep 1
  timeout 60 "$1" -d rxe0 -x 1 -u 20 -F -s "$2" -n "$3" "$GDR_ADDRESS" >/tmp/client.txt 2>&1
  kill "$server" 2>/dev/null
  wait "$server"
  echo "$1 $(awk -v size="$2" '$1 == size' /tmp/client.txt)"
}

cat /sys/devices/system/clocksource/clocksource0/current_clocksource
gdr probe rdma --memory host --quick --size 8,65536 --library-timeout 30 --show-perftest --format json >/out/verified.json
expect "gdr verifies and measures" 0 $?
gdr probe rdma --sim --device rxe0 --quick --size 8,65536 --library-timeout 30 --format json >/out/sim.json
expect "memory of a simulated GPU goes by host memory" 0 $?
gdr probe rdma --memory host --quick --size 8 --gid-index 77 --library-timeout 30 --format json >/out/no-gid.json
expect "a GID that is not there" 1 $?
gdr probe rdma --memory huge --quick --size 8 --library-timeout 30 --format json >/out/huge.json
echo "huge pages: $?"
gdr probe async --sim --hca proxy --quick --library-timeout 30 --format json >/out/async.json
expect "a stream drives Soft-RoCE by the proxy" 0 $?
# Two guests exchange long messages too: async-pair.sh.
gdr probe mp --sim --hca proxy --quick --size 8 --library-timeout 30 --format json >/out/mp.json
expect "two processes exchange messages by the proxy" 0 $?
round=1
while [ "$round" -le "${GDR_ROUNDS:-1}" ]; do
  gdr probe rdma --memory host --quick --size 8,65536 --library-timeout 30 --format json >"/out/gdr-$round.json"
  expect "gdr measures" 0 $?
  {
    for test in ib_write_bw ib_read_bw ib_send_bw; do
      peer "$test" 65536 300
    done
    for test in ib_write_lat ib_send_lat ib_read_lat; do
      peer "$test" 8 1000
    done
  } >"/out/perftest-$round.txt"
  cat "/out/perftest-$round.txt"
  round=$((round + 1))
done
# Without the library other commands work, and this one names the missing packages.
find / -xdev -name 'libibverbs.so*' -exec rm -f {} +
gdr probe rdma --quick --library-timeout 30 >/out/no-library.txt 2>&1
expect "no libibverbs" 1 $?
gdr probe async --sim --hca proxy --quick --library-timeout 30 >/out/no-library-async.txt 2>&1
expect "no libibverbs, and a proxy" 1 $?
others() {
  gdr "$@" --library-timeout 60 >/out/no-library-other.txt 2>&1
  code=$?
  [ "$code" = 0 ] || cat /out/no-library-other.txt
  expect "gdr $1 $2 without libibverbs" 0 "$code"
}
others topo
others doctor --list
others probe copy --sim --quick --size 64
pass "collected"
