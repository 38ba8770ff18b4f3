//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::supervise::Options;
use super::sweep::LIMITED_BY_LINK;
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport, ProbeResult, ProbedGpu, Shares};
use crate::probe::expected::{recorded, unknown_link};
use crate::probe::supervise::{Machine, ProbeError};
use crate::probe::verdict::{Promise, Subject};

/// What a probe of a recorded machine would hold its figures against: what each link carries, and below which share of
/// it a figure would be slow.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = recorded("copy", &options.scope, machine)?;
    report.results = report
        .gpus
        .iter()
        .flat_map(|gpu| of_gpu(gpu, options.scope.terms.shares))
        .collect();
    Ok(report)
}

fn of_gpu(gpu: &ProbedGpu, shares: Shares) -> Vec<ProbeResult> {
    let about = |backend: &str| Subject {
        subject: gpu.subject.clone(),
        backend: backend.to_owned(),
        numa: None,
    };
    let names = [
        ("copy.write.bandwidth", "mapping", shares.mapping),
        ("cuda.pinned.write.bandwidth", "cuda", shares.pci_express),
        ("cuda.pinned.read.bandwidth", "cuda", shares.pci_express),
    ];
    names
        .into_iter()
        .map(|(name, backend, share)| match gpu.link {
            Some(link) => about(backend).promised(
                name,
                LIMITED_BY_LINK,
                GIGABYTES_PER_SECOND,
                Promise {
                    value: link as f64 / 1e9,
                    share,
                },
            ),
            None => unknown_link(&about(backend), name, LIMITED_BY_LINK),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProbeVerdict;
    use crate::probe::depth::{Depth, Terms};
    use crate::probe::supervise::{Nodes, Place, Scope};
    use std::time::Duration;

    #[test]
    fn a_link_of_sixteen_lanes_at_32_gigatransfers_is_expected_to_carry_63_gigabytes_a_second() {
        let machine = Machine {
            gpus: vec![Place {
                name: "GPU0".to_owned(),
                label: "NVIDIA H200".to_owned(),
                bdf: "0000:03:00.0".parse().expect("an address"),
                numa: Some(0),
                link: Some(63_015_384_615),
            }],
            ..Machine::default()
        };
        let options = |gpu: &str| Options {
            scope: Scope {
                sim: false,
                gpus: vec![gpu.to_owned()],
                terms: Terms {
                    depth: Depth::Quick,
                    sizes: Vec::new(),
                    shares: Shares {
                        pci_express: Some(0.5),
                        ..Shares::default()
                    },
                    timeout: Duration::ZERO,
                },
            },
            backend: None,
            kernel: None,
            nodes: Nodes::Near,
        };
        let report = expected(&options("all"), &machine).expect("a report");
        let write = report.results.first().expect("a result");
        assert_eq!(write.expected.map(|rate| rate.round()), Some(63.0));
        assert_eq!(
            (write.verdict, write.median, write.samples),
            (ProbeVerdict::NotMeasured, None, 0)
        );
        assert!(expected(&options("7"), &machine).is_err());
    }
}
