//! platform.guest: bare metal, or a guest whose host owns PCI and IOMMU settings.

use crate::check::{Check, Ctx, Hint, Judgement};
use crate::model::{ActionClass, Area, Fact, Platform, PlatformKind, Severity};

pub const CHECK: Check = Check {
    id: "platform.guest",
    rule: "Whether this machine is a virtual machine.",
    sources: "/proc/cpuinfo, DMI, /sys/hypervisor, --platform",
    severity: Severity::Info,
    why: "The host owns the switch ports, the IOMMU and the link settings of a guest. What a \
        guest sees of them may differ from the hardware.",
    remedy: "Nothing to fix. Run gdr on the host for what the guest cannot see.",
    action: ActionClass::Nothing.running(
        "https://www.freedesktop.org/software/systemd/man/latest/systemd-detect-virt.html",
    ),
    references: &[
        "https://www.freedesktop.org/software/systemd/man/latest/systemd-detect-virt.html",
    ],
    hint: Some(Hint {
        cause: "In a virtual machine, the host decides how GPU and NIC reach each other.",
        words: "guest=4 gpudirect=2 p2p=2 gpu-word=1 failure=1 vgpu=1 topology=1 slow=1",
    }),
    judge: guest,
    ..Check::DEFAULT
};

/// Judges guest or bare metal, with the deciding fact as evidence.
fn guest(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let platform = &ctx.facts.platform;
    let (kind, fact) = platform.kind();
    let judgement = match kind {
        Fact::Known(PlatformKind::Guest) => Judgement::info(
            "machine",
            "This is a virtual machine: its PCI tree comes from the hypervisor, and ACS, IOMMU and firmware settings belong to the host.",
        ),
        Fact::Known(PlatformKind::BareMetal) => Judgement::pass("machine", "This is bare metal."),
        Fact::Unknown(why) => {
            return vec![
                Judgement::unknown("machine", why, Area::Proc, &fact)
                    .needs("--platform bare-metal or --platform guest"),
            ];
        }
    };
    let judgement = judgement.evidence("decided by", fact);
    vec![match platform.asserted {
        Some(_) => judgement.evidence("without --platform", observed(platform)),
        None => judgement,
    }]
}

/// The platform without --platform.
fn observed(platform: &Platform) -> String {
    let (kind, fact) = Platform { asserted: None, ..platform.clone() }.kind();
    match kind {
        Fact::Known(PlatformKind::Guest) => format!("guest, by {fact}"),
        Fact::Known(PlatformKind::BareMetal) => format!("bare metal, by {fact}"),
        Fact::Unknown(why) => why.sentence(&fact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::Outcome;

    #[test]
    fn option_overrides_facts() {
        let mut facts = machine();
        facts.platform.hypervisor_flag = Fact::Known(true);
        facts.platform.asserted = Some(PlatformKind::BareMetal);
        let found = only("platform.guest", &facts);
        assert_eq!(found.outcome, Outcome::Pass);
        assert_eq!(found.evidence[0].value, "--platform");
        assert_eq!(found.evidence[1].value, "guest, by /proc/cpuinfo: flag hypervisor");
    }
}
