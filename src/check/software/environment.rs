//! env.contradiction: environment variables that disable what the machine supports, or rely on what it does not.

use std::collections::BTreeMap;

use super::transports;
use crate::check::memory_path;
use crate::check::param::doorbells_mapped;
use crate::check::{
    Check, Ctx, Hint, Judgement, Source, gpu, nics, passthrough, unknown_if, words,
};
use crate::model::{ActionClass, Area, Fact, Kind, Missing, NcclPath, PciClass, Severity, Why};
use crate::topo::{nccl_level, nccl_number};

const PARAMS: &str = "/proc/driver/nvidia/params";
const SOURCE: &str = "/proc/self/environ";
const INFINIBAND: &str = "/sys/class/infiniband";
const GDRAPI: &str = "libgdrapi.so.2";
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const P2P_OFF: &str =
    "keeps NCCL from peer to peer: the GPUs of this machine communicate through host memory";

/// The harm that a variable's value does on this machine; `None` if it does none.
type Effect = fn(&Ctx<'_>, &str) -> Option<String>;

const VARIABLES: &[(&str, Effect)] = &[
    ("NCCL_P2P_DISABLE", |ctx, value| {
        (nccl_number(value) == Some(1) && gpus(ctx) > 1).then(|| P2P_OFF.to_owned())
    }),
    ("NCCL_P2P_LEVEL", |ctx, value| {
        (gpus(ctx) > 1 && nccl_level(value) == Some(NcclPath::Loc)).then(|| P2P_OFF.to_owned())
    }),
    ("NCCL_NET_GDR_LEVEL", gdr_level),
    ("NCCL_NET_GDR_C2C", |ctx, value| {
        let coherent = ctx.topology.rows.iter().any(|row| row.coherent);
        (nccl_number(value) == Some(0) && coherent).then(|| {
            "keeps NCCL from NVLink-C2C, the path from this machine's GPUs to its NICs".to_owned()
        })
    }),
    // NCCL v2.30.7-1, src/graph/paths.cc (ncclTopoCheckP2p).
    ("NCCL_IGNORE_DISABLED_P2P", |_, value| {
        match nccl_number(value)? {
        0 => None,
        2 => Some("keeps NCCL from asking the driver whether peer to peer works".to_owned()),
        _ => Some(
            "hides from NCCL's log that the driver rejects peer to peer: a slow path goes unnoticed"
                .to_owned(),
        ),
    }
    }),
    ("UCX_TLS", |ctx, value| transports::ucx_tls(value, gpus(ctx))),
    ("OMPI_MCA_btl", |ctx, value| transports::btl(value, gpus(ctx))),
    ("OMPI_MCA_pml", |ctx, value| transports::pml(value, has_nic(ctx) == Ok(true))),
    ("OMPI_MCA_opal_cuda_support", gpu_off),
    ("MPIR_CVAR_ENABLE_GPU", gpu_off),
    ("MPICH_GPU_SUPPORT_ENABLED", gpu_off),
    ("MV2_USE_CUDA", gpu_off),
    ("MV2_USE_GPUDIRECT", |ctx, value| {
        transports::path_off(value, gpus(ctx), "keeps MVAPICH2-GDR from GPUDirect RDMA")
    }),
    ("MV2_CUDA_IPC", |ctx, value| {
        let harm = "keeps MVAPICH2 from CUDA IPC: GPU memory on one host goes through host memory";
        (gpus(ctx) > 1).then(|| transports::path_off(value, gpus(ctx), harm))?
    }),
    (VISIBLE, |ctx, value| match unseen_gpus(ctx) {
        None => visible(gpus(ctx), value),
        Some(_) => None,
    }),
    ("CUDA_NIC_INTEROP", |_, _| Some("has not been needed since CUDA 4.1".to_owned())),
    ("CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK", |_, value| {
        (nccl_number(value) == Some(1)).then(|| {
            "lets CUDA use peer to peer where the IOMMU or ACS makes it unsafe: data may be lost silently".to_owned()
        })
    }),
];

/// A variable that does harm where something does not work.
struct Conditional {
    name: &'static str,
    /// True if the value asks for it.
    asks: fn(&str) -> bool,
    /// True if it does not work.
    harms: fn(&Ctx<'_>) -> Result<bool, Missing>,
    effect: &'static str,
}

const PYTORCH: Conditional = Conditional {
    name: "PYTORCH_CUDA_ALLOC_CONF",
    asks: has_expandable_segments,
    harms: memory_path::peer_memory_alone,
    effect: "makes PyTorch allocate memory in segments, which nvidia-peermem, the only memory path that works here, cannot register",
};

const CONDITIONAL: &[Conditional] = &[
    Conditional {
        name: "NCCL_MNNVL_ENABLE",
        asks: |value| nccl_number(value) == Some(0),
        harms: joins_domain,
        effect: "keeps NCCL from NVLink between this machine and others: it uses the network",
    },
    Conditional {
        name: "NCCL_IB_DISABLE",
        asks: |value| nccl_number(value).is_some_and(|number| number != 0),
        harms: has_nic,
        effect: "keeps NCCL from this machine's NICs: it uses sockets",
    },
    Conditional {
        name: "NCCL_NET",
        asks: |value| value.eq_ignore_ascii_case("Socket"),
        harms: has_nic,
        effect: "keeps NCCL from this machine's NICs: it uses sockets",
    },
    Conditional {
        name: "UCX_IB_GPU_DIRECT_RDMA",
        asks: |value| ["n", "no", "0", "off"].contains(&value.to_ascii_lowercase().as_str()),
        harms: has_nic,
        effect: "keeps UCX from GPUDirect RDMA",
    },
    Conditional {
        name: "NCCL_GIN_ENABLE",
        asks: |value| nccl_number(value) == Some(0),
        harms: has_nic,
        effect: "switches off NCCL's GPU-initiated networking",
    },
    Conditional {
        name: "NCCL_GIN_TYPE",
        asks: |value| nccl_number(value) == Some(2),
        harms: has_mlx5,
        effect: "makes a thread of the CPU post what NCCL's kernels send, with a NIC whose doorbells the GPU could ring",
    },
    Conditional {
        name: "EP_DISABLE_GIN",
        asks: |value| nccl_number(value) == Some(1),
        harms: has_nic,
        effect: "keeps DeepEP from GPU-initiated networking",
    },
    Conditional {
        name: "NCCL_DMABUF_ENABLE",
        asks: |value| nccl_number(value) == Some(0),
        harms: memory_path::dma_buf_alone,
        effect: "keeps NCCL from dma-buf, the only memory path to GPU memory that works here",
    },
    Conditional {
        name: "NVSHMEM_IB_DISABLE_DMABUF",
        asks: is_true,
        harms: memory_path::dma_buf_alone,
        effect: "keeps NVSHMEM from dma-buf, the only memory path to GPU memory that works here",
    },
    // UCX detects this memory path only by nvidia-peermem's files.
    Conditional {
        name: "UCX_IB_GPU_DIRECT_RDMA",
        asks: |value| ["y", "yes", "1", "on"].contains(&value.to_ascii_lowercase().as_str()),
        harms: memory_path::dma_buf_alone,
        effect: "requests nvidia-peermem from UCX, which does not work here: dma-buf does",
    },
    Conditional {
        name: "NVSHMEM_IBGDA_NIC_HANDLER",
        asks: |value| value == "gpu",
        harms: |ctx| Ok(!*doorbells_mapped(ctx).or_missing(Area::Proc, PARAMS)?),
        effect: "makes NVSHMEM's IBGDA ring doorbells by the GPU, which the driver does not allow this process: it does not start",
    },
    // NCCL v2.30.7-1, src/plugin/net.cc: it compares names without case, and stops if no network of the name starts. A software device
    // is one for NCCL too.
    Conditional {
        name: "NCCL_NET",
        asks: |value| value.eq_ignore_ascii_case("IB"),
        harms: |ctx| ctx.facts.rdma.or_missing(Area::Sys, INFINIBAND).map(Vec::is_empty),
        effect: "selects NCCL's InfiniBand and RoCE network, and this machine has no RDMA device: NCCL does not start",
    },
    Conditional {
        name: "NCCL_GDRCOPY_ENABLE",
        asks: |value| nccl_number(value) == Some(1),
        harms: |ctx| {
            let libraries = ctx.facts.software.libraries.or_missing(Area::Files, GDRAPI)?;
            Ok(!libraries.iter().any(|library| library.name == GDRAPI))
        },
        effect: "has no effect: NCCL loads libgdrapi, which is not installed, and goes on without it",
    },
    PYTORCH,
    Conditional { name: "PYTORCH_ALLOC_CONF", ..PYTORCH },
];

pub const CHECK: Check = Check {
    id: "env.contradiction",
    rule: "No environment variable of this process turns off what the machine supports, or \
        relies on what it does not support.",
    sources: "/proc/self/environ",
    severity: Severity::Info,
    why: "Variables that were once set to work around a fault stay in job scripts and images, \
        and keep programs from using the machine's features.",
    remedy: "Unset the variable, or set it only where it is needed.",
    action: ActionClass::Configure
        .running("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        "https://docs.nvidia.com/nvshmem/api/gen/env.html",
        "https://openucx.readthedocs.io/en/master/faq.html",
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html",
        "https://mvapich.cse.ohio-state.edu/userguide/gdr/",
        "https://docs.nvidia.com/cuda/cuda-features-archive/",
        "https://github.com/pytorch/pytorch/issues/153688",
    ],
    reads: &[Source::Software],
    by_profile: true,
    hint: Some(Hint {
        cause: "An environment variable selects transports that cannot work, or switches off those that do.",
        words: "environment=5 fallback=1 failure=1 off-helps=2 gid=1 socket-net=1 vmm=2 nccl=1 slow=1 segfault=1 \
            register=1",
    }),
    judge: environment,
    ..Check::DEFAULT
};

/// One judgement for each harmful variable, or one if there is none.
fn environment(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let subject = "this process";
    let variables = &ctx.facts.environment;
    if let Some(unknown) = unknown_if(variables, subject, Area::Proc, SOURCE) {
        return vec![unknown];
    }
    let none = BTreeMap::new();
    let variables = variables.known().unwrap_or(&none);
    let always = VARIABLES.iter().filter_map(|(name, effect)| {
        let value = variables.get(*name)?;
        Some(harmful(ctx, name, value, &effect(ctx, value)?))
    });
    let conditional = CONDITIONAL.iter().filter_map(|variable| {
        let value = variables.get(variable.name)?;
        if !(variable.asks)(value) {
            return None;
        }
        match (variable.harms)(ctx) {
            Ok(false) => None,
            Ok(true) => Some(harmful(ctx, variable.name, value, variable.effect)),
            Err(missing) => Some(Judgement::missing(variable.name, missing)),
        }
    });
    let judgements: Vec<Judgement> = always.chain(conditional).collect();
    if !judgements.is_empty() {
        return judgements;
    }
    let is_judged = VARIABLES.iter().any(|(name, _)| variables.contains_key(*name));
    if is_judged && let Some(missing) = unseen_gpus(ctx) {
        return vec![Judgement::missing(subject, missing)];
    }
    if ctx.facts.partial && !variables.is_empty() {
        // A text may show some of the variables.
        return vec![Judgement::unknown(subject, Why::NotCovered, Area::Proc, SOURCE)];
    }
    let set = if variables.is_empty() {
        "no relevant variable is set".to_owned()
    } else {
        words::list(variables.iter().map(|(name, value)| format!("{name}={value}")))
    };
    let pass = Judgement::pass(
        subject,
        "No environment variable of this process contradicts what the machine supports.",
    );
    vec![pass.evidence(SOURCE, set)]
}

fn harmful(ctx: &Ctx<'_>, name: &str, value: &str, effect: &str) -> Judgement {
    let judgement = Judgement::broken(name, format!("{name}={value} {effect}."))
        .evidence(SOURCE, format!("{name}={value}"))
        .command(format!("unset {name}"));
    match name {
        // No CUDA program works with it.
        VISIBLE => judgement.weighing(Severity::Warn),
        // The profile asks for what they switch off.
        "NCCL_P2P_DISABLE" | "NCCL_P2P_LEVEL" if ctx.expectations.names("p2p") => {
            judgement.weighing(Severity::Error)
        }
        "NCCL_NET" if ctx.facts.rdma.known().is_some_and(Vec::is_empty) => {
            judgement.weighing(Severity::Warn)
        }
        _ => judgement,
    }
}

fn gpus(ctx: &Ctx<'_>) -> usize {
    ctx.topology.rows_of(Kind::Gpu).count()
}

/// What is missing if the machine may have GPUs that the source does not show.
fn unseen_gpus(ctx: &Ctx<'_>) -> Option<Missing> {
    let why = match ctx.facts.pci.why() {
        None if ctx.facts.partial => Why::NotCovered,
        why => why?,
    };
    Some(Missing::new(why, Area::Sys, "the list of all GPUs"))
}

/// CUDA shows the GPUs of the list up to the first that does not exist.
fn visible(gpus: usize, value: &str) -> Option<String> {
    if gpus == 0 || value == "(set)" {
        return None;
    }
    let is_gpu = |number: &str| number.trim().parse::<usize>().is_ok_and(|number| number < gpus);
    let numbers: Vec<&str> = value.split(',').collect();
    let wrong = numbers.iter().position(|number| !is_gpu(number))?;
    Some(match (wrong, numbers.get(wrong)?.trim()) {
        (0, "") => {
            "hides every GPU from CUDA, because it is empty: cuInit fails with 100".to_owned()
        }
        (0, first) => format!(
            "hides every GPU from CUDA, because there is no GPU {first} (0 to {} exist): cuInit fails with 100",
            gpus - 1
        ),
        (_, wrong) => format!(
            "hides GPUs from CUDA: the list ends before '{wrong}', because there is no such GPU (0 to {} exist)",
            gpus - 1
        ),
    })
}

fn has_mlx5(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    if !has_nic(ctx)? {
        return Ok(false);
    }
    let drivers: Vec<Fact<String>> =
        nics::rdma_nics(ctx.facts).map(|nic| nics::driver(ctx.facts, nic)).collect();
    match drivers.iter().find_map(Fact::why) {
        _ if drivers.contains(&Fact::Known("mlx5_core".to_owned())) => Ok(true),
        Some(why) => Err(Missing::new(why, Area::Sys, "the NIC's driver")),
        None => Ok(false),
    }
}

/// NVLink connects a GPU of this machine with other machines.
fn joins_domain(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    let gpus = passthrough::own_gpus(ctx.facts);
    let joined: Vec<Option<bool>> = gpus.map(|device| gpu::is_of_domain(ctx, device.bdf)).collect();
    if joined.contains(&Some(true)) {
        Ok(true)
    } else if joined.contains(&None) {
        Err(Missing::new(Why::NotCovered, Area::Nvml, "NVML's fabric registration"))
    } else {
        Ok(false)
    }
}

fn has_nic(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    ctx.facts.rdma.or_missing(Area::Sys, INFINIBAND)?;
    Ok(nics::rdma_nics(ctx.facts).next().is_some())
}

fn is_true(value: &str) -> bool {
    !["", "0", "n", "no", "f", "false", "off"].contains(&value.to_ascii_lowercase().as_str())
}

/// The harm if a GPU's nearest NIC is farther than the level allows.
fn gdr_level(ctx: &Ctx<'_>, value: &str) -> Option<String> {
    let allowed = nccl_level(value)?;
    let rows = &ctx.topology.rows;
    ctx.topology.matches.iter().find_map(|found| {
        let gpu = rows.get(found.row).filter(|row| row.kind == Kind::Gpu && !row.coherent)?;
        let nic = rows.get(found.pick?)?;
        let class = *ctx.topology.pair(found.row, found.pick?)?.pci.known()?;
        let needs = match class {
            PciClass::Pix => NcclPath::Pix,
            PciClass::Pxb => NcclPath::Pxb,
            PciClass::Phb => NcclPath::Phb,
            PciClass::Node | PciClass::NodeOrSys | PciClass::Sys => NcclPath::Sys,
        };
        // Beyond PXB NCCL's default does not allow it either.
        (needs > allowed && needs <= NcclPath::Pxb).then(|| {
            format!(
                "keeps NCCL from GPUDirect RDMA between {} and {}, which meet at {}",
                gpu.name,
                nic.name,
                class.letters()
            )
        })
    })
}

fn gpu_off(ctx: &Ctx<'_>, value: &str) -> Option<String> {
    transports::gpu_off(value, gpus(ctx))
}

/// Expandable segments span several allocations, which nvidia-peermem cannot pin.
fn has_expandable_segments(value: &str) -> bool {
    value.split(',').any(|option| {
        let mut parts = option.split(':').map(str::trim);
        parts.next() == Some("expandable_segments")
            && parts.next().is_some_and(|value| value.eq_ignore_ascii_case("true"))
    })
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{
        Edit, NIC, assert_says, findings, gpu, machine, only, root_port, with_libraries,
    };
    use crate::model::{Fact, Facts, Outcome, Why};

    fn set(facts: &mut Facts, name: &str, value: &str) {
        facts.environment = Fact::Known([(name.to_owned(), value.to_owned())].into());
    }

    fn two_gpus() -> Facts {
        let mut facts = machine();
        facts.add(root_port("0000:00:05.0"));
        facts.add(gpu("0000:05:00.0"));
        facts
    }

    fn dma_buf_alone() -> Facts {
        let mut facts = two_gpus();
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        facts
    }

    fn peer_memory_alone() -> Facts {
        let mut facts = two_gpus();
        facts.set_proprietary();
        facts
    }

    #[test]
    fn reports_harmful_values() {
        for (facts, name, value, word) in [
            (two_gpus(), "NCCL_P2P_DISABLE", "1", "peer to peer"),
            (two_gpus(), "NCCL_IB_DISABLE", "1", "sockets"),
            (two_gpus(), "NCCL_NET", "socket", "sockets"),
            (with_libraries(Vec::new()), "NCCL_GDRCOPY_ENABLE", "1", "not installed"),
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "LOC", "GPU0 and NIC0, which meet at PIX"),
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "0", "meet at PIX"),
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "NVL", "meet at PIX"),
            (two_gpus(), "NCCL_P2P_LEVEL", "LOC", "peer to peer"),
            (dma_buf_alone(), "NCCL_DMABUF_ENABLE", "0", "the only memory path"),
            (dma_buf_alone(), "NVSHMEM_IB_DISABLE_DMABUF", "true", "the only memory path"),
            (dma_buf_alone(), "UCX_IB_GPU_DIRECT_RDMA", "yes", "does not work here"),
            (two_gpus(), "UCX_IB_GPU_DIRECT_RDMA", "n", "keeps UCX"),
            (two_gpus(), "UCX_TLS", "rc,sm", "does not support GPU memory"),
            (two_gpus(), "UCX_TLS", "^cuda", "does not support GPU memory"),
            (
                peer_memory_alone(),
                "PYTORCH_CUDA_ALLOC_CONF",
                "max_split_size_mb:512,expandable_segments:True",
                "cannot register",
            ),
            (two_gpus(), "CUDA_NIC_INTEROP", "1", "has not been needed"),
            (two_gpus(), "CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK", "1", "lost silently"),
            (two_gpus(), "NCCL_IGNORE_DISABLED_P2P", "1", "unnoticed"),
            (two_gpus(), "NCCL_IGNORE_DISABLED_P2P", "2", "asking the driver"),
        ] {
            let mut facts = facts;
            set(&mut facts, name, value);
            let found = only("env.contradiction", &facts);
            assert_eq!((found.outcome, found.subject.as_str()), (Outcome::Info, name), "{value}");
            assert_says(&found, word);
        }
    }

    #[test]
    fn unseen_gpus_leave_variables_that_count_them_open() {
        for change in [(|facts: &mut Facts| facts.partial = true) as fn(&mut Facts), |facts| {
            facts.pci = Fact::Unknown(Why::Denied);
        }] {
            let mut facts = two_gpus();
            change(&mut facts);
            // GPU 7 may exist.
            for (name, value) in [("CUDA_VISIBLE_DEVICES", "7"), ("UCX_TLS", "rc,cuda")] {
                facts.environment = Fact::Known([(name.to_owned(), value.to_owned())].into());
                assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Unknown, "{name}");
            }
            facts.environment = Fact::Known(std::collections::BTreeMap::new());
            assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Pass);
        }
    }

    #[test]
    fn effect_is_unknown_where_the_memory_paths_are() {
        let mut facts = two_gpus();
        facts.peer_memory.nvidia_peermem = Fact::Unknown(Why::Denied);
        for (name, value, outcome) in [
            ("NCCL_DMABUF_ENABLE", "0", Outcome::Unknown),
            ("NCCL_DMABUF_ENABLE", "1", Outcome::Pass),
            ("UCX_IB_GPU_DIRECT_RDMA", "yes", Outcome::Unknown),
            ("NVSHMEM_IB_DISABLE_DMABUF", "1", Outcome::Unknown),
        ] {
            set(&mut facts, name, value);
            let found = only("env.contradiction", &facts);
            assert_eq!(found.outcome, outcome, "{name}={value}");
        }
    }

    #[test]
    fn peer_to_peer_switched_off_fails_profile_p2p() {
        let mut facts = two_gpus();
        set(&mut facts, "NCCL_P2P_DISABLE", "1");
        let found = findings("env.contradiction", &facts, &["p2p"]);
        assert_eq!(found[0].outcome, Outcome::Fail);
        let found = findings("env.contradiction", &facts, &["rdma"]);
        assert_eq!(found[0].outcome, Outcome::Info);
    }

    #[test]
    fn named_network_needs_a_device() {
        let mut facts = machine();
        set(&mut facts, "NCCL_NET", "IB");
        facts.rdma = Fact::Known(Vec::new());
        let found = only("env.contradiction", &facts);
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, "no RDMA device");
        facts.rdma = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Unknown);
        set(&mut facts, "NCCL_GDRCOPY_ENABLE", "1");
        facts.software.libraries = Fact::Unknown(Why::Denied);
        assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn variable_of_an_unknown_nic_is_unknown() {
        let mut facts = machine();
        set(&mut facts, "NCCL_GIN_TYPE", "2");
        assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Info);
        facts.device_mut(NIC).attributes = None;
        assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Unknown);
        set(&mut facts, "NCCL_IB_DISABLE", "1");
        facts.rdma = Fact::Unknown(Why::Denied);
        assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn harmless_values_pass() {
        for (facts, name, value) in [
            (machine(), "NCCL_P2P_DISABLE", "1"),
            (two_gpus(), "NCCL_P2P_DISABLE", "0"),
            (two_gpus(), "NCCL_NET", "IB"),
            (two_gpus(), "NCCL_NET", "AWS Libfabric"),
            (with_libraries(Vec::new()), "NCCL_GDRCOPY_ENABLE", "0"),
            (two_gpus(), "NCCL_DMABUF_ENABLE", "0"),
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "SYS"),
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "PIX"),
            // NCCL ignores lower case.
            (two_gpus(), "NCCL_NET_GDR_LEVEL", "loc"),
            (two_gpus(), "NCCL_P2P_LEVEL", "NVL"),
            (two_gpus(), "UCX_TLS", "rc,cuda"),
            (two_gpus(), "UCX_TLS", "all"),
            (two_gpus(), "UCX_TLS", "^tcp"),
            (two_gpus(), "NCCL_NET_GDR_C2C", "0"),
            (two_gpus(), "NVSHMEM_IB_DISABLE_DMABUF", "1"),
            (dma_buf_alone(), "NVSHMEM_IB_DISABLE_DMABUF", "False"),
            (dma_buf_alone(), "NVSHMEM_IB_DISABLE_DMABUF", "0"),
            (dma_buf_alone(), "UCX_IB_GPU_DIRECT_RDMA", "no way"),
            (dma_buf_alone(), "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ] {
            let mut facts = facts;
            set(&mut facts, name, value);
            assert_eq!(only("env.contradiction", &facts).outcome, Outcome::Pass, "{name}={value}");
        }
    }
}
