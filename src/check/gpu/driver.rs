//! gpu.driver: the kernel module is loaded and the libraries work with it.

use super::{libcuda, node};
use crate::check::{Check, CheckAction, Ctx, Hint, Judgement, Source, version};
use crate::model::{ActionClass, Area, CudaOutcome, Fact, NvmlOutcome, Severity, Why};

/// NVML return codes about the driver as a whole (nvml.h).
const NO_PERMISSION: u32 = 4;
const NOT_LOADED: u32 = 9;
const MISMATCH: u32 = 18;

const FILES: &str = "/sys/module/nvidia/version, /proc/driver/nvidia/version";

pub const CHECK: Check = Check {
    id: "gpu.driver",
    rule: "The kernel module is loaded, NVML reaches it and CUDA starts.",
    sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, NVML, cuInit",
    severity: Severity::Error,
    why: "Without the kernel module no CUDA program starts. Libraries whose version differs from the \
        module fail: NVML returns 18, cuInit 803 or 804. A newer libcuda of cuda-compat is valid if cuInit \
        accepts it.",
    remedy: "Install the driver, load its module, or reboot after an update so that module and libraries have the same \
        version.",
    action: ActionClass::Install
        .drained("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/")
        .then(ActionClass::Reboot),
    references: &[
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
        "https://docs.nvidia.com/deploy/cuda-compatibility/",
    ],
    explained_by: &["gpu.nouveau", "platform.container"],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "The NVIDIA driver is not loaded, or its parts have different versions.",
        words: "driver=6 mismatch=3 missing=2 build=2 kernel-version=2 no-device=2 kernel-module=1 failure=1 \
            container=1 cuda-version=1 secure-boot=1 nouveau=1 gpu-lost=1 blacklist=1 nccl=-1 storage=-1 mig=-1 \
            fabric=-2 gdrcopy=-2 rdma=-2 mpi=-2 peermem=-3 p2p=-3 gpudirect=-3",
    }),
    judge: driver,
    ..Check::DEFAULT
};

/// A libcuda newer than the module is valid (cuda-compat), so versions are not compared: the return
/// codes of NVML and CUDA decide.
fn driver(ctx: &Ctx<'_>) -> Vec<Judgement> {
    vec![judge(ctx)]
}

fn judge(ctx: &Ctx<'_>) -> Judgement {
    let loaded = version::driver(ctx.facts);
    // With a paravirtualised driver NVML works without a kernel module.
    if let Some(nvml) = ctx.facts.nvml() {
        let driver = nvml
            .driver_version
            .known()
            .filter(|version| !version.trim().is_empty())
            .cloned()
            .or_else(|| loaded.present().cloned());
        let Some(driver) = driver else {
            let message = "NVML answers, but neither it nor a kernel module names a driver version: see sw.libraries.";
            return Judgement::undetermined("driver", message)
                .evidence(FILES, "not there")
                .evidence("NVML", "no driver version")
                .needs("the libnvidia-ml.so.1 of the driver");
        };
        let cuda = match nvml.cuda_version.known().filter(|version| **version > 0) {
            Some(cuda) => format!(", up to CUDA {}.{}", cuda / 1000, cuda % 1000 / 10),
            None => String::new(),
        };
        let judgement = if nvml.unreachable.is_empty() {
            libcuda::judge(
                ctx,
                &driver,
                Judgement::pass(
                    "driver",
                    format!("Driver {driver} is loaded and NVML answers{cuda}."),
                ),
            )
        } else {
            hidden(ctx, &driver).unwrap_or_else(|| lost(&driver, &nvml.unreachable))
        };
        return judgement
            .evidence(FILES, loaded.present().map_or("not there", String::as_str))
            .evidence("NVML", driver);
    }
    match loaded {
        Fact::Unknown(why) => Judgement::unknown("driver", why, Area::Sys, FILES),
        Fact::Known(None) => not_loaded(ctx),
        Fact::Known(Some(version)) => match &ctx.facts.nvml {
            Fact::Unknown(why) => Judgement::unknown("driver", *why, Area::Nvml, "NVML")
                .evidence(FILES, version)
                .needs(match why {
                    Why::NotCovered => "NVML on the live machine",
                    _ => "an NVML that answers: a hanging driver shows in dmesg | grep -i -e NVRM -e Xid",
                }),
            // As in a container with the 'compute' capability only.
            Fact::Known(NvmlOutcome::Absent { reason })
                if matches!(ctx.facts.cuda, Fact::Known(CudaOutcome::Read(_))) =>
            {
                Judgement::info(
                    "driver",
                    format!(
                        "Driver {version} is loaded and CUDA starts. There is no NVML: facts that only NVML reports are unknown."
                    ),
                )
                .evidence(FILES, version)
                .evidence("NVML", reason)
                .advice(
                    "Install the NVML of the driver (libnvidia-ml1); in a container, add 'utility' to \
                 NVIDIA_DRIVER_CAPABILITIES.",
                )
            }
            Fact::Known(outcome) => refused(outcome, &version),
        },
    }
}

/// NVML also counts GPUs that it cannot access: fallen off the bus, in need of a reset, or not permitted to this user.
fn lost(driver: &str, gpus: &[String]) -> Judgement {
    let gpus = gpus.join("; ");
    let message = format!("NVML cannot access every GPU: {gpus}. Driver {driver} is loaded.");
    let reset = ActionClass::ResetGpu.drained(CHECK.action.source).then(ActionClass::Reboot);
    Judgement::broken("driver", message).action(reset).advice(
        "Read the NVRM and Xid lines of the kernel log. A reset (nvidia-smi -r) or a power cycle \
                 brings a lost GPU back; this user may also lack the right to open /dev/nvidia*.",
    )
}

/// NVML cannot access GPUs whose nodes are missing or may not be opened either.
fn hidden(ctx: &Ctx<'_>, driver: &str) -> Option<Judgement> {
    let gpus = ctx.facts.driver.gpus.known()?.keys();
    let problems: Vec<_> = gpus.filter_map(|gpu| node::problem(ctx, *gpu)).collect();
    let first = problems.first()?;
    let texts: Vec<String> = problems.iter().map(node::Problem::text).collect();
    let message =
        format!("NVML cannot access every GPU: {}. Driver {driver} is loaded.", texts.join("; "));
    Some(first.advise(Judgement::broken("driver", message)))
}

fn not_loaded(ctx: &Ctx<'_>) -> Judgement {
    if ctx.facts.pci.known().is_some() && ctx.facts.gpus().next().is_none() {
        return Judgement::skip("driver", "There is no NVIDIA GPU to drive.");
    }
    Judgement::broken("driver", "NVIDIA kernel module is not loaded.")
        .evidence(FILES, "not there")
        .command("modprobe nvidia")
        .advice(
            "Where there is no such module, install the driver for this kernel; where it does not \
                 load, read the kernel log.",
        )
}

fn action(outcome: &NvmlOutcome) -> CheckAction {
    let source = CHECK.action.source;
    match outcome {
        NvmlOutcome::Failed { code: Some(MISMATCH), .. } => ActionClass::Reboot.drained(source),
        NvmlOutcome::Failed { code: Some(NOT_LOADED | NO_PERMISSION), .. } => {
            ActionClass::Configure.running(source)
        }
        NvmlOutcome::Failed { .. } => {
            ActionClass::Reboot.drained(source).then(ActionClass::CallVendor)
        }
        NvmlOutcome::Read(_) | NvmlOutcome::Absent { .. } => CHECK.action,
    }
}

fn refused(outcome: &NvmlOutcome, version: &str) -> Judgement {
    let (evidence, message, advice) = match outcome {
        NvmlOutcome::Read(_) => return Judgement::pass("driver", format!("Driver {version} is loaded.")),
        NvmlOutcome::Absent { reason } => (
            format!("libnvidia-ml.so.1: {reason}"),
            format!("There is no NVML: kernel module {version} is loaded, but its user-space part is missing."),
            format!(
                "Install the user-space libraries of driver {version}; in a container, start it with the NVIDIA \
                 container toolkit (--gpus all)."
            ),
        ),
        NvmlOutcome::Failed {
            code: Some(MISMATCH),
            reason,
        } => (
            format!("nvmlInit: {MISMATCH}, {reason}"),
            format!("Driver and libraries differ: kernel module {version} and the NVIDIA libraries are of different versions, so CUDA does not start."),
            "Reboot, or stop what uses the GPUs and reload the modules nvidia_uvm, nvidia_drm, nvidia_modeset and nvidia."
                .to_owned(),
        ),
        NvmlOutcome::Failed {
            code: Some(NOT_LOADED),
            reason,
        } => (
            format!("nvmlInit: {NOT_LOADED}, {reason}"),
            format!("NVML does not reach the driver: kernel module {version} is loaded."),
            "Create the nodes /dev/nvidia* with nvidia-modprobe -c 0; in a container, add them with --gpus all.".to_owned(),
        ),
        NvmlOutcome::Failed {
            code: Some(NO_PERMISSION),
            reason,
        } => (
            format!("nvmlInit: {NO_PERMISSION}, {reason}"),
            format!("This user may not open /dev/nvidiactl; kernel module {version} is loaded."),
            "The owner and mode of /dev/nvidia* say who may; NVreg_DeviceFileMode and NVreg_DeviceFileGID set them.".to_owned(),
        ),
        NvmlOutcome::Failed { code, reason } => (
            match code {
                Some(code) => format!("nvmlInit: {code}, {reason}"),
                None => reason.clone(),
            },
            format!("NVML does not work: {reason}. Kernel module {version} is loaded."),
            "Read the NVRM and Xid lines of the kernel log.".to_owned(),
        ),
    };
    Judgement::broken("driver", message)
        .evidence(FILES, version)
        .evidence("NVML", evidence)
        .action(action(outcome))
        .advice(advice)
}
