//! The memory paths of a GPU with NVLink-C2C side by side: where PCI Express or Data Direct was chosen, one figure of each other path that
//! works too.

use super::options::Options;
use super::pairs::task;
use super::task::{Extent, LocalEnd, Memory, MemoryPath};
use crate::model::{BackendChoice, BackendOutcome, ProbedEnd};
use crate::probe::children::{ChildResult, Children};
use crate::probe::scope::ProbeError;

/// In the note of a report.
const NOTE: &str = "A GPU with NVLink-C2C has several memory paths: the other ones are measured beside the chosen one, by the bandwidth of \
                    writes of the largest message.";

/// Measures the other memory paths of a connection that was just measured, unless a path was requested. None if there are none.
pub fn compare(
    options: &Options,
    children: &mut Children<'_>,
    local: &LocalEnd,
    remote: &LocalEnd,
) -> Result<Option<ChildResult>, ProbeError> {
    let mut last = None;
    if options.memory_path.is_some() {
        return Ok(None);
    }
    for memory_path in others(&children.report.ends, local, remote) {
        if last.is_none() {
            children.report.notes.push(NOTE.to_owned());
        }
        let mut task = task(options, &by(local, memory_path), &by(remote, memory_path));
        task.extent = Extent::OneFigure;
        let ran = children.run(&task.subject.clone(), &task, &[])?;
        let goes_on = ran.go_on;
        last = Some(ran);
        if !goes_on {
            break;
        }
    }
    Ok(last)
}

/// An end with this memory path alone.
fn by(place: &LocalEnd, memory_path: MemoryPath) -> LocalEnd {
    let mut place = place.clone();
    place.subject = format!("{} by {}", place.subject, memory_path.name());
    if let Memory::Gpu(_, wanted) = &mut place.memory {
        *wanted = Some(memory_path);
    }
    if memory_path == MemoryPath::DmaBuf {
        // NVLink-C2C, whose bandwidth the PCI tree does not show.
        place.path = None;
    }
    place
}

/// The memory paths that work at both ends beside the chosen one, where that bypasses NVLink-C2C.
fn others(ends: &[ProbedEnd], local: &LocalEnd, remote: &LocalEnd) -> Vec<MemoryPath> {
    let mut found = vec![MemoryPath::DmaBufPcie, MemoryPath::DmaBuf];
    for place in [local, remote] {
        let Some(end) = ends
            .iter()
            .rfind(|end| end.subject == place.subject && end.device == place.port.device)
        else {
            return Vec::new();
        };
        let bypasses = [MemoryPath::DataDirect, MemoryPath::DmaBufPcie].map(MemoryPath::name);
        if !bypasses.contains(&end.memory_path.as_deref().unwrap_or_default()) {
            return Vec::new();
        }
        found.retain(|memory_path| {
            let usable = |choice: &BackendChoice| {
                choice.outcome == BackendOutcome::Usable && choice.backend == memory_path.name()
            };
            end.memory_paths.iter().any(usable)
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::task::Port;
    use super::*;
    use crate::probe::target::Target;

    fn place(subject: &str) -> LocalEnd {
        LocalEnd {
            subject: subject.to_owned(),
            port: Port { device: "mlx5_0".to_owned(), number: 1, ..Port::default() },
            memory: Memory::Gpu(
                Target {
                    subject: "GPU0".to_owned(),
                    ordinal: Some(0),
                    bdf: None,
                    home: None,
                    link: None,
                },
                None,
            ),
            path: Some(63_000_000_000),
            ..LocalEnd::default()
        }
    }

    /// An end with these memory paths, the first of which was chosen.
    fn end(subject: &str, works: &[&str]) -> ProbedEnd {
        let choice = |(number, name): (usize, &&str)| BackendChoice {
            backend: (*name).to_owned(),
            outcome: match number {
                0 => BackendOutcome::Chosen,
                _ => BackendOutcome::Usable,
            },
            why: String::new(),
        };
        ProbedEnd {
            subject: subject.to_owned(),
            memory: "gpu".to_owned(),
            device: "mlx5_0".to_owned(),
            port: 1,
            link_layer: "InfiniBand".to_owned(),
            mtu: 4096,
            memory_path: works.first().map(|name| (*name).to_owned()),
            memory_paths: works.iter().enumerate().map(choice).collect(),
            ..ProbedEnd::default()
        }
    }

    #[test]
    fn paths_beside_the_chosen_one() {
        use MemoryPath::{DmaBuf, DmaBufPcie};
        for (local, remote, expected) in [
            (
                &["dma-buf-pcie", "dma-buf", "peermem"][..],
                &["dma-buf-pcie", "dma-buf"][..],
                &[DmaBuf][..],
            ),
            (
                &["data-direct", "dma-buf-pcie", "dma-buf"],
                &["data-direct", "dma-buf-pcie", "dma-buf"],
                &[DmaBufPcie, DmaBuf],
            ),
            // Each must work at both ends, and both must bypass NVLink-C2C.
            (&["data-direct", "dma-buf-pcie", "dma-buf"], &["data-direct", "dma-buf"], &[DmaBuf]),
            (&["dma-buf-pcie", "dma-buf"], &["dma-buf", "peermem"], &[]),
            (&["dma-buf", "peermem"], &["dma-buf", "peermem"], &[]),
            (&["staged"], &["staged"], &[]),
        ] {
            let ends = [end("GPU0 mlx5_0:1", local), end("GPU1 mlx5_0:1", remote)];
            let places = [place("GPU0 mlx5_0:1"), place("GPU1 mlx5_0:1")];
            let found = others(&ends, &places[0], &places[1]);
            assert_eq!(found, expected, "{local:?}, {remote:?}");
        }
        assert_eq!(others(&[], &place("GPU0"), &place("GPU0")), []);
    }

    #[test]
    fn default_mapping_is_not_limited_by_pci() {
        let beside = by(&place("GPU0 mlx5_0:1"), MemoryPath::DmaBuf);
        assert_eq!((beside.subject.as_str(), beside.path), ("GPU0 mlx5_0:1 by dma-buf", None));
        let pcie = by(&place("GPU0 mlx5_0:1"), MemoryPath::DmaBufPcie);
        assert_eq!(pcie.path, Some(63_000_000_000));
        assert!(matches!(pcie.memory, Memory::Gpu(_, Some(MemoryPath::DmaBufPcie))));
    }
}
