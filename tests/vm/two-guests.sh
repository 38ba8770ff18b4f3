# Verbs between two hosts. Machine: two-guests; guest 1 is the server, guest 2 the client.
. /lib/gdr-guest.sh

meet
pass "ping $GDR_PEER"

if [ "$GDR_GUEST" = 1 ]; then
  # A failed client is restarted, and its server too.
  tries=1
  while :; do
    timeout 120 ib_write_bw -d rxe0 -x 1 -u 20 -s 65536 -n 100 >/out/write_bw.txt 2>&1
    served=$?
    [ "$served" = 0 ] || [ "$tries" = 5 ] && break
    echo "try $tries: the server ended with $served"
    cat /out/write_bw.txt
    tries=$((tries + 1))
  done
  expect "ib_write_bw serves" 0 "$served"
else
  # The server may not listen yet.
  tries=0
  until ib_write_bw -d rxe0 -x 1 -u 20 -s 65536 -n 100 "$GDR_PEER" >/out/write_bw.txt 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -gt 10 ] && break
    sleep 2
  done
  average=$(awk '$1 == 65536 { print $4 }' /out/write_bw.txt)
  if awk -v average="$average" 'BEGIN { exit !(average > 0) }'; then
    pass "bytes moved between hosts"
  else
    fail "bytes moved between hosts" "average bandwidth reads '$average'"
  fi
fi
cat /out/write_bw.txt
