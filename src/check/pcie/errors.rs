//! pcie.errors: no fatal error on a path to a GPU or a NIC since boot, and under `--live` none that rises. Other errors since boot are
//! shown but not judged, because their rate is unknown, and some happen while devices are set up.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ctx, or_skip, own, unplaced};
use crate::check::{Check, CheckAction, Hint, Judgement, Source, unknown_if, words};
use crate::model::{
    ActionClass, Area, Bdf, ErrorCounts, Fact, Severity, Why, counter, is_high, span,
};

pub const CHECK: Check = Check {
    id: "pcie.errors",
    rule: "No fatal error was counted since boot on the path to a GPU or a NIC; with --live no error rises on \
        the path to a NIC.",
    sources: "/sys/bus/pci/devices/*/aer_dev_fatal, aer_dev_nonfatal, aer_dev_correctable; under --live \
        twice, 2 s apart",
    severity: Severity::Warn,
    why: "A fatal error makes the link unreliable: the kernel resets it, and transfers in progress are lost. Corrected \
        errors are common and cost little time, unless they go on.",
    remedy: "Read the kernel log from the time of the error; reseat the NIC, replace the riser or \
        cable, update firmware.",
    action: ActionClass::ReseatNic
        .drained("https://docs.kernel.org/PCI/pcieaer-howto.html")
        .then(ActionClass::CallVendor),
    references: &[
        "https://docs.kernel.org/PCI/pcieaer-howto.html",
        "https://docs.kernel.org/admin-guide/abi-testing.html",
    ],
    reads: &[Source::Network],
    volatile: true,
    hint: Some(Hint {
        cause: "A PCI Express link reports errors.",
        words: "aer=5 failure=1 gpu-word=1 pcie-link=1 rdma=1",
    }),
    judge: errors,
    ..Check::DEFAULT
};

/// One judgement for each function with fatal errors, one for all others.
fn errors(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let mut functions: BTreeSet<Bdf> = BTreeSet::new();
    for (_, bdf) in own(ctx) {
        let device = ctx.forest.device(bdf);
        functions.extend(
            std::iter::successors(device, |device| ctx.forest.parent(device))
                .map(|device| device.bdf),
        );
    }
    let unplaced = unplaced(ctx);
    if functions.is_empty() {
        return or_skip(ctx, unplaced.into_iter().collect(), "There is no GPU and no NIC.");
    }
    let mut judgements = Vec::new();
    let (mut good, mut unknown, mut uncounted) = (Vec::new(), Vec::new(), Vec::new());
    for bdf in functions {
        if let Some(rising) = rising(ctx, bdf) {
            judgements.push(rising);
            continue;
        }
        match counts(ctx, bdf) {
            Fact::Known(Some(counts)) if counts.fatal.values().any(|count| *count > 0) => {
                judgements.push(past(ctx, bdf, counts).unwrap_or_else(|| fatal(ctx, bdf, counts)));
            }
            Fact::Known(Some(counts)) => good.push((bdf, counts)),
            Fact::Known(None) => uncounted.push(bdf),
            Fact::Unknown(why) => unknown.push((bdf, why)),
        }
    }
    if !good.is_empty() {
        judgements.push(clean(&good));
    }
    if let Some((_, why)) = unknown.first() {
        let names = words::list(unknown.iter().map(|(bdf, _)| bdf));
        judgements.push(Judgement::unknown(
            names.clone(),
            *why,
            Area::Sys,
            &format!("aer_dev_fatal of {names}"),
        ));
    }
    // Errors that rise are in the answer of the reader of counters: if that failed, some may rise.
    if let Some(why) = ctx.facts.network.why().filter(|why| *why != Why::NotCovered) {
        let names = words::list(good.iter().map(|(bdf, _)| bdf));
        if !names.is_empty() {
            judgements.push(Judgement::unknown(names, why, Area::Sys, "the error counters, twice"));
        }
    }
    if judgements.is_empty() && ctx.facts.platform.is_guest() {
        let message = "This guest does not see errors: its host counts them.";
        return vec![Judgement::skip(words::list(&uncounted), message)];
    }
    if judgements.is_empty() {
        let message = "No error counters: the kernel counts no errors of these devices.";
        let judgement = Judgement::undetermined(words::list(&uncounted), message)
            .evidence("/sys/bus/pci/devices/*/aer_dev_fatal", "not there")
            .needs("kernel 4.19 or later, firmware that leaves error reporting to the kernel, and no pci=noaer");
        judgements.push(judgement);
    }
    judgements.extend(unplaced);
    judgements
}

fn counts<'a>(ctx: &'a Ctx<'_>, bdf: Bdf) -> Fact<Option<&'a ErrorCounts>> {
    let attributes = ctx.facts.device(bdf).and_then(|device| device.attributes.as_ref());
    match attributes.map(|attributes| &attributes.errors) {
        Some(Fact::Known(counts)) => Fact::Known(counts.as_ref()),
        Some(Fact::Unknown(why)) => Fact::Unknown(*why),
        None => Fact::Unknown(Why::NotCovered),
    }
}

/// What to reseat: the GPU or the NIC.
fn reseat(ctx: &Ctx<'_>, bdf: Bdf) -> CheckAction {
    if ctx.facts.gpus().any(|gpu| gpu.bdf == bdf) {
        ActionClass::ReseatGpu.drained(CHECK.action.source).then(ActionClass::CallVendor)
    } else {
        CHECK.action
    }
}

/// The judgement of errors that rose between two readings.
fn rising(ctx: &Ctx<'_>, bdf: Bdf) -> Option<Judgement> {
    let growth = ctx.facts.network.known()?.growth.as_ref()?;
    let high = |(name, rise): &(&String, &u64)| is_high(name, **rise, growth.seconds);
    let rises = growth.rises.get(&bdf.to_string())?.iter().filter(high);
    let rises: BTreeMap<String, u64> = rises.map(|(name, rise)| (name.clone(), *rise)).collect();
    if rises.is_empty() {
        return None;
    }
    let (name, within) = (words::device(ctx, bdf), span(growth.seconds));
    let meanings = rises.keys().filter_map(|name| counter(name));
    let meanings: Vec<&str> = meanings.map(|counter| counter.meaning).collect();
    let message = format!(
        "{name} counts errors of PCI Express now: within {within} {} rose. {}",
        listed(&rises),
        meanings.join(" ")
    );
    let judgement = rises.iter().fold(
        Judgement::broken(bdf.to_string(), message).action(reseat(ctx, bdf)),
        |judgement, (name, rise)| {
            let (kind, error) = name.split_once('.').unwrap_or(("", name));
            let file = source(bdf, &format!("aer_dev_{kind}"));
            judgement.evidence(file, format!("{error} +{rise} in {within}"))
        },
    );
    let causes: BTreeSet<&str> =
        rises.keys().filter_map(|name| Some(counter(name)?.cause)).collect();
    Some(causes.into_iter().fold(judgement, Judgement::advice))
}

fn fatal(ctx: &Ctx<'_>, bdf: Bdf, counts: &ErrorCounts) -> Judgement {
    let name = words::device(ctx, bdf);
    let message = format!(
        "{name} counted fatal errors since boot: {}. A fatal error loses transfers, and the kernel resets the link; the counter does not show when.",
        listed(&counts.fatal)
    );
    let judgement = Judgement::broken(bdf.to_string(), message).action(reseat(ctx, bdf))
        .evidence(source(bdf, "aer_dev_fatal"), listed(&counts.fatal))
        .advice(
            "Read the AER lines of the kernel log, reseat the NIC, and compare the counter after the \
                 next transfer.",
        );
    others(judgement, bdf, counts)
}

/// The judgement of fatal errors that are older than the earlier report.
fn past(ctx: &Ctx<'_>, bdf: Bdf, counts: &ErrorCounts) -> Option<Judgement> {
    let growth = ctx.facts.network.known()?.growth.as_ref()?;
    let rises = growth.rises.get(&bdf.to_string()).filter(|_| growth.is_since_report())?;
    if rises.keys().any(|name| name.starts_with("fatal.")) {
        return None;
    }
    let message = format!(
        "{} counted fatal errors since boot ({}), none of them within {}.",
        words::device(ctx, bdf),
        listed(&counts.fatal),
        span(growth.seconds)
    );
    let judgement = Judgement::info(bdf.to_string(), message)
        .evidence(source(bdf, "aer_dev_fatal"), listed(&counts.fatal));
    Some(others(judgement, bdf, counts))
}

fn clean(good: &[(Bdf, &ErrorCounts)]) -> Judgement {
    let subject = words::list(good.iter().map(|(bdf, _)| bdf));
    let judgement =
        Judgement::pass(subject, "No fatal error since boot on the paths to GPUs and NICs.");
    good.iter().fold(judgement, |judgement, (bdf, counts)| {
        others(judgement.evidence(source(*bdf, "aer_dev_fatal"), "0"), *bdf, counts)
    })
}

/// The errors that are shown beside the fatal ones.
fn others(judgement: Judgement, bdf: Bdf, counts: &ErrorCounts) -> Judgement {
    let files =
        [("aer_dev_nonfatal", &counts.nonfatal), ("aer_dev_correctable", &counts.correctable)];
    let counted = files.into_iter().filter(|(_, counts)| !counts.is_empty());
    counted.fold(judgement, |judgement, (file, counts)| {
        judgement.evidence(source(bdf, file), listed(counts))
    })
}

fn source(bdf: Bdf, file: &str) -> String {
    format!("/sys/bus/pci/devices/{bdf}/{file}")
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    words::list(counts.iter().map(|(name, count)| format!("{name} {count}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, machine, only};
    use crate::model::Outcome;

    #[test]
    fn missing_counters_are_unknown() {
        let mut facts = machine();
        for device in facts.devices_mut() {
            device.attributes.as_mut().expect("attributes").errors = Fact::Known(None);
        }
        let found = only("pcie.errors", &facts);
        assert_eq!(found.outcome, Outcome::Unknown);
        assert!(found.needs.is_some_and(|needs| needs.contains("4.19")));
        facts.attributes_mut(GPU).errors = Fact::Unknown(Why::Denied);
        assert_eq!(only("pcie.errors", &facts).subject, GPU);
        facts.devices_mut().clear();
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("pcie.errors", &facts).outcome, Outcome::Skip);
    }
}
