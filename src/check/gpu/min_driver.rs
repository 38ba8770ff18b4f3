//! gpu.min-driver: the driver is new enough for the active profiles.

use crate::check::version::{self, Flavour};
use crate::check::{Check, Ctx, Hint, Judgement, Source};
use crate::model::Fact;
use crate::model::{ActionClass, Area, Severity};

const SOURCE: &str = "/sys/module/nvidia/version, /proc/driver/nvidia/version";

/// The oldest drivers, by branch and number within it.
mod oldest {
    /// nvidia-peermem ships with the driver.
    pub const PEERMEM: (u32, u32) = (470, 0);
    /// The open kernel modules, which export dma-buf.
    pub const OPEN: (u32, u32) = (515, 0);
    /// gdrdrv on x86 and Arm (README of gdrcopy).
    pub const GDRDRV: (u32, u32) = (331, 14);
    pub const GDRDRV_POWER: (u32, u32) = (418, 40);
    /// Stream memory operations and peer mappings of NIC registers (README of libgdsync).
    pub const ASYNC: (u32, u32) = (361, 0);
    /// CUDA 8.0 (README of libgdsync).
    pub const ASYNC_CUDA: i64 = 8000;
    /// CUDA 11.7, the second form of stream memory operations.
    pub const SECOND_FORM: i64 = 11_070;
}

pub const CHECK: Check = Check {
    id: "gpu.min-driver",
    rule: "The driver is new enough for the active profiles.",
    sources: "/sys/module/nvidia/version, /proc/driver/nvidia/version, CUDA, NVML",
    severity: Severity::Error,
    why: "nvidia-peermem comes with driver 470, dma-buf with 515 and open kernel modules, GPUDirect Async needs \
        361 and CUDA 8.0, gdrcopy 331.14. With older drivers a module is missing or a call is not supported.",
    remedy: "Install a newer driver.",
    action: ActionClass::Install
        .drained("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"),
    references: &[
        "https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md",
        "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/515.43.04/kernel-open/nvidia/nv-dmabuf.c",
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml, Source::Cuda],
    by_profile: true,
    hint: Some(Hint {
        cause: "The NVIDIA driver is older than what the program needs.",
        words: "cuda-version=4 driver=3 mismatch=3 failure=1 unsupported=1",
    }),
    judge: min_driver,
    ..Check::DEFAULT
};

/// One judgement for all profiles.
fn min_driver(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let driver = match version::driver(ctx.facts) {
        Fact::Known(Some(driver)) => driver,
        Fact::Known(None) => return vec![Judgement::no_driver("driver")],
        Fact::Unknown(why) => return vec![Judgement::unknown("driver", why, Area::Sys, SOURCE)],
    };
    let Some(version) = number(&driver) else {
        return vec![
            Judgement::undetermined("driver", format!("'{driver}' is not a driver version."))
                .evidence(SOURCE, driver)
                .needs("a driver version that can be read"),
        ];
    };
    let needs = needs(ctx, version);
    let words = |met: bool| -> Vec<&str> {
        needs.iter().filter(|need| need.met == met).map(|need| need.words.as_str()).collect()
    };
    let (met, unmet) = (words(true), words(false));
    let judgement = match (unmet.is_empty(), met.is_empty()) {
        (true, true) => Judgement::pass(
            "driver",
            format!("Driver {driver}: the profiles need no minimum version."),
        ),
        (true, false) => Judgement::pass(
            "driver",
            format!("Driver {driver} is new enough for {}.", met.join(", ")),
        ),
        (false, _) => Judgement::broken(
            "driver",
            format!("Driver {driver} is too old for {}.", unmet.join(", ")),
        )
        .advice(
            "Install a newer driver: 515 or later with open kernel modules on Turing and later, else \
                 470 to 580.",
        ),
    };
    let judgement = judgement.evidence(SOURCE, driver);
    vec![match cuda(ctx) {
        Some(cuda) => {
            judgement.evidence("CUDA version", format!("{}.{}", cuda / 1000, cuda % 1000 / 10))
        }
        None => judgement,
    }]
}

/// A requirement of a profile.
struct Requirement {
    met: bool,
    words: String,
}

fn needs(ctx: &Ctx<'_>, version: (u32, u32)) -> Vec<Requirement> {
    let names = |profile: &str| ctx.expectations.names(profile);
    // User profiles, and no profile at all, mean RDMA.
    let others = ["gdrcopy", "p2p"];
    let rdma =
        names("rdma") || !ctx.expectations.names.iter().all(|name| others.contains(&name.as_str()));
    let mut needs = Vec::new();
    if rdma || ctx.expectations.names.is_empty() {
        needs.push(self::rdma(ctx, version));
    }
    if names("async") {
        let cuda = cuda(ctx);
        // param.stream-memops judges which form is on.
        let first_form = if cuda.is_some_and(|cuda| cuda < oldest::SECOND_FORM) {
            ", with the first form of stream memory operations only: the second needs CUDA 11.7"
        } else {
            ""
        };
        needs.push(Requirement {
            met: version >= oldest::ASYNC && cuda.is_none_or(|cuda| cuda >= oldest::ASYNC_CUDA),
            words: format!("GPUDirect Async (361, CUDA 8.0){first_form}"),
        });
    }
    if names("gdrcopy") {
        let power = ctx.facts.platform.architecture == Fact::Known("ppc64le".to_owned());
        let oldest = if power { oldest::GDRDRV_POWER } else { oldest::GDRDRV };
        needs.push(Requirement {
            met: version >= oldest,
            words: format!("gdrcopy ({}.{:02})", oldest.0, oldest.1),
        });
    }
    needs
}

/// One memory path is enough. Before 470, nv_peer_mem came from the NIC vendor.
fn rdma(ctx: &Ctx<'_>, version: (u32, u32)) -> Requirement {
    let open = version::flavour(ctx.facts) == Fact::Known(Some(Flavour::Open));
    let mut paths = Vec::new();
    if version >= oldest::PEERMEM {
        paths.push("nvidia-peermem (470)");
    } else if ctx.facts.peer_memory.nv_peer_mem == Fact::Known(true) {
        paths.push("nv_peer_mem, which is loaded");
    }
    if version >= oldest::OPEN && open {
        paths.push("dma-buf (515, open)");
    }
    if paths.is_empty() {
        Requirement {
            met: false,
            words: "RDMA: nvidia-peermem comes with 470, dma-buf with 515 and open kernel modules"
                .to_owned(),
        }
    } else {
        Requirement { met: true, words: format!("RDMA by {}", paths.join(" and ")) }
    }
}

/// CUDA's version, from CUDA itself or NVML.
fn cuda(ctx: &Ctx<'_>) -> Option<i64> {
    let own = super::reading::cuda(ctx).ok();
    let own = own.and_then(|cuda| cuda.driver_version.known().copied());
    let nvml = || ctx.facts.nvml().and_then(|nvml| nvml.cuda_version.known().copied());
    // A library that answers zeros has no version: sw.libraries names it.
    let own = own.filter(|version| *version > 0).map(i64::from);
    own.or_else(|| nvml().map(i64::from))
}

/// Branch and number within it, as in 580 and 159 of `580.159.04`.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    let branch = parts.next()?.ok()?;
    Some((branch, parts.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{findings, machine, only};
    use crate::model::{CudaOutcome, Facts, Outcome, Why};

    /// The machine with a proprietary driver of this version.
    fn driver(version: &str) -> Facts {
        let mut facts = machine();
        facts.driver.module_version = Fact::Known(Some(version.to_owned()));
        let line = format!("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}");
        facts.driver.version_line = Fact::Known(Some(line));
        facts
    }

    fn judged(facts: &Facts, profiles: &[&str]) -> (Outcome, String) {
        let mut found = findings("gpu.min-driver", facts, profiles);
        assert_eq!(found.len(), 1);
        let found = found.remove(0);
        (found.outcome, found.message)
    }

    #[test]
    fn nv_peer_mem_is_enough_for_rdma() {
        let mut old = driver("460.32.03");
        old.peer_memory.nv_peer_mem = Fact::Known(true);
        assert_eq!(judged(&old, &["rdma"]).0, Outcome::Pass, "nv_peer_mem is loaded");
    }

    #[test]
    fn async_needs_cuda_8() {
        let mut facts = driver("367.48");
        facts.peer_memory.nv_peer_mem = Fact::Known(true);
        facts.nvml = Fact::Unknown(Why::NotCovered);
        let with = |facts: &mut Facts, version| {
            if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
                cuda.driver_version = Fact::Known(version);
            }
        };
        with(&mut facts, 8000);
        let (outcome, message) = judged(&facts, &["async"]);
        assert_eq!(outcome, Outcome::Pass);
        assert!(message.ends_with("the second needs CUDA 11.7."), "{message}");
        with(&mut facts, 7050);
        let (outcome, message) = judged(&facts, &["async"]);
        assert_eq!(outcome, Outcome::Fail);
        assert!(message.contains("GPUDirect Async (361, CUDA 8.0)"), "{message}");
    }

    #[test]
    fn needs_driver_version() {
        let mut facts = driver("460.32.03");
        facts.driver.module_version = Fact::Unknown(Why::Denied);
        facts.driver.version_line = Fact::Unknown(Why::Denied);
        assert_eq!(only("gpu.min-driver", &facts).outcome, Outcome::Unknown);
        facts.driver.module_version = Fact::Known(None);
        facts.driver.version_line = Fact::Known(None);
        assert_eq!(only("gpu.min-driver", &facts).outcome, Outcome::Skip);
    }
}
