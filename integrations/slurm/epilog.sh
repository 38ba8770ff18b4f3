#!/bin/sh
# Epilog of slurm.conf: the same check after a job. A failure drains the node with the reason "Epilog error", before the next job
# meets it.
exec "$(dirname "$0")/prolog.sh"
