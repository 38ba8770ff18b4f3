//! What libcuda adds to the verdict on the driver, where NVML answers: it may still not start.

use crate::check::{Ctx, Judgement};
use crate::model::{CudaOutcome, Fact, Why};

use super::reading::CUDA;

/// Numbers of `CUresult` (cuda.h).
mod code {
    pub const NOT_INITIALIZED: i32 = 3;
    pub const STUB_LIBRARY: i32 = 34;
    pub const NO_DEVICE: i32 = 100;
    pub const NOT_READY: i32 = 802;
    pub const DRIVER_MISMATCH: i32 = 803;
    pub const COMPAT_NOT_SUPPORTED: i32 = 804;
}

/// The judgement on a driver that NVML reaches: `well`, unless CUDA does not start.
pub fn judge(ctx: &Ctx<'_>, driver: &str, well: Judgement) -> Judgement {
    match &ctx.facts.cuda {
        // A machine that was recorded without: NVML's word stands.
        Fact::Unknown(Why::NotCovered) => well,
        Fact::Unknown(why) => Judgement::unknown("driver", *why, CUDA)
            .needs("a CUDA that answers: one that hangs shows in dmesg | grep -i -e NVRM -e Xid"),
        Fact::Known(CudaOutcome::Read(cuda)) => well.evidence(
            CUDA,
            format!(
                "{}, {} GPUs{}",
                cuda.library.as_deref().unwrap_or("it starts"),
                cuda.gpus.len(),
                if cuda.one_of_each { ", one of each model" } else { "" }
            ),
        ),
        Fact::Known(CudaOutcome::Absent { reason }) => Judgement::broken(
            "driver",
            format!("Driver {driver} is loaded, but there is no libcuda.so.1: no CUDA program starts here."),
        )
        .evidence(CUDA, reason)
        .advice(
            "Install the CUDA part of the driver's libraries (libcuda1, nvidia-driver-cuda-libs); in \
                 a container, add 'compute' to NVIDIA_DRIVER_CAPABILITIES.",
        ),
        Fact::Known(CudaOutcome::Failed {
            code, reason, library, ..
        }) => failed(ctx, driver, well, *code, library.as_deref().unwrap_or(CUDA)).evidence("cuInit", reason),
    }
}

fn failed(
    ctx: &Ctx<'_>,
    driver: &str,
    well: Judgement,
    code: Option<i32>,
    library: &str,
) -> Judgement {
    let nvml = ctx.facts.nvml();
    let broken =
        |message: String, advice: &str| Judgement::broken("driver", message).advice(advice);
    let compat = library.contains("compat");
    let judgement = match code {
        // Not the driver's fault: gpu.fabric judges it.
        Some(code::NOT_READY) => Judgement {
            message: format!("Driver {driver} is loaded and NVML answers. CUDA is not ready: see gpu.fabric."),
            ..well
        },
        // A machine whose GPUs are all somebody else's.
        Some(code::NO_DEVICE) if nvml.is_some_and(|nvml| nvml.gpus.is_empty()) => well,
        Some(code::NO_DEVICE) if nvml.is_some_and(|nvml| nvml.gpus.iter().all(|gpu| gpu.mig == Fact::Known(true))) => {
            broken(
                format!("Driver {driver} is loaded, but CUDA shows no GPU: MIG is on, and there are no instances."),
                "Create an instance (nvidia-smi mig -lgip lists the profiles, nvidia-smi mig -cgi PROFILE -C creates one), or \
                 switch MIG off (nvidia-smi -mig 0).",
            )
        }
        Some(code::NO_DEVICE) => broken(
            format!("Driver {driver} is loaded and NVML shows GPUs, but CUDA shows none."),
            "Check that this user may open the GPUs' nodes and /dev/nvidia-uvm; in a container, start it with --gpus all.",
        ),
        Some(code::DRIVER_MISMATCH) if compat => broken(
            format!("CUDA does not start: the libcuda of cuda-compat does not fit kernel module {driver}."),
            "Take the directory of cuda-compat out of LD_LIBRARY_PATH and /etc/ld.so.conf.d, or install the cuda-compat that \
             NVIDIA's compatibility table lists for this driver.",
        ),
        Some(code::DRIVER_MISMATCH) => broken(
            format!("CUDA does not start: libcuda and kernel module {driver} are of different versions."),
            "Reboot after a driver update, or reload the modules; ldconfig -p shows which libcuda is found, and a container \
             must get its host's.",
        ),
        Some(code::COMPAT_NOT_SUPPORTED) => broken(
            format!(
                "CUDA does not start: its libcuda is newer than kernel module {driver}, and forward compatibility is not \
                 supported on these GPUs."
            ),
            "Take cuda-compat out of LD_LIBRARY_PATH and /etc/ld.so.conf.d (it is for data-centre GPUs), or install a newer \
             driver.",
        ),
        Some(code::NOT_INITIALIZED) => broken(
            format!("Driver {driver} is loaded and NVML answers, but CUDA does not start."),
            "If /dev/nvidia-uvm is not there, load nvidia-uvm and run nvidia-modprobe -u -c 0; else write 'options nvidia_uvm \
             uvm_disable_hmm=1' to a file of /etc/modprobe.d and reload nvidia_uvm: some kernels break its HMM.",
        ),
        Some(code::STUB_LIBRARY) => broken(
            "CUDA does not start: the libcuda that is found is the toolkit's stub, made for linking alone.".to_owned(),
            "Take the toolkit's directory 'stubs' out of LD_LIBRARY_PATH.",
        ),
        Some(_) => broken(
            format!("Driver {driver} is loaded and NVML answers, but CUDA does not start."),
            "If /dev/nvidia-uvm is not there, load nvidia-uvm and run nvidia-modprobe -u -c 0; read the NVRM and Xid lines of \
             the kernel log.",
        ),
        None => broken(
            format!("Driver {driver} is loaded, but its libcuda cannot be used: no CUDA program starts here."),
            "Install the libcuda of the driver; ldconfig -p shows which one is found.",
        ),
    };
    judgement.evidence(CUDA, library)
}
