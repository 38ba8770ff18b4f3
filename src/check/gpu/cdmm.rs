//! gpu.cdmm: whether the driver or the kernel manages a coherent GPU's memory.

use std::collections::BTreeMap;

use super::reading::each;
use crate::check::{Check, Ctx, Hint, Judgement, Source, words};
use crate::model::{ActionClass, Area, Fact, PciDevice, Severity};

const OPTION: &str = "CoherentGPUMemoryMode";
const OLDER: &str = "EnableUserNUMAManagement";
const PARAMS: &str = "/proc/driver/nvidia/params";

pub const CHECK: Check = Check {
    id: "gpu.cdmm",
    rule: "A coherent GPU's memory is managed by the kernel as a NUMA node, or by the driver.",
    sources: "/proc/driver/nvidia/params, NVML",
    severity: Severity::Info,
    why: "If the driver manages it (CDMM) it is not a NUMA node: malloc and numactl cannot use it, and the CPU \
        accesses it only through mappings.",
    remedy: "No fix is needed. CoherentGPUMemoryMode selects the mode.",
    action: ActionClass::Nothing.running(
        "https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-580-65-06/index.html",
    ),
    references: &[
        "https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-580-65-06/index.html",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia/nv-reg.h",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml],
    hint: Some(Hint {
        cause: "The driver keeps the coherent GPU's memory to itself.",
        words: "coherent-gpu=4 missing=1 failure=1",
    }),
    judge: cdmm,
    ..Check::DEFAULT
};

fn cdmm(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each(ctx, |device| judge(ctx, device))
}

fn judge(ctx: &Ctx<'_>, device: &PciDevice) -> Judgement {
    let subject = words::device(ctx, device.bdf);
    match &device.ids {
        Fact::Known(ids) if !ids.is_coherent_gpu() => {
            return Judgement::skip(subject, "Its memory is not coherent with the CPU's.");
        }
        Fact::Known(_) => {}
        Fact::Unknown(why) => {
            return Judgement::unknown(
                subject,
                *why,
                Area::Sys,
                "/sys/bus/pci/devices/*/{vendor,device}",
            );
        }
    }
    let source = format!("{PARAMS}: {OPTION}");
    let params = match &ctx.facts.driver.params {
        Fact::Known(Some(params)) => params,
        Fact::Known(None) => return Judgement::no_driver(subject),
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Proc, &source),
    };
    let mode = params.get(OPTION).map_or("", String::as_str);
    let judgement = if is_by_driver(params) {
        Judgement::info(
            subject,
            "The driver manages its memory (CDMM): it is not a NUMA node, and the CPU accesses it only through mappings \
             (gdrcopy, cudaMallocManaged).",
        )
    } else {
        Judgement::pass(
            subject,
            "The kernel manages its memory as a NUMA node: the CPU accesses it like host memory.",
        )
    };
    let node = ctx.facts.nvml().and_then(|nvml| nvml.gpus.iter().find(|gpu| gpu.bdf == device.bdf));
    let judgement = match node.map(|gpu| &gpu.memory_node) {
        Some(Fact::Known(Some(node))) => {
            judgement.evidence("nvmlDeviceGetNumaNodeId", node.to_string())
        }
        Some(Fact::Known(None)) => judgement.evidence("nvmlDeviceGetNumaNodeId", "no node"),
        _ => judgement,
    };
    judgement.evidence(source, if mode.is_empty() { "not set" } else { mode })
}

/// True if these parameters let the driver manage the memory of coherent GPUs.
pub fn is_by_driver(params: &BTreeMap<String, String>) -> bool {
    // The driver compares the whole word with its case and ignores other values (os-registry.c).
    // The older option has the same effect.
    params.get(OPTION).is_some_and(|mode| mode == "driver")
        || params.get(OLDER).is_some_and(|value| value == "0")
}
