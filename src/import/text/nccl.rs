//! NCCL's log and graph: the devices that they name. Paths and failures in them are `gdr explain`'s.

use std::collections::BTreeSet;

use super::by_index;
use super::nccl_tree::{self, Tree, address};
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::{Bdf, Ids, ListedGpu};

pub const LOG: Kind = Kind {
    name: "NCCL's log (NCCL_DEBUG=INFO)",
    starts: Starts::Line,
    begins: |line| line_of(line).is_some(),
    yields: "GPUs and RDMA devices, of a tree their addresses and NUMA nodes, if all lines are of one machine; variables that were set; paths and failures: gdr explain FILE",
    example: "node1:100:120 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>
node1:100:120 [0] NCCL INFO comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 17000 commId 0x1 - Init COMPLETE
",
    read: log,
};

pub const GRAPH: Kind = Kind {
    name: "NCCL_GRAPH_DUMP_FILE",
    starts: Starts::Output,
    begins: |line| line.starts_with("<graphs "),
    yields: "number of GPUs; the topology is in NCCL_TOPO_DUMP_FILE",
    example: "<graphs version=\"1\">
  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"12\" speedinter=\"12\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"0\">
    <channel>
      <gpu dev=\"0\"/>
      <gpu dev=\"1\"/>
    </channel>
  </graph>
</graphs>
",
    read: |text, recording| {
        let numbers = text.split("<gpu dev=\"").skip(1);
        let numbers = numbers.filter_map(|rest| rest.split('"').next()?.parse().ok());
        recording.listed(by_index(numbers.map(|at| (at, ListedGpu::default())).collect()));
        Ok(())
    },
};

fn log(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut class = Class::default();
    let (mut gpus, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    variables(text, recording);
    let mut tree = Tree::default();
    for (head, message) in text.lines().filter_map(line_of) {
        numbers.extend(number(head));
        if let Some(list) = message.split_once("NET/IB : Using ").map(|(_, list)| list) {
            nics(list, &mut class);
        }
        let bus = message.split_once(" busId ").and_then(|(_, rest)| rest.split(' ').next());
        gpus.extend(bus.and_then(address));
        gpus.extend(message.split([' ', ':']).filter_map(in_path));
        tree.add(message);
        nccl_tree::of_path(message, &mut class);
    }
    if gpus.is_empty() {
        recording
            .listed(by_index(numbers.into_iter().map(|at| (at, ListedGpu::default())).collect()));
    }
    for bdf in gpus {
        recording.function(bdf, GPU);
    }
    tree.record(recording);
    recording.class(class)
}

/// What stands before the message, without the place in the source of a warning, and the message.
fn line_of(line: &str) -> Option<(&str, &str)> {
    line.split_once(" NCCL INFO ").or_else(|| {
        let (head, message) = line.split_once(" NCCL WARN ")?;
        Some((head.rsplit_once(' ').map_or(head, |(head, _)| head), message))
    })
}

/// The variables that were set, which are those of all machines of a job.
pub fn variables(text: &str, recording: &mut Recording) {
    for (_, message) in text.lines().filter_map(line_of) {
        if let Some((name, value)) = message.split_once(" set by environment to ")
            && let Some(name) = name.split(' ').next_back()
        {
            recording.variable(name, value.trim_end_matches(['.', ' ']));
        }
    }
}

/// The host of a line.
pub fn host_of(line: &str) -> Option<&str> {
    host(line_of(line)?.0)
}

/// The number of the GPU in `node1:100:120 [0]`, as CUDA counts the GPUs that the process sees.
fn number(head: &str) -> Option<usize> {
    let word = head.split_ascii_whitespace().next_back()?;
    word.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The address of a GPU in a line of paths: `GPU/0-17000` of this machine, `GPU/17000` of older versions.
fn in_path(word: &str) -> Option<Bdf> {
    let rest = word.strip_prefix("GPU/")?;
    let hex = rest.strip_prefix("0-").unwrap_or(rest);
    // Versions without the number of the machine write the lower parts of an address at least.
    address(hex).filter(|_| hex.len() >= 4)
}

/// The host in `node1:100:120 [0]`, perhaps behind a time. Several processes print to one stream, so a line may begin with numbers of
/// another, whose last one stands before the host without a blank.
pub fn host(head: &str) -> Option<&str> {
    let is_index = |word: &&str| word.starts_with('[') && word.ends_with(']');
    let words: Vec<&str> = head.split_ascii_whitespace().filter(|word| !is_index(word)).collect();
    let (last, before) = words.split_last()?;
    if before.first().is_some_and(|word| word.parse::<f64>().is_ok()) {
        return None;
    }
    let mut parts = last.rsplitn(3, ':');
    let numbers = [parts.next()?, parts.next()?];
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    // mpirun prints `[1,0]<stdout>:` before the line.
    let host = parts.next()?.rsplit([':', '>', '|']).next()?;
    (!host.is_empty() && numbers.into_iter().all(is_number)).then_some(host)
}

/// A GPU of unknown model. NCCL takes this class where it cannot read one.
pub const GPU: Ids = Ids { vendor: Ids::NVIDIA, device: None, class: 0x03_0200 };

/// `[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB [RO]; OOB …`.
fn nics(list: &str, class: &mut Class) {
    for nic in list.split(' ').filter(|word| word.starts_with('[')) {
        let Some((_, nic)) = nic.split_once(']') else { continue };
        let Some((name, rest)) = nic.split_once(':') else { continue };
        let Some((port, layer)) = rest.split_once('/') else { continue };
        let Some(port) = class.device(name).and_then(|device| class.port(&device, port)) else {
            continue;
        };
        match layer.trim_end_matches(';') {
            "RoCE" => class.add(&port, "link_layer", "Ethernet"),
            "IB" => class.add(&port, "link_layer", "InfiniBand"),
            _ => {}
        }
    }
}
