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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, nvml_gpu, only};
    use crate::model::{Facts, Outcome};

    fn refusing(code: Option<i32>, library: &str) -> Facts {
        let mut facts = machine();
        facts.cuda = Fact::Known(CudaOutcome::Failed {
            code,
            reason: "cuInit: no".to_owned(),
            library: Some(library.to_owned()),
            driver_version: Fact::Known(13_000),
        });
        facts
    }

    #[test]
    fn each_refusal_has_its_own_advice() {
        const PLAIN: &str = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04";
        for (code, library, outcome, message, advice) in [
            (
                Some(803),
                PLAIN,
                Outcome::Fail,
                "of different versions",
                "Reboot",
            ),
            (
                Some(803),
                "/usr/local/cuda-13.0/compat/libcuda.so.1",
                Outcome::Fail,
                "cuda-compat does not fit",
                "LD_LIBRARY_PATH",
            ),
            (
                Some(804),
                PLAIN,
                Outcome::Fail,
                "forward compatibility",
                "cuda-compat",
            ),
            (
                Some(3),
                PLAIN,
                Outcome::Fail,
                "CUDA does not start",
                "uvm_disable_hmm=1",
            ),
            (Some(34), PLAIN, Outcome::Fail, "stub", "stubs"),
            (
                Some(100),
                PLAIN,
                Outcome::Fail,
                "CUDA shows none",
                "--gpus all",
            ),
            (
                Some(999),
                PLAIN,
                Outcome::Fail,
                "CUDA does not start",
                "nvidia-uvm",
            ),
            (
                Some(4711),
                PLAIN,
                Outcome::Fail,
                "CUDA does not start",
                "kernel log",
            ),
            (None, PLAIN, Outcome::Fail, "cannot be used", "ldconfig"),
            (Some(802), PLAIN, Outcome::Pass, "see gpu.fabric", ""),
        ] {
            let found = only("gpu.driver", &refusing(code, library));
            assert_eq!(found.outcome, outcome, "{code:?}");
            assert!(found.message.contains(message), "{}", found.message);
            assert!(
                found
                    .fix
                    .map(|fix| fix.text())
                    .unwrap_or_default()
                    .contains(advice),
                "{code:?}"
            );
        }
    }

    #[test]
    fn no_gpu_may_be_as_it_should_be() {
        let mut facts = refusing(Some(100), CUDA);
        nvml_gpu(&mut facts, |gpu| gpu.mig = Fact::Known(true));
        assert!(
            only("gpu.driver", &facts)
                .message
                .contains("there are no instances")
        );
        if let Fact::Known(crate::model::NvmlOutcome::Read(nvml)) = &mut facts.nvml {
            nvml.gpus.clear();
        }
        assert_eq!(only("gpu.driver", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn a_missing_or_hanging_library_is_no_pass() {
        let mut facts = machine();
        facts.cuda = Fact::Known(CudaOutcome::Absent {
            reason: "no such file".to_owned(),
        });
        let found = only("gpu.driver", &facts);
        assert_eq!(found.outcome, Outcome::Fail);
        assert!(
            found
                .fix
                .expect("advice")
                .text()
                .contains("NVIDIA_DRIVER_CAPABILITIES")
        );
        facts.cuda = Fact::Unknown(Why::TimedOut);
        assert_eq!(only("gpu.driver", &facts).outcome, Outcome::Unknown);
        facts.cuda = Fact::Unknown(Why::NotCovered);
        assert_eq!(
            only("gpu.driver", &facts).outcome,
            Outcome::Pass,
            "NVML's word stands"
        );
        facts = machine();
        facts.nvml = Fact::Unknown(Why::NotCovered);
        assert_eq!(
            only("gpu.driver", &facts).outcome,
            Outcome::Pass,
            "CUDA starts: the driver is there"
        );
    }
}
