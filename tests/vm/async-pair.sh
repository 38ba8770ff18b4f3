# Streams of simulated GPUs in two hosts send to each other through gdsync's proxy, over Soft-RoCE.
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
pass "up after $(cut -d' ' -f1 /proc/uptime) s"
