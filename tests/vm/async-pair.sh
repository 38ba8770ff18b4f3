# Streams of simulated GPUs that send to each other through gdsync's proxy, over Soft-RoCE between two hosts.
# Machine: two-guests; guest 1 follows, guest 2 leads.
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
