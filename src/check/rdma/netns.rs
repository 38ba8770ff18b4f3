//! rdma.netns: RDMA devices are visible in every network namespace.

use super::rdma_nics;
use crate::check::{Check, Ctx, Hint, Judgement};
use crate::model::Fact;
use crate::model::{ActionClass, Area, Severity};

const MODE: &str = "/sys/module/ib_core/parameters/netns_mode";

pub const CHECK: Check = Check {
    id: "rdma.netns",
    rule: "RDMA devices are shared among network namespaces, or this namespace has the devices \
        that it needs.",
    sources: "/sys/module/ib_core/parameters/netns_mode, /proc/self/ns",
    severity: Severity::Warn,
    why: "In exclusive mode a container sees only the RDMA devices that were moved into its \
        network namespace; in both modes a RoCE address is meant for the namespace of its \
        interface: with MLNX_OFED a queue pair elsewhere gets No such device.",
    remedy: "rdma dev set NAME netns CONTAINER for each device, as an SR-IOV or RDMA device \
        plugin does; or rdma system set netns shared while only the first network namespace \
        exists.",
    action: ActionClass::Configure
        .running("https://man7.org/linux/man-pages/man8/rdma-system.8.html"),
    references: &[
        "https://man7.org/linux/man-pages/man8/rdma-system.8.html",
        "https://man7.org/linux/man-pages/man8/rdma-dev.8.html",
        "https://lore.kernel.org/linux-rdma/ad08f992-7636-44e6-914b-f467fd7ceb61@linux.dev/",
    ],
    hint: Some(Hint {
        cause: "The NIC's address is in another network namespace than the process.",
        words: "netns=4 gid=3 no-device=3 connect=3 container=1 rdma=1 rdma-device=1 timeout=1 failure=1 port=1",
    }),
    judge: netns,
    ..Check::DEFAULT
};

/// Judges the mode (`rdma system`).
fn netns(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let shared = match ctx.facts.rdma_stack.shared {
        Fact::Known(Some(shared)) => shared,
        Fact::Known(None) => {
            return vec![Judgement::skip("machine", "The RDMA core is not loaded.")];
        }
        Fact::Unknown(why) => return vec![Judgement::unknown("machine", why, Area::Sys, MODE)],
    };
    let contained = match &ctx.facts.platform.container_marks {
        Fact::Known(marks) => marks.iter().any(|mark| mark.starts_with("namespace ")),
        Fact::Unknown(_) if shared => false,
        Fact::Unknown(why) => {
            return vec![Judgement::unknown("machine", *why, Area::Proc, "/proc/self/ns")];
        }
    };
    let here = rdma_nics(ctx.facts).count();
    let judgement = match (shared, contained) {
        (true, false) => {
            Judgement::pass("machine", "RDMA devices are shared among network namespaces.")
        }
        (true, true) => Judgement::pass(
            "machine",
            "RDMA devices are shared among network namespaces; a RoCE address works only where its interface is.",
        ),
        (false, false) => Judgement::info(
            "machine",
            "Each RDMA device belongs to one network namespace (exclusive mode): a container sees those that were moved to it.",
        ),
        (false, true) if here > 0 => Judgement::info(
            "machine",
            format!(
                "Exclusive mode: of the machine's RDMA devices this container sees the {here} that were moved to it."
            ),
        ),
        (false, true) => Judgement::broken(
            "machine",
            "Exclusive mode: no RDMA device was moved to this container, so it sees none.",
        )
        .advice(
            "On the host, move each device (rdma dev set NAME netns CONTAINER), or share them all \
                 (rdma system set netns shared).",
        ),
    };
    vec![judgement.evidence(MODE, if shared { "shared" } else { "exclusive" })]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn with(shared: bool, contained: bool, devices: bool) -> Facts {
        let mut facts = machine();
        facts.rdma_stack.shared = Fact::Known(Some(shared));
        if contained {
            facts.platform.container_marks = Fact::Known(vec!["namespace pid".to_owned()]);
        }
        if !devices {
            facts.rdma = Fact::Known(Vec::new());
        }
        facts
    }

    #[test]
    fn exclusive_mode_warns_in_container_without_devices() {
        for (shared, contained, devices, outcome) in [
            (true, false, true, Outcome::Pass),
            (true, true, true, Outcome::Pass),
            (false, false, true, Outcome::Info),
            (false, true, true, Outcome::Info),
            (false, true, false, Outcome::Warn),
        ] {
            let found = only("rdma.netns", &with(shared, contained, devices));
            assert_eq!(found.outcome, outcome, "{}", found.message);
        }
    }

    #[test]
    fn missing_core_is_skipped() {
        let mut facts = machine();
        facts.rdma_stack.shared = Fact::Known(None);
        assert_eq!(only("rdma.netns", &facts).outcome, Outcome::Skip);
        facts.rdma_stack.shared = Fact::Unknown(Why::Denied);
        assert_eq!(only("rdma.netns", &facts).outcome, Outcome::Unknown);
        let mut facts = with(false, false, true);
        facts.platform.container_marks = Fact::Unknown(Why::Denied);
        assert_eq!(only("rdma.netns", &facts).outcome, Outcome::Unknown);
    }
}
