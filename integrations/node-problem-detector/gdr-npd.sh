#!/bin/sh
# Custom plugin of the node problem detector: 0 is well, 1 is a problem, 2 is unknown; the message is on standard output.
set -u
message=$(timeout 45 "${GDR:-gdr}" doctor --quick --format line "$@" 2>/dev/null)
status=$?
case $status in
  0) echo "GPUDirect works"; exit 0 ;;
  1) echo "$message"; exit 1 ;;
  3) echo "$message"; exit 2 ;;
  *) echo "gdr doctor ended with $status"; exit 2 ;;
esac
