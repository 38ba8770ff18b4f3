//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::supervise::{Chosen, Machine, Options, ProbeError, chosen};
use super::sweep::{ENGINE_SHARE, LIMITED_BY_LINK, STORES_SHARE};
use crate::model::{GIGABYTES_PER_SECOND, PROBE_SCHEMA, ProbeReport, ProbeResult, ProbedGpu};
use crate::probe::events::Listed;
use crate::probe::verdict::{Promise, Subject};

/// What a probe of a recorded machine would hold its figures against: what each link carries, and below which share of
/// it a figure would be slow.
pub fn expected(options: &Options, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let listed: Vec<Listed> = machine
        .gpus
        .iter()
        .zip(0..)
        .map(|(place, ordinal)| Listed {
            ordinal,
            name: place.label.clone(),
            uuid: String::new(),
            bdf: Some(place.bdf),
        })
        .collect();
    let gpus: Vec<ProbedGpu> = chosen(options, machine, &listed)?.iter().map(probed).collect();
    let results = gpus.iter().flat_map(of_gpu).collect();
    let mut notes = vec![
        "Nothing was measured: this machine is recorded. The figures are what its PCI Express links carry at their best."
            .to_owned(),
    ];
    if machine.gpus.is_empty() {
        notes.push("No GPU is known of this machine.".to_owned());
    }
    Ok(ProbeReport {
        schema: PROBE_SCHEMA.to_owned(),
        probe: "copy".to_owned(),
        host: machine.host.clone(),
        simulated: false,
        complete: true,
        gpus,
        results,
        notes,
    })
}

fn probed(gpu: &Chosen<'_>) -> ProbedGpu {
    ProbedGpu {
        subject: gpu.subject(),
        bdf: gpu.listed.bdf,
        name: gpu.listed.name.clone(),
        backend: None,
        mapping: None,
        write_kernel: None,
        read_kernel: None,
        numa: gpu.place.and_then(|place| place.numa),
        link: gpu.place.and_then(|place| place.link),
        backends: Vec::new(),
    }
}

fn of_gpu(gpu: &ProbedGpu) -> Vec<ProbeResult> {
    let about = |backend: &str| Subject {
        subject: gpu.subject.clone(),
        backend: backend.to_owned(),
        numa: None,
    };
    let shares = [
        ("copy.write.bandwidth", "mapping", STORES_SHARE),
        ("cuda.pinned.write.bandwidth", "cuda", ENGINE_SHARE),
        ("cuda.pinned.read.bandwidth", "cuda", ENGINE_SHARE),
    ];
    shares
        .into_iter()
        .map(|(name, backend, share)| match gpu.link {
            Some(link) => about(backend).not_measured(
                name,
                LIMITED_BY_LINK,
                GIGABYTES_PER_SECOND,
                Promise {
                    value: link as f64 / 1e9,
                    share: Some(share),
                },
            ),
            None => {
                let reason =
                    "what its link carries is not known: the CPU reaches it otherwise, or the record does not hold it";
                about(backend).impossible(name, Some(LIMITED_BY_LINK), false, reason.to_owned())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProbeVerdict;
    use crate::probe::copy::{Depth, Nodes, Place};
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
            sim: false,
            gpus: vec![gpu.to_owned()],
            depth: Depth::Quick,
            backend: None,
            kernel: None,
            nodes: Nodes::Near,
            sizes: Vec::new(),
            patience: Duration::ZERO,
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
