#!/bin/sh
# Installs, uses, upgrades and purges the debs, in a root of .ci/packages.
set -eu
export GDR_BACKEND=sim
missing() { [ ! -e "$1" ] || { echo "$1 is still there" >&2; exit 1; }; }

dpkg --install /packages/*.deb
gdr --version --verbose
# No GPU here: failed, or unknown.
status=0
gdr doctor >/tmp/doctor 2>&1 || status=$?
[ "$status" = 1 ] || [ "$status" = 3 ] || { cat /tmp/doctor; echo "doctor: $status" >&2; exit 1; }
gdr topo --from /checkout/snapshot.json | grep -q GPU0
man -w gdr gdr-doctor
man gdr | grep -q GPUDirect
bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/gdr; complete -p gdr' | grep -q _gdr
gcc -o /tmp/program /checkout/quiet.c $(pkg-config --cflags --libs gdrapi)
/tmp/program
pkg-config --exists gdsync

dpkg --install /next/*.deb
[ "$(dpkg-query -W -f '${Version}' gdr)" = "$(dpkg-deb -f /next/gdr_*.deb Version)" ]
/tmp/program

# A repair that is not undone, and a unit that runs gdr: removal warns.
mkdir -p /etc/systemd/system /var/lib/gdr/journal /var/lib/gdr/saved
chmod 700 /var/lib/gdr /var/lib/gdr/journal /var/lib/gdr/saved
printf '[Service]\nExecStart=/usr/bin/gdr fix-acs\n' >/etc/systemd/system/gdr-acs.service
dpkg --remove gdr 2>&1 | tee /tmp/removal
grep -q 'gdr-acs.service runs gdr at boot' /tmp/removal
[ -d /var/lib/gdr/journal ]
rm /etc/systemd/system/gdr-acs.service
dpkg --purge $(dpkg-query -W -f '${Package}\n' 'gdr*')
for file in /usr/bin/gdr /usr/share/gdr /usr/share/doc/gdr /usr/share/man/man1/gdr.1.gz /usr/include/gdrapi.h \
  /usr/lib/*/libgdrapi.so.2 /usr/lib/*/libgdsync.so.2; do missing "$file"; done
! /tmp/program 2>/dev/null
