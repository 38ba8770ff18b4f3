# gdr's information about a Soft-RoCE device compared with ibv_devinfo and rdma. Machine: rxe.
. /lib/gdr-guest.sh

devinfo >/out/devinfo.txt
expect "devinfo" 0 $?
cat /out/devinfo.txt
ibv_devinfo -v >/out/ibv_devinfo.txt
expect "ibv_devinfo" 0 $?
rdma system show >/out/rdma-shared.txt
gdr __read-verbs '{"trials":true}' >/out/verbs.json
expect "the reader of verbs" 0 $?
gdr doctor --format json >/out/doctor-shared.json
gdr snapshot -o /out/snapshot.json
expect "gdr snapshot" 0 $?

# In exclusive mode a second network namespace has no device.
rdma system set netns exclusive
expect "rdma system set netns exclusive" 0 $?
rdma system show >/out/rdma-exclusive.txt
gdr doctor --format json >/out/doctor-exclusive.json
ip netns add pod
expect "ip netns add" 0 $?
ip netns exec pod ls /sys/class/infiniband >/out/pod-devices.txt
ip netns exec pod gdr doctor --format json >/out/doctor-pod.json
pass "collected"
