//! rdma.nonprefetchable: GPUs older than Pascal can map an mlx5 NIC's doorbells only in a non-prefetchable BAR.

use super::{MLX5, driver, each_mlx5, rdma_nics};
use crate::check::{Check, Ctx, Judgement, Source, passthrough, words};
use crate::model::config::{BarKind, Header};
use crate::model::{
    ActionClass, Area, Bdf, Fact, FirmwareSetting, Ids, PciDevice, RdmaDevice, Severity, Why,
};

/// Firmware setting.
pub const SETTING: &str = "NON_PREFETCHABLE_PF_BAR";

pub const CHECK: Check = Check {
    id: "rdma.nonprefetchable",
    rule: "With a GPU older than Pascal, the NIC's first BAR is not prefetchable.",
    sources: "bit 3 of BAR 0 in the NIC's config; NON_PREFETCHABLE_PF_BAR of mlxconfig or mstconfig",
    severity: Severity::Info,
    why: "GPUs before Pascal cannot map the NIC's doorbell pages if its BAR is prefetchable: \
        GPUDirect Async then cannot register them.",
    remedy: "mlxconfig -d BDF set NON_PREFETCHABLE_PF_BAR=1 and a firmware reset. The BAR must \
        then fit below 4 GiB, where bridges have little space: PF_LOG_BAR_SIZE may have to \
        shrink first, or the NIC may not come up.",
    action: ActionClass::Firmware
        .drained("https://github.com/gpudirect/libgdsync/blob/v2.1/README.md"),
    references: &[
        "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
        "https://github.com/Mellanox/mstflint",
    ],
    reads: &[Source::Settings],
    judge: nonprefetchable,
    ..Check::DEFAULT
};

/// One judgement for each mlx5 NIC, if there is such a GPU.
fn nonprefetchable(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown("machine", why, Area::Sys, "/sys/bus/pci/devices")];
    }
    let old: Vec<_> = old_gpus(ctx).map(|gpu| words::device(ctx, gpu.bdf)).collect();
    if old.is_empty() {
        return vec![Judgement::skip("machine", "No GPU of this machine is older than Pascal.")];
    }
    each_mlx5(ctx, |nic| vec![judge(ctx, nic).evidence("GPUs older than Pascal", old.join(", "))])
}

/// A NIC whose firmware setting must change.
pub struct PrefetchableNic<'a> {
    pub nic: &'a RdmaDevice,
    pub bdf: Bdf,
    /// The present setting; `None` if it was not read.
    pub setting: Option<&'a FirmwareSetting>,
}

/// The NICs whose first BAR is prefetchable, without a pending change, if a GPU needs it non-prefetchable.
pub fn prefetchable_nics<'a>(ctx: &Ctx<'a>) -> Vec<PrefetchableNic<'a>> {
    if old_gpus(ctx).next().is_none() {
        return Vec::new();
    }
    let facts = ctx.facts;
    let is_mlx5 = |nic: &&RdmaDevice| {
        facts.virtual_function(nic).is_none()
            && driver(facts, nic).known().is_some_and(|driver| driver == MLX5)
    };
    let nics = rdma_nics(facts).filter(is_mlx5).filter_map(|nic| {
        let bdf = *nic.place.present()?;
        let header = facts.device(bdf)?.config.header.known()?;
        let prefetchable = is_prefetchable(header) == Some(true);
        let setting = setting(nic);
        (prefetchable && !is_pending(setting)).then_some(PrefetchableNic { nic, bdf, setting })
    });
    nics.collect()
}

fn old_gpus<'a>(ctx: &Ctx<'a>) -> impl Iterator<Item = &'a PciDevice> {
    let gpus = passthrough::own_gpus(ctx.facts);
    gpus.filter(|gpu| gpu.ids.known().is_some_and(Ids::is_before_pascal))
}

/// True if the first BAR is prefetchable; `None` if it is not memory.
fn is_prefetchable(header: &Header) -> Option<bool> {
    match header.bars.iter().find(|bar| bar.index == 0)?.kind {
        BarKind::Memory { prefetchable, .. } => Some(prefetchable),
        _ => None,
    }
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let name = nic.name.clone();
    let Some(bdf) = nic.place.present() else {
        return Judgement::unknown(name, Why::NotCovered, Area::Sys, "the NIC's place");
    };
    let source = format!("/sys/bus/pci/devices/{bdf}/config: bit 3 of BAR 0");
    if ctx.facts.virtual_function(nic).is_some() {
        return Judgement::undetermined(
            name,
            "Cannot determine: this is a virtual function, and the setting is its physical function's.",
        )
        .evidence(source, "a virtual function")
        .needs("the physical function, on the host");
    }
    let header = match ctx.facts.device(*bdf).map(|device| &device.config.header) {
        Some(Fact::Known(header)) => header,
        Some(Fact::Unknown(why)) => {
            return Judgement::unknown(name, *why, Area::ConfigSpace, &source);
        }
        None => return Judgement::unknown(name, Why::NotCovered, Area::ConfigSpace, &source),
    };
    let judgement = match is_prefetchable(header) {
        Some(false) => {
            Judgement::pass(name, "Its first BAR is not prefetchable.").evidence(source, "0")
        }
        Some(true) => broken(name, bdf.to_string(), setting(nic)).evidence(source, "1"),
        None => return Judgement::unknown(name, Why::Broken, Area::ConfigSpace, &source),
    };
    match setting(nic) {
        Some(setting) => judgement.evidence(
            format!("mlxconfig {SETTING}"),
            format!(
                "now {}, next boot {}",
                setting.current.as_deref().unwrap_or("not shown"),
                setting.next
            ),
        ),
        None => judgement,
    }
}

fn setting(nic: &RdmaDevice) -> Option<&FirmwareSetting> {
    nic.settings.present()?.get(SETTING)
}

/// True if the setting takes effect at the next reset.
fn is_pending(setting: Option<&FirmwareSetting>) -> bool {
    setting.is_some_and(|setting| setting.next.starts_with("True"))
}

fn broken(name: String, bdf: String, setting: Option<&FirmwareSetting>) -> Judgement {
    if is_pending(setting) {
        return Judgement::broken(
            name,
            "First BAR is still prefetchable: the setting that changes it takes effect at the next reset.",
        )
        .command(format!("mlxfwreset -d {bdf} reset"))
        .advice("Or start the machine cold.");
    }
    Judgement::broken(
        name,
        "First BAR is prefetchable: GPUs older than Pascal cannot map the NIC's doorbells there.",
    )
    .fix("nonprefetchable")
    .command(format!("mlxconfig -d {bdf} set {SETTING}=1"))
    .advice(
        "Then reset the firmware. The BAR must fit below 4 GiB: check that the bridges above it have room; if not, lower PF_LOG_BAR_SIZE.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, GPU, NIC, assert_outcome, assert_says, bdf, machine, only, set_device_id,
    };
    use crate::model::config::*;
    use crate::model::{Facts, Outcome};

    fn with_prefetchable_bar() -> Facts {
        let mut facts = machine();
        // A Tesla K40m.
        set_device_id(&mut facts, GPU, 0x1023);
        facts.device_mut(NIC).config.header = Fact::Known(Header {
            vendor: 0x15b3,
            device: 0x1017,
            class: Class(0x02_0700),
            revision: 0,
            kind: HeaderKind::Endpoint { subsystem: Subsystem { vendor: 0x15b3, device: 0 } },
            command: Command(6),
            bars: vec![Bar {
                index: 0,
                kind: BarKind::Memory { address: 0x2000_0000, bits64: true, prefetchable: true },
            }],
        });
        facts
    }

    #[test]
    fn only_info_without_async() {
        let outcome = |facts: &Facts| only("rdma.nonprefetchable", facts).outcome;
        assert_eq!(outcome(&machine()), Outcome::Skip);
        assert_eq!(outcome(&with_prefetchable_bar()), Outcome::Info);
    }

    #[test]
    fn pending_setting_and_virtual_function() {
        let mut facts = with_prefetchable_bar();
        let next =
            FirmwareSetting { current: Some("False(0)".to_owned()), next: "True(1)".to_owned() };
        facts.nic_mut().settings = Fact::Known(Some([(SETTING.to_owned(), next)].into()));
        let found = only("rdma.nonprefetchable", &facts);
        assert_says(&found, "next reset");
        facts.nic_mut().physical_function = Fact::Known(Some(bdf("0000:04:00.1")));
        assert_outcome("rdma.nonprefetchable", &facts, Outcome::Unknown);
        // In a guest, where the device id alone says so.
        facts.nic_mut().physical_function = Fact::Known(None);
        facts.nic_mut().settings = Fact::Known(None);
        assert_outcome("rdma.nonprefetchable", &facts, Outcome::Info);
        set_device_id(&mut facts, NIC, 0x101e);
        assert_outcome("rdma.nonprefetchable", &facts, Outcome::Unknown);
    }
}
