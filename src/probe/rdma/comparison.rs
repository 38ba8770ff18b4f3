//! The memory paths of a GPU with NVLink-C2C side by side: where PCI Express or Data Direct was chosen, one figure of each other path that
//! works too.

use super::options::Options;
use super::pairs::task;
use super::task::{Memory, MemoryPath, Place};
use crate::model::{BackendChoice, BackendOutcome, ProbeReport};
use crate::probe::children::{ChildResult, Children};
use crate::probe::scope::ProbeError;

/// In the note of a report.
const NOTE: &str = "A GPU with NVLink-C2C has several memory paths: the other ones are measured beside the chosen one, by the bandwidth of \
                    writes of the largest message.";

/// Measures the other memory paths of a connection that was just measured, unless a path was requested. None if there are none.
pub fn compare(
    options: &Options,
    children: &mut Children<'_>,
    local: &Place,
    remote: &Place,
) -> Result<Option<ChildResult>, ProbeError> {
    let mut last = None;
    if options.memory_path.is_some() {
        return Ok(None);
    }
    for memory_path in others(children.report, local, remote) {
        if last.is_none() {
            children.report.notes.push(NOTE.to_owned());
        }
        let mut task = task(options, &by(local, memory_path), &by(remote, memory_path));
        task.brief = true;
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
fn by(place: &Place, memory_path: MemoryPath) -> Place {
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
fn others(report: &ProbeReport, local: &Place, remote: &Place) -> Vec<MemoryPath> {
    let mut found = vec![MemoryPath::DmaBufPcie, MemoryPath::DmaBuf];
    for place in [local, remote] {
        let Some(end) = report
            .ends
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
