//! platform.kernel: GPUDirect features by kernel release. Vendors backport some of them.

use crate::check::{Check, Ctx, Hint, Judgement, version};
use crate::model::{ActionClass, Area, Fact, Severity, Why};

const SOURCE: &str = "/proc/sys/kernel/osrelease";

/// The first release with a feature.
const FEATURES: [((u32, u32), &str); 3] = [
    ((5, 12), "dma-buf registration for RDMA (mlx5)"),
    ((6, 1), "dma-bufs as queue memory (mlx5 umem)"),
    ((6, 15), "pci=config_acs= for several ports"),
];
/// Needed by GPUDirect RDMA without nvidia-peermem.
const DMA_BUF: (u32, u32) = (5, 12);
/// Releases in which config_acs= fails for more than one device.
const CONFIG_ACS_FAILS: [(u32, u32); 2] = [(6, 11), (6, 14)];

pub const CHECK: Check = Check {
    id: "platform.kernel",
    rule: "What this kernel release supports of GPUDirect, and that the driver knows its DMA operations.",
    sources: "/proc/sys/kernel/osrelease, driver version",
    severity: Severity::Info,
    why: "mlx5 registers dma-bufs since 5.12 and accepts them as queue memory since 6.1; \
        pci=config_acs= handles several ports since 6.15. Vendors backport some of this to \
        older releases. Kernel 6.19 replaced .map_resource by .map_phys, which the driver asks before it maps a peer's memory: \
        580.94.16 to 580.94.18, 580.126.09, 590.48.01, 595.44.02 and later releases of these branches know it.",
    remedy: "Use nvidia-peermem with an older kernel, or a newer kernel; with 6.19 and later a driver that knows .map_phys.",
    action: ActionClass::Install
        .drained("https://docs.kernel.org/driver-api/dma-buf.html")
        .then(ActionClass::Reboot),
    references: &[
        "https://docs.kernel.org/driver-api/dma-buf.html",
        "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        "https://github.com/aws/aws-ofi-nccl/pull/618",
        "https://github.com/NVIDIA/NV-Kernels/pull/63",
        "https://github.com/NVIDIA/NV-Kernels/pull/324",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/conftest.sh",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.119.02/kernel-open/nvidia/nv-dma.c",
    ],
    hint: Some(Hint {
        cause: "The kernel lacks an option or is too old or too new for this.",
        words: "kernel-version=4 dmabuf=2 unsupported=2 build=2 missing=1 mismatch=1 failure=1",
    }),
    judge: kernel,
    ..Check::DEFAULT
};

fn kernel(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let release = match &ctx.facts.kernel.release {
        Fact::Known(release) => release,
        Fact::Unknown(why) => return vec![Judgement::unknown("machine", *why, Area::Proc, SOURCE)],
    };
    let Some(numbers) = version::kernel(release) else {
        return vec![Judgement::unknown("machine", Why::Broken, Area::Proc, SOURCE)];
    };
    let list = |has: bool| {
        let features = FEATURES.iter().filter(move |(since, _)| (numbers >= *since) == has);
        features.map(|(_, what)| *what).collect::<Vec<_>>().join(", ")
    };
    let (has, lacks) = (list(true), list(false));
    let mut message = match (has.is_empty(), lacks.is_empty()) {
        (false, true) => format!("Kernel {release} has {has}."),
        (false, false) => format!("Kernel {release} has {has}; missing: {lacks}."),
        (true, _) => format!(
            "Kernel {release} is older than 5.12. Missing: {lacks}. A vendor's kernel may have it anyway."
        ),
    };
    if numbers >= CONFIG_ACS_FAILS[0] && numbers <= CONFIG_ACS_FAILS[1] {
        message.push_str(
            " Here pci=config_acs= and pci=disable_acs_redir= fail with more than one device.",
        );
    }
    let judgement = if numbers >= DMA_BUF {
        Judgement::pass("machine", message)
    } else {
        Judgement::broken("machine", message)
            .advice("Use nvidia-peermem, or a kernel of 5.12 or later.")
    };
    let mut judgements = vec![judgement.evidence(SOURCE, release)];
    if numbers >= version::MAP_PHYS {
        judgements.extend(map_phys(ctx, release));
    }
    judgements
}

/// The driver's modules against a kernel without `.map_resource`.
fn map_phys(ctx: &Ctx<'_>, release: &str) -> Option<Judgement> {
    const VERSION: &str = "/sys/module/nvidia/version";
    let driver = match version::driver(ctx.facts) {
        Fact::Known(driver) => driver?,
        Fact::Unknown(why) => {
            return Some(Judgement::unknown("driver", why, Area::Sys, VERSION));
        }
    };
    let judgement = match version::has_map_phys(&driver) {
        Some(true) => Judgement::pass(
            "driver",
            format!("Driver {driver} knows the DMA operations of kernel 6.19 (.map_phys)."),
        ),
        Some(false) => Judgement::broken(
            "driver",
            format!(
                "Driver {driver} needs .map_resource of the kernel's DMA operations, which kernel 6.19 replaced by .map_phys: it runs on \
                 {release} only if somebody patched its modules, and mappings of GPU memory for NICs are then unproven."
            ),
        )
        .advice("Install driver 580.126.09, 590.48.01, 595.44.02 or a later one of these branches.")
        .weighing(Severity::Warn),
        None => Judgement::undetermined(
            "driver",
            format!("Whether driver {driver} knows the DMA operations of kernel 6.19 (.map_phys) is in no published source."),
        )
        .needs("gdr probe rdma")
        .weighing(Severity::Info),
    };
    Some(judgement.evidence(VERSION, driver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, findings, machine, only};
    use crate::model::{Facts, Outcome};

    #[test]
    fn release_decides_features() {
        for (release, outcome, word) in [
            ("4.18.0-553.el8_10.x86_64", Outcome::Info, "vendor's kernel may have it"),
            ("5.15.0-100-generic", Outcome::Pass, "missing: dma-bufs as queue memory"),
            ("6.12.3", Outcome::Pass, "fail with more than one device"),
            ("6.18.44", Outcome::Pass, "pci=config_acs= for several ports"),
        ] {
            let mut facts = machine();
            facts.kernel.release = Fact::Known(release.to_owned());
            let found = only("platform.kernel", &facts);
            assert_eq!(found.outcome, outcome, "{release}");
            assert_says(&found, word);
        }
        let mut facts = Facts::default();
        assert_eq!(only("platform.kernel", &facts).outcome, Outcome::Unknown);
        facts.kernel.release = Fact::Known("custom".to_owned());
        assert_eq!(only("platform.kernel", &facts).outcome, Outcome::Unknown);
    }

    /// `git grep map_phys TAG -- kernel-open/nvidia/nv-dma.c` at these tags of NVIDIA/open-gpu-kernel-modules.
    #[test]
    fn drivers_know_map_phys() {
        for (driver, expected) in [
            ("570.211.01", Outcome::Warn),
            ("575.64.05", Outcome::Warn),
            ("580.94.13", Outcome::Warn),
            ("580.94.16", Outcome::Pass),
            ("580.94.18", Outcome::Pass),
            ("580.95.05", Outcome::Warn),
            ("580.119.02", Outcome::Warn),
            ("580.126.09", Outcome::Pass),
            ("580.142", Outcome::Pass),
            ("590.44.01", Outcome::Warn),
            ("590.48.01", Outcome::Pass),
            ("595.44.02", Outcome::Pass),
            ("570.300.01", Outcome::Unknown),
            ("535.288.01", Outcome::Warn),
            ("535.300.01", Outcome::Unknown),
        ] {
            let mut facts = machine();
            facts.kernel.release = Fact::Known("7.0.0-30-generic".to_owned());
            facts.driver.module_version = Fact::Known(Some(driver.to_owned()));
            let found = findings("platform.kernel", &facts, &[]);
            assert_eq!(found.len(), 2, "{found:?}");
            assert_eq!(found[1].outcome, expected, "{driver}");
            facts.kernel.release = Fact::Known("6.18.44".to_owned());
            assert_eq!(only("platform.kernel", &facts).outcome, Outcome::Pass);
        }
        let mut facts = machine();
        facts.kernel.release = Fact::Known("6.19.1".to_owned());
        facts.driver.module_version = Fact::Unknown(Why::Denied);
        facts.driver.version_line = Fact::Unknown(Why::Denied);
        let found = findings("platform.kernel", &facts, &[]);
        assert_eq!(found[1].outcome, Outcome::Unknown);
    }
}
