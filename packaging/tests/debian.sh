#!/bin/sh
# Installs, uses, upgrades and purges the debs, in a root of .ci/packages.
set -eu
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -qq -y --no-download "$@" >/dev/null; }
fail() { echo "$*" >&2; exit 1; }
# Fails unless the command ends with one of the statuses.
ends() {
  wanted=$1
  shift
  status=0
  "$@" >/tmp/output 2>&1 || status=$?
  case " $wanted " in *" $status "*) ;; *) cat /tmp/output >&2; fail "$*: $status" ;; esac
}
find / -xdev -path /tmp -prune -o -path /var -prune -o -print | sort >/tmp/before

install /packages/*.deb
gdr --version --verbose
# No GPU here: failed, or unknown.
ends "1 3" gdr doctor
gdr topo --from /checkout/snapshot.json | grep -q GPU0
gdr probe copy --sim --test basic >/dev/null
man -w gdr gdr-doctor >/dev/null
man gdr | grep -q GPUDirect
bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/gdr; complete -p gdr' | grep -q _gdr
for library in $(ls /packages | sed -n 's/^gdr-lib\(.*\)-dev_.*/\1/p'); do
  pkg-config --exists "$library"
  ldconfig -p | grep -q "lib$library\.so\.[0-9]* .*=> /lib/\|lib$library\.so\.[0-9]* .*=> /usr/lib/"
done
gcc -o /tmp/program /checkout/quiet.c $(pkg-config --cflags --libs gdrapi)
GDR_BACKEND=sim /tmp/program

# NVIDIA's package has the same file: one of the two is installed, and one command replaces it.
mkdir -p /tmp/vendor/DEBIAN
printf 'Package: libgdrapi\nVersion: 2.5-1\nArchitecture: amd64\nMaintainer: none\nDescription: stand-in\n' >/tmp/vendor/DEBIAN/control
dpkg-deb --build /tmp/vendor /tmp/vendor.deb >/dev/null
ends 1 dpkg --install /tmp/vendor.deb
grep -q 'conflict' /tmp/output
install /tmp/vendor.deb
! dpkg-query -W -f '${Status}' gdr-libgdrapi 2>/dev/null | grep -q 'ok installed' || fail "two packages have libgdrapi.so.2"
install /packages/*.deb
! dpkg-query -W -f '${Status}' libgdrapi 2>/dev/null | grep -q 'ok installed' || fail "two packages have libgdrapi.so.2"

install /next/*.deb
[ "$(dpkg-query -W -f '${Version}' gdr)" = "$(dpkg-deb -f /next/gdr_*.deb Version)" ]
GDR_BACKEND=sim /tmp/program

# A repair that is not undone, and a unit that runs gdr: removal warns.
gdr fix memlock --yes >/tmp/repair
mkdir -p /etc/systemd/system
printf '[Service]\nExecStart=/usr/bin/gdr fix-acs\n' >/etc/systemd/system/gdr-acs.service
dpkg --remove gdr 2>&1 | tee /tmp/removal
grep -q 'memlock: made' /tmp/removal
grep -q 'gdr-acs.service runs gdr at boot' /tmp/removal
rm /etc/systemd/system/gdr-acs.service
install /next/gdr_*.deb
gdr undo --yes >/dev/null
dpkg --remove gdr 2>&1 | tee /tmp/removal
! grep -q '^gdr:' /tmp/removal || fail "removal warns, but all is undone"

dpkg --purge $(dpkg-query -W -f '${Package}\n' 'gdr*') libgdrapi >/dev/null
! /tmp/program 2>/dev/null || fail "the library is still there"
find / -xdev -path /tmp -prune -o -path /var -prune -o -print | sort | diff /tmp/before - || fail "purge left or took files"
[ -d /var/lib/gdr/journal ]
