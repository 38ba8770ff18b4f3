//! Coherent GPUs: the driver allows the default mapping, over NVLink-C2C, for every topology, and the forced PCIe mapping for some.

use crate::check::{Ctx, Judgement, nics, words};
use crate::model::{Area, Bdf, Fact, Missing, PciDevice, RdmaDevice, Why};
use crate::topo::{Demand, ForcedPcie, forced_pcie, forced_pcie_has_override, forced_pcie_remedy};

/// What the driver answers for the NICs of one GPU.
#[derive(Default)]
struct Answers<'a> {
    allowed: Vec<Bdf>,
    /// Denied, and software asks for it.
    denied: Vec<(Bdf, &'a str)>,
    /// Denied, and NCCL uses the default mapping.
    unused: Vec<Bdf>,
    unproven: Vec<(Bdf, &'a str)>,
    unknown: Option<Missing>,
    /// Why it is unknown whether it is denied where no software asks for it.
    unread: Option<Missing>,
}

/// One judgement for each coherent GPU.
pub fn judge(ctx: &Ctx<'_>, gpus: &[&PciDevice]) -> Vec<Judgement> {
    if let Some(answer) = super::without_nics(ctx) {
        return vec![answer];
    }
    gpus.iter().map(|gpu| one(ctx, gpu)).collect()
}

fn one(ctx: &Ctx<'_>, gpu: &PciDevice) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let mut answers = Answers::default();
    for nic in nics::rdma_nics(ctx.facts) {
        answers.add(ctx, gpu, nic);
    }
    let names = |nics: &[Bdf]| words::list(nics.iter().map(|nic| words::device(ctx, *nic)));
    let named = |nics: &[(Bdf, &str)]| {
        let (bdfs, mut by): (Vec<Bdf>, Vec<&str>) = nics.iter().copied().unzip();
        by.dedup();
        (names(&bdfs), by.join(" and "))
    };
    let judgement = if !answers.denied.is_empty() {
        let (nics, by) = named(&answers.denied);
        let message = format!(
            "Forced PCIe mapping denied by the driver (errno 524): for {nics}, and {by} asks for it. Software that \
             uses the default mapping, over NVLink-C2C, works."
        );
        Judgement::broken(subject, message).advice(forced_pcie_remedy(ctx.facts))
    } else if let Some(missing) = answers.unknown {
        return Judgement::missing(subject, missing);
    } else if !answers.unproven.is_empty() {
        let (nics, by) = named(&answers.unproven);
        let message = format!(
            "{by} asks for the forced PCIe mapping of this GPU's memory for {nics}: whether this driver allows it is in no published source."
        );
        Judgement::undetermined(subject, message).needs("gdr probe rdma")
    } else if !answers.unused.is_empty() {
        let message = format!(
            "NICs reach this GPU's memory over NVLink-C2C, for every topology. The driver denies the forced PCIe mapping for {} (errno 524): \
             NCCL 2.27 and later does not ask for it there. Software that does needs {}.",
            names(&answers.unused),
            if forced_pcie_has_override(ctx.facts) {
                "NVreg_GrdmaPciTopoCheckOverride=1"
            } else {
                "NIC and GPU in one IOMMU group"
            }
        );
        Judgement::info(subject, message)
    } else if let Some(missing) = &answers.unread {
        let message = format!(
            "NICs reach this GPU's memory over NVLink-C2C, for every topology. Whether the driver allows the forced PCIe mapping, which NCCL \
             2.27 and later does not ask for here, is unknown: {}.",
            missing.why.sentence(&missing.source)
        );
        Judgement::info(subject, message)
    } else if answers.allowed.is_empty() {
        let message = "This GPU's memory is coherent with the CPU: the driver allows NIC access over NVLink-C2C for every topology, and has \
             no other mapping.";
        Judgement::pass(subject, message)
    } else {
        let message = format!(
            "The driver allows NIC access to this GPU's memory over NVLink-C2C for every topology, and the forced PCIe mapping for {}.",
            names(&answers.allowed)
        );
        Judgement::pass(subject, message)
    };
    judgement.evidence("driver version, GrdmaPciTopoCheckOverride, iommu_group", evidence(ctx, gpu))
}

impl Answers<'_> {
    fn add(&mut self, ctx: &Ctx<'_>, gpu: &PciDevice, nic: &RdmaDevice) {
        let bdf = match nic.place {
            Fact::Known(Some(bdf)) => bdf,
            Fact::Known(None) => return,
            Fact::Unknown(why) => {
                let source = format!("the PCI function of {}", nic.name);
                self.unread.get_or_insert(Missing::new(why, Area::Sys, source));
                return;
            }
        };
        let rows = ctx.topology.row_at(gpu.bdf).zip(ctx.topology.find(&nic.name));
        let demand = match rows {
            Some((gpu, nic)) => ctx.topology.forced_mapping(gpu, nic),
            None => Fact::Unknown(Why::NotCovered),
        };
        let demand = match demand {
            Fact::Known(demand) => demand,
            Fact::Unknown(why) => return self.miss(why, "the path between GPU and NIC"),
        };
        let function = demand.map_or(bdf, |demand| demand.function);
        let answer = match forced_pcie(ctx.facts, gpu.bdf, function) {
            Ok(answer) => answer,
            Err(missing) if demand.is_some() => {
                self.unknown.get_or_insert(missing);
                return;
            }
            // The default mapping serves this NIC.
            Err(missing) => {
                self.unread.get_or_insert(missing);
                return;
            }
        };
        match (answer, demand) {
            (None, _) => {}
            (Some(ForcedPcie::Allowed), _) => self.allowed.push(function),
            (Some(ForcedPcie::Denied), Some(Demand { by, .. })) => self.denied.push((function, by)),
            (Some(ForcedPcie::Unproven), Some(Demand { by, .. })) => {
                self.unproven.push((function, by));
            }
            (Some(ForcedPcie::Denied), None) => self.unused.push(function),
            (Some(ForcedPcie::Unproven), None) => {
                let missing = Missing::new(Why::NotCovered, Area::Sys, "the rule of this driver");
                self.unread.get_or_insert(missing);
            }
        }
    }

    fn miss(&mut self, why: Why, source: &str) {
        self.unknown.get_or_insert(Missing::new(why, Area::Sys, source));
    }
}

/// The driver, its parameter, and the IOMMU group of the GPU.
fn evidence(ctx: &Ctx<'_>, gpu: &PciDevice) -> String {
    let driver = ctx.facts.driver.version();
    let value = ctx.facts.driver.params.present();
    let value = value.and_then(|params| params.get(super::OPTION));
    let attributes = gpu.attributes.as_ref();
    let group = attributes.and_then(|attributes| attributes.iommu_group.known());
    format!(
        "{}, {}, {}",
        driver.present().map_or("unknown", String::as_str),
        value.map_or("not set", String::as_str),
        match group {
            Some(Some(group)) => format!("group {group}"),
            Some(None) => "no group".to_owned(),
            None => "unknown".to_owned(),
        }
    )
}
