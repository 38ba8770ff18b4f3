//! The NVLinks of one GPU.

use super::facts::Link;
use super::fault::{Fault, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::raw::{Device, text};
use super::reading::Reading;
use super::session::Session;

/// Twice `NVML_NVLINK_MAX_LINKS` of nvml.h 13: the library itself ends the list with "invalid
/// argument", so one that knows more links than the header is still read whole.
const MAX: u32 = 36;

/// A GPU without NVLink answers "not supported" for each, and its list is empty.
pub(super) fn read(session: &Session, device: Device<'_>) -> Reading<Vec<Link>> {
    let mut links = Vec::new();
    for index in 0..MAX {
        match session.link_state(device, index) {
            Ok(state) => links.push(link(session, device, index, state != 0)),
            Err(fault) if ends(fault, index) => break,
            // A link this model does not have; a later one may still exist.
            Err(fault) if fault.code() == Some(NOT_SUPPORTED) => {}
            Err(fault) => return fault.into(),
        }
    }
    Reading::Known(links)
}

/// "Invalid argument" for the first link would be our mistake, not the end.
fn ends(fault: Fault, index: u32) -> bool {
    fault.code() == Some(INVALID_ARGUMENT) && index > 0
}

fn link(session: &Session, device: Device<'_>, index: u32, active: bool) -> Link {
    Link {
        index,
        active,
        remote: Reading::from(session.link_remote_type(device, index)).map(Into::into),
        remote_bdf: match session.link_remote_pci(device, index).map(|pci| text(&pci.busId)) {
            Ok(bdf) if is_hidden(&bdf) => Reading::NotCovered,
            other => other.into(),
        },
    }
}

/// Every digit before the function an F, as a guest without the switches shows it.
fn is_hidden(bdf: &str) -> bool {
    let place = bdf.split('.').next().unwrap_or_default();
    place.chars().all(|c| matches!(c, 'F' | 'f' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is what a guest with two H200 and no switch reads; the second a switch on bare
    /// metal.
    #[test]
    fn visible_and_hidden_switch() {
        assert!(is_hidden("FFFFFFFF:FF:FF.0"));
        assert!(!is_hidden("00000000:C3:00.0"));
    }
}
