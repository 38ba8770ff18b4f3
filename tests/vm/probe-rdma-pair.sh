# gdr probe rdma between two hosts over Soft-RoCE: host memory and simulated GPU memory, different MTUs, a GID that one end lacks, an
# interruption. Machine: two-guests; guest 1 is the server, guest 2 the client.
. /lib/gdr-guest.sh

meet

# The secret comes from the environment, as with a launcher. A client without it is rejected, and guest 1 keeps listening.
GDR_PROBE_SECRET=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
export GDR_PROBE_SECRET

probe=rdma
side host 0 --quick --memory host --size 1,4096,65536 --qps 2
if [ "$GDR_GUEST" = 2 ]; then
  # Guest 1 already waits for the next round.
  GDR_PROBE_SECRET=$(echo "$GDR_PROBE_SECRET" | tr 5 6) \
    gdr probe rdma "$GDR_PEER" --memory host --format json >/out/wrong.json 2>/out/wrong.txt
  expect "another secret is rejected" 1 $?
fi
side sim 0 --quick --sim --size 1,65536
# A simulated GPU at the client only.
if [ "$GDR_GUEST" = 1 ]; then
  side mixed 0 --quick --memory host --size 1,65536
else
  side mixed 0 --quick --sim --size 1,65536
fi
if [ "$GDR_GUEST" = 1 ]; then
  side no-gid 1 --quick --memory host --size 8
else
  side no-gid 1 --quick --memory host --size 8 --gid-index 77
fi
# The curves of GPUDirect's versions; then a peer that runs another probe.
probe=transfer
side curves 0 --quick --sim --size 4,65536
if [ "$GDR_GUEST" = 1 ]; then
  probe=rdma
  side other-probe 1 --quick --sim --size 4
else
  side other-probe 1 --quick --sim --size 4
  probe=rdma
fi
if [ "$GDR_GUEST" = 1 ]; then
  ip link set "$(cat /sys/class/infiniband/rxe0/parent)" mtu 800
fi
side mtu 0 --quick --memory host --size 8,65536
if [ "$GDR_GUEST" = 1 ]; then
  side interrupted 1 --memory host --full
else
  # Interrupted while it runs.
  (sleep 15; kill -INT "$(pidof gdr | tr ' ' '\n' | sort -n | head -1)") &
  side interrupted 130 --memory host --full
fi
pass "collected"
