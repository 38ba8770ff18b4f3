# Streams of simulated GPUs in two hosts send to each other over Soft-RoCE: through gdsync's proxy, and as ranks of the crate mp.
# Machine: two-guests; guest 1 is the server, guest 2 the client.
. /lib/gdr-guest.sh

meet
if [ "$GDR_GUEST" = 1 ]; then
  proxy_pair rxe0 >/out/proxy_pair.txt 2>&1
else
  proxy_pair rxe0 "$GDR_PEER" >/out/proxy_pair.txt 2>&1
fi
expect "proxy_pair" 0 $?
cat /out/proxy_pair.txt

GDR_PROBE_SECRET=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
export GDR_PROBE_SECRET
if [ "$GDR_GUEST" = 1 ]; then
  set -- --listen "$GDR_ADDRESS"
else
  set -- "$GDR_PEER"
fi
gdr probe mp "$@" --sim --hca proxy --quick --size 8,65536 --library-timeout 30 --format json >/out/mp.json 2>/out/mp.txt
expect "gdr probe mp" 0 $?
cat /out/mp.txt
pass "up after $(cut -d' ' -f1 /proc/uptime) s"
