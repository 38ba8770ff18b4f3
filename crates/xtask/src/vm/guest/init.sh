#!/bin/busybox sh
# init of a guest: sets up the machine, runs the script, returns /out, powers off.

export PATH=/usr/bin:/usr/sbin HOME=/root
/bin/busybox --install -s 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
exec </dev/null >/dev/console 2>&1
. /gdr/environment
hostname "$GDR_MACHINE-$GDR_GUEST"
ip link set lo up

say() { echo "init: $*"; }
say "kernel and tools are up after $(cut -d' ' -f1 /proc/uptime) s"

for module in virtio_pci virtio_blk ib_uverbs; do
  modprobe "$module" || say "module $module did not load"
done

if [ -n "$GDR_ADDRESS" ]; then
  # rxe requests the algorithm by name, and fails without it.
  for module in virtio_net crc32_generic rdma_rxe; do
    modprobe "$module" || say "module $module did not load"
  done
  ip link set eth0 up
  ip address add "$GDR_ADDRESS/24" dev eth0
  rdma link add rxe0 type rxe netdev eth0 || say "rxe0 could not be made"
fi

. /gdr/look-alikes.sh

say "script starts after $(cut -d' ' -f1 /proc/uptime) s"
: >/out/stdout
: >/out/stderr
# The script's output goes to the console, for the report after a timeout.
tail -q -f /out/stdout /out/stderr &
# Not busybox's shell, which would run its own modprobe, ip and ping.
dash /gdr/script >/out/stdout 2>/out/stderr
rc=$?
echo "$rc" >/out/rc
sleep 1
say "script ended with $rc after $(cut -d' ' -f1 /proc/uptime) s"
tar -C /out -cf /dev/vda . || say "/out could not be handed back"
sync
poweroff -f
