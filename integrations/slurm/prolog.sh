#!/bin/sh
# Prolog of slurm.conf: a failed check keeps the job from this node. Slurm then drains the node with the reason "Prolog error" and
# requeues the job. The documentation of Slurm forbids its own commands (scontrol) here, so what failed is in the system log; use
# health-check.sh for a reason that names it. /etc/gdr/integrations.conf: see there.
set -u
GDR=gdr GDR_OPTIONS=
conf=${GDR_CONF:-/etc/gdr/integrations.conf}
# shellcheck source=/dev/null
[ ! -r "$conf" ] || . "$conf"

# shellcheck disable=SC2086 # several options
reason=$(timeout 30 "$GDR" doctor --quick --format line $GDR_OPTIONS 2>/dev/null)
status=$?
case $status in
  1) ;;
  124) reason="gdr: doctor did not finish within 30 s" ;;
  # Nothing failed, or gdr itself could not run: no reason to fail jobs.
  *) exit 0 ;;
esac
logger -t gdr-prolog "job ${SLURM_JOB_ID:-?}: $reason"
exit 1
