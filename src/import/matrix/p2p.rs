//! The matrices of `nvidia-smi topo -p2p`: the peer-to-peer status of each pair of GPUs.

use super::{MAX_GPUS, MAX_HEADS, is_head};
use crate::model::{P2pCapability, P2pStatus};

/// A matrix of `nvidia-smi topo -p2p`.
pub struct P2pMatrix {
    pub gpus: usize,
    /// The capability, if the command line stands above.
    pub capability: Option<P2pCapability>,
    /// Pairs by the indexes of GPUs, the smaller one first.
    pub pairs: Vec<(u32, u32, P2pStatus)>,
}

/// The first whole matrix of peer-to-peer status.
pub fn p2p(text: &str) -> Option<P2pMatrix> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let heads = lines.iter().enumerate().filter(|(_, line)| is_head(line)).take(MAX_HEADS);
    let (at, rows) =
        heads.filter_map(|(at, head)| Some((at, statuses(head, &lines[at + 1..])?))).next()?;
    let command = lines[..at].iter().rev().find_map(|line| line.strip_prefix("topo -p2p "));
    let pairs = rows.iter().zip(0_u32..).flat_map(|(row, from)| {
        let cells = row.iter().zip(0_u32..).filter(move |(_, to)| *to > from);
        cells.filter_map(move |(status, to)| Some((from, to, (*status)?)))
    });
    Some(P2pMatrix {
        gpus: rows.len(),
        capability: command.and_then(capability),
        pairs: pairs.collect(),
    })
}

/// The cells of all rows; none on the diagonal.
fn statuses(head: &str, below: &[&str]) -> Option<Vec<Vec<Option<P2pStatus>>>> {
    let head = super::head(head);
    let names: Vec<&str> = head.split_ascii_whitespace().collect();
    if names.len() > MAX_GPUS || !names.iter().all(|name| name.starts_with("GPU")) {
        return None;
    }
    let row = |(at, name): (usize, &&str)| {
        let mut words = below.get(at)?.split_ascii_whitespace();
        words.next().filter(|first| first == name)?;
        let cell = |(to, word): (usize, &str)| match word {
            "X" if to == at => Some(None),
            _ => Some(Some(status(word).filter(|_| to != at)?)),
        };
        let cells: Option<Vec<_>> = words.enumerate().map(cell).collect();
        cells.filter(|cells| cells.len() == names.len())
    };
    names.iter().enumerate().map(row).collect()
}

fn status(word: &str) -> Option<P2pStatus> {
    const ALL: [P2pStatus; 7] = [
        P2pStatus::Ok,
        P2pStatus::Chipset,
        P2pStatus::Gpu,
        P2pStatus::Topology,
        P2pStatus::Disabled,
        P2pStatus::NotSupported,
        P2pStatus::Unknown,
    ];
    ALL.into_iter().find(|status| status.abbreviation() == word)
}

/// The letter after `-p2p`.
fn capability(options: &str) -> Option<P2pCapability> {
    Some(match options.split_ascii_whitespace().next()? {
        "r" => P2pCapability::Read,
        "w" => P2pCapability::Write,
        "n" => P2pCapability::Nvlink,
        "a" => P2pCapability::Atomics,
        "p" => P2pCapability::Pci,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::listed;
    use super::*;

    /// As `nvidia-smi topo -p2p r` prints it.
    #[test]
    fn peer_to_peer_status_is_read() {
        let text = "\tGPU0\tGPU1\tGPU2\t
GPU0\tX\tOK\tTNS\t
GPU1\tOK\tX\tCNS\t
GPU2\tTNS\tCNS\tX\t

Legend:

  X    = Self
  OK   = Status Ok
";
        let read = p2p(&format!("topo -p2p r\n{text}")).expect("a matrix");
        assert_eq!((read.gpus, read.capability), (3, Some(P2pCapability::Read)));
        let (ok, tns, cns) = (P2pStatus::Ok, P2pStatus::Topology, P2pStatus::Chipset);
        assert_eq!(read.pairs, [(0, 1, ok), (0, 2, tns), (1, 2, cns)]);
        assert_eq!(p2p(text).expect("a matrix").capability, None);
        assert!(p2p(&text.replace("TNS", "SYS")).is_none());
        assert!(p2p("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n").is_none());
        assert!(listed(text).is_none());
    }
}
