#!/bin/busybox sh
# init of a guest with systemd: covers the look-alikes, then starts the system on /dev/vdb, which runs the script as a service. The end of
# the script, or a reboot, ends the guest.

export PATH=/usr/bin:/usr/sbin HOME=/root
/bin/busybox --install -s 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
exec </dev/null >/dev/console 2>&1
. /gdr/environment
for module in virtio_pci virtio_blk ib_uverbs crc32c_generic ext4; do
  modprobe "$module" || echo "init: module $module did not load"
done
. /gdr/look-alikes.sh

mkdir -p /system
mount -t ext4 /dev/vdb /system || poweroff -f
# This run's files: modules of the booted kernel, binaries with their libraries, the script.
# Fake modules are not in the index yet. depmod by path: this shell would run its own.
[ ! -d "/lib/modules/$(uname -r)/updates" ] || /usr/sbin/depmod
cp -a /lib/modules /system/usr/lib/
while read -r file; do
  case $file in
    usr/bin/*) cp -a "/$file" "/system/$file" ;;
    # The system's own libraries take precedence.
    *) [ -e "/system/$file" ] || cp -a "/$file" "/system/$file" ;;
  esac
done </gdr/carried
mkdir -p /system/gdr /system/out
cp -a /gdr/. /system/gdr/
cp /lib/gdr-guest.sh /system/usr/lib/gdr-guest.sh
cat >/system/etc/systemd/system/gdr-guest.service <<'UNIT'
[Unit]
Description=The script of this run
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=journal+console
ExecStart=/bin/dash /gdr/run.sh
[Install]
WantedBy=default.target
UNIT
cat >/system/gdr/run.sh <<'RUN'
. /gdr/environment
rm -rf /out && mkdir -p /out
dash /gdr/script >/out/stdout 2>/out/stderr
rc=$?
cat /out/stdout /out/stderr >/dev/console
echo "$rc" >/out/rc
tar -C /out -cf /dev/vda .
sync
if [ -e /run/gdr-reboot ]; then systemctl reboot; else systemctl poweroff; fi
RUN
mkdir -p /system/etc/systemd/system/default.target.wants
ln -sf ../gdr-guest.service /system/etc/systemd/system/default.target.wants/gdr-guest.service
for place in proc sys dev run; do mount --move /$place /system/$place; done
exec switch_root /system /lib/systemd/systemd
