# A software RDMA device has the location of its network device and is not a NIC. Machine: rxe.
. /lib/gdr-guest.sh

gdr topo --format json >/out/topo.json
expect "gdr topo" 0 $?
gdr doctor --format json >/out/doctor.json
cat /sys/class/infiniband/rxe0/parent >/out/parent.txt
readlink -f "/sys/class/net/$(cat /out/parent.txt)" >/out/netdev.txt
pass "collected"
