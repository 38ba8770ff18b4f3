#!/bin/sh
# Installs, uses, upgrades and purges the debs, in a root of .ci/packages.
set -eu
export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
. /checkout/common.sh
install() { apt-get install -qq -y -o Dpkg::Use-Pty=0 "$@" >/dev/null; }
absent() { ! dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' || fail "$1 is installed beside the other one"; }
files >/tmp/before

install /packages/*.deb
uses

# NVIDIA's package has the same file: one of the two is installed, and one command replaces it.
mkdir -p /tmp/vendor/DEBIAN
printf 'Package: libgdrapi\nVersion: 2.5-1\nArchitecture: amd64\nMaintainer: none\nDescription: stand-in\n' >/tmp/vendor/DEBIAN/control
dpkg-deb --build /tmp/vendor /tmp/vendor.deb >/dev/null
ends 1 dpkg --install /tmp/vendor.deb
grep -q 'conflict' /tmp/output
install /tmp/vendor.deb
absent gdr-libgdrapi
install /packages/*.deb
absent libgdrapi

install /next/*.deb
[ "$(dpkg-query -W -f '${Version}' gdr)" = "$(dpkg-deb -f /next/gdr_*.deb Version)" ]
GDR_BACKEND=sim /tmp/program

repair
dpkg --remove gdr 2>&1 | tee /tmp/removal
warned
install /next/gdr_*.deb
gdr undo --yes >/dev/null
dpkg --remove gdr 2>&1 | tee /tmp/removal
! grep -q '^gdr:' /tmp/removal || fail "removal warns, but all is undone"

dpkg --purge $(dpkg-query -W -f '${Package}\n' 'gdr*') libgdrapi >/dev/null
removed
