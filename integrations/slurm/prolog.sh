#!/bin/sh
# Prolog of slurm.conf: a failed check keeps the job from this node. Slurm then drains the node with the reason "Prolog error" and
# requeues the job. The documentation of Slurm forbids its own commands (scontrol) here, so what failed is in the system log; use
# health-check.sh for a reason that names it. Configuration: check.sh; PATH may name logger.
set -u
conf=${GDR_CONF:-/etc/gdr/integrations.conf}
# shellcheck source=/dev/null
[ ! -r "$conf" ] || . "$conf"
line=$("$(dirname "$0")/check.sh" 30)
case $? in
  1)
    logger -t gdr-prolog "job ${SLURM_JOB_ID:-?}: $line"
    exit 1
    ;;
  # Nothing failed, or gdr itself could not run: no reason to fail jobs.
  0 | 3) ;;
  *) logger -t gdr-prolog "job ${SLURM_JOB_ID:-?} may start: $line" ;;
esac
exit 0
