# gdr probe rdma between two hosts over Soft-RoCE: a clean cable, and packets that are lost or overtake each other. Machine: two-guests;
# guest 1 is the server, guest 2 the client.
. /lib/gdr-guest.sh

meet
GDR_PROBE_SECRET=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
export GDR_PROBE_SECRET

probe=rdma
side clean 0 --quick --memory host --size 65536
# What the transport hides: guest 2's packets are lost, or overtake each other. Only those of reliable connections, whose opcodes begin
# with 000: unreliable ones repeat nothing.
hidden() {
  interface=$(cat /sys/class/infiniband/rxe0/parent)
  round=$1
  shift
  if [ "$GDR_GUEST" = 2 ]; then
    tc qdisc add dev "$interface" root handle 1: prio bands 4 &&
      tc qdisc add dev "$interface" parent 1:4 handle 40: netem "$@" &&
      tc filter add dev "$interface" parent 1: protocol ip u32 \
        match ip protocol 17 0xff match ip dport 4791 0xffff match u8 0 0xe0 at 28 flowid 1:4
    expect "netem for $round" 0 $?
  fi
  side "$round" 0 --quick --memory host --size 65536
  [ "$GDR_GUEST" = 1 ] || tc qdisc del dev "$interface" root
}
hidden lost loss 0.1%
hidden reordered delay 1ms reorder 99.9%
pass "collected"
