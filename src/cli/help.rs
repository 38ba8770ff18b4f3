//! Sections of `--help` and the man pages below the options: examples, files, exit status, related pages.

use clap::builder::Styles;

/// The sections of one command.
#[derive(Debug, Clone, Copy)]
pub struct Sections {
    /// Command name after `gdr`; empty for `gdr` itself.
    command: &'static str,
    /// Command lines, each followed by a line with its description.
    examples: &'static str,
    /// Paths, each followed by a line with its description.
    files: &'static str,
    /// Exit statuses, each with its description on the same line.
    exit_status: &'static str,
    /// Man pages, separated by commas.
    pub see_also: &'static str,
}

impl Sections {
    /// The sections that are lists of names and descriptions, by heading.
    pub fn lists(&self) -> [(&'static str, Vec<(&'static str, &'static str)>); 3] {
        [
            ("Examples", pairs(self.examples)),
            ("Files", pairs(self.files)),
            (
                "Exit status",
                self.exit_status.lines().filter_map(|line| line.split_once(' ')).collect(),
            ),
        ]
    }
}

/// Pairs of lines.
fn pairs(list: &'static str) -> Vec<(&'static str, &'static str)> {
    list.lines().step_by(2).zip(list.lines().skip(1).step_by(2)).collect()
}

const PROFILES: &str = "\
~/.config/gdr/profiles/NAME.toml
Profiles of this user ($XDG_CONFIG_HOME).
/etc/gdr/profiles/NAME.toml
Profiles of this machine.";
const PROFILES_AND_JOURNALS: &str = "\
~/.config/gdr/profiles/NAME.toml
Profiles of this user ($XDG_CONFIG_HOME).
/etc/gdr/profiles/NAME.toml
Profiles of this machine.
/var/lib/gdr
Journals of repairs and copies of replaced files, for gdr undo.";
const FIX_STATUS: &str = "\
0 The repair was made, or nothing had to change.
1 A repair was rejected, or stopped at a step.
2 Usage or internal error.
3 Nothing was changed: root is required, or the user did not confirm.";
const FLEET_STATUS: &str = "\
0 Nothing failed on any node.
1 Something failed on a node, or a node has no report.
2 Usage or internal error.
3 Nothing failed, but something required could not be determined.
130 Ctrl-C interrupted it (143: SIGTERM).";
const PROBE_STATUS: &str = "\
0 All tests passed, and all data was correct.
1 A check failed, data was wrong, or the GPU or a library is missing.
2 Usage or internal error.
3 Nothing failed, but a driver did not answer in time.
130 Ctrl-C interrupted it (143: SIGTERM). What was measured until then is printed.";

/// The sections of a command, by its name after `gdr`; the empty string is `gdr` itself.
pub fn sections(command: &str) -> Option<Sections> {
    PAGES.iter().find(|page| page.command == command).copied()
}

const PAGES: &[Sections] = &[
    Sections {
        command: "",
        examples: "\
sudo gdr doctor
Check whether GPUDirect RDMA works on this machine.
sudo gdr fix
Show the repairs for failed checks, ask, and make them.
gdr topo
Show the PCI topology and the nearest NIC of each GPU.
gdr probe copy --quick
Map GPU memory, verify it and measure copies.",
        files: PROFILES_AND_JOURNALS,
        exit_status: "\
0 Success.
1 A check failed, or a repair stopped.
2 Usage or internal error.
3 Nothing failed, but something required could not be determined.
130 Ctrl-C interrupted it (143: SIGTERM).",
        see_also: "gdr-doctor(1), gdr-explain(1), gdr-topo(1), gdr-probe(1), gdr-fix(1), gdr-snapshot(1)",
    },
    Sections {
        command: "doctor",
        examples: "\
sudo gdr doctor
Run all checks for GPUDirect RDMA; some need root.
gdr doctor --profile p2p --only pcie,gpu.bar1
Run the PCI Express checks and one GPU check for peer-to-peer copies.
gdr doctor --from node17.zst --format json
Check a recorded machine and print JSON.",
        files: PROFILES,
        exit_status: "\
0 No required check failed.
1 A check failed.
2 Usage or internal error.
3 Nothing failed, but something required could not be determined; it may need root.",
        see_also: "gdr-fix(1), gdr-explain(1), gdr-snapshot(1), lspci(8)",
    },
    Sections {
        command: "expect",
        examples: "\
sudo gdr expect --write site.toml
Write what this machine has as a profile; gdr doctor --profile ./site.toml compares others with it.
gdr expect --write site.toml node1.zst node2.zst host.json
From two recorded machines and the results of gdr probe host.",
        files: PROFILES,
        exit_status: "\
0 The profile was written.
2 The file exists, a machine has failures or cannot be read in full (--force accepts both), usage or internal error.",
        see_also: "gdr-doctor(1), gdr-snapshot(1), gdr-probe(1)",
    },
    Sections {
        command: "explain",
        examples: "\
gdr explain pcie.acs
Explain a check.
gdr explain nccl.log
Find known error messages in a log, and the path of each pair of ranks of a job.
gdr explain --job logs/
Read the logs of all ranks of a job.
dmesg | gdr explain -
Read standard input.
gdr explain 'ibv_reg_mr failed: Bad address'
Explain one message.",
        files: PROFILES,
        exit_status: "\
0 A message was recognized, or a check was explained. Of a job: every pair of ranks used the best path that its machine allows.
1 No message was recognized. Of a job: a path is slower than the machine allows, or a rank failed.
2 Usage or internal error.
3 Of a job: the log lacks ranks or paths, or whether the machine allows a faster path is unknown.",
        see_also: "gdr-doctor(1), dmesg(1)",
    },
    Sections {
        command: "run",
        examples: "\
gdr run -- python train.py
Run a job and print its paths at the end.
srun gdr run --log logs -- python train.py
Keep the logs of all ranks; gdr explain --job logs shows the job.",
        files: "",
        exit_status: "\
2 Usage or internal error; the job was not started.
126 The command cannot be executed (127: it was not found).
Any other status is the job's; a signal that ended the job ends gdr.",
        see_also: "gdr-explain(1), gdr-topo(1)",
    },
    Sections {
        command: "topo",
        examples: "\
gdr topo
Show how GPUs and NICs are connected.
gdr topo --path GPU0 NIC0
Show each PCI device on the path, its link and its ACS bits.
gdr topo --pairs
Print environment variables for NCCL, UCX and CUDA.
gdr topo --nccl
Show what NCCL decides here, and why.
gdr topo --format nccl-xml > topo.xml
Write a topology for NCCL_TOPO_FILE.
gdr topo --format svg > topo.svg
Draw the PCI tree.",
        files: "\
/sys/bus/pci/devices
The PCI devices.
/sys/class/infiniband
The RDMA devices.",
        exit_status: "\
0 The topology was printed.
1 With --check: the best NIC of a GPU is rated bad.
2 Usage or internal error.
3 With --check: this could not be determined.",
        see_also: "gdr-doctor(1), gdr-fix-acs(1), lspci(8), nvidia-smi(1)",
    },
    Sections {
        command: "probe",
        examples: "\
gdr probe copy --quick
Verify and measure CPU access to GPU memory.
gdr probe host --sim
Run a probe without a GPU.",
        files: PROFILES,
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe-copy(1), gdr-probe-host(1), gdr-probe-p2p(1), gdr-probe-rdma(1), gdr-probe-async(1)",
    },
    Sections {
        command: "probe copy",
        examples: "\
gdr probe copy
All GPUs, by the first backend that works.
gdr probe copy --gpu 0 --backend gdrdrv --full
One GPU, by gdrcopy's kernel module, every size.",
        files: "\
/dev/gdrdrv
The node of gdrcopy's kernel module.
/dev/nvidiactl
The node of the NVIDIA driver.",
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), gdr-doctor(1)",
    },
    Sections {
        command: "probe host",
        examples: "\
gdr probe host
Measure copies between host and GPU memory from every NUMA node.
gdr probe host --gpu 0 --numa near --format curve
Draw the bandwidth of one GPU from its own NUMA node.",
        files: PROFILES,
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), numactl(8)",
    },
    Sections {
        command: "probe p2p",
        examples: "\
gdr probe p2p
Verify and measure every pair of GPUs.
gdr probe p2p --gpu 0,1 --quick
One pair, in a few seconds.",
        files: PROFILES,
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), gdr-topo(1), nvidia-smi(1)",
    },
    Sections {
        command: "probe rdma",
        examples: "\
gdr probe rdma --device mlx5_0
Loop GPU memory through one port of this machine.
gdr probe rdma --listen
Wait for another machine, and print the command for it.
srun -N2 --ntasks-per-node=1 gdr probe rdma
Test between two nodes of a Slurm job.",
        files: "\
/dev/infiniband/uverbsN
The nodes of the RDMA devices.",
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), ibv_devinfo(1), ib_write_bw(1)",
    },
    Sections {
        command: "probe async",
        examples: "\
gdr probe async --hca mlx5 --device mlx5_0
A CUDA stream rings the doorbells of an mlx5 NIC.
gdr probe async --hca proxy
A CPU thread posts to any RDMA device.",
        files: "\
/dev/infiniband/uverbsN
The nodes of the RDMA devices.",
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), gdr-probe-rdma(1)",
    },
    Sections {
        command: "probe mp",
        examples: "\
gdr probe mp
Two processes of this machine, on the best NIC of each GPU.
gdr probe mp --hca sim --mpi mpirun.mpich
The software HCA, beside MPICH.
mpirun -n 2 --host a,b gdr probe mp
Two machines, beside the MPI library of mpirun.",
        files: "\
/dev/infiniband/uverbsN
The nodes of the RDMA devices.",
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), gdr-probe-async(1), mpirun(1)",
    },
    Sections {
        command: "probe mpi",
        examples: "\
mpirun -n 2 gdr probe mpi
Measure between two ranks, with the MPI library of the launcher.
gdr probe mpi --mpi /opt/mpi/lib/libmpi.so.40
Check whether a library takes GPU pointers.",
        files: PROFILES,
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), mpirun(1), srun(1)",
    },
    Sections {
        command: "probe transfer",
        examples: "\
gdr probe transfer --listen
Wait for another machine, and print the command for it.
gdr probe transfer --sim --format svg > figure.svg
Draw the curves of a simulation.",
        files: "\
/dev/infiniband/uverbsN
The nodes of the RDMA devices.",
        exit_status: PROBE_STATUS,
        see_also: "gdr-probe(1), gdr-probe-rdma(1), gdr-probe-p2p(1), gdr-probe-host(1)",
    },
    Sections {
        command: "fix",
        examples: "\
gdr fix --dry-run
Print the plan and change nothing.
sudo gdr fix peermem memlock
Make two fixes, after confirmation.
gdr fix --format script > fix.sh
Write the plan as a shell script.",
        files: PROFILES_AND_JOURNALS,
        exit_status: FIX_STATUS,
        see_also: "gdr-doctor(1), gdr-undo(1), gdr-fix-acs(1)",
    },
    Sections {
        command: "fix-acs",
        examples: "\
gdr fix-acs --dry-run
Print the ports and registers that would change.
sudo gdr fix-acs --pair GPU0 NIC0
Only the ports between two devices.
sudo gdr fix-acs --persist unit
Also at every boot, by a systemd unit.",
        files: "\
/var/lib/gdr
Journals of repairs and copies of replaced files, for gdr undo.",
        exit_status: FIX_STATUS,
        see_also: "gdr-fix(1), gdr-undo(1), gdr-topo(1), setpci(8)",
    },
    Sections {
        command: "fleet",
        examples: "\
srun -N 64 gdr fleet doctor
Run doctor on 64 nodes and print one report.
gdr fleet report reports/*.json
Merge the reports of many nodes.",
        files: "",
        exit_status: FLEET_STATUS,
        see_also: "gdr-fleet-doctor(1), gdr-fleet-topo(1), gdr-fleet-probe(1), gdr-fleet-report(1), srun(1)",
    },
    Sections {
        command: "fleet doctor",
        examples: "\
srun -N 64 gdr fleet doctor
One report of 64 nodes.
srun -N 64 gdr fleet doctor -- --profile ./site.toml --quick
With options of doctor.",
        files: "\
gdr-fleet-JOB
Where the nodes find rank 0, in the working directory; removed when all have.",
        exit_status: FLEET_STATUS,
        see_also: "gdr-fleet(1), gdr-doctor(1), srun(1), mpirun(1)",
    },
    Sections {
        command: "fleet topo",
        examples: "\
srun -N 64 gdr fleet topo
Show which nodes have another topology than most.",
        files: "\
gdr-fleet-JOB
Where the nodes find rank 0, in the working directory; removed when all have.",
        exit_status: FLEET_STATUS,
        see_also: "gdr-fleet(1), gdr-topo(1), srun(1), mpirun(1)",
    },
    Sections {
        command: "fleet probe",
        examples: "\
srun -N 64 gdr fleet probe host -- --quick
Measure host and GPU memory of 64 nodes, and name those that are slower.",
        files: "\
gdr-fleet-JOB
Where the nodes find rank 0, in the working directory; removed when all have.",
        exit_status: FLEET_STATUS,
        see_also: "gdr-fleet(1), gdr-probe(1), srun(1), mpirun(1)",
    },
    Sections {
        command: "fleet report",
        examples: "\
gdr fleet report reports/
Merge the reports of a directory.
gdr fleet report --nodes n[1-64] --format json doctor/*.json probe/*.json
Also name the nodes without a report; print JSON.
gdr fleet report --baseline history/ --keep history/ reports/
Show what changed since the last record, and keep a new one.",
        files: "",
        exit_status: FLEET_STATUS,
        see_also: "gdr-fleet(1), gdr-doctor(1), gdr-probe(1), srun(1)",
    },
    Sections {
        command: "fleet history",
        examples: "\
gdr fleet history /var/lib/gdr/history
Show the nodes that were not always ok, one letter a day.
gdr fleet history --format html /var/lib/gdr/history > history.html
The same as a page with a chart.",
        files: "",
        exit_status: "\
0 Every node is ok now.
1 A node is not ok now.
2 Usage or internal error.",
        see_also: "gdr-fleet-report(1), gdr-fleet(1)",
    },
    Sections {
        command: "undo",
        examples: "\
sudo gdr undo --list
List the repairs of this machine.
sudo gdr undo
Undo the newest repair.
sudo gdr undo 3 --yes
Undo repair 3 without confirmation.",
        files: "\
/var/lib/gdr
Journals of repairs and copies of replaced files, for gdr undo.",
        exit_status: "\
0 Everything is as before the repair.
1 A step was not undone, because something else was changed since.
2 Usage or internal error.
3 Nothing was changed: the user did not confirm.",
        see_also: "gdr-fix(1), gdr-fix-acs(1)",
    },
    Sections {
        command: "snapshot",
        examples: "\
sudo gdr snapshot -o node17.zst
Record this machine, compressed.
sudo gdr snapshot --mask -o node17.json
Record it without serial numbers, addresses and names.
gdr snapshot --diff before.zst after.zst
Compare two snapshots.",
        files: "",
        exit_status: "\
0 The snapshot was written. With --diff: no fact differs.
1 With --diff: some facts differ.
2 Usage or internal error.",
        see_also: "gdr-doctor(1), gdr-topo(1)",
    },
];

/// Adds the sections to the long help of a command and its subcommands. `name` is its name after `gdr`.
pub fn with_sections(command: clap::Command, name: &str) -> clap::Command {
    let command = match sections(name) {
        Some(sections) => command.after_long_help(text(&sections)),
        None => command,
    };
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, below| {
        let full_name = format!("{name} {below}");
        command.mut_subcommand(below, |below| with_sections(below, full_name.trim_start()))
    })
}

fn text(sections: &Sections) -> String {
    let styles = Styles::default();
    let style = styles.get_header();
    let mut text = String::new();
    for (heading, list) in sections.lists() {
        if list.is_empty() {
            continue;
        }
        text.push_str(&format!("{style}{heading}:{style:#}\n"));
        for (name, meaning) in list {
            text.push_str(&if heading == "Exit status" {
                format!("  {name}  {meaning}\n")
            } else {
                format!("  {name}\n          {meaning}\n")
            });
        }
        text.push('\n');
    }
    text + &format!("{style}See also:{style:#}\n  {}", sections.see_also)
}
