//! The job: its environment, its container, and the GPUs that its first lines name.

use std::collections::BTreeMap;

use super::by_index;
use super::nccl::GPU;
use super::smi::Log;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, ListedGpu};

pub const ENVIRONMENT: Kind = Kind {
    name: "environment variables (env, export, mpirun -x)",
    starts: Starts::Line,
    begins: |line| line.contains('=') && variables(line).next().is_some(),
    yields: "variables of NCCL, UCX, CUDA, NVSHMEM and MPI, as those of the job; others may be set too",
    example: "NCCL_IB_HCA=mlx5_0,mlx5_1
export NCCL_IB_GID_INDEX=3
CUDA_VISIBLE_DEVICES=0,1
",
    read: |text, recording| {
        for (name, value) in text.lines().flat_map(|line| variables(line.trim())) {
            recording.variable(name, value);
        }
        Ok(())
    },
};

pub const TESTS: Kind = Kind {
    name: "nccl-tests, perftest",
    starts: Starts::Line,
    begins: |line| {
        rank(line).is_some()
            || listed_by_perftest(line).is_some()
            || device_of_perftest(line).is_some()
            || run_on(line).is_some()
    },
    yields: "GPUs, with their models and addresses by nccl-tests, if all ranks are on one machine; the RDMA device of perftest",
    example:
        "#  Rank  0 Group  0 Pid  64904 on      node1 device  0 [0000:17:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  64904 on      node1 device  1 [0000:2a:00] NVIDIA H100 80GB HBM3
",
    read: |text, recording| {
        let mut gpus = Vec::new();
        let mut placed = BTreeMap::new();
        let mut class = Class::default();
        for line in text.lines().map(str::trim) {
            if let Some(name) = device_of_perftest(line) {
                class.device(name);
            }
            if let Some(rank) = rank(line) {
                let model = Some(rank.model.to_owned()).filter(|model| !model.is_empty());
                let gpu = ListedGpu { model, ..ListedGpu::default() };
                placed.extend(rank.bdf.map(|bdf| (bdf, gpu.clone())));
                gpus.push((rank.index, gpu));
            } else if let Some(index) = listed_by_perftest(line) {
                gpus.push((index, ListedGpu::default()));
            }
        }
        if placed.is_empty() {
            recording.listed(by_index(gpus));
        } else {
            // Each process may count the GPUs that it sees from 0.
            placed.keys().for_each(|bdf| recording.function(*bdf, GPU));
            recording.listed(placed.into_values().collect());
        }
        recording.class(class)
    },
};

pub const CONTAINER: Kind = Kind {
    name: "docker inspect",
    starts: Starts::Line,
    begins: |line| {
        [
            "\"HostConfig\": {",
            "\"DeviceRequests\": [",
            "\"Driver\": \"nvidia\"",
            "\"ShmSize\":",
            "\"Ulimits\": [",
        ]
        .iter()
        .any(|begin| line.starts_with(begin))
    },
    yields: "the GPUs that a container was given, by UUID or number; its limit of locked memory; a small /dev/shm, as a remark",
    example: "\"HostConfig\": {
    \"IpcMode\": \"private\",
    \"ShmSize\": 67108864,
    \"DeviceRequests\": [
        {
            \"Driver\": \"nvidia\",
            \"Count\": 0,
            \"DeviceIDs\": [
                \"GPU-01234567-89ab-cdef-0123-456789abcdef\"
            ]
        }
    ],
    \"Ulimits\": [
        {
            \"Name\": \"memlock\",
            \"Hard\": -1,
            \"Soft\": -1
        }
    ]
}
",
    read: container,
};

pub const CONTAINER_CLI: Kind = Kind {
    name: "nvidia-container-cli info",
    starts: Starts::Output,
    begins: |line| {
        let version = line.strip_prefix("NVRM version:").map(str::trim_start);
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    },
    yields: "version of the driver and of CUDA; its GPUs are read as those of /proc/driver/nvidia",
    example: "NVRM version:   570.86.15
CUDA version:   12.8
",
    read: |text, recording| {
        let mut log = Log::default();
        for (key, name) in [("NVRM version:", "Driver Version"), ("CUDA version:", "CUDA Version")]
        {
            let value = text.lines().find_map(|line| line.trim().strip_prefix(key));
            if let Some(value) = value.map(str::trim) {
                log.head(name, value);
            }
        }
        recording.smi(&log.finish(None))
    },
};

/// Beginnings of the names of variables that select devices and transports.
const VARIABLES: [&str; 12] = [
    "NCCL_",
    "UCX_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DISABLE_IOMMU_ACS_P2P",
    "CUDA_NIC_INTEROP",
    "NVIDIA_VISIBLE_DEVICES",
    "NVSHMEM_",
    "OMPI_MCA_",
    "MPICH_GPU_SUPPORT",
    "MV2_",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
];

/// The variables that a line sets: at its start, behind `export`, or by `-x` of mpirun.
fn variables(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = ["export ", "declare -x ", "ENV "];
    let exported = starts.iter().find_map(|start| line.strip_prefix(start));
    let line = exported.unwrap_or(line).trim_start_matches("- ");
    // `NCCL_P2P_DISABLE=1 helps` is a sentence.
    let first = line.split_ascii_whitespace().find(|word| !word.contains('='));
    let mut at_start = exported.is_some() || first.is_none_or(is_program);
    let mut of_mpirun = false;
    line.split_ascii_whitespace().filter_map(move |word| {
        let is_set = of_mpirun || at_start;
        of_mpirun = word == "-x";
        let pair = word.split_once('=').filter(|(name, value)| {
            VARIABLES.iter().any(|begin| name.starts_with(begin))
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !value.contains(['(', '$'])
        });
        at_start = at_start && word.contains('=');
        pair.filter(|_| is_set).map(|(name, value)| (name, value.trim_matches(['"', '\'', ';'])))
    })
}

/// A word that begins a command line behind variables.
fn is_program(word: &str) -> bool {
    const PROGRAMS: [&str; 8] =
        ["python", "torchrun", "mpirun", "mpiexec", "srun", "deepspeed", "accelerate", "vllm"];
    word.contains('/') || word == "\\" || PROGRAMS.iter().any(|program| word.starts_with(program))
}

/// A line `# Rank 0 Group 0 Pid 64904 on node1 device 0 [0000:17:00] NVIDIA H100` of nccl-tests.
struct Rank<'a> {
    host: &'a str,
    index: usize,
    /// Old versions print the bus alone: `[0x17]`.
    bdf: Option<Bdf>,
    model: &'a str,
}

fn rank(line: &str) -> Option<Rank<'_>> {
    let (before, rest) = line.split_once("Rank ")?;
    // A launcher may print the name of a machine before the line.
    let before = before.trim_end_matches(['#', ' ']);
    let rest = Some(rest).filter(|_| before.is_empty() || before.ends_with([':', '>']))?;
    let (_, rest) = rest.split_once(" Pid ")?;
    let (_, rest) = rest.split_once(" on ")?;
    let (host, rest) = rest.split_once(" device ")?;
    let (index, rest) = rest.split_once('[')?;
    let (place, model) = rest.split_once(']')?;
    Some(Rank {
        host: host.trim(),
        index: index.trim().parse().ok()?,
        bdf: format!("{place}.0").parse().ok().filter(|_| place.len() >= 10),
        model: model.trim(),
    })
}

/// The host in `INFO: run ib_write_bw server on node1: sudo taskset …` of ngc_multinode_perf.
fn run_on(line: &str) -> Option<&str> {
    let (program, rest) = line.strip_prefix("INFO: run ")?.split_once(" on ")?;
    let is_end = program.ends_with(" server") || program.ends_with(" client");
    rest.split_once(": ").map(|(host, _)| host).filter(|host| is_end && !host.contains(' '))
}

/// The host that a line of a program on several machines names.
pub fn host(line: &str) -> Option<&str> {
    rank(line).map(|rank| rank.host).or_else(|| run_on(line))
}

/// The index in `CUDA device 0: PCIe address is 1B:00`.
fn listed_by_perftest(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("CUDA device ")?;
    rest.split_once(": PCIe address is ")?.0.parse().ok()
}

/// The device in `Dual-port       : OFF  Device         : mlx5_0`.
fn device_of_perftest(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Dual-port")?.split_once("Device")?.1;
    rest.trim_start().strip_prefix(':')?.split_ascii_whitespace().next()
}

/// Reads lines, because people cut JSON.
fn container(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut gpus = Vec::new();
    let (mut soft, mut hard, mut is_memlock) = (None, None, false);
    let (mut shm, mut ipc) = (None, "");
    let (mut is_nvidia, mut count) = (false, 0);
    for line in text.lines().map(|line| line.trim().trim_end_matches(',')) {
        let (key, value) = line.split_once(": ").unwrap_or(("", line));
        let word = value.trim_matches('"');
        match key {
            "\"Name\"" => is_memlock = word == "memlock",
            "\"Soft\"" if is_memlock => soft = value.parse::<i64>().ok(),
            "\"Hard\"" if is_memlock => hard = value.parse::<i64>().ok(),
            "\"Driver\"" => is_nvidia = word == "nvidia",
            // −1 is all.
            "\"Count\"" if is_nvidia => count = value.parse().unwrap_or(0),
            "\"ShmSize\"" => shm = value.parse::<u64>().ok(),
            "\"IpcMode\"" => ipc = word,
            "" if word.starts_with("GPU-") && value.starts_with('"') => {
                let gpu = ListedGpu { uuid: Some(word.to_owned()), ..ListedGpu::default() };
                if !gpus.contains(&gpu) && gpus.len() < MAX_GPUS {
                    gpus.push(gpu);
                }
            }
            _ => {}
        }
    }
    if gpus.is_empty() {
        gpus.resize(count.min(MAX_GPUS), ListedGpu::default());
    }
    recording.listed(gpus);
    if let Some((soft, hard)) = soft.zip(hard) {
        recording.memlock(u64::try_from(soft).ok(), u64::try_from(hard).ok());
    }
    const ENOUGH: u64 = 1 << 30;
    if let Some(bytes) = shm.filter(|bytes| *bytes < ENOUGH && ipc != "host") {
        let message = format!(
            "the container's /dev/shm holds {} MiB; NCCL's documentation gives it 1 GiB: docker run --shm-size=1g, or --ipc=host",
            bytes >> 20
        );
        recording.note("docker inspect", message);
    }
    Ok(())
}
