//! pcie.ats: NICs have address translation services (ATS) if they serve virtual machines, and lack them on bare metal if a
//! GPU is below the NIC's own switch. The firmware shows or hides the capability (ATS_ENABLED); rdma-core's rdma_topo has
//! the same rule. What a guest sees is the hypervisor's, and decides nothing.

use super::{Ctx, own};
use crate::check::{Check, Hint, Judgement, passthrough, unknown_devices, words};
use crate::model::{ActionClass, Area, Bdf, Fact, Ids, Kind, PlatformKind, Row, Severity, Why};

pub const CHECK: Check = Check {
    id: "pcie.ats",
    rule: "A NIC passed through to a virtual machine has address translation services (ATS); \
        on bare metal with a GPU below its own switch it has none. What a guest sees is a \
        note: it decides nothing.",
    sources: "configuration space: Address Translation Service; driver links, platform",
    severity: Severity::Info,
    why: "In a virtual machine a NIC reaches a GPU directly through a switch only with \
        addresses that the NIC translated itself, and only if the host's ports let them pass. \
        On bare metal the capability routes the \
        NIC's traffic away from its own switch.",
    remedy: "Set ATS_ENABLED in the NIC's firmware with mlxconfig on the host, and reset the NIC.",
    action: ActionClass::Firmware
        .drained("https://github.com/linux-rdma/rdma-core/blob/v64.0/kernel-boot/rdma_topo"),
    references: &["https://github.com/linux-rdma/rdma-core/blob/v64.0/kernel-boot/rdma_topo"],
    hint: Some(Hint {
        cause: "Address translation services of the NIC are off, which a virtual machine needs.",
        words: "guest=3 gpudirect=3 iommu=1 rdma=2 slow=1 failure=1 completion=1",
    }),
    needs_nics: true,
    judge: ats,
    ..Check::DEFAULT
};

/// One judgement for each NIC that serves a virtual machine or has a GPU below its own switch.
fn ats(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_devices(ctx) {
        return vec![unknown];
    }
    let (platform, fact) = ctx.facts.platform.kind();
    let guest = match platform {
        Fact::Known(kind) => kind == PlatformKind::Guest,
        Fact::Unknown(why) => {
            let unknown = Judgement::unknown("machine", why, Area::Proc, &fact);
            return vec![unknown.needs("--platform bare-metal or --platform guest")];
        }
    };
    let passed_through: Vec<(String, Bdf)> = passthrough::passed_through(ctx.facts)
        // The needs of other makers' NICs are unknown.
        .filter(|device| device.ids.known().is_some_and(Ids::is_nvidia_nic))
        .map(|device| (device.bdf.to_string(), device.bdf))
        .collect();
    let own = own(ctx).filter(|(row, _)| row.kind == Kind::Nic);
    let nics: Vec<(String, Bdf, bool)> = if guest {
        own.map(|(row, bdf)| (words::row(row), bdf, true)).collect()
    } else {
        let inline: Vec<_> = own
            .filter(|(row, _)| is_inline(ctx, row))
            .map(|(row, bdf)| (words::row(row), bdf, false))
            .collect();
        let passed_through = passed_through.into_iter().map(|(name, bdf)| (name, bdf, true));
        inline.into_iter().chain(passed_through).collect()
    };
    if guest && ctx.topology.rows_of(Kind::Gpu).next().is_none() {
        return vec![Judgement::skip("machine", "There is no GPU.")];
    }
    if nics.is_empty() {
        let message = "No NIC is in a virtual machine, and none has a GPU below its own switch: address translation services do not matter.";
        return vec![Judgement::skip("machine", message)];
    }
    nics.into_iter().map(|(name, bdf, wanted)| judge(ctx, &name, bdf, wanted, guest)).collect()
}

/// True if a GPU and this NIC are below a bridge of the NIC's maker: the switch inside the NIC.
fn is_inline(ctx: &Ctx<'_>, nic: &Row) -> bool {
    let Some(row) = ctx.topology.number(nic) else {
        return false;
    };
    ctx.topology.rows_of(Kind::Gpu).any(|(gpu, _)| {
        let bridge =
            ctx.topology.common_bridge(gpu, row).and_then(|bridge| ctx.facts.device(bridge));
        let ids = bridge.and_then(|bridge| bridge.ids.known());
        ids.is_some_and(|ids| ids.vendor == Ids::MELLANOX)
    })
}

fn judge(ctx: &Ctx<'_>, name: &str, bdf: Bdf, wanted: bool, guest: bool) -> Judgement {
    let source = format!("{bdf} config, Address Translation Service");
    let has = match ctx.facts.device(bdf).map(|device| &device.config.ats) {
        Some(Fact::Known(ats)) => ats.is_some(),
        Some(Fact::Unknown(why)) => {
            let source = format!("/sys/bus/pci/devices/{bdf}/config beyond 64 bytes");
            return Judgement::unknown(name, *why, Area::ConfigSpace, &source);
        }
        None => return Judgement::unknown(name, Why::NotCovered, Area::ConfigSpace, &source),
    };
    // A virtual function's firmware settings are those of its physical function.
    let attributes = ctx.facts.device(bdf).and_then(|device| device.attributes.as_ref());
    let physical = attributes.and_then(|attributes| attributes.physical_function.present());
    let settings_of = physical.copied().unwrap_or(bdf);
    if guest {
        return in_guest(name, has).evidence(source, if has { "there" } else { "not there" });
    }
    let set = |judgement: Judgement, value: u8| {
        judgement
            .command(format!("mlxconfig -d {settings_of} set ATS_ENABLED={value}"))
            .advice("Then reset the NIC (mlxfwreset), or power cycle.")
    };
    let (judgement, value) = match (wanted, has) {
        (true, true) => (
            Judgement::pass(
                name,
                format!("{name} has address translation services, as virtual machines need."),
            ),
            "there",
        ),
        (true, false) => (
            set(
                Judgement::broken(
                    name,
                    format!(
                        "{name} has no address translation services: in a virtual machine its traffic with a GPU goes through \
                     the host's root complex."
                    ),
                ),
                1,
            ),
            "not there",
        ),
        (false, true) => (
            set(
                Judgement::broken(
                    name,
                    format!(
                        "{name} has address translation services: on bare metal, with a GPU below its own switch, they should be off."
                    ),
                ),
                0,
            ),
            "there",
        ),
        (false, false) => (
            Judgement::pass(
                name,
                format!("{name} has no address translation services, as it should on bare metal."),
            ),
            "not there",
        ),
    };
    judgement.evidence(source, value)
}

/// The hypervisor may hide the capability, and the host's ports decide what it is worth.
fn in_guest(name: &str, has: bool) -> Judgement {
    let proof = "gdr probe rdma shows the bandwidth";
    if has {
        Judgement::info(
            name,
            format!(
                "{name} shows address translation services. Whether its traffic with a GPU is direct is unknown in a guest: the host's ports \
                 must let translated requests pass (DirectTrans), too; {proof}."
            ),
        )
    } else {
        Judgement::info(
            name,
            format!(
                "{name} shows no address translation services in this guest. If it has none on the host either, its traffic with a GPU goes \
                 through the host's root complex; {proof}."
            ),
        )
        // The NIC has another address on the host.
        .advice(
            "If the bandwidth is low: on the host, set ATS_ENABLED=1 in the NIC with mlxconfig, then reset it (mlxfwreset) or power cycle.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, NIC, assert_fix_says, bdf, bind, machine, only};
    use crate::model::config::Ats;
    use crate::model::{Facts, Outcome};

    fn with_ats(facts: &mut Facts) {
        facts.device_mut(NIC).config.ats = Fact::Known(Some(Ats { enabled: false }));
    }

    fn inline(facts: &mut Facts) {
        let switch = facts.device_mut("0000:01:00.0");
        switch.ids = switch.ids.clone().map(|ids| Ids { vendor: Ids::MELLANOX, ..ids });
    }

    #[test]
    fn bare_metal_needs_none_below_nic_switch() {
        let mut facts = machine();
        with_ats(&mut facts);
        assert_eq!(only("pcie.ats", &facts).outcome, Outcome::Skip);
        inline(&mut facts);
        let found = only("pcie.ats", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert_fix_says(&found, "ATS_ENABLED=0");
        facts.device_mut(NIC).config.ats = Fact::Known(None);
        assert_eq!(only("pcie.ats", &facts).outcome, Outcome::Pass);
        bind(&mut facts, NIC, Some("vfio-pci"));
        let found = only("pcie.ats", &facts);
        assert_eq!((found.outcome, found.subject.as_str()), (Outcome::Info, NIC));
        assert_fix_says(&found, "ATS_ENABLED=1");
        let mut virtual_one = facts.clone();
        virtual_one.attributes_mut(NIC).physical_function = Fact::Known(Some(bdf("0000:04:00.7")));
        let found = only("pcie.ats", &virtual_one);
        assert_fix_says(&found, "mlxconfig -d 0000:04:00.7 set ATS_ENABLED=1");
        let function = facts.device_mut(NIC);
        function.ids = function.ids.clone().map(|ids| Ids { vendor: 0x8086, ..ids });
        assert_eq!(
            only("pcie.ats", &facts).outcome,
            Outcome::Skip,
            "no setting of its firmware is known"
        );
    }

    #[test]
    fn unreadable_capability_is_unknown() {
        let mut facts = machine();
        inline(&mut facts);
        facts.device_mut(NIC).config.ats = Fact::Unknown(Why::Denied);
        let found = only("pcie.ats", &facts);
        assert_eq!((found.outcome, found.needs.as_deref()), (Outcome::Unknown, Some("root")));
        facts.platform = Default::default();
        assert!(only("pcie.ats", &facts).needs.is_some_and(|needs| needs.contains("--platform")));
    }
}
