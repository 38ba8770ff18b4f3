//! param.stream-memops: CUDA streams may wait on memory and write it.

use super::{PARAMS, registry_keys as keys};
use crate::check::{Check, Ctx, Hint, Judgement, Source, version};
use crate::model::{ActionClass, Area, CudaGpu, CudaOutcome, Fact, Severity, Why};

const OPTION: &str = "EnableStreamMemOPs";

pub const CHECK: Check = Check {
    id: "param.stream-memops",
    rule: "CUDA streams may wait on memory and write it.",
    sources: "driver and CUDA version, /proc/driver/nvidia/params",
    severity: Severity::Warn,
    why: "GPUDirect Async waits on and writes memory in stream order. Since CUDA 11.7 (driver 515) these \
        operations are on by default; before, cuStreamWaitValue32 returns 801 unless a driver parameter enables \
        them.",
    remedy: "Update the driver to R515 or later, or set NVreg_EnableStreamMemOPs=1.",
    action: ActionClass::Configure
        .drained("https://github.com/gpudirect/libgdsync/blob/v2.1/README.md"),
    references: &[
        "https://docs.nvidia.com/cuda/archive/11.8.0/cuda-driver-api/group__CUDA__MEMOP.html",
        "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "The driver parameter for stream memory operations is off.",
        words: "stream-memops=6 unsupported=2 parameter=2 stall=1 failure=1",
    }),
    judge: stream_memops,
    ..Check::DEFAULT
};

/// Since CUDA 11.7 (driver 515) the second form of the calls is on by default; from r387 to 515 a
/// parameter decides. The answer of CUDA takes precedence over the parameter.
fn stream_memops(ctx: &Ctx<'_>) -> Vec<Judgement> {
    vec![judge(ctx)]
}

fn judge(ctx: &Ctx<'_>) -> Judgement {
    let driver = match version::driver(ctx.facts) {
        Fact::Known(None) => return Judgement::no_driver("driver"),
        Fact::Known(Some(version)) => Fact::Known(version),
        Fact::Unknown(why) => Fact::Unknown(why),
    };
    let read = match &ctx.facts.cuda {
        Fact::Known(CudaOutcome::Read(cuda)) => Some(cuda),
        _ => None,
    };
    let gpus = read.map_or(&[][..], |cuda| cuda.gpus.as_slice());
    let by_nvml = || ctx.facts.nvml().and_then(|nvml| nvml.cuda_version.known().copied());
    let by_cuda = read.and_then(|cuda| cuda.driver_version.known().copied());
    let cuda = by_cuda.map(i64::from).or_else(|| by_nvml().map(i64::from));
    let branch = driver.known().and_then(|version| version::branch(version));
    let parameter = parameter(ctx);
    let value = match &parameter {
        Fact::Known(on) => format!("{}", u8::from(*on)),
        Fact::Unknown(why) => why.phrase().to_owned(),
    };
    let judgement = match (cuda, branch) {
        (Some(11_070..), _) | (_, Some(515..)) => {
            Judgement::pass("driver", modern(gpus, &parameter))
        }
        (None, None) => {
            return Judgement::unknown(
                "driver",
                driver.why().unwrap_or(Why::Broken),
                Area::Sys,
                "/sys/module/nvidia/version",
            );
        }
        _ => match first_form(gpus) {
            Fact::Known(true) => {
                Judgement::pass("driver", "CUDA reports that stream memory operations are on.")
            }
            Fact::Known(false) => off(),
            Fact::Unknown(_) => match by_parameter(branch, &parameter) {
                Ok(judgement) => judgement,
                Err(why) => return Judgement::unknown("driver", why, Area::Proc, PARAMS),
            },
        },
    };
    let judgement = match driver.known() {
        Some(version) => judgement.evidence("/sys/module/nvidia/version", version),
        None => judgement,
    };
    let judgement = match (by_cuda, cuda) {
        (Some(cuda), _) => judgement.evidence("cuDriverGetVersion", cuda.to_string()),
        (None, Some(cuda)) => {
            judgement.evidence("nvmlSystemGetCudaDriverVersion", cuda.to_string())
        }
        (None, None) => judgement,
    };
    let judgement = gpus.iter().fold(judgement, |judgement, gpu| {
        judgement.evidence(
            format!("CUDA device {}: attributes 92-94, 122, 123", gpu.ordinal),
            attributes(gpu),
        )
    });
    judgement.evidence(format!("{PARAMS}: {OPTION}"), value)
}

/// Before CUDA 11.7, if CUDA was not queried.
fn by_parameter(branch: Option<u32>, parameter: &Fact<bool>) -> Result<Judgement, Why> {
    match (branch, parameter) {
        (Some(..387), _) => Ok(Judgement::pass(
            "driver",
            "Drivers before r387 need no parameter for stream memory operations.",
        )),
        (_, Fact::Known(true)) => {
            Ok(Judgement::pass("driver", "EnableStreamMemOPs=1: stream memory operations are on."))
        }
        (_, Fact::Known(false)) => Ok(off()),
        (_, Fact::Unknown(why)) => Err(*why),
    }
}

fn off() -> Judgement {
    Judgement::broken(
        "driver",
        "Stream memory operations are off: this driver is older than CUDA 11.7 and EnableStreamMemOPs is 0.",
    )
    .fix("stream-memops").advice(
        "Write 'options nvidia NVreg_EnableStreamMemOPs=1' to a file of /etc/modprobe.d, rebuild the initramfs and reload the \
         driver; or install a driver of 515 or later.",
    )
}

/// True if the first form of the calls is enabled on every GPU.
fn first_form(gpus: &[CudaGpu]) -> Fact<bool> {
    let mut all = Fact::default();
    for gpu in gpus {
        match gpu.stream_memops.v1 {
            Fact::Known(false) => return Fact::Known(false),
            Fact::Known(true) => all = Fact::Known(true),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    all
}

/// Describes the second form and its limits. For the first form CUDA takes precedence over the parameter.
fn modern(gpus: &[CudaGpu], parameter: &Fact<bool>) -> String {
    let lacks = |field: fn(&CudaGpu) -> &Fact<bool>| {
        gpus.iter().any(|gpu| *field(gpu) == Fact::Known(false))
    };
    let mut message = "Stream memory operations (v2) are on by default.".to_owned();
    if lacks(|gpu| &gpu.stream_memops.v2_64_bit) {
        message.push_str(
            " Some GPUs do not support 64-bit words: a doorbell is written in two halves.",
        );
    }
    if lacks(|gpu| &gpu.stream_memops.v2_nor) {
        message.push_str(" Some GPUs do not support NOR waits.");
    }
    let first = match first_form(gpus) {
        Fact::Unknown(_) => parameter.clone(),
        known => known,
    };
    if first == Fact::Known(false) {
        message.push_str(
            " Programs built on the first form of the calls still need NVreg_EnableStreamMemOPs=1, which is not set.",
        );
    }
    message
}

/// As in `v1 0 0 0, v2 1 1`.
fn attributes(gpu: &CudaGpu) -> String {
    let shown = |fact: &Fact<bool>| match fact {
        Fact::Known(flag) => u8::from(*flag).to_string(),
        Fact::Unknown(_) => "?".to_owned(),
    };
    let calls = &gpu.stream_memops;
    format!(
        "v1 {} {} {}, v2 {} {}",
        shown(&calls.v1),
        shown(&calls.v1_64_bit),
        shown(&calls.v1_nor),
        shown(&calls.v2_64_bit),
        shown(&calls.v2_nor)
    )
}

/// The parameter, or the option of that name inside `RegistryDwords`, which overrides it.
fn parameter(ctx: &Ctx<'_>) -> Fact<bool> {
    ctx.facts.driver.params.as_ref().and_then(|params| {
        let params = match params {
            Some(params) => params,
            None => return Fact::Unknown(Why::NotCovered),
        };
        let inside = params.get("RegistryDwords").and_then(|dwords| keys::option(dwords, OPTION));
        match (inside, params.get(OPTION)) {
            (Some(value), _) => Fact::Known(value != 0),
            (None, Some(value)) => Fact::Known(value != "0"),
            (None, None) => Fact::Unknown(Why::NotCovered),
        }
    })
}
