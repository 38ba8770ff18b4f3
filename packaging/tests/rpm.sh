#!/bin/sh
# Installs, uses, updates and removes the rpms, in a root of .ci/release. rpm and the scripts are real, the distribution is Debian's.
set -eu
export PKG_CONFIG_PATH=/usr/lib64/pkgconfig
. /checkout/common.sh
echo /usr/lib64 >/etc/ld.so.conf.d/rpm.conf
ldconfig

# rpm does not know Debian's packages, nor NVIDIA's: stand-ins of their names.
stand_in() {
  printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: Stand-in\nLicense: MIT\nBuildArch: noarch\n%s\n%%description\nStand-in\n%%files\n' \
    "$1" "$2" "$3" >/tmp/stand-in.spec
  rpmbuild --quiet -bb --define '_rpmdir /tmp' --define '_topdir /tmp' /tmp/stand-in.spec
}
stand_in system 1 'Provides: /bin/sh, libc.so.6(GLIBC_2.28)(64bit), pkgconfig(libibverbs)'
stand_in gdrcopy 2.5 ''
rpm --force-debian --install /tmp/noarch/system-1-1.noarch.rpm
# Of the package filesystem, where there is one.
mkdir -p /usr/share/licenses
files >/tmp/before

rpm --force-debian --install /packages/*.rpm
uses
rpm --query --provides gdr-libgdrapi | grep -qx 'libgdrapi.so.2()(64bit)'
rpm --verify --nodeps gdr gdr-libgdrapi gdr-libgdrapi-devel

# NVIDIA's package has the same file.
ends 1 rpm --force-debian --install /tmp/noarch/gdrcopy-2.5-1.noarch.rpm
grep -q 'conflicts with' /tmp/output

rpm --force-debian --upgrade /next/*.rpm 2>/tmp/update
[ ! -s /tmp/update ] || fail "an update says: $(cat /tmp/update)"
[ "$(rpm --query --queryformat '%{VERSION}-%{RELEASE}' gdr)" = "$(rpm --query --package --queryformat '%{VERSION}-%{RELEASE}' /next/gdr-[0-9]*.rpm)" ]
GDR_BACKEND=sim /tmp/program

repair
rpm --force-debian --erase gdr 2>&1 | tee /tmp/removal
warned
rpm --force-debian --install /next/gdr-[0-9]*.rpm
gdr undo --yes >/dev/null
rpm --force-debian --erase gdr 2>&1 | tee /tmp/removal
! grep -q '^gdr:' /tmp/removal || fail "removal warns, but all is undone"

rpm --force-debian --erase $(rpm --query --all 'gdr*')
removed
