//! gpu.mig, gpu.vgpu, gpu.confidential, gpu.persistence: GPU modes that limit GPUDirect.

use super::reading::{each, is_complete, nvml, nvml_gpu};
use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, unknown_if, words};
use crate::model::{ActionClass, Area, Fabric, Fact, Severity, Why};

pub const MIG: Check = Check {
    id: "gpu.mig",
    rule: "MIG is off when peer access or CPU mappings are needed.",
    sources: "NVML",
    severity: Severity::Warn,
    why: "Instances and GPUs in MIG mode have no peer-to-peer access, and gdr's rm backend \
        does not map their memory. RDMA to an instance works.",
    remedy: "Disable MIG (nvidia-smi -mig 0), or do without peer-to-peer.",
    action: ActionClass::Configure.drained(
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html",
    ),
    references: &[
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/deployment-considerations.html",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml],
    by_profile: true,
    hint: Some(Hint {
        cause: "A GPU that is divided (MIG) has no peer to peer access.",
        words: "mig=6 nccl=1 p2p=1 unsupported=1 missing=1 failure=1",
    }),
    judge: mig,
    ..Check::DEFAULT
};

/// With MIG, RDMA works; peer-to-peer and CPU mappings without gdrdrv do not.
fn mig(ctx: &Ctx<'_>) -> Vec<Judgement> {
    const SOURCE: &str = "nvmlDeviceGetMigMode";
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        let gpu = match nvml_gpu(ctx, device.bdf) {
            Ok(gpu) => gpu,
            Err(gap) => return gap.unknown(subject),
        };
        match &gpu.mig {
            Fact::Known(false) => Judgement::pass(subject, "MIG is off.").evidence(SOURCE, "off"),
            Fact::Unknown(Why::NotCovered) if is_complete(gpu) => {
                Judgement::pass(subject, "It has no MIG.").evidence(SOURCE, "not supported")
            }
            Fact::Unknown(why) => Judgement::unknown(subject, *why, Area::Nvml, SOURCE),
            Fact::Known(true) => {
                let message = "MIG is on: there is no peer-to-peer between GPUs or instances, and gdr's rm backend maps no memory; \
                               RDMA works, to the instance of the process.";
                let wanted = ["p2p", "mpi"].iter().any(|profile| ctx.expectations.names(profile))
                    || (ctx.expectations.names("gdrcopy")
                        && ctx.facts.gdrdrv.version.present().is_none());
                (if wanted {
                    Judgement::broken(subject, message)
                } else {
                    Judgement::info(subject, message)
                })
                .evidence(SOURCE, "on")
                .command("nvidia-smi -mig 0")
                .advice("End what uses the instances first.")
            }
        }
    })
}

pub const VGPU: Check = Check {
    id: "gpu.vgpu",
    rule: "The GPU is a whole GPU, not a virtual GPU.",
    sources: "NVML",
    severity: Severity::Warn,
    why: "GPUDirect RDMA and peer-to-peer work only on some types of virtual GPUs; on the others registration \
        fails.",
    remedy: "Pass the whole GPU through, or choose a type that NVIDIA lists for GPUDirect.",
    action: ActionClass::Configure.drained("https://docs.nvidia.com/ai-enterprise/release-7/latest/infra-software/vgpu/features/gpudirect.html"),
    references: &[
        "https://docs.nvidia.com/ai-enterprise/release-7/latest/infra-software/vgpu/features/gpudirect.html",
        "https://docs.nvidia.com/ai-enterprise/release-8/8.1/infra-software/vgpu/features/p2p.html",
    ],
    reads: &[Source::Nvml],
    hint: Some(Hint {
        cause: "A virtual GPU opens its memory to other devices only for some types and drivers.",
        words: "vgpu=5 guest=1 unsupported=2 gpudirect=2 p2p=1 missing=1 failure=1",
    }),
    judge: vgpu,
    ..Check::DEFAULT
};

/// A virtual GPU has GPUDirect RDMA on some types only.
fn vgpu(ctx: &Ctx<'_>) -> Vec<Judgement> {
    const SOURCE: &str = "nvmlDeviceGetVirtualizationMode";
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        let gpu = match nvml_gpu(ctx, device.bdf) {
            Ok(gpu) => gpu,
            Err(gap) => return gap.unknown(subject),
        };
        let mode = match &gpu.virtualization {
            Fact::Known(mode) => mode.as_str(),
            Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Nvml, SOURCE),
        };
        match mode {
            "vgpu" => Judgement::broken(
                subject,
                "It is a virtual GPU: GPUDirect RDMA and peer-to-peer work only on some types.",
            )
            .advice("Check that NVIDIA's vGPU documentation lists this type for GPUDirect, or pass the whole \
                 GPU through."),
            "host_vgpu" | "host_vsga" => Judgement::info(
                subject,
                "This host provides it as virtual GPUs: their features are configured here and visible in the guests.",
            ),
            "passthrough" => Judgement::pass(subject, "The whole GPU is passed through to this guest."),
            "none" => Judgement::pass(subject, "It is not virtualised."),
            other => Judgement::undetermined(subject, format!("gdr does not know NVML's mode '{other}'."))
                .needs("a newer gdr"),
        }
        .evidence(SOURCE, mode)
    })
}

pub const CONFIDENTIAL: Check = Check {
    id: "gpu.confidential",
    rule: "Confidential computing does not block access to GPU memory.",
    sources: "NVML",
    severity: Severity::Warn,
    why: "With confidential computing, data that leaves the GPU is encrypted: its memory is not mapped through BAR1, and \
        neither a NIC nor the CPU can access it.",
    remedy: "Disable confidential computing if GPUDirect matters more.",
    action: ActionClass::Configure.drained("https://docs.nvidia.com/confidential-computing/"),
    references: &[
        "https://docs.nvidia.com/confidential-computing/",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/src/kernel/rmapi/mapping_cpu.c",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml],
    hint: Some(Hint {
        cause: "With confidential computing the GPU's memory is closed to other devices.",
        words: "confidential=6 gpudirect=1 p2p=1 unsupported=1 failure=1",
    }),
    judge: confidential,
    ..Check::DEFAULT
};

/// Confidential computing encrypts what leaves the GPU: nothing is mapped through BAR1.
fn confidential(ctx: &Ctx<'_>) -> Vec<Judgement> {
    const SOURCE: &str = "nvmlSystemGetConfComputeState";
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    if passthrough::own_gpus(ctx.facts).next().is_none() {
        return Vec::new();
    }
    let nvml = match nvml(ctx) {
        Ok(nvml) => nvml,
        Err(gap) => return vec![gap.unknown("machine")],
    };
    let judgement = match &nvml.confidential_compute {
        Fact::Known(false) => {
            Judgement::pass("machine", "Confidential computing is off.").evidence(SOURCE, "off")
        }
        // A part of nvidia-smi's output, without the section that stands behind that of BAR1.
        Fact::Unknown(Why::NotCovered)
            if nvml.partial && nvml.gpus.iter().all(|gpu| gpu.bar1.known().is_none()) =>
        {
            Judgement::unknown("machine", Why::NotCovered, Area::Nvml, SOURCE)
        }
        // Queried: NVML does not support it, or no GPU has it.
        Fact::Unknown(Why::NotCovered) => {
            Judgement::pass("machine", "These GPUs or their driver have no confidential computing.")
                .evidence(SOURCE, "not supported")
        }
        Fact::Unknown(why) => Judgement::unknown("machine", *why, Area::Nvml, SOURCE),
        Fact::Known(true) => {
            let links = match nvml.protected_links.known().map(String::as_str) {
                Some("protected_pcie") => " Peer-to-peer over NVLink works (protected PCIe).",
                Some("nvle") => " Peer-to-peer over NVLink works, encrypted.",
                _ => "",
            };
            Judgement::broken(
                "machine",
                format!(
                    "Confidential computing is on: GPU memory is not mapped through BAR1, so neither a NIC nor the CPU \
                     can access it.{links}"
                ),
            )
            .evidence(SOURCE, "on")
            .advice("If GPUDirect matters more, disable confidential computing on the host \
                 (nvidia_gpu_tools --set-cc-mode=off) and reset the GPUs.")
        }
    };
    vec![judgement]
}

pub const PERSISTENCE: Check = Check {
    id: "gpu.persistence",
    rule: "Persistence mode is on.",
    sources: "NVML, nvidia-persistenced.service",
    severity: Severity::Info,
    why: "Without it the driver releases a GPU when its last user exits: the next program waits a second or two, and \
        clocks and link start from a low-power state.",
    remedy: "systemctl enable --now nvidia-persistenced.",
    action: ActionClass::RestartService
        .running("https://docs.nvidia.com/deploy/driver-persistence/"),
    references: &["https://docs.nvidia.com/deploy/driver-persistence/"],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml],
    hint: Some(Hint {
        cause: "The driver gives the GPU up between programs.",
        words: "persistence=5 slow=1 driver=1 failure=1",
    }),
    judge: persistence,
    ..Check::DEFAULT
};

/// Without persistence mode the driver drops a GPU's state when its last user exits.
fn persistence(ctx: &Ctx<'_>) -> Vec<Judgement> {
    const SOURCE: &str = "nvmlDeviceGetPersistenceMode";
    each(ctx, |device| {
        let subject = words::device(ctx, device.bdf);
        let gpu = match nvml_gpu(ctx, device.bdf) {
            Ok(gpu) => gpu,
            Err(gap) => return gap.unknown(subject),
        };
        let judgement = match &gpu.persistence {
            Fact::Known(true) => Judgement::pass(subject, "Persistence mode is on.").evidence(SOURCE, "on"),
            Fact::Known(false) => Judgement::broken(
                subject,
                "Persistence mode is off: the first program after a pause waits a second or two while the driver \
                 initialises the GPU.",
            )
            .evidence(SOURCE, "off")
            .fix("persistence").command("systemctl enable --now nvidia-persistenced").advice("Without that service, nvidia-smi -pm 1 holds until the next boot."),
            Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Nvml, SOURCE),
        };
        match ctx.facts.fabric.units.get(Fabric::PERSISTENCE) {
            Some(unit) => judgement.evidence(Fabric::PERSISTENCE, unit.words()),
            None => judgement,
        }
    })
}
