# Verbs end to end on one host: Soft-RoCE, with perftest as both ends. Machine: rxe.
. /lib/gdr-guest.sh

ibv_devinfo -d rxe0 >/out/ibv_devinfo.txt 2>&1
cat /out/ibv_devinfo.txt
case $(cat /out/ibv_devinfo.txt) in
  *PORT_ACTIVE*) pass "port is active" ;;
  *) fail "port is active" "ibv_devinfo says otherwise" ;;
esac

# Emulated CPUs answer late: queue pairs wait four seconds (-u 20: 4.096 us x 2^20), and a failed pair is restarted, twice.
tries=1
while :; do
  ib_write_bw -d rxe0 -x 1 -u 20 -s 65536 -n 100 >/out/server.txt 2>&1 &
  server=$!
  sleep 2
  ib_write_bw -d rxe0 -x 1 -u 20 -s 65536 -n 100 "$GDR_ADDRESS" >/out/client.txt 2>&1
  client=$?
  [ "$client" = 0 ] || [ "$tries" = 3 ] && break
  echo "try $tries: the client ended with $client"
  cat /out/server.txt /out/client.txt
  kill "$server" 2>/dev/null
  wait "$server"
  tries=$((tries + 1))
done
expect "ib_write_bw ends well" 0 "$client"
cat /out/client.txt
# The row for 65536 bytes: size, iterations, peak, average MB/s.
average=$(awk '$1 == 65536 { print $4 }' /out/client.txt)
if awk -v average="$average" 'BEGIN { exit !(average > 0) }'; then
  pass "bytes moved"
else
  fail "bytes moved" "average bandwidth reads '$average'"
fi
