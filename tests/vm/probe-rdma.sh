# gdr's own ends over Soft-RoCE: every operation verified, and each figure beside perftest's in the same boot, GDR_ROUNDS times in
# turn (once, unless told). Machine: rxe.
. /lib/gdr-guest.sh

# Both ends of perftest on this guest, and its answer's row; a pair of ends that fails, as emulated CPUs make it, tells none.
peer() {
  "$1" -d rxe0 -x 1 -u 20 -F -s "$2" -n "$3" >/tmp/server.txt 2>&1 &
  server=$!
  sleep 1
  timeout 60 "$1" -d rxe0 -x 1 -u 20 -F -s "$2" -n "$3" "$GDR_ADDRESS" >/tmp/client.txt 2>&1
  kill "$server" 2>/dev/null
  wait "$server"
  echo "$1 $(awk -v size="$2" '$1 == size' /tmp/client.txt)"
}

task() {
  port='{"device":"rxe0","number":1,"gid":null}'
  terms=$(printf '{"depth":"quick","sizes":[%s],"shares":{},"patience":{"secs":30,"nanos":0}}' "$1")
  printf '{"rdma":{"near":%s,"far":%s,"sort":"host","terms":%s}}' "$port" "$port" "$terms"
}

gdr __probe "$(task '8,65536')" >/out/verified.txt
expect "gdr verifies and measures" 0 $?
gdr __probe '{"rdma":{"near":{"device":"rxe0","number":1,"gid":77},"far":{"device":"rxe0","number":1,"gid":null},"sort":"host","terms":{"depth":"quick","sizes":[8],"shares":{},"patience":{"secs":5,"nanos":0}}}}' \
  >/out/no-gid.txt
expect "a GID that is not there" 0 $?
round=1
while [ "$round" -le "${GDR_ROUNDS:-1}" ]; do
  gdr __probe "$(task '8,65536')" >"/out/gdr-$round.txt"
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
pass "collected"
