#!/bin/sh
# Writes the metrics of gdr doctor for the textfile collector of the node exporter. A failed check is a metric, not an error.
#
#   gdr-metrics.sh [DIRECTORY [OPTION OF DOCTOR...]]
#   gdr-metrics.sh /var/lib/prometheus/node-exporter --profile /etc/gdr/site.toml
#
# Without options, GDR_OPTIONS of /etc/gdr/integrations.conf counts, as in the scripts for Slurm: GDR_OPTIONS="--profile /etc/gdr/site.toml".
set -u
GDR=${GDR:-gdr} GDR_OPTIONS=
conf=${GDR_CONF:-/etc/gdr/integrations.conf}
# shellcheck source=/dev/null
[ ! -r "$conf" ] || . "$conf"
directory=${1:-/var/lib/prometheus/node-exporter}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086 # several options
[ $# -gt 0 ] || set -- $GDR_OPTIONS
temporary=$directory/gdr.prom.$$
trap 'rm -f "$temporary"' EXIT
"$GDR" doctor --format prometheus "$@" >"$temporary"
status=$?
case $status in
  0 | 1 | 3) chmod 644 "$temporary" && mv "$temporary" "$directory/gdr.prom" ;;
  *) exit "$status" ;;
esac
