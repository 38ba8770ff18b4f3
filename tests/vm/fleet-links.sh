# gdr fleet probe rdma between two guests with four Soft-RoCE ports each, on one cable, so that every port reaches every other one. First
# all ports are healthy; then a port of guest 2 is shaped, one of guest 1 loses packets, and another one of guest 2 is dead. Machine: two-guests; guest 1 is rank 0.
. /lib/gdr-guest.sh

meet
for module in macvlan sch_tbf sch_netem; do
  modprobe "$module" || fail "modprobe $module" "it did not load"
done
# Each interface answers for its own address alone.
for name in all default eth0; do
  echo 1 >"/proc/sys/net/ipv4/conf/$name/arp_ignore"
  echo 2 >"/proc/sys/net/ipv4/conf/$name/arp_announce"
  echo 0 >"/proc/sys/net/ipv4/conf/$name/rp_filter"
done
for number in 1 2 3; do
  ip link add link eth0 name "port$number" type macvlan mode bridge
  ip link set "port$number" up
  ip address add "10.0.0.$GDR_GUEST$number/24" dev "port$number"
  rdma link add "rxe$number" type rxe netdev "port$number" || fail "rxe$number" "it could not be made"
done
until ping -c 1 -W 1 "10.0.0.$((3 - GDR_GUEST))3" >/dev/null 2>&1; do sleep 0.2; done

GDR_PROBE_SECRET=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
GDR_FLEET_HOST=10.0.0.1
GDR_FLEET_SIZE=2
GDR_FLEET_NODE=$(hostname)
GDR_FLEET_RANK=$((GDR_GUEST - 1))
export GDR_PROBE_SECRET GDR_FLEET_HOST GDR_FLEET_SIZE GDR_FLEET_NODE GDR_FLEET_RANK

# An emulated CPU answers late, so a queue pair waits half a second (4.096 us x 2^17).
links() {
  gdr fleet probe rdma --library-timeout 20 --format json --timeout 100 -- --quick --memory host --size 8,4096 \
    --device rxe0,rxe1,rxe2,rxe3 --ack-timeout 17 --retries 7 >"/out/$1.json" 2>"/out/$1.txt"
  code=$?
  cat "/out/$1.txt"
}

links healthy
expect "healthy ports" 0 "$code"
if [ "$GDR_GUEST" = 2 ]; then
  tc qdisc add dev port1 root tbf rate 4mbit burst 8kb latency 5s
  tc qdisc add dev port3 root netem loss 100%
else
  tc qdisc add dev port2 root netem loss 5%
fi
links faulty
if [ "$GDR_GUEST" = 1 ]; then expect "ports at fault" 1 "$code"; else expect "ports at fault" 0 "$code"; fi
for number in 1 2 3; do
  tc -s qdisc show dev "port$number" >"/out/port$number.txt"
  cat "/out/port$number.txt"
done
pass "collected"
