#!/bin/sh
# Labels nodes by a report of gdr fleet: gdr.io/gpudirect-rdma=ready where nothing failed, and no label elsewhere.
#
#   gdr fleet report --by-file --format json DIR > fleet.json     # or gdr fleet doctor --format json in an Indexed Job
#   label-nodes.sh fleet.json
#
# Standard error of gdr is not a part of the file. It needs jq, and kubectl with the right to patch nodes.
set -eu
[ $# -eq 1 ] || { echo "usage: label-nodes.sh FLEET.json" >&2; exit 2; }
label=gdr.io/gpudirect-rdma
jq -e '.schema == "gdr.fleet/1"' "$1" >/dev/null || { echo "$1 is not a report of gdr fleet --format json" >&2; exit 2; }
jq -r '(.nodes[] | [.state, .name]), (.absent[] | ["absent", .node]) | @tsv' "$1" | while IFS="$(printf '\t')" read -r state node; do
  case $node in
    # A name of Kubernetes: nothing else goes to kubectl.
    "" | -* | *[!a-z0-9.-]*) echo "not a node of Kubernetes: $node" >&2; continue ;;
  esac
  case $state in
    ok) kubectl label node "$node" --overwrite "$label=ready" ;;
    *) kubectl label node "$node" "$label-" ;;
  esac
done
