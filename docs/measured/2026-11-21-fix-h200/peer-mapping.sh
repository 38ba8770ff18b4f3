#!/bin/sh
# What 'gdr fix' would do, without its journal: take it back by hand, or let gdr make it.
set -eu
stop() { echo "stopped: $*" >&2; exit 1; }
sha() { sha256sum "$1" | cut -d ' ' -f 1; }

# peer-mapping: The driver lets every process map a NIC's doorbell to the GPU: PeerMappingOverride=1.
# mind: This opens peer mappings to every user of the machine, not to root alone: the driver shut them against CVE-2015-5053.

# /etc/modprobe.d/zz-gdr.conf sets PeerMappingOverride=1 for nvidia, beside the keys there are.
[ ! -e /etc/modprobe.d/zz-gdr.conf ] && [ ! -L /etc/modprobe.d/zz-gdr.conf ] || stop /etc/modprobe.d/zz-gdr.conf is there now
mkdir -p /etc/modprobe.d
: > /etc/modprobe.d/zz-gdr.conf.gdr-new
chmod 0644 /etc/modprobe.d/zz-gdr.conf.gdr-new
printf %s '# Written by gdr: read after the other files, so that its values count.
options nvidia NVreg_RegistryDwords="PeerMappingOverride=1;"
' > /etc/modprobe.d/zz-gdr.conf.gdr-new
mv /etc/modprobe.d/zz-gdr.conf.gdr-new /etc/modprobe.d/zz-gdr.conf
sync

# then: It is in effect after a reboot, or when the driver is loaded anew: stop what holds it (programs on the GPUs, nvidia-persistenced, nvidia-fabricmanager, a display), take out 'rmmod nvidia_uvm nvidia', and load 'modprobe -a nvidia nvidia_uvm'.
