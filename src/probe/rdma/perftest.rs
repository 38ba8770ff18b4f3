//! The commands of perftest for the same ports, memory and sizes, for comparison.

use super::options::{Options, RemoteEnd};
use crate::model::{ProbeReport, ProbedEnd, ProbedSrd};
use crate::output::shell_word;

/// The command lines for the remote and the local end.
pub fn commands(report: &ProbeReport, options: &Options) -> Vec<String> {
    let sizes = options.scope.terms.rdma_sizes();
    let Some(largest) = sizes.last().copied() else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let ends: Vec<&ProbedEnd> = report.ends.iter().filter(|end| !end.remote).collect();
    let followed: Vec<&ProbedEnd> = report.ends.iter().filter(|end| end.remote).collect();
    let (host, listens) = match &options.remote {
        RemoteEnd::At { host, .. } => (host.as_str(), false),
        RemoteEnd::Here(_) => ("localhost", false),
        RemoteEnd::Comes(..) | RemoteEnd::Launched(..) => ("HOST", true),
    };
    for (number, local) in ends.iter().enumerate() {
        // The remote machine has its own end.
        let remote = followed
            .iter()
            .find(|remote| remote.subject == local.subject)
            .or(followed.get(number))
            .copied();
        for (tool, bytes) in [("ib_write_bw", largest), ("ib_read_bw", largest), ("ib_send_lat", 8)]
        {
            let lacks = |srd: &ProbedSrd| match tool {
                "ib_write_bw" => !srd.rdma_write,
                "ib_read_bw" => !srd.rdma_read,
                _ => false,
            };
            if local.srd.as_ref().is_some_and(lacks) {
                continue;
            }
            lines.push(format!(
                "perftest, remote side:  {}",
                command(tool, remote.unwrap_or(local), bytes, options, None)
            ));
            lines.push(format!(
                "perftest, local side: {}",
                command(tool, local, bytes, options, Some(host))
            ));
        }
    }
    if lines.is_empty() && listens {
        for end in followed {
            lines.push(format!(
                "perftest, remote side:  {}",
                command("ib_write_bw", end, largest, options, None)
            ));
        }
    }
    let on_gpu = report.ends.iter().any(|end| end.memory == "gpu");
    if on_gpu && !lines.is_empty() {
        lines.push(
            "perftest needs a build with CUDA for --use_cuda; the packages of distributions have none."
                .to_owned(),
        );
    }
    lines
}

fn command(
    tool: &str,
    end: &ProbedEnd,
    bytes: usize,
    options: &Options,
    host: Option<&str>,
) -> String {
    let mut words = vec![
        tool.to_owned(),
        format!("-d {}", shell_word(&end.device)),
        format!("-i {}", end.port),
    ];
    if let Some(index) = end.gid_index.filter(|_| end.link_layer != "InfiniBand") {
        words.push(format!("-x {index}"));
    }
    if end.srd.is_some() {
        words.push("-c SRD".to_owned());
    }
    words.push(format!("-s {bytes}"));
    words.push("-F".to_owned());
    if tool.ends_with("_bw") {
        words.push("--report_gbits".to_owned());
        if options.queue_pairs > 1 {
            words.push(format!("-q {}", options.queue_pairs));
        }
    }
    if end.memory == "gpu" {
        let number = end.gpu.as_deref().and_then(|gpu| gpu.split(' ').next()?.strip_prefix("GPU"));
        words.push(shell_word(&format!("--use_cuda={}", number.unwrap_or("0"))));
        let flags: &[&str] = match end.memory_path.as_deref() {
            Some("dma-buf") => &["--use_cuda_dmabuf"],
            Some("dma-buf-pcie") => &["--use_cuda_dmabuf", "--use_cuda_pcie_mapping"],
            Some("data-direct") => {
                &["--use_cuda_dmabuf", "--use_cuda_pcie_mapping", "--use_data_direct"]
            }
            _ => &[],
        };
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }
    words.extend(host.map(shell_word));
    words.join(" ")
}
