#!/bin/sh
# check.sh SECONDS: checks this node for the other scripts of this directory, and prints one line. It ends with 1 if something failed or
# doctor did not finish in time, with 0 if nothing failed, with 3 if something is unknown, and with doctor's status if doctor crashed or
# could not run. /etc/gdr/integrations.conf may set GDR (the program), GDR_OPTIONS (of doctor, as in --profile /etc/gdr/site.toml),
# GDR_TIMEOUT (instead of SECONDS) and PATH.
set -u
GDR=gdr GDR_OPTIONS='' GDR_TIMEOUT=''
conf=${GDR_CONF:-/etc/gdr/integrations.conf}
# shellcheck source=/dev/null
[ ! -r "$conf" ] || . "$conf"
limit=${GDR_TIMEOUT:-$1}

doctor() {
  exec 3>&1
  # shellcheck disable=SC2086 # several options
  errors=$(timeout -k 1 "$((limit + 1))" "$GDR" doctor --quick --format line $GDR_OPTIONS 2>&1 >&3 3>&-)
  printf '\nstatus %s %s\n' $? "$(printf '%s' "$errors" | tail -n 1)"
}

# A process that waits for a faulty driver cannot be killed, and a shell that waits for it does not end. So doctor runs in the background,
# and cat passes on what it prints, until the time is over.
answer=$( (doctor 2>/dev/null &) | timeout "$limit" cat)
ended=$(printf '%s\n' "$answer" | sed -n 's/^status //p')
status=${ended%% *}
case $status in
  '')
    echo "gdr: doctor did not finish within $limit s"
    exit 1
    ;;
  0 | 1 | 3) printf '%s\n' "$answer" | head -n 1 ;;
  *) echo "gdr doctor ended with $status: ${ended#* }" ;;
esac
exit "$status"
