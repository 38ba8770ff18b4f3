#!/bin/sh
# HealthCheckProgram of slurm.conf: drains this node with a reason that names what failed, and resumes it when nothing fails any more,
# if this script drained it. Slurm kills it after 60 s. Configuration: check.sh; PATH may name scontrol if it is in no usual place.
set -u
conf=${GDR_CONF:-/etc/gdr/integrations.conf}
# shellcheck source=/dev/null
[ ! -r "$conf" ] || . "$conf"
node=${SLURMD_NODENAME:-$(hostname -s)}
# Slurm logs what this prints.
log() { logger -t gdr-health-check "$node: $*"; printf 'gdr-health-check: %s: %s\n' "$node" "$*"; }
update() {
  if printed=$(scontrol update nodename="$node" "$@" 2>&1); then
    [ -z "$printed" ] || printf '%s\n' "$printed"
  else
    log "scontrol update: $printed"
  fi
}

reason=$("$(dirname "$0")/check.sh" 45)
status=$?

known=$(scontrol -o show node "$node" 2>&1) || { log "scontrol: $known"; exit 1; }
state=$(printf '%s\n' "$known" | sed -n 's/.* State=\([^ ]*\).*/\1/p')
before=$(printf '%s\n' "$known" | sed -n 's/.* Reason=\(.*\) \[.*/\1/p')

case $status in
  1)
    # A node that somebody else drained keeps that reason.
    case $state:$before in
      *DRAIN*:gdr:* | *DRAIN*:) ;;
      *DRAIN*) exit 0 ;;
    esac
    [ "$before" = "$reason" ] || update state=drain reason="$reason"
    printf '%s\n' "$reason"
    ;;
  0)
    case $state:$before in
      *DRAIN*:gdr:*) update state=resume ;;
    esac
    ;;
  # Something is unknown: no reason to stop a node, and none to let it work again.
  3) log "$reason" ;;
  *) log "the node is left as it is: $reason" ;;
esac
exit 0
