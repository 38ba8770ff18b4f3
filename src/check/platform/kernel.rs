//! platform.kernel: GPUDirect features by kernel release. Vendors backport some of them.

use crate::check::{Ctx, Judgement, version};
use crate::model::{Area, Fact, Why};

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

pub fn kernel(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let release = match &ctx.facts.kernel.release {
        Fact::Known(release) => release,
        Fact::Unknown(why) => return vec![Judgement::unknown("machine", *why, Area::Proc, SOURCE)],
    };
    let Some(numbers) = version::kernel(release) else {
        return vec![Judgement::unknown(
            "machine",
            Why::Broken,
            Area::Proc,
            SOURCE,
        )];
    };
    let list = |has: bool| {
        let features = FEATURES
            .iter()
            .filter(move |(since, _)| (numbers >= *since) == has);
        features
            .map(|(_, what)| *what)
            .collect::<Vec<_>>()
            .join(", ")
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
    let judgement = match numbers >= DMA_BUF {
        true => Judgement::pass("machine", message),
        false => Judgement::broken("machine", message)
            .advice("Use nvidia-peermem, or a kernel of 5.12 or later."),
    };
    vec![judgement.evidence(SOURCE, release)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, machine, only};
    use crate::model::{Facts, Outcome};

    #[test]
    fn release_decides_features() {
        for (release, outcome, word) in [
            (
                "4.18.0-553.el8_10.x86_64",
                Outcome::Info,
                "vendor's kernel may have it",
            ),
            (
                "5.15.0-100-generic",
                Outcome::Pass,
                "missing: dma-bufs as queue memory",
            ),
            ("6.12.3", Outcome::Pass, "fail with more than one device"),
            (
                "6.18.44",
                Outcome::Pass,
                "pci=config_acs= for several ports",
            ),
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
}
