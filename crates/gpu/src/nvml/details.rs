//! Expensive details, read on request.

use super::facts::{Bar1, Details, Fabric};
use super::fault::{ARGUMENT_VERSION_MISMATCH, Answer, Fault, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::link_errors;
use super::raw::Device;
use super::reading::Reading;
use super::session::Session;

/// Reads all details in about 15 ms.
pub(super) fn read(session: &Session, device: Device<'_>) -> Details {
    Details {
        persistence: flag(session.persistence_mode(device)),
        mig: session.mig_mode(device).map(|mode| mode.current != 0).into(),
        bar1: session
            .bar1_memory(device)
            .map(|bar1| Bar1 { total: bar1.total, used: bar1.used })
            .into(),
        memory_total: session.memory(device).map(|memory| memory.total).into(),
        numa_node: numa_node(session, device),
        fabric: fabric(session, device),
        link_errors: link_errors::read(session, device),
        performance_state: session.performance_state(device).into(),
        virtualization: Reading::from(session.virtualization_mode(device)).map(Into::into),
        architecture: Reading::from(session.architecture(device)).map(Into::into),
    }
}

fn flag(answer: Answer<u32>) -> Reading<bool> {
    answer.map(|value| value != 0).into()
}

/// "Not supported" means that this GPU's memory is not a NUMA node; a missing function means
/// unknown.
fn numa_node(session: &Session, device: Device<'_>) -> Reading<Option<u32>> {
    match session.numa_node_id(device) {
        Ok(u32::MAX) => Reading::Known(None),
        Err(fault) if fault.code() == Some(NOT_SUPPORTED) => Reading::Known(None),
        other => other.map(Some).into(),
    }
}

/// Newest form that the driver knows.
fn fabric(session: &Session, device: Device<'_>) -> Reading<Fabric> {
    for version in [3, 2] {
        match session.fabric(device, version) {
            Err(fault) if is_too_new(fault) => {}
            Err(fault) => return fault.into(),
            Ok(info) => {
                return Reading::Known(Fabric {
                    state: u32::from(info.state).into(),
                    status: info.status,
                    clique_id: info.cliqueId,
                    cluster_uuid: uuid(&info.clusterUuid),
                    health: (version == 3).then(|| u32::from(info.healthSummary).into()),
                });
            }
        }
    }
    session
        .fabric_v1(device)
        .map(|info| Fabric {
            state: u32::from(info.state).into(),
            status: info.status,
            clique_id: info.cliqueId,
            cluster_uuid: uuid(&info.clusterUuid),
            health: None,
        })
        .into()
}

/// The driver lacks the function or knows only an older structure.
fn is_too_new(fault: Fault) -> bool {
    matches!(fault.code(), None | Some(INVALID_ARGUMENT | ARGUMENT_VERSION_MISMATCH))
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::new();
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_uuid_format() {
        let bytes = [
            0xee, 0x0b, 0x4f, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
            0xcc, 0xdd,
        ];
        assert_eq!(uuid(&bytes), "ee0b4f11-2233-4455-6677-8899aabbccdd");
    }
}
