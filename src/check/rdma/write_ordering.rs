//! rdma.write-ordering: the NIC may relax the order of its writes.

use super::each_nic;
use crate::check::{Check, Ctx, Hint, Judgement};
use crate::model::{ActionClass, Area, Fact, RdmaDevice, Severity, Why};

/// Firmware setting.
pub const SETTING: &str = "PCI_WR_ORDERING";

pub const CHECK: Check = Check {
    id: "rdma.write-ordering",
    rule: "The NIC may relax the order of its writes.",
    sources: "Device Control of the NIC's PCI Express capability; PCI_WR_ORDERING of mlxconfig or mstconfig",
    severity: Severity::Info,
    why: "Writes that must stay in order wait for each other: on AMD EPYC and in virtual \
        machines this costs most of the bandwidth into GPU memory.",
    remedy: "Turn on relaxed ordering in the firmware's setup; programs then request it per \
        region (NCCL does), or PCI_WR_ORDERING=force_relax sets it for all.",
    action: ActionClass::Firmware
        .drained("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"),
    references: &["https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"],
    hint: Some(Hint {
        cause: "The NIC may not reorder its writes, which costs bandwidth.",
        words: "ordering=5 slow=2 bandwidth=2 rdma=1 gpudirect=1",
    }),
    judge: write_ordering,
    ..Check::DEFAULT
};

fn write_ordering(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each_nic(ctx, |nic| vec![judge(ctx, nic)])
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let name = nic.name.clone();
    let Some(bdf) = nic.place.present() else {
        return Judgement::unknown(name, Why::NotCovered, Area::Sys, "the NIC's place");
    };
    let source = format!("/sys/bus/pci/devices/{bdf}/config: Device Control, relaxed ordering");
    // Its own bit is reserved (PCIe 9.3.5.4).
    if ctx.facts.virtual_function(nic).is_some() {
        return Judgement::skip(
            name,
            "A virtual function follows the setting of its physical function.",
        );
    }
    let express = match ctx.facts.device(*bdf).map(|device| &device.config.express) {
        Some(Fact::Known(Some(express))) => express,
        Some(Fact::Known(None)) => {
            return Judgement::skip(name, "It has no PCI Express capability.");
        }
        Some(Fact::Unknown(why)) => {
            return Judgement::unknown(name, *why, Area::ConfigSpace, &source);
        }
        None => return Judgement::unknown(name, Why::NotCovered, Area::ConfigSpace, &source),
    };
    let setting = nic.settings.present().and_then(|settings| settings.get(SETTING));
    let judgement = match (express.relaxed_ordering, setting) {
        (true, Some(setting)) => {
            let now = setting.current.as_deref().unwrap_or(&setting.next);
            let when = if now.starts_with("force_relax") { "for every region" } else { "for regions that ask for it" };
            Judgement::pass(name, format!("It may relax the order of its writes, {when}."))
                .evidence(format!("mlxconfig {SETTING}"), now)
        }
        (true, None) => Judgement::pass(name, "It may relax the order of its writes."),
        (false, _) => Judgement::broken(
            name,
            "It may not relax the order of its writes: transfers into GPU memory are slow on AMD EPYC and in virtual machines.",
        )
        .advice(
            "Turn on PCIe relaxed ordering in the firmware setup (BIOS); some root ports disable it on purpose.",
        ),
    };
    judgement.evidence(source, if express.relaxed_ordering { "1" } else { "0" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, NIC, assert_says, machine, only, set_device_id};
    use crate::model::{FirmwareSetting, Outcome};

    #[test]
    fn control_bit_decides() {
        let mut facts = machine();
        assert_eq!(only("rdma.write-ordering", &facts).outcome, Outcome::Pass);
        let forced =
            FirmwareSetting { next: "force_relax(1)".to_owned(), ..FirmwareSetting::default() };
        facts.nic_mut().settings = Fact::Known(Some([(SETTING.to_owned(), forced)].into()));
        assert_says(&only("rdma.write-ordering", &facts), "every region");
        if let Fact::Known(Some(express)) = &mut facts.device_mut(NIC).config.express {
            express.relaxed_ordering = false;
        }
        assert_eq!(only("rdma.write-ordering", &facts).outcome, Outcome::Info);
        // The bit of a virtual function is reserved.
        let mut virtual_one = facts.clone();
        set_device_id(&mut virtual_one, NIC, 0x101e);
        let found = only("rdma.write-ordering", &virtual_one);
        assert_eq!(found.outcome, Outcome::Skip);
        facts.device_mut(NIC).config.express = Fact::Unknown(Why::Denied);
        let found = only("rdma.write-ordering", &facts);
        assert_eq!((found.outcome, found.needs.as_deref()), (Outcome::Unknown, Some("root")));
    }
}
