//! pcie.shared: other devices that use the narrowest link between a GPU and its NIC.

use super::{Ctx, own};
use crate::check::{Check, Judgement, nics, or_skip, unknown_devices, words};
use crate::model::{ActionClass, Area, Bdf, Fact, Kind, Meeting, Path, Severity, Verdict, Why};

pub const CHECK: Check = Check {
    id: "pcie.shared",
    rule: "Which other devices share the narrowest link between a GPU and its NIC.",
    sources: "links of /sys/bus/pci/devices, configuration space: Link Status",
    severity: Severity::Info,
    why: "Devices that transfer at the same time over one link share its bandwidth.",
    remedy: "Nothing is broken. Measure the pairs at the same time, or move a NIC to another \
        switch.",
    action: ActionClass::Nothing.running("https://docs.kernel.org/admin-guide/abi-testing.html"),
    references: &[
        "PCI Express Base Specification, 7.5.3",
        "https://docs.kernel.org/admin-guide/abi-testing.html",
    ],
    judge: shared,
    ..Check::DEFAULT
};

/// One judgement for each GPU that shares the narrowest link to its NIC, one for all others.
fn shared(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_devices(ctx) {
        return vec![unknown];
    }
    let rows = &ctx.topology.rows;
    let mut judgements = Vec::new();
    let mut alone = Vec::new();
    for found in &ctx.topology.matches {
        let (Some(gpu), Some(pick)) = (rows.get(found.row), found.pick) else {
            continue;
        };
        if gpu.kind != Kind::Gpu || gpu.coherent {
            // A coherent GPU reaches its NICs over NVLink-C2C.
            continue;
        }
        let name = format!("{} and {}", gpu.name, rows[pick].name);
        let path = match ctx.topology.route(found.row, pick) {
            Ok(path) => path,
            Err(_) => continue,
        };
        match narrowest(&path) {
            Fact::Known((bandwidth, links)) => match sharers(ctx, &links, [found.row, pick]) {
                Some((link, others)) => {
                    let message = format!(
                        "The narrowest link between {name}, the one above {} ({:.1} GB/s), carries the traffic of {} too.",
                        words::device(ctx, link),
                        bandwidth as f64 / 1e9,
                        words::list(&others)
                    );
                    judgements.push(
                        Judgement::info(name, message)
                            .evidence(
                                format!("{link}: link above it"),
                                format!("{bandwidth} bytes/s one way"),
                            )
                            .evidence("links of /sys/bus/pci/devices", words::list(&others)),
                    );
                }
                None => alone.push((name, bandwidth)),
            },
            Fact::Unknown(why) => {
                judgements.push(Judgement::unknown(
                    name,
                    why,
                    Area::Sys,
                    "links on the path: Link Status, current_link_*",
                ));
            }
        }
    }
    if !alone.is_empty() {
        let subject = words::list(alone.iter().map(|(name, _)| name));
        let pass =
            Judgement::pass(subject, "No other device uses the narrowest link of these pairs.");
        judgements.push(alone.iter().fold(pass, |pass, (name, bandwidth)| {
            pass.evidence(
                format!("narrowest link between {name}"),
                format!("{:.1} GB/s one way", *bandwidth as f64 / 1e9),
            )
        }));
    }
    judgements.extend(without_partner(ctx));
    or_skip(judgements, "There is no GPU with a NIC over PCI Express.")
}

/// The GPUs whose nearest NIC is unknown.
fn without_partner(ctx: &Ctx<'_>) -> Option<Judgement> {
    let lost = ctx
        .topology
        .matches
        .iter()
        .filter(|found| found.pick.is_none() && found.verdict == Verdict::Unknown);
    let rows = lost.filter_map(|found| ctx.topology.rows.get(found.row));
    let gpus: Vec<String> =
        rows.filter(|row| row.kind == Kind::Gpu && !row.coherent).map(words::row).collect();
    let has_nics = nics::rdma_nics(ctx.facts).next().is_some();
    (has_nics && !gpus.is_empty()).then(|| {
        let source = "/sys/bus/pci/devices: places";
        Judgement::unknown(words::list(gpus), Why::NotCovered, Area::Sys, source)
    })
}

/// The bandwidth of the narrowest link in bytes per second, and the devices below the links of that bandwidth.
fn narrowest(path: &Path) -> Fact<(u64, Vec<Bdf>)> {
    let mut links: Vec<(Bdf, u64)> = Vec::new();
    for hop in path.hops.iter().filter(|hop| path.meeting != Meeting::Bridge(hop.bdf)) {
        match &hop.link {
            Fact::Known(Some(link)) => match link.bandwidth() {
                Some(bandwidth) => links.push((hop.bdf, bandwidth)),
                None => return Fact::Unknown(Why::Broken),
            },
            Fact::Known(None) => {}
            Fact::Unknown(why) => return Fact::Unknown(*why),
        }
    }
    match links.iter().map(|(_, bandwidth)| *bandwidth).min() {
        Some(least) => {
            let narrow = links.into_iter().filter(|(_, bandwidth)| *bandwidth == least);
            Fact::Known((least, narrow.map(|(bdf, _)| bdf).collect()))
        }
        None => Fact::Unknown(Why::NotCovered),
    }
}

/// The first of these links with other devices below it, and those devices. Functions of one NIC are one device.
fn sharers(ctx: &Ctx<'_>, links: &[Bdf], ends: [usize; 2]) -> Option<(Bdf, Vec<String>)> {
    let nic = |bdf: Bdf| (bdf.domain, bdf.bus, bdf.device);
    let ends: Vec<_> = ends.iter().filter_map(|row| ctx.topology.rows[*row].bdf).collect();
    links.iter().find_map(|link| {
        let below = |bdf: Bdf| {
            let device = ctx.facts.device(bdf).and_then(|device| device.place.known());
            bdf == *link || device.is_some_and(|place| place.bridges.contains(link))
        };
        let others: Vec<String> = own(ctx)
            .filter(|(row, bdf)| {
                let physical = row.virtual_function.and_then(|function| function.physical_function);
                let is_end =
                    ends.iter().any(|end| nic(*end) == nic(*bdf) || physical == Some(*end));
                !is_end && below(*bdf)
            })
            .map(|(row, _)| words::row(row))
            .collect();
        (!others.is_empty()).then_some((*link, others))
    })
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, GPU, GPU_PORT, NIC, machine, only};
    use crate::model::{Fact, Outcome, Why};

    #[test]
    fn pair_below_one_switch_shares_no_link() {
        let found = only("pcie.shared", &machine());
        assert_eq!((found.outcome, found.subject.as_str()), (Outcome::Pass, "GPU0 and NIC0"));
        // x16 at 32 GT/s: 32e9 * 16 * 128/130 / 8.
        assert_eq!(found.evidence[0].value, "63.0 GB/s one way");
    }

    #[test]
    fn unknown_links_and_no_pairs() {
        let mut facts = machine();
        for port in [GPU, GPU_PORT] {
            facts.device_mut(port).config.express = Fact::Unknown(Why::Denied);
        }
        assert_eq!(only("pcie.shared", &facts).outcome, Outcome::Unknown);
        let mut lost = machine();
        lost.device_mut(NIC).place = Fact::Unknown(Why::Denied);
        assert_eq!(only("pcie.shared", &lost).outcome, Outcome::Unknown);
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("pcie.shared", &facts).outcome, Outcome::Skip);
    }
}
