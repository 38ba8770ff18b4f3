//! Output for RDMA reports.

use super::sample::{bare, report};
use super::{curve, svg, table};
use crate::model::{
    BackendChoice, BackendOutcome, ProbeKind, ProbeReport, ProbeResult, ProbeVerdict, ProbedEnd,
};
use crate::render::Style;

const PLAIN: Style = Style { color: false, width: 100 };

fn end(subject: &str, class: &str) -> ProbedEnd {
    ProbedEnd {
        subject: subject.to_owned(),
        memory: "gpu".to_owned(),
        gpu: Some("GPU0 (0000:03:00.0)".to_owned()),
        device: "mlx5_0".to_owned(),
        port: 1,
        link_layer: "Ethernet".to_owned(),
        mtu: 4096,
        gid_index: Some(3),
        gid_kind: Some("RoCE v2".to_owned()),
        pkey: Some(0xffff),
        cpu_node: Some(1),
        cpus: Some("8-15".to_owned()),
        memory_path: Some("peermem".to_owned()),
        memory_paths: vec![BackendChoice {
            backend: "dma-buf".to_owned(),
            outcome: BackendOutcome::Refused,
            why: "the kernel is too old".to_owned(),
        }],
        class: Some(class.to_owned()),
        path: Some(63_000_000_000),
        rate: Some(50_000_000_000),
        ..ProbedEnd::default()
    }
}

fn figure(subject: &str, name: &str, bytes: u64, unit: &str, median: f64) -> ProbeResult {
    ProbeResult {
        subject: subject.to_owned(),
        unit: unit.to_owned(),
        median: Some(median),
        numa: None,
        ..bare(name, Some(bytes))
    }
}

/// One GPU and two NICs.
pub fn two_nics() -> ProbeReport {
    let (local, remote) = ("GPU0 mlx5_0:1", "GPU0 mlx5_1:1");
    ProbeReport {
        probe: ProbeKind::Rdma,
        ends: vec![end(local, "PIX"), end(remote, "SYS")],
        results: vec![
            ProbeResult {
                verified: 3 << 20,
                ..figure(local, "validate.rc.write", 3 << 20, "", 0.0)
            },
            ProbeResult { p99: Some(2.5), ..figure(local, "rdma.read.latency", 8, "us", 1.86) },
            figure(local, "rdma.write.bandwidth", 8, "GB/s", 0.0042),
            ProbeResult {
                expected: Some(50.0),
                ..figure(local, "rdma.write.bandwidth", 1 << 20, "GB/s", 48.3)
            },
            figure(local, "rdma.write.rate", 8, "M/s", 61.25),
            ProbeResult {
                verdict: ProbeVerdict::Slow,
                reason: Some("less than 70 % of the 50.0 GB/s that the link carries".to_owned()),
                ..figure(remote, "rdma.write.bandwidth", 1 << 20, "GB/s", 9.66)
            },
        ],
        ..report()
    }
}

#[test]
fn shows_connections_and_matrix() {
    let wanted = "\
gdr probe rdma: node1, Linux, 6.8

GPU0 mlx5_0:1
  both ends: mlx5_0:1, Ethernet, GID 3 (RoCE v2), MTU 4096, 50.0 GB/s, memory of GPU0
    (0000:03:00.0), CPUs of node 1
  GPUDirect RDMA with peermem; path PIX with 63.0 GB/s
  not by dma-buf: the kernel is too old
  verified 3.0 MiB in 1 check: all bytes are correct

  latency, us: median, p99 and p99.9
  size  read  read p99  read p99.9
  8 B   1.86      2.50           -

  bandwidth, GB/s
  size     write
  8 B    0.00420
  1 MiB     48.3
  61.2 million writes of 8 bytes per second

GPU0 mlx5_1:1
  both ends: mlx5_0:1, Ethernet, GID 3 (RoCE v2), MTU 4096, 50.0 GB/s, memory of GPU0
    (0000:03:00.0), CPUs of node 1
  GPUDirect RDMA with peermem; path SYS with 63.0 GB/s
  not by dma-buf: the kernel is too old
  nothing was verified
  slow           rdma.write.bandwidth, 1 MiB: 9.66 GB/s, less than 70 % of the 50.0 GB/s that the
                 link carries

  bandwidth, GB/s
  size   write
  1 MiB   9.66

  GB/s, writes of the largest message, and path class
        mlx5_0:1  mlx5_1:1
  GPU0  48.3 PIX  9.66 SYS

passed: 5 ok, 1 slow, 0 wrong, 0 could not run; up to 48.3 GB/s written by the NIC
";
    assert_eq!(table(&two_nics(), PLAIN), wanted);
}

#[test]
fn connections_with_figures_have_panels() {
    let page = curve(&two_nics(), PLAIN);
    assert!(
        page.contains("GPU0 mlx5_0:1\n") && page.contains("what the link carries, 50.0 GB/s"),
        "{page}"
    );
    assert!(svg(&two_nics()).contains("GPU0 mlx5_1:1"));
}
