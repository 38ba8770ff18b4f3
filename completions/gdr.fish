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

complete -c gdr -n "__fish_gdr_needs_command" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_needs_command" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_needs_command" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_needs_command" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_needs_command" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_needs_command" -s V -l version -d 'Print version'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "topo" -d 'Show how GPUs, NICs and NVMe controllers reach each other, and the best NIC of each GPU'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "fix-acs" -d 'Let traffic between GPUs and NICs go straight through PCI switches'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "undo" -d 'Take a repair back'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "snapshot" -d 'Record this machine in one file, to be looked at with --from anywhere'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "doctor" -d 'Check whether GPUDirect works here, and name what stands in its way'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "explain" -d 'Tell what an error line, a log or a check is about, and what this machine says of it'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "fix" -d 'Mend what doctor found: shown first, made a step at a time, read back, and undoable'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "probe" -d 'Prove it: move bytes, verify every one, and measure'
complete -c gdr -n "__fish_gdr_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l format -d 'How to print the topology' -r -f -a "table\t'For people'
nvidia-smi\t'Byte for byte as nvidia-smi topo'
json\t'For programs: schema gdr.topo/1'
svg\t'A picture of the PCI tree'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l p2p -d 'Show the peer-to-peer status of each pair of GPUs, as nvidia-smi topo -p2p does' -r -f -a "r\t'Reads'
w\t'Writes'
n\t'NVLink'
a\t'Atomics'
p\t'PCI Express'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l path -d 'Explain the way between two devices: GPU0, NIC3, mlx5_0 or a PCI address' -r
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l pci -d 'Show PCI classes where NVLinks would be shown, as nvidia-smi topo -mp does'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l nvme -d 'Show NVMe controllers too'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l pairs -d 'Print the NIC for each GPU, with lines for NCCL, UCX, CUDA and numactl'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -l check -d 'End with status 1 where the best NIC of a GPU is a bad one'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand topo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l pair -d 'Only the ports between these two devices: GPU0, NIC0, mlx5_0 or PCI addresses' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l device -d 'Only this port, by its PCI address' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l persist -d 'Keep the change over reboots' -r -f -a "unit\t'A unit of systemd runs this command again at every boot, before the usual workloads'
cmdline\t'The kernel makes it, told on its command line by the boot loader: pci=config_acs from 6.15 on, pci=disable_acs_redir before 6.11. It also lasts over resets of ports'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l platform -d 'Judge as on this platform, whatever the machine looks like, as doctor does' -r -f -a "bare-metal\t'On the hardware itself'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l format -d 'How to print the plan' -r -f -a "table\t'For people'
script\t'A shell script that does the same'
json\t'For programs: schema gdr.plan/1, and gdr.journal/1 once it is made'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l tools -d 'With --sysroot: run the programs in this directory in place of the machine\'s, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l all-bridges -d 'Every root port and switch port of the machine, wherever it leads: the blunt way'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l dry-run -d 'Print the plan and change nothing'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s y -l yes -d 'Do not ask'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -l force -d 'Also make what gdr refuses for safety'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand fix-acs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l tools -d 'With --sysroot: run the programs in this directory in place of the machine\'s, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l list -d 'List the repairs and end'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s y -l yes -d 'Do not ask for confirmation at a terminal'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -l force -d 'Also restore what another program has changed since'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s o -l output -d 'Where to write it; \'-\' is standard output. A name that ends in .zst is compressed' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l diff -d 'Tell what differs between two recorded machines, or between two times of one, fact by fact' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l format -d 'With --diff: how to print it' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.diff/1'"
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l mask -d 'Replace serial numbers, UUIDs, GUIDs, MAC and IP addresses, host and user names, each always by the same'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l live -d 'Try the hardware too, as doctor --live does, and record what came of it'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -l all -d 'With --diff: also what differs between any two machines, as UUIDs do'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand snapshot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l fail-on -d 'Exit status 1 already where something is so bad' -r -f -a "error\t'Something fails'
warn\t'Something fails or warns'
unknown\t'Something fails, warns or is unknown'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l format -d 'How to print the report' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.doctor/1'
markdown\t'For a ticket or a wiki'
prometheus\t'For the textfile collector of Prometheus\'s node exporter'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l platform -d 'Judge as on this platform, whatever the machine looks like; the report says so' -r -f -a "bare-metal\t'On the hardware itself'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l only -d 'Run these checks alone: ids as --list names them, or families as in pcie' -r -f -a "env\t''
env.contradiction\t''
gdrdrv\t''
gdrdrv.node\t''
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
rdma.data-direct\t''
rdma.device\t''
rdma.firmware\t''
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
sw.net-plugin\t''
sw.toolkit\t''
tools\t''
tools.perftest\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l skip -d 'Leave these checks out' -r -f -a "env\t''
env.contradiction\t''
gdrdrv\t''
gdrdrv.node\t''
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
rdma.data-direct\t''
rdma.device\t''
rdma.firmware\t''
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
sw.net-plugin\t''
sw.toolkit\t''
tools\t''
tools.perftest\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l profile -d 'What the machine should be ready for: rdma, async, gdrcopy, p2p, mpi, all, or a file; may be given several times' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s q -l quiet -d 'Print what is wrong or not known, and nothing else'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l live -d 'Try the hardware too: map GPU memory for the CPU and verify it, register some with each NIC, and the NICs\' doorbells with the GPUs'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -l list -d 'List the checks and end'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l format -d 'How to print it' -r -f -a "table\t'For people'
json\t'For programs: schema gdr.explain/1'"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l profile -d 'What the machine should be ready for, as with doctor; may be given several times' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand explain" -l no-run -d 'Only name causes and checks: look at no machine'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l platform -d 'Judge as on this platform, whatever the machine looks like, as doctor does' -r -f -a "bare-metal\t'On the hardware itself'
guest\t'In a virtual machine'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l format -d 'How to print the plan' -r -f -a "table\t'For people'
script\t'A shell script that does the same'
json\t'For programs: schema gdr.plan/1, and gdr.journal/1 once it is made'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l tools -d 'With --sysroot: run the programs in this directory in place of the machine\'s, with GDR_ROOT set' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l profile -d 'What the machine should be ready for, as in gdr doctor' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l list -d 'List the fixes and end'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l dry-run -d 'Print the plan and change nothing'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s y -l yes -d 'Do not ask'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -l force -d 'Also make what gdr refuses for safety'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand fix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and measure the copies against cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "host" -d 'Copy between host and GPU with every sort of host memory, verify every word, and find the best chunk for staging'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "p2p" -d 'Copy between GPUs with peer access and without, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "rdma" -d 'Move GPU memory by RDMA NICs, verify every byte where it arrived, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "async" -d 'Let streams ring a NIC\'s doorbells and wait for its completions, with kernels between, and measure what that takes'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and not __fish_seen_subcommand_from copy host p2p rdma async help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l gpu -d 'Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l size -d 'Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l format -d 'How to print the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, drawn in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a picture'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l backend -d 'Map through this backend and no other; by default the first one that works' -r -f -a "gdrdrv\t'gdrcopy\'s kernel module'
dmabuf\t'The driver\'s dma-buf (R610 and later)'
rm\t'The driver\'s resource manager, without root and without a module'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l kernel -d 'Copy with this kernel and no other: avx512, avx2, sse41, portable and so on' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l numa -d 'From the CPUs of which NUMA nodes: all, the GPU\'s own (near), or one by its number [default: near with --quick, else all]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l profile -d 'Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l sim -d 'Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l quick -d 'The most telling part, in less than 5 seconds for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -l full -d 'Everything, and more exactly; a minute and more for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from copy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l gpu -d 'Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l size -d 'Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l format -d 'How to print the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, drawn in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a picture'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l numa -d 'From the CPUs of which NUMA nodes: all, the GPU\'s own (near), or one by its number [default: near with --quick, else all]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l profile -d 'Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l sim -d 'Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l quick -d 'The most telling part, in less than 5 seconds for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -l full -d 'Everything, and more exactly; a minute and more for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from host" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l gpu -d 'Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l size -d 'Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l format -d 'How to print the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, drawn in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a picture'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l profile -d 'Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l sim -d 'Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l quick -d 'The most telling part, in less than 5 seconds for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -l full -d 'Everything, and more exactly; a minute and more for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from p2p" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l gpu -d 'Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l size -d 'Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l format -d 'How to print the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, drawn in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a picture'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l listen -d 'Wait for the other machine\'s gdr here, up to an hour [default: all addresses, port 18516]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l rendezvous -d 'Meet the other process of a launcher: slurm, mpi, or by a file that both machines see' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l secret-file -d 'Read the secret that both machines share from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s d -l device -d 'These NICs, as in mlx5_0 or mlx5_0:1; several with commas [default: of each GPU the best one]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l remote-device -d 'The remote end is this port of this machine [default: the near one itself]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l gid-index -d 'The GID\'s index at every port [default: RoCE v2 with an IPv4 address first]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l memory -d 'The memory that is moved [default: a GPU\'s where there is one, else the host\'s]' -r -f -a "host\t'The host\'s'
huge\t'The host\'s, huge pages'
pinned\t'The host\'s, pinned by a GPU\'s driver'
gpu\t'A GPU\'s'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l memory-path -d 'Reach GPU memory by this memory path and no other; by default the first one that works' -r -f -a "dmabuf\t'GPUDirect RDMA by a dma-buf'
peermem\t'GPUDirect RDMA by nvidia-peermem'
staged\t'Copies through pinned memory, without GPUDirect RDMA'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l qps -d 'Queue pairs that move the bandwidth' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l profile -d 'Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l sim -d 'Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l quick -d 'The most telling part, in less than 5 seconds for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l full -d 'Everything, and more exactly; a minute and more for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l no-secret -d 'Use no secret: for two processes on this machine, over its loopback; any of its users can connect'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l all -d 'Each GPU with each NIC, one figure each: what SYS costs against PIX'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -l show-perftest -d 'Print what perftest would be called with for the same ends'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from rdma" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l gpu -d 'Which GPUs: all, a number as in gdr topo, a PCI address or a UUID; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l size -d 'Measure these sizes alone, as in 4096, 64KiB or 1MiB; several with commas' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l format -d 'How to print the report' -r -f -a "table\t'For people'
curve\t'Bandwidth over size, drawn in the terminal'
json\t'For programs: schema gdr.probe/1'
svg\t'Bandwidth over size, as a picture'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l hca -d 'Who is behind the queues; without one, doorbells and completions are left out, and with --sim a software HCA is behind them' -r -f -a "mlx5\t'An mlx5 NIC, whose doorbells the GPU rings itself (ConnectX, BlueField)'
proxy\t'A thread of the CPU that posts to any RDMA device, for machines where the GPU rings no doorbells'
sim\t'A software HCA: a thread of the CPU; every output says so'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s d -l device -d 'The NIC, as in mlx5_0 or mlx5_0:1, of mlx5 and proxy [default: of each GPU the best one]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l gid-index -d 'The GID\'s index at the NIC\'s port [default: RoCE v2 with an IPv4 address first]' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l profile -d 'Call slow what these profiles call slow, in their table `probe` [default: gdrcopy, mpi for host, p2p for p2p, rdma for rdma]' -r -f -a "rdma\t''
async\t''
gdrcopy\t''
p2p\t''
mpi\t''
all\t''"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l sysroot -d 'Look at the machine laid out in this directory instead of the one gdr runs on' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l from -d 'Look at the machine recorded in this file: a snapshot of gdr, a dump of lspci, hwloc or rdma_topo, or a support report' -r -F
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l color -d 'When to use colour; auto means on a terminal, unless NO_COLOR is set' -r -f -a "auto\t'On a terminal'
always\t'Always'
never\t'Never'"
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l library-timeout -d 'How long a vendor library may take before it is given up' -r
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l sim -d 'Simulate every device that is not named, in memory of this machine; no GPU, NIC or library is needed, and every output says so'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l quick -d 'The most telling part, in less than 5 seconds for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -l full -d 'Everything, and more exactly; a minute and more for one GPU'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s v -l verbose -d 'Say on standard error what could not be read; doctor also shows what every finding rests on'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from async" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and measure the copies against cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "host" -d 'Copy between host and GPU with every sort of host memory, verify every word, and find the best chunk for staging'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "p2p" -d 'Copy between GPUs with peer access and without, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "rdma" -d 'Move GPU memory by RDMA NICs, verify every byte where it arrived, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "async" -d 'Let streams ring a NIC\'s doorbells and wait for its completions, with kernels between, and measure what that takes'
complete -c gdr -n "__fish_gdr_using_subcommand probe; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "topo" -d 'Show how GPUs, NICs and NVMe controllers reach each other, and the best NIC of each GPU'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "fix-acs" -d 'Let traffic between GPUs and NICs go straight through PCI switches'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "undo" -d 'Take a repair back'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "snapshot" -d 'Record this machine in one file, to be looked at with --from anywhere'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "doctor" -d 'Check whether GPUDirect works here, and name what stands in its way'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "explain" -d 'Tell what an error line, a log or a check is about, and what this machine says of it'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "fix" -d 'Mend what doctor found: shown first, made a step at a time, read back, and undoable'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "probe" -d 'Prove it: move bytes, verify every one, and measure'
complete -c gdr -n "__fish_gdr_using_subcommand help; and not __fish_seen_subcommand_from topo fix-acs undo snapshot doctor explain fix probe help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "copy" -d 'Map GPU memory for the CPU, verify every byte, and measure the copies against cuMemcpy'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "host" -d 'Copy between host and GPU with every sort of host memory, verify every word, and find the best chunk for staging'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "p2p" -d 'Copy between GPUs with peer access and without, verify every word, and measure every pair, alone and all at once'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "rdma" -d 'Move GPU memory by RDMA NICs, verify every byte where it arrived, and measure as perftest does'
complete -c gdr -n "__fish_gdr_using_subcommand help; and __fish_seen_subcommand_from probe" -f -a "async" -d 'Let streams ring a NIC\'s doorbells and wait for its completions, with kernels between, and measure what that takes'
