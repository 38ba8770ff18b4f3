//! Masks facts and reports with the masks that a snapshot of the machine has.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Known, Masker};
use crate::model::{ExplainReport, Facts, Job, Nvml, ProbeReport, RankMatrix};

/// Masks what one command reports.
pub struct Masks<'a>(&'a Known);

impl<'a> Masks<'a> {
    pub const fn new(known: &'a Known) -> Self {
        Self(known)
    }

    /// The facts of a machine: what is computed from them is masked too.
    pub fn facts(&self, facts: &Facts) -> Option<Facts> {
        let hosts = facts.host.name.iter().map(String::as_str);
        let mut masker = self.masker(facts, hosts)?;
        let Facts { pci, driver, rdma_stack, platform, .. } = facts;
        for vocabulary in [to_json(pci), to_json(driver), to_json(rdma_stack), to_json(platform)] {
            masker.words.learn_vocabulary(&vocabulary?);
        }
        let gpus = facts.nvml().into_iter().flat_map(|Nvml { gpus, .. }| gpus);
        for name in gpus.filter_map(|gpu| gpu.name.known()) {
            masker.words.learn_vocabulary(name);
        }
        let mut masked: Facts = masker.value(facts)?;
        // A name that is a word of the vocabulary too is replaced here alone.
        masked.host = facts.host.clone();
        masker.host(&mut masked.host);
        Some(masked)
    }

    pub fn probe(&self, report: &ProbeReport) -> Option<ProbeReport> {
        let sides = report.baseline.iter().flat_map(|diff| [&diff.a, &diff.b]);
        let hosts =
            sides.filter_map(|side| side.host.as_deref()).chain(report.host.name.as_deref());
        let mut masker = self.masker(report, hosts)?;
        let mut masked: ProbeReport = masker.value(report)?;
        masked.host = report.host.clone();
        masker.host(&mut masked.host);
        Some(masked)
    }

    pub fn explain(&self, report: &ExplainReport) -> Option<ExplainReport> {
        let nodes = report.job.iter().flat_map(|job| &job.nodes).map(String::as_str);
        let own = report.host.iter().filter_map(|host| host.name.as_deref());
        let mut masker = self.masker(report, nodes.chain(own))?;
        let mut masked: ExplainReport = masker.value(report)?;
        masked.host.clone_from(&report.host);
        masked.host.iter_mut().for_each(|host| masker.host(host));
        if let (Some(masked), Some(job)) = (&mut masked.job, &report.job) {
            matrices(&mut masker, masked, job);
        }
        Some(masked)
    }

    fn masker<'h, T: Serialize + DeserializeOwned>(
        &self,
        value: &T,
        hosts: impl Iterator<Item = &'h str>,
    ) -> Option<Masker> {
        let mut known = self.0.clone();
        known.hosts.extend(hosts.map(str::to_owned));
        let mut masker = Masker::new(&known)?;
        masker.learn(&known, |masker| drop(masker.value(value)));
        Some(masker)
    }
}

/// The matrices of a job are in no document.
fn matrices(masker: &mut Masker, masked: &mut Job, job: &Job) {
    for (to, from) in masked.communicators.iter_mut().zip(&job.communicators) {
        let RankMatrix { names, cells } = &from.matrix;
        let names = names.iter().map(|name| masker.text(super::TextKind::Plain, name)).collect();
        to.matrix = RankMatrix { names, cells: cells.clone() };
    }
}

fn to_json<T: Serialize>(value: &T) -> Option<String> {
    crate::model::to_json(value).ok()
}
