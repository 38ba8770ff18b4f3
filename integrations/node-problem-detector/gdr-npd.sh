#!/bin/sh
# Custom plugin of the node problem detector: 0 is well, 1 is a problem, 2 is unknown; the message is on standard output. Where GDR_LABELS
# names the directory of Node Feature Discovery's local features (/etc/kubernetes/node-feature-discovery/features.d), the node also gets the
# label gdr.io/gpudirect: ready, failed or unknown.
set -u
message=$(timeout 45 "${GDR:-gdr}" doctor --quick --format line "$@" 2>/dev/null)
status=$?
case $status in
  0) health=ready ;;
  1) health=failed ;;
  *) health=unknown ;;
esac
labels=${GDR_LABELS:-}
if [ -n "$labels" ] && [ -d "$labels" ]; then
  # Replaced whole: names that begin with a dot are not features.
  temporary=$labels/.gdr.$$
  if printf 'gdr.io/gpudirect=%s\n' "$health" >"$temporary"; then mv "$temporary" "$labels/gdr"; else rm -f "$temporary"; fi
fi
case $status in
  0) echo "GPUDirect works"; exit 0 ;;
  1) echo "$message"; exit 1 ;;
  3) echo "$message"; exit 2 ;;
  *) echo "gdr doctor ended with $status"; exit 2 ;;
esac
