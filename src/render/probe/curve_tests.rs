//! Output for reports of transfer and mpi: a column and a line for each curve.

use super::panel::What;
use super::sample::{bare, report};
use super::{chart, svg, table};
use crate::model::{MpiTransport, ProbeKind, ProbeReport, ProbeResult, ProbedEnd, ProbedMpi};
use crate::render::Style;

const PLAIN: Style = Style { color: false, width: 100 };

fn figure(subject: &str, name: &str, bytes: u64, unit: &str, median: f64) -> ProbeResult {
    ProbeResult {
        subject: subject.to_owned(),
        unit: unit.to_owned(),
        median: Some(median),
        numa: None,
        ..bare(name, Some(bytes))
    }
}

fn end(gpu: &str, port: &str, class: &str) -> ProbedEnd {
    ProbedEnd {
        subject: format!("{gpu} {port}:1"),
        memory: "gpu".to_owned(),
        gpu: Some(format!("{gpu} (0000:03:00.0)")),
        device: port.to_owned(),
        port: 1,
        link_layer: "InfiniBand".to_owned(),
        mtu: 4096,
        memory_path: Some("dma-buf".to_owned()),
        class: Some(class.to_owned()),
        ..ProbedEnd::default()
    }
}

/// Two GPUs with a NIC each; the first one has a far NIC too, and a copy to the other GPU.
fn transfers() -> ProbeReport {
    let [near, far, other] =
        ["GPU0 a:1 -> b GPU0 a:1", "GPU0 c:1 -> b GPU0 c:1", "GPU1 c:1 -> b GPU1 c:1"];
    ProbeReport {
        probe: ProbeKind::Transfer,
        gpus: Vec::new(),
        ends: vec![end("GPU0", "a", "PIX"), end("GPU0", "c", "SYS"), end("GPU1", "c", "PIX")],
        results: vec![
            figure(near, "transfer.v3.latency", 4, "us", 2.5),
            figure(near, "transfer.v3.bandwidth", 4, "GB/s", 0.00005),
            figure(near, "transfer.v3.bandwidth", 1 << 20, "GB/s", 48.3),
            ProbeResult { verified: 4, ..figure(near, "validate.transfer.v3", 4, "", 0.0) },
            ProbeResult {
                chunk: Some(256 << 10),
                ..figure(near, "transfer.v1-pipelined.bandwidth", 1 << 20, "GB/s", 21.0)
            },
            figure(far, "transfer.v3-far.bandwidth", 1 << 20, "GB/s", 9.5),
            figure(other, "transfer.v3.bandwidth", 1 << 20, "GB/s", 47.0),
            figure("GPU0 -> GPU1", "transfer.v2.latency", 4, "us", 8.0),
        ],
        ..report()
    }
}

#[test]
fn curves_are_columns_of_each_gpu() {
    let wanted = "\
gdr probe transfer: node1, Linux, 6.8

GPU0 a:1 -> b GPU0 a:1
  local: a:1, InfiniBand, MTU 4096, memory of GPU0 (0000:03:00.0)
  GPUDirect RDMA with dma-buf; path PIX
  verified 4 B in 1 check: all bytes are correct
  best chunk of v1 over the wire: 256 KiB

  half of the round trip, us
  size    v3    v2
  4 B   2.50  8.00

  bandwidth, GB/s
  size       v3  v1-pipelined  v3-far
  4 B    5.0e-5             -       -
  1 MiB    48.3          21.0    9.50

GPU1 c:1 -> b GPU1 c:1
  local: c:1, InfiniBand, MTU 4096, memory of GPU1 (0000:03:00.0)
  GPUDirect RDMA with dma-buf; path PIX
  nothing was verified

  bandwidth, GB/s
  size     v3
  1 MiB  47.0

";
    let page = table(&transfers(), PLAIN);
    assert!(page.starts_with(wanted), "{page}");
}

#[test]
fn distances_have_a_panel() {
    let report = transfers();
    let panels = chart::panels(&report);
    let found: Vec<(&str, What, usize)> =
        panels.iter().map(|panel| (panel.title.as_str(), panel.what, panel.lines.len())).collect();
    assert_eq!(
        found,
        [
            ("GPU0 a:1 -> b GPU0 a:1: half of the round trip", What::Latency, 2),
            ("GPU0 a:1 -> b GPU0 a:1: bandwidth", What::Bandwidth, 2),
            ("GPU1 c:1 -> b GPU1 c:1: bandwidth", What::Bandwidth, 1),
            ("GPUDirect RDMA by the distance of GPU and NIC", What::Bandwidth, 2),
        ]
    );
    let labels: Vec<&str> = panels[3].lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels, ["GPU0 c:1, SYS", "GPU0 a:1, PIX"]);
    let drawing = svg(&report);
    // Each kind of panel has an axis of its own.
    for tick in [">1 us<", ">10 us<", ">10 kB/s<", ">100 GB/s<"] {
        assert!(drawing.contains(tick), "{tick}: {drawing}");
    }
}

#[test]
fn ranks_have_a_chapter_each() {
    let pair = "rank 0 > rank 1 (same host)";
    let report = ProbeReport {
        probe: ProbeKind::Mpi,
        gpus: Vec::new(),
        mpi: Some(ProbedMpi {
            file: Some("/opt/mpi/lib/libmpi.so.40".to_owned()),
            chosen: "of the launcher /opt/mpi/bin/prterun".to_owned(),
            version: "Open MPI v5.0.8".to_owned(),
            ranks: 2,
            hosts: 1,
            launcher: Some("Open MPI".to_owned()),
            query: Some("MPIX_Query_cuda_support".to_owned()),
            claims_gpu: Some(true),
            takes_gpu: Some(true),
            transports: vec![MpiTransport {
                same_host: true,
                gpu: true,
                layer: "ucx".to_owned(),
                names: vec!["cuda_copy".to_owned(), "cuda_ipc".to_owned()],
                message: String::new(),
            }],
            ..ProbedMpi::default()
        }),
        results: vec![
            figure(pair, "mpi.host.latency", 8, "us", 0.25),
            figure(pair, "mpi.gpu.latency", 8, "us", 3.5),
            figure(pair, "mpi.gpu.bandwidth", 1 << 20, "GB/s", 38.0),
        ],
        ..report()
    };
    let wanted = "\
gdr probe mpi: node1, Linux, 6.8

Open MPI v5.0.8
  /opt/mpi/lib/libmpi.so.40, of the launcher /opt/mpi/bin/prterun
  2 ranks on one host, started by Open MPI
  GPU pointers: MPIX_Query_cuda_support says supported
  GPU pointers: taken; a message of GPU memory arrived unchanged

rank 0 > rank 1 (same host)
  GPU memory goes by cuda_copy, cuda_ipc (ucx)
  nothing was verified

  half of the round-trip time, and bandwidth of 64 messages in flight
  size   host us  GPU us  GPU GB/s
  8 B      0.250    3.50         -
  1 MiB        -       -      38.0

";
    let page = table(&report, PLAIN);
    assert!(page.starts_with(wanted), "{page}");
    let titles: Vec<String> = chart::panels(&report).into_iter().map(|panel| panel.title).collect();
    assert_eq!(titles, [format!("{pair}: half of the round trip"), format!("{pair}: bandwidth")]);
}
