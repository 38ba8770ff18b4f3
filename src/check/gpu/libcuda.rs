//! gpu.driver, if NVML answers: CUDA may still not start.

use crate::check::{Ctx, Judgement};
use crate::model::{Area, CudaOutcome, Fact, Why};

use super::reading::CUDA;

/// Numbers of `CUresult` (cuda.h).
mod code {
    pub const OUT_OF_MEMORY: i32 = 2;
    pub const NOT_INITIALIZED: i32 = 3;
    pub const STUB_LIBRARY: i32 = 34;
    pub const NO_DEVICE: i32 = 100;
    pub const OPERATING_SYSTEM: i32 = 304;
    pub const NOT_READY: i32 = 802;
    pub const DRIVER_MISMATCH: i32 = 803;
    pub const COMPAT_NOT_SUPPORTED: i32 = 804;
}

/// Returns `pass` unless CUDA does not start.
pub fn judge(ctx: &Ctx<'_>, driver: &str, pass: Judgement) -> Judgement {
    match &ctx.facts.cuda {
        Fact::Unknown(Why::NotCovered) => {
            Judgement::unknown("driver", Why::NotCovered, Area::Cuda, CUDA)
        }
        Fact::Unknown(why) => Judgement::unknown("driver", *why, Area::Cuda, CUDA)
            .needs("a CUDA that answers: a hanging driver shows in dmesg | grep -i -e NVRM -e Xid"),
        Fact::Known(CudaOutcome::Read(cuda)) if cuda.gpus.is_empty() => Judgement::undetermined(
            "driver",
            format!("Driver {driver} is loaded, but libcuda says that it started and shows no GPU: see sw.libraries."),
        )
        .evidence(CUDA, cuda.library.as_deref().unwrap_or("CUDA starts"))
        .needs("the libcuda.so.1 of the driver"),
        Fact::Known(CudaOutcome::Read(cuda)) => pass.evidence(
            CUDA,
            format!(
                "{}, {} GPUs{}",
                cuda.library.as_deref().unwrap_or("CUDA starts"),
                cuda.gpus.len(),
                if cuda.one_of_each { ", one of each model" } else { "" }
            ),
        ),
        Fact::Known(CudaOutcome::Absent { reason }) => Judgement::broken(
            "driver",
            format!("There is no libcuda.so.1: driver {driver} is loaded, but no CUDA program starts here."),
        )
        .evidence(CUDA, reason)
        .advice(
            "Install the CUDA part of the driver's libraries (libcuda1, nvidia-driver-cuda-libs); in \
                 a container, add 'compute' to NVIDIA_DRIVER_CAPABILITIES.",
        ),
        Fact::Known(CudaOutcome::Failed {
            code, reason, library, ..
        }) => failed(ctx, driver, pass, *code, library.as_deref().unwrap_or(CUDA)).evidence("cuInit", reason),
    }
}

/// The limit of open files, if CUDA may need more.
fn few_files(ctx: &Ctx<'_>) -> Option<u64> {
    const ENOUGH: u64 = 256;
    let limit = ctx.facts.process.open_files.present().copied();
    limit.filter(|limit| *limit < ENOUGH)
}

fn failed(
    ctx: &Ctx<'_>,
    driver: &str,
    pass: Judgement,
    code: Option<i32>,
    library: &str,
) -> Judgement {
    let nvml = ctx.facts.nvml();
    let broken =
        |message: String, advice: &str| Judgement::broken("driver", message).advice(advice);
    let compat = library.contains("compat");
    let judgement = match code {
        // gpu.fabric judges this.
        Some(code::NOT_READY) => Judgement {
            message: format!("Driver {driver} is loaded and NVML answers. CUDA is not ready: see gpu.fabric."),
            ..pass
        },
        // All GPUs are passed through.
        Some(code::NO_DEVICE) if nvml.is_some_and(|nvml| nvml.gpus.is_empty()) => pass,
        Some(code::NO_DEVICE) if nvml.is_some_and(|nvml| nvml.gpus.iter().all(|gpu| gpu.mig == Fact::Known(true))) => {
            broken(
                format!("CUDA shows no GPU: MIG is on, and there are no instances. Driver {driver} is loaded."),
                "Create an instance (nvidia-smi mig -lgip lists the profiles, nvidia-smi mig -cgi PROFILE -C creates one), or \
                 switch MIG off (nvidia-smi -mig 0).",
            )
        }
        Some(code::NO_DEVICE) => broken(
            format!("CUDA shows no GPU, but NVML does; driver {driver} is loaded."),
            "Check that this user may open the GPUs' nodes and /dev/nvidia-uvm; in a container, start it with --gpus all.",
        ),
        Some(code::OPERATING_SYSTEM) if few_files(ctx).is_some() => broken(
            format!(
                "CUDA does not start: this process may open only {} files (ulimit -n). Driver {driver} is loaded and NVML answers.",
                few_files(ctx).unwrap_or_default()
            ),
            "Raise the limit of open files: ulimit -n 1024, LimitNOFILE= of the service, --ulimit nofile=1024 of the container.",
        ),
        Some(code::DRIVER_MISMATCH) if compat => broken(
            format!("CUDA does not start: the libcuda of cuda-compat does not fit kernel module {driver}."),
            "Remove the directory of cuda-compat from LD_LIBRARY_PATH and /etc/ld.so.conf.d, or install the cuda-compat that \
             NVIDIA's compatibility table lists for this driver.",
        ),
        Some(code::DRIVER_MISMATCH) => broken(
            format!("CUDA does not start: libcuda and kernel module {driver} are of different versions."),
            "Reboot after a driver update, or reload the modules; ldconfig -p shows which libcuda is found; a container \
             needs the libcuda of its host.",
        ),
        Some(code::COMPAT_NOT_SUPPORTED) => broken(
            format!(
                "CUDA does not start: its libcuda is newer than kernel module {driver}, and forward compatibility is not \
                 supported on these GPUs."
            ),
            "Remove cuda-compat from LD_LIBRARY_PATH and /etc/ld.so.conf.d (it is for data-centre GPUs), or install a newer \
             driver.",
        ),
        Some(code::NOT_INITIALIZED) => broken(
            format!("CUDA does not start; driver {driver} is loaded and NVML answers."),
            "If /dev/nvidia-uvm is missing, load nvidia-uvm and run nvidia-modprobe -u -c 0; else write 'options nvidia_uvm \
             uvm_disable_hmm=1' to a file of /etc/modprobe.d and reload nvidia_uvm: some kernels break its HMM.",
        ),
        Some(code::OUT_OF_MEMORY) => broken(
            format!("CUDA does not start: it gets no memory. Driver {driver} is loaded and NVML answers."),
            "CUDA reserves as much address space as the machine and its GPUs have memory: see ulimit -v and -d, and free.",
        ),
        Some(code::STUB_LIBRARY) => broken(
            "CUDA does not start: the libcuda that is found is the toolkit's stub, which is for linking only.".to_owned(),
            "Remove the toolkit's directory 'stubs' from LD_LIBRARY_PATH.",
        ),
        Some(_) => broken(
            format!("CUDA does not start; driver {driver} is loaded and NVML answers."),
            "If /dev/nvidia-uvm is missing, load nvidia-uvm and run nvidia-modprobe -u -c 0; read the NVRM and Xid lines of \
             the kernel log.",
        ),
        None => broken(
            format!("libcuda cannot be used: no CUDA program starts here. Driver {driver} is loaded."),
            "Install the libcuda of the driver; ldconfig -p shows which one is found.",
        ),
    };
    judgement.evidence(CUDA, library)
}
