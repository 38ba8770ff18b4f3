# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_gdr_global_optspecs
    string join \n sysroot= from= color= library-timeout= v/verbose h/help V/version
end

function __fish_gdr_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_gdr_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_gdr_using_subcommand
    set -l cmd (__fish_gdr_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c gdr -n "__fish_gdr_needs_command" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_needs_command" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_needs_command" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_needs_command" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_needs_command" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_needs_command" -s V -l version -d 'Print version'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "run" -d 'Run a job, and show the paths that its ranks used'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "topo" -d 'Show how GPUs, NICs and NVMe controllers are connected, and the best NIC of each GPU'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "expect" -d 'Write a profile that says what a good machine has, for doctor and probe to compare with'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "fix-acs" -d 'Allow direct traffic between GPUs and NICs through PCI switches'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "undo" -d 'Undo a repair'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "fleet" -d 'Run doctor or a probe on many nodes, and merge their reports'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "snapshot" -d 'Record this machine in a file, to inspect anywhere with --from'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "doctor" -d 'Check whether GPUDirect works here, and name what prevents it'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "explain" -d 'Explain an error message, a log or a check, and check this machine for the causes'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "fix" -d 'Repair what doctor found: shows a plan first, verifies each step, and can be undone'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "probe" -d 'Prove it: transfer data, verify every byte, and measure'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand run" -l log -d 'Keep the logs of NCCL in this directory, which is created; the ranks of one job may share it' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand run" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand run" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand run" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand run" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand run" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l format -d 'Output format of the topology' -r -f -a "table\t'For people'
nvidia-smi\t'Same bytes as nvidia-smi topo'
json\t'For programs: schema gdr.topo/1'
svg\t'A drawing of the PCI tree'
html\t'One page for a browser, to keep or to send'
nccl-xml\t'The topology that NCCL reads by NCCL_TOPO_FILE'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l p2p -d 'Show the peer-to-peer status of each pair of GPUs, as nvidia-smi topo -p2p' -r -f -a "r\t'Reads'
w\t'Writes'
n\t'NVLink'
a\t'Atomics'
p\t'PCI Express'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l path -d 'Show the path between two devices, such as GPU0, NIC3, mlx5_0 or a PCI address' -r
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l nccl -d 'Show what NCCL decides here with this environment: the path of each pair, peer to peer, GPUDirect RDMA in each direction, and the NICs of each GPU, with the variable that changes it. By the rules of the installed NCCL, or of VERSION (2.18 to 2.30)' -r
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l platform -d 'Assume this platform instead of detecting it: in a guest the PCI tree says nothing about the host\'s paths' -r -f -a "bare-metal\t'On hardware'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l pci -d 'Show PCI classes instead of NVLinks, as nvidia-smi topo -mp'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l nvme -d 'Also show NVMe controllers'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l pairs -d 'Print the NICs for each GPU, with settings for NCCL, UCX, CUDA and numactl, and a script for Slurm'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l all -d 'Show the full matrix: also NICs and NVMe controllers with each other'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l check -d 'Exit with status 1 if the best NIC of a GPU is rated bad'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand expect" -s w -l write -d 'Output file; \'-\' is standard output' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l name -d 'Name of the profile' -r
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l include -d 'Profiles that it includes; \'none\' for none' -r
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l tolerance -d 'How far a bandwidth may be below that of the good machine, in percent' -r
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l majority -d 'Expect what most of these machines have, and the median of each bandwidth; machines with failures are left out, and if they are half of all, nothing is written'
complete -c gdr -n "__fish_gdr_using_subcommand expect" -l force -d 'Replace an existing file, and accept a machine with failures or with facts that cannot be read'
complete -c gdr -n "__fish_gdr_using_subcommand expect" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand expect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l pair -d 'Only the ports between two devices, such as GPU0, NIC0, mlx5_0 or PCI addresses' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l device -d 'Only this port, by PCI address' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l persist -d 'Keep the change across reboots' -r -f -a "unit\t'A systemd unit runs this command at every boot, before the usual workloads'
cmdline\t'A kernel parameter: pci=config_acs since Linux 6.15, pci=disable_acs_redir before 6.11. Also survives resets of ports'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l platform -d 'Assume this platform, as with doctor' -r -f -a "bare-metal\t'On hardware'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l format -d 'Output format of the plan' -r -f -a "table\t'For people'
script\t'A shell script with the same steps'
json\t'For programs: schema gdr.plan/1, or gdr.journal/1 after the repair'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l tools -d 'With --sysroot: run the programs in this directory instead of those of the machine, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l all-bridges -d 'All root ports and switch ports of the machine'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l dry-run -d 'Print the plan and change nothing'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s y -l yes -d 'Do not ask for confirmation'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l force -d 'Also make repairs that gdr considers unsafe'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l tools -d 'With --sysroot: run the programs in this directory instead of those of the machine, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l list -d 'List the repairs and exit'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s y -l yes -d 'Do not ask for confirmation'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l force -d 'Also restore files that another program has changed since'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "report" -d 'Merge reports of doctor and probe that were collected from many nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "history" -d 'Show each node over time, and the nodes that fail and recover'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "doctor" -d 'Run doctor on every node of a launcher, and merge the reports'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "topo" -d 'Run topo on every node of a launcher, and merge the results'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "probe" -d 'Run a probe on every node of a launcher: each on its own devices, or between the NICs of all nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and not __fish_seen_subcommand_from report history doctor topo probe help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l nodes -d 'Nodes that must have a report, as in n[1-64]; the others are named as missing' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l baseline -d 'Show what changed since an earlier report: JSON of gdr fleet, one record of --keep, a directory of either, or a directory of the nodes\' earlier reports' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l keep -d 'Keep a record of these reports in this directory, reduced and compressed, for --baseline and gdr fleet history' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l mask-key -d 'Mask with the key in this file: the same node has the same mask in every report, and in a snapshot with this key' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.fleet/1'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l by-file -d 'Name the nodes by their files, not by the hosts that the reports name'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -l mask -d 'Replace the names of the nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l mask-key -d 'Mask with the key in this file: the same node has the same mask in every report, and in a snapshot with this key' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l format -d 'Output format of the history' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.history/1'
html\t'One page for a browser, to keep or to send'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -l mask -d 'Replace the names of the nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l timeout -d 'How long a node may work' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l arrival -d 'How long the nodes may take to arrive' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l rendezvous -d 'Find rank 0 by this file in a directory that all nodes share [default: gdr-fleet-JOB in the working directory]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l secret-file -d 'The secret that all nodes share, 64 hexadecimal digits; the variable GDR_PROBE_SECRET works too' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l mask-key -d 'Mask with the key in this file, which rank 0 reads: the same node has the same mask in every report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.fleet/1'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -l mask -d 'Replace the names of the nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l timeout -d 'How long a node may work' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l arrival -d 'How long the nodes may take to arrive' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l rendezvous -d 'Find rank 0 by this file in a directory that all nodes share [default: gdr-fleet-JOB in the working directory]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l secret-file -d 'The secret that all nodes share, 64 hexadecimal digits; the variable GDR_PROBE_SECRET works too' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l mask-key -d 'Mask with the key in this file, which rank 0 reads: the same node has the same mask in every report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.fleet/1'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -l mask -d 'Replace the names of the nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l topology -d 'With rdma: which node or NIC hangs on which leaf switch' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l timeout -d 'How long a node may work' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l arrival -d 'How long the nodes may take to arrive' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l rendezvous -d 'Find rank 0 by this file in a directory that all nodes share [default: gdr-fleet-JOB in the working directory]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l secret-file -d 'The secret that all nodes share, 64 hexadecimal digits; the variable GDR_PROBE_SECRET works too' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l mask-key -d 'Mask with the key in this file, which rank 0 reads: the same node has the same mask in every report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.fleet/1'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l quick -d 'Measure less; with rdma O(log N) rounds instead of all pairs of N nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -l mask -d 'Replace the names of the nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "report" -d 'Merge reports of doctor and probe that were collected from many nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "history" -d 'Show each node over time, and the nodes that fail and recover'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "doctor" -d 'Run doctor on every node of a launcher, and merge the reports'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "topo" -d 'Run topo on every node of a launcher, and merge the results'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "probe" -d 'Run a probe on every node of a launcher: each on its own devices, or between the NICs of all nodes'
complete -c gdr -n "__fish_gdr_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s o -l output -d 'Output file; \'-\' is standard output. A name that ends in .zst is compressed' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l mask-key -d 'Mask with the key in this file: the same name, number or address has the same mask in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l diff -d 'Show the differences between two snapshots, of two machines or of one at two times, or between the saved results of a probe' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l format -d 'With --diff: output format' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.diff/1'
html\t'One page for a browser, to keep or to send'"
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l mask -d 'Replace serial numbers, UUIDs, GUIDs, MAC and IP addresses, host and user names, each consistently'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l with-reports -d 'Write one archive for a vendor, masked: the snapshot, the reports of doctor and topo, error counters and lines of the kernel log; README.txt in it says what it holds'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l live -d 'Also test the hardware, as doctor --live does, and record the results'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l all -d 'With --diff: also show differences between any two machines, such as UUIDs'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l baseline -d 'Show what changed since an earlier report of this machine: JSON of gdr doctor, or what gdr fleet kept; error counters are then judged by their rate since then' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l fail-on -d 'Lowest level of a finding that makes the exit status 1' -r -f -a "error\t'A failure'
warn\t'A failure or a warning'
unknown\t'A failure, a warning or an unknown result'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.doctor/1'
markdown\t'For tickets and wikis'
prometheus\t'For the textfile collector of the Prometheus node exporter'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'
line\t'For schedulers: one line that names what failed'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l platform -d 'Assume this platform instead of detecting it; the report says so' -r -f -a "bare-metal\t'On hardware'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l only -d 'Run only these checks: ids as shown by --list, or families such as pcie' -r -f -a "env\t''
env.contradiction\t''
expect\t''
expect.bandwidth\t''
expect.driver\t''
expect.gpu-link\t''
expect.gpu-model\t''
expect.gpus\t''
expect.memory-path\t''
expect.nic-firmware\t''
expect.nic-link\t''
expect.nic-model\t''
expect.nics\t''
expect.pairs\t''
expect.port\t''
gdrdrv\t''
gdrdrv.node\t''
gin\t''
gin.architecture\t''
gin.doca\t''
gin.nccl\t''
gin.nvshmem\t''
gin.ucx\t''
gpu\t''
gpu.bar1\t''
gpu.cdmm\t''
gpu.confidential\t''
gpu.dmabuf\t''
gpu.driver\t''
gpu.driver-flavour\t''
gpu.fabric\t''
gpu.imex\t''
gpu.mig\t''
gpu.min-driver\t''
gpu.nouveau\t''
gpu.nvlink\t''
gpu.nvlink-domain\t''
gpu.p2p-grant\t''
gpu.persistence\t''
gpu.present\t''
gpu.rdma-capable\t''
gpu.vgpu\t''
gpu.writes-ordering\t''
limits\t''
limits.map-count\t''
limits.memlock\t''
limits.rdma-cgroup\t''
limits.shm\t''
mapping\t''
mapping.backend\t''
mpi\t''
mpi.cuda-aware\t''
param\t''
param.conflict\t''
param.drift\t''
param.grdma-topo\t''
param.iomap-wc\t''
param.peer-mapping\t''
param.stream-memops\t''
pcie\t''
pcie.acs\t''
pcie.acs-vm\t''
pcie.ats\t''
pcie.errors\t''
pcie.iommu\t''
pcie.link\t''
pcie.locality\t''
pcie.payload\t''
pcie.shared\t''
peermem\t''
peermem.boot\t''
peermem.buildable\t''
peermem.legacy\t''
peermem.loaded\t''
platform\t''
platform.cma\t''
platform.container\t''
platform.guest\t''
platform.kernel\t''
platform.lockdown\t''
rdma\t''
rdma.async-nic\t''
rdma.core\t''
rdma.counters\t''
rdma.data-direct\t''
rdma.device\t''
rdma.firmware\t''
rdma.lossless\t''
rdma.mixed-stack\t''
rdma.modules\t''
rdma.netns\t''
rdma.nonprefetchable\t''
rdma.port\t''
rdma.provider\t''
rdma.register\t''
rdma.uar-map\t''
rdma.write-ordering\t''
sw\t''
sw.known-bad\t''
sw.libraries\t''
sw.net-plugin\t''
sw.toolkit\t''
tools\t''
tools.perftest\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l skip -d 'Do not run these checks' -r -f -a "env\t''
env.contradiction\t''
expect\t''
expect.bandwidth\t''
expect.driver\t''
expect.gpu-link\t''
expect.gpu-model\t''
expect.gpus\t''
expect.memory-path\t''
expect.nic-firmware\t''
expect.nic-link\t''
expect.nic-model\t''
expect.nics\t''
expect.pairs\t''
expect.port\t''
gdrdrv\t''
gdrdrv.node\t''
gin\t''
gin.architecture\t''
gin.doca\t''
gin.nccl\t''
gin.nvshmem\t''
gin.ucx\t''
gpu\t''
gpu.bar1\t''
gpu.cdmm\t''
gpu.confidential\t''
gpu.dmabuf\t''
gpu.driver\t''
gpu.driver-flavour\t''
gpu.fabric\t''
gpu.imex\t''
gpu.mig\t''
gpu.min-driver\t''
gpu.nouveau\t''
gpu.nvlink\t''
gpu.nvlink-domain\t''
gpu.p2p-grant\t''
gpu.persistence\t''
gpu.present\t''
gpu.rdma-capable\t''
gpu.vgpu\t''
gpu.writes-ordering\t''
limits\t''
limits.map-count\t''
limits.memlock\t''
limits.rdma-cgroup\t''
limits.shm\t''
mapping\t''
mapping.backend\t''
mpi\t''
mpi.cuda-aware\t''
param\t''
param.conflict\t''
param.drift\t''
param.grdma-topo\t''
param.iomap-wc\t''
param.peer-mapping\t''
param.stream-memops\t''
pcie\t''
pcie.acs\t''
pcie.acs-vm\t''
pcie.ats\t''
pcie.errors\t''
pcie.iommu\t''
pcie.link\t''
pcie.locality\t''
pcie.payload\t''
pcie.shared\t''
peermem\t''
peermem.boot\t''
peermem.buildable\t''
peermem.legacy\t''
peermem.loaded\t''
platform\t''
platform.cma\t''
platform.container\t''
platform.guest\t''
platform.kernel\t''
platform.lockdown\t''
rdma\t''
rdma.async-nic\t''
rdma.core\t''
rdma.counters\t''
rdma.data-direct\t''
rdma.device\t''
rdma.firmware\t''
rdma.lossless\t''
rdma.mixed-stack\t''
rdma.modules\t''
rdma.netns\t''
rdma.nonprefetchable\t''
rdma.port\t''
rdma.provider\t''
rdma.register\t''
rdma.uar-map\t''
rdma.write-ordering\t''
sw\t''
sw.known-bad\t''
sw.libraries\t''
sw.net-plugin\t''
sw.toolkit\t''
tools\t''
tools.perftest\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l profile -d 'Profiles to check against: rdma, async, gdrcopy, p2p, mpi, all, or a file; may be given several times' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l allow-unknown -d 'Exit with 0 instead of 3 if nothing failed and something required is unknown, for callers that know no third state'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l quick -d 'Leave out the checks of software and of firmware settings, and do not start CUDA, for a health check that runs every few minutes'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s q -l quiet -d 'Show only failures, warnings and unknown results'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l live -d 'Also test the hardware: map GPU memory for the CPU and verify it, register it with each NIC, and register the NICs\' doorbells with the GPUs'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l list -d 'List the checks and exit'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l job -d 'Read all files in this directory and below it: the logs of one job' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l format -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.explain/1'
html\t'One page for a browser, with the matrix of a job\'s ranks'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l profile -d 'Profiles to check the machine against, as with doctor; may be given several times' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l no-run -d 'Only name causes and checks; do not inspect a machine'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l platform -d 'Assume this platform, as with doctor' -r -f -a "bare-metal\t'On hardware'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l format -d 'Output format of the plan' -r -f -a "table\t'For people'
script\t'A shell script with the same steps'
json\t'For programs: schema gdr.plan/1, or gdr.journal/1 after the repair'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l tools -d 'With --sysroot: run the programs in this directory instead of those of the machine, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l profile -d 'Profiles to check the machine against, as with doctor; may be given several times' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l list -d 'List the available fixes and exit'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l dry-run -d 'Print the plan and change nothing'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s y -l yes -d 'Do not ask for confirmation'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l force -d 'Also make repairs that gdr considers unsafe'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and compare the copies with cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "host" -d 'Copy between host and GPU memory of every kind, verify every word, and find the best chunk size for staging'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "p2p" -d 'Copy between GPUs with and without peer access, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "rdma" -d 'Move GPU memory with RDMA NICs, verify every byte at the destination, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "async" -d 'Let CUDA streams ring a NIC\'s doorbells and wait for its completions, and measure the latency'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "mp" -d 'Exchange messages between two processes by the CPU, by CUDA streams and by kernels, and measure them beside MPI'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "transfer" -d 'Move GPU memory to GPU memory in each way of GPUDirect, verified, in one figure'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "mpi" -d 'Send host and GPU memory with the MPI library of the launcher, verify every byte, and name the transports'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async mp transfer mpi help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l backend -d 'Use only this backend; by default the first that works' -r -f -a "gdrdrv\t'gdrcopy\'s kernel module'
dmabuf\t'The driver\'s dma-buf (R610 and later)'
rm\t'The driver\'s resource manager; needs neither root nor a module'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l kernel -d 'Use only this copy kernel, such as avx512, avx2, sse41 or portable' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l numa -d 'NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l test -d 'Run only this test; may be repeated, and --list-tests names them' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l allocator -d 'Allocate the buffers of the measurements with this function' -r -f -a "cuMemAlloc\t'As cudaMalloc does'
cuMemCreate\t'With a mapping of its own'
pool\t'A pool of cuMemAllocFromPoolAsync that can be exported'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l mapping -d 'Map the buffers of the measurements with this memory type; an error if the backend maps another' -r -f -a "default\t'The backend\'s choice'
wc\t'Write-combined'
cache\t'Cached, on GPUs with NVLink-C2C'
device\t'Uncached, stores are not combined'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l offset -d 'Copy to and from this offset in the buffer, such as 64 or 4KiB' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l iterations -d 'Run each copy, call and round trip this often, instead of until its median is known' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l producer -d 'Who begins each round trip of ping-pong, and writes its data' -r -f -a "cpu\t'The CPU writes, and the kernel answers'
gpu\t'The kernel writes, and the CPU answers'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l flag -d 'Where the word is that the CPU writes in a round trip' -r -f -a "gpu\t'GPU memory, through the mapping'
host\t'Pinned host memory'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l reply -d 'Where the word is that the kernel writes in a round trip' -r -f -a "gpu\t'GPU memory, through the mapping'
host\t'Pinned host memory'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l data -d 'Let the producer write this much data before its word, and the other side verify it' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l data-in -d 'Where the data of round trips is' -r -f -a "gpu\t'GPU memory, through the mapping'
host\t'Pinned host memory'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l blocks -d 'Blocks of the kernel of ping-pong with data, each with a flag and an answer of its own [default: 8, or as many as the GPU runs at once]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l threads -d 'Threads of each of these blocks' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l list-tests -d 'List the tests, with gdrcopy\'s names for them, and do nothing else'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l cold -d 'Let the GPU write the buffer before each copy through the mapping, so that no CPU cache holds it; for cached mappings'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l numa -d 'NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l listen -d 'Wait up to an hour for gdr on the other machine [default: all addresses, port 18516]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l rendezvous -d 'Find the other process of a launcher: slurm, mpi, or a file that both machines see' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l secret-file -d 'Read the shared secret from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s d -l device -d 'NICs, such as mlx5_0 or mlx5_0:1; separate several with commas [default: the best NIC of each GPU]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l remote-device -d 'Use this port of this machine as the remote end [default: the same port]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l gid-index -d 'GID index at every port; with several, each is used in turn [default: prefers RoCE v2 with an IPv4 address]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l pkey-index -d 'P_Key index at every port of this machine' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l memory-path -d 'Use only this memory path; by default the first that works' -r -f -a "data-direct\t'GPUDirect RDMA by the Data Direct function of the NIC (ConnectX-8), for GPUs with NVLink-C2C'
dma-buf-pcie\t'GPUDirect RDMA with dma-buf over PCI Express, for GPUs with NVLink-C2C'
dma-buf\t'GPUDirect RDMA with dma-buf, over the driver\'s choice of path'
peermem\t'GPUDirect RDMA with nvidia-peermem'
staged\t'Copies through pinned memory, without GPUDirect RDMA'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l numa -d 'NUMA nodes of this machine\'s CPUs and host memory: that of the NIC (near), all, or a number' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l qps -d 'Number of queue pairs for bandwidth tests' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l traffic-class -d 'Traffic class; its upper six bits are the DSCP, as in 106 for DSCP 26 [default: 0, like NCCL]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l service-level -d 'Service level, 0 to 15; on RoCE its lower three bits are the priority [default: 0]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l hop-limit -d 'Hop limit (TTL) of routed packets [default: 64]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l flow-label -d 'Flow label, 1 to 1048575; with RoCE v2 it decides the UDP source port [default: the driver chooses]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l source-port -d 'UDP source port of RoCE v2, 49152 to 65535, by which switches spread flows [default: the driver chooses]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l mtu -d 'Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes [default: what both ports allow]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l ack-timeout -d 'Retransmission timeout, 4.096 us times two to the power of this; 0 waits forever [default: 20, four seconds]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l retries -d 'Retransmissions before a request fails, 0 to 7 [default: 7]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l rnr-retries -d 'Retries after the receiver was not ready, 0 to 7; 7 is unlimited [default: 7]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l rnr-timer -d 'Wait after the receiver was not ready, in the numbers of the InfiniBand specification [default: 12, 0.64 ms]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l static-rate -d 'Limit of the rate in Gb/s, one of InfiniBand\'s static rates, such as 25 or 100 [default: that of the port]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l relaxed-ordering -d 'Let the NICs relax the order of their writes where bandwidth is measured [default: on]' -r -f -a "on\t'Where the NIC and its library support it'
off\t'Strict order'
both\t'Both ways'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l memory -d 'Kind of memory [default: gpu if there is a GPU, else host]' -r -f -a "host\t'Host memory'
huge\t'Host memory in huge pages'
pinned\t'Host memory pinned by a GPU driver'
gpu\t'GPU memory'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l no-secret -d 'Use no secret, for two processes on the loopback address of this machine; any local user can connect'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l odp -d 'Also measure host memory with on-demand paging (ODP), beside pinned memory'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l all -d 'Measure each GPU with each NIC, one figure per pair, to compare path classes'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l together -d 'Also measure all GPUs with their NICs at the same time, to find what they share'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l show-perftest -d 'Print the equivalent perftest commands'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l hca -d 'Provider of the queues; without one, doorbells and completions are left out, and with --sim a software HCA is used' -r -f -a "mlx5\t'An mlx5 NIC (ConnectX, BlueField); the GPU rings its doorbells'
proxy\t'A CPU thread that posts to any RDMA device, for machines where the GPU cannot ring doorbells'
sim\t'A software HCA in a CPU thread; every output says so'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s d -l device -d 'NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l gid-index -d 'GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l batch -d 'Messages that are queued together, 1 to 100' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l compute -d 'A further kernel after each message writes this many bytes, such as 128KiB' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l schedule -d 'How CPU threads wait for the GPU' -r -f -a "auto\t'CUDA\'s choice'
spin\t'They poll'
yield\t'They poll, and let other threads run'
blocking\t'They sleep'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l receive -d 'The order in which streams wait for the messages of a batch' -r -f -a "in-order\t'As they arrive, each sent after the one before has arrived'
out-of-order\t'All of a batch are sent, then the stream waits for the last one first'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l transport -d 'Transports, separated by commas' -r -f -a "rc\t'Reliable connection'
ud\t'Datagrams of at most 4 KiB'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l kernel -d 'Let kernels drive queues too: they build WQEs in GPU memory, ring the doorbell and poll the CQ, beside streams and the CPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l no-kernel -d 'No kernels write and compare the messages of the loop; the CPU does, outside the measured time'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l listen -d 'Wait up to an hour for gdr on the other machine [default: all addresses, port 18516]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l rendezvous -d 'Find the other process of a launcher: slurm, mpi, or a file that both machines see' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l secret-file -d 'Read the shared secret from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l hca -d 'Provider of the queues [default: mlx5 if the GPU can ring the NIC\'s doorbells, else proxy; sim with --sim]' -r -f -a "mlx5\t'An mlx5 NIC (ConnectX, BlueField); the GPU rings its doorbells'
proxy\t'A CPU thread that posts to any RDMA device, for machines where the GPU cannot ring doorbells'
sim\t'A software HCA in a CPU thread; every output says so'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -s d -l device -d 'NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l gid-index -d 'GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l mpi -d 'Launcher of MPI\'s own figures, a name or a path [default: mpirun if it is installed; none with --sim]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l no-secret -d 'Use no secret, for two processes on the loopback address of this machine; any local user can connect'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -l no-mpi -d 'Leave out MPI\'s own figures'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l listen -d 'Wait up to an hour for gdr on the other machine [default: all addresses, port 18516]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l rendezvous -d 'Find the other process of a launcher: slurm, mpi, or a file that both machines see' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l secret-file -d 'Read the shared secret from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -s d -l device -d 'NICs, such as mlx5_0 or mlx5_0:1; separate several with commas [default: the best NIC of each GPU]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l remote-device -d 'Use this port of this machine as the remote end [default: the same port]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l gid-index -d 'GID index at every port; with several, each is used in turn [default: prefers RoCE v2 with an IPv4 address]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l pkey-index -d 'P_Key index at every port of this machine' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l memory-path -d 'Use only this memory path; by default the first that works' -r -f -a "data-direct\t'GPUDirect RDMA by the Data Direct function of the NIC (ConnectX-8), for GPUs with NVLink-C2C'
dma-buf-pcie\t'GPUDirect RDMA with dma-buf over PCI Express, for GPUs with NVLink-C2C'
dma-buf\t'GPUDirect RDMA with dma-buf, over the driver\'s choice of path'
peermem\t'GPUDirect RDMA with nvidia-peermem'
staged\t'Copies through pinned memory, without GPUDirect RDMA'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l numa -d 'NUMA nodes of this machine\'s CPUs and host memory: that of the NIC (near), all, or a number' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l qps -d 'Number of queue pairs for bandwidth tests' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l traffic-class -d 'Traffic class; its upper six bits are the DSCP, as in 106 for DSCP 26 [default: 0, like NCCL]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l service-level -d 'Service level, 0 to 15; on RoCE its lower three bits are the priority [default: 0]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l hop-limit -d 'Hop limit (TTL) of routed packets [default: 64]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l flow-label -d 'Flow label, 1 to 1048575; with RoCE v2 it decides the UDP source port [default: the driver chooses]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l source-port -d 'UDP source port of RoCE v2, 49152 to 65535, by which switches spread flows [default: the driver chooses]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l mtu -d 'Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes [default: what both ports allow]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l ack-timeout -d 'Retransmission timeout, 4.096 us times two to the power of this; 0 waits forever [default: 20, four seconds]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l retries -d 'Retransmissions before a request fails, 0 to 7 [default: 7]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l rnr-retries -d 'Retries after the receiver was not ready, 0 to 7; 7 is unlimited [default: 7]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l rnr-timer -d 'Wait after the receiver was not ready, in the numbers of the InfiniBand specification [default: 12, 0.64 ms]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l static-rate -d 'Limit of the rate in Gb/s, one of InfiniBand\'s static rates, such as 25 or 100 [default: that of the port]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l relaxed-ordering -d 'Let the NICs relax the order of their writes where bandwidth is measured [default: on]' -r -f -a "on\t'Where the NIC and its library support it'
off\t'Strict order'
both\t'Both ways'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -l no-secret -d 'Use no secret, for two processes on the loopback address of this machine; any local user can connect'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from transfer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l gpu -d 'GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l size -d 'Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l save -d 'Save the report, as a baseline for later runs; nothing is saved if the probe fails' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l baseline -d 'Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l runs -d 'Run the probe this many times; each figure is the median of the runs\' medians' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l format -d 'Output format of the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, as a chart in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a drawing'
html\t'One page for a browser, to keep or to send'
junit\t'For CI systems: JUnit XML'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l mask-key -d 'Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l mpi -d 'The MPI library, as a file or a name for the loader [default: that of the launcher]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l memory -d 'Kind of memory [default: host and, if there is a GPU, gpu]' -r -f -a "host\t'Host memory only'
gpu\t'Host memory and GPU memory'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l profile -d 'Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gpu-initiated\t''
gdrcopy\t''
p2p\t''
mpi\t''
nvlink-domain\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l sysroot -d 'Inspect the machine in this directory instead of this one' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l from -d 'Inspect the machine that this file describes: a gdr snapshot, a support report, or output of other programs (repeatable)' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l color -d 'When to use colour; auto: on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l library-timeout -d 'Timeout for calls into vendor libraries' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l sim -d 'Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l quick -d 'Only the most relevant tests, in less than 5 seconds per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -l full -d 'All tests, with more samples; a minute or more per GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -s v -l verbose -d 'Report unreadable sources on standard error; doctor also shows the evidence of every finding, --version how gdr was built'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from mpi" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and compare the copies with cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "host" -d 'Copy between host and GPU memory of every kind, verify every word, and find the best chunk size for staging'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "p2p" -d 'Copy between GPUs with and without peer access, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "rdma" -d 'Move GPU memory with RDMA NICs, verify every byte at the destination, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "async" -d 'Let CUDA streams ring a NIC\'s doorbells and wait for its completions, and measure the latency'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "mp" -d 'Exchange messages between two processes by the CPU, by CUDA streams and by kernels, and measure them beside MPI'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "transfer" -d 'Move GPU memory to GPU memory in each way of GPUDirect, verified, in one figure'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "mpi" -d 'Send host and GPU memory with the MPI library of the launcher, verify every byte, and name the transports'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "run" -d 'Run a job, and show the paths that its ranks used'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "topo" -d 'Show how GPUs, NICs and NVMe controllers are connected, and the best NIC of each GPU'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "expect" -d 'Write a profile that says what a good machine has, for doctor and probe to compare with'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "fix-acs" -d 'Allow direct traffic between GPUs and NICs through PCI switches'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "undo" -d 'Undo a repair'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "fleet" -d 'Run doctor or a probe on many nodes, and merge their reports'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "snapshot" -d 'Record this machine in a file, to inspect anywhere with --from'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "doctor" -d 'Check whether GPUDirect works here, and name what prevents it'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "explain" -d 'Explain an error message, a log or a check, and check this machine for the causes'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "fix" -d 'Repair what doctor found: shows a plan first, verifies each step, and can be undone'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "probe" -d 'Prove it: transfer data, verify every byte, and measure'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from run topo expect fix-acs undo fleet snapshot doctor explain fix probe help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "report" -d 'Merge reports of doctor and probe that were collected from many nodes'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "history" -d 'Show each node over time, and the nodes that fail and recover'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "doctor" -d 'Run doctor on every node of a launcher, and merge the reports'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "topo" -d 'Run topo on every node of a launcher, and merge the results'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "probe" -d 'Run a probe on every node of a launcher: each on its own devices, or between the NICs of all nodes'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and compare the copies with cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "host" -d 'Copy between host and GPU memory of every kind, verify every word, and find the best chunk size for staging'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "p2p" -d 'Copy between GPUs with and without peer access, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "rdma" -d 'Move GPU memory with RDMA NICs, verify every byte at the destination, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "async" -d 'Let CUDA streams ring a NIC\'s doorbells and wait for its completions, and measure the latency'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "mp" -d 'Exchange messages between two processes by the CPU, by CUDA streams and by kernels, and measure them beside MPI'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "transfer" -d 'Move GPU memory to GPU memory in each way of GPUDirect, verified, in one figure'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "mpi" -d 'Send host and GPU memory with the MPI library of the launcher, verify every byte, and name the transports'
