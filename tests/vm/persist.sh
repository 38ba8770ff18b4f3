# Persistent repairs: applied in one boot, found in the next. Machine: systemd with a persistent disk; the script runs in each boot.
. /lib/gdr-guest.sh
. /usr/bin/fixes.sh
host="--platform bare-metal"
ports="0000:42:00.0 0000:42:01.0 0000:42:02.0 0000:80:00.0 0000:80:01.0"
control() { setpci -s "$1" ECAP_ACS+0x6.w; }
acs() { gdr doctor $host --only pcie.acs >/tmp/doctor.txt 2>&1; }
units() { find /etc/systemd/system | sort; }

if [ ! -e /var/lib/first-boot ]; then
  units >/var/lib/first-boot
  fixes_in_the_first_boot
  acs
  expect "the doctor finds the ports" 1 $?
  gdr fix-acs $host --persist unit --yes >/out/fix.txt 2>&1
  expect "gdr fix-acs --persist unit" 0 $?
  cat /out/fix.txt
  unit=/etc/systemd/system/gdr-acs.service
  cp $unit /out/
  systemd-analyze verify $unit >/out/verify.txt 2>&1
  expect "systemd-analyze verify" 0 $?
  expect "systemd-analyze says nothing of it" "" "$(grep gdr /out/verify.txt)"
  expect "it is enabled" enabled "$(systemctl is-enabled gdr-acs.service)"
  cat /out/verify.txt
  touch /run/gdr-reboot
else
  # The unit runs concurrently with this script, or has finished.
  tries=0
  until [ "$(systemctl is-active gdr-acs.service)" = active ] || [ $tries -gt 120 ]; do
    sleep 1
    tries=$((tries + 1))
  done
  systemctl status gdr-acs.service >/out/status.txt 2>&1
  cat /out/status.txt
  for port in $ports; do
    expect "after the boot setpci reads $port" 0011 "$(control "$port")"
  done
  fixes_in_the_second_boot
  acs
  expect "after the boot the doctor is content" 0 $?
  gdr undo --list
  # The effect of this boot's unit, then the persistent files.
  while gdr undo; do :; done
  for port in $ports; do
    expect "taken back, setpci reads $port" 001d "$(control "$port")"
  done
  units >/out/units.txt
  cmp /var/lib/first-boot /out/units.txt
  expect "the units are as before" 0 $?
  fixes_are_taken_back
  acs
  expect "the doctor finds the ports again" 1 $?
fi
