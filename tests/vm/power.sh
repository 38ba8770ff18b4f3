# Power loss during a repair: the rest of the last one is undone, and the next one started. Machine: iommu-on with a persistent disk. The
# host kills the machine some time after "power: begun".
. /lib/gdr-guest.sh
host="--platform bare-metal"
for module in crc32c_generic ext4; do modprobe $module; done
mkdir -p /disk
mount -t ext4 /dev/vdb /disk || { fail "the disk" "it does not mount"; exit 1; }
for directory in etc var; do
  [ -d /disk/$directory ] || cp -a /$directory /disk/ 2>/dev/null || mkdir -p /disk/$directory
  mkdir -p /$directory
  mount --bind /disk/$directory /$directory
done
# All files that a repair may change, and all names.
state() { (cd /etc && find . -type f -exec sha256sum {} + | sort -k2; find . | sort) >"$1"; }
if [ ! -e /disk/first ]; then
  state /disk/first
  sync
fi
gdr undo --yes >/tmp/undo.txt 2>&1
code=$?
cat /tmp/undo.txt
state /tmp/now
if cmp /disk/first /tmp/now && { [ $code = 0 ] || [ $code = 2 ]; }; then
  echo "power: whole"
else
  echo "power: differs, undo ended with $code"
fi
for port in 0000:42:00.0 0000:42:01.0 0000:42:02.0; do
  [ "$(setpci -s $port ECAP_ACS+0x6.w)" = 001d ] || echo "power: differs at $port"
done
last=$(ls /var/lib/gdr/journal 2>/dev/null | sort -n | tail -n 1)
next=/var/lib/gdr/journal/$((${last%.json} + 1)).json
(
  while [ ! -e "$next" ]; do :; done
  echo "power: begun"
) &
gdr fix acs memlock $host --yes
echo "power: done"
pass "made"
