//! A handwritten report for the tests of all formats.

use crate::model::{
    BackendChoice, BackendOutcome, Bucket, Host, ProbeReport, ProbeResult, ProbedGpu,
};

pub const SUBJECT: &str = "GPU0 (0000:3b:00.0)";

/// A result without figures.
pub fn bare(name: &str, bytes: Option<u64>) -> ProbeResult {
    ProbeResult {
        name: name.to_owned(),
        subject: SUBJECT.to_owned(),
        backend: "rm".to_owned(),
        bytes,
        numa: Some(0),
        ..ProbeResult::default()
    }
}

fn latency(name: &str, bytes: u64, median: f64) -> ProbeResult {
    ProbeResult {
        unit: "us".to_owned(),
        median: Some(median),
        p5: Some(median * 0.9),
        p95: Some(median * 1.5),
        max: Some(median * 4.0),
        samples: 100,
        verified: bytes,
        ..bare(name, Some(bytes))
    }
}

/// One H200, with figures in the style of gdrcopy's copy-performance.
pub fn report() -> ProbeReport {
    let mut results =
        vec![ProbeResult { verified: 64 << 20, ..bare("validate.malloc.copy-to", Some(64 << 20)) }];
    let sweep = [
        (4, 0.156, 1.04, 6.0, 7.4),
        (65536, 2.85, 6.4, 20.6, 15.3),
        (16 << 20, 504.0, 1069.0, 310.0, 305.0),
    ];
    for (bytes, write, read, cuda_write, cuda_read) in sweep {
        // Eight threads copy 16 MiB in an eighth of their CPU time; the thread that waits for the copy engine spins.
        let threads = if bytes > 65536 { 8.0 } else { 1.0 };
        let copied = |name, us| ProbeResult { cpu: Some(us * threads), ..latency(name, bytes, us) };
        let waited = |name, us| ProbeResult { cpu: Some(us), ..latency(name, bytes, us) };
        results.push(copied("copy.write.latency", write));
        results.push(copied("copy.read.latency", read));
        results.push(waited("cuda.pinned.write.latency", cuda_write));
        results.push(waited("cuda.pinned.read.latency", cuda_read));
    }
    results.push(ProbeResult {
        unit: "bytes".to_owned(),
        median: Some(f64::from(16 << 20)),
        ..bare("crossover.write", None)
    });
    results.push(ProbeResult {
        unit: "bytes".to_owned(),
        median: Some(65536.0),
        ..bare("crossover.read.cpu", None)
    });
    let octave = |from: f64, samples| Bucket { from, to: from * 2.0, samples };
    results.push(ProbeResult {
        min: Some(120.0),
        p99: Some(300.0),
        histogram: vec![octave(64.0, 20), octave(128.0, 79), octave(512.0, 1)],
        ..latency("api.pin", 65536, 141.2)
    });
    results.push(latency("ping-pong", 4, 1.93));
    ProbeReport {
        host: Host {
            source: "live".to_owned(),
            name: Some("node1".to_owned()),
            os: Some("Linux".to_owned()),
            kernel: Some("6.8".to_owned()),
            ..Host::default()
        },
        complete: true,
        gpus: vec![ProbedGpu {
            subject: SUBJECT.to_owned(),
            bdf: "0000:3b:00.0".parse().ok(),
            name: "NVIDIA H200".to_owned(),
            backend: Some("rm".to_owned()),
            mapping: Some("write_combined".to_owned()),
            write_kernel: Some("avx512".to_owned()),
            read_kernel: Some("avx512".to_owned()),
            numa: Some(0),
            link: Some(63_015_384_615),
            backends: vec![BackendChoice {
                backend: "gdrdrv".to_owned(),
                outcome: BackendOutcome::Refused,
                why: "/dev/gdrdrv is not there".to_owned(),
            }],
        }],
        results,
        ..ProbeReport::default()
    }
}
