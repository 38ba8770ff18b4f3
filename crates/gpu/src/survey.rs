//! Queries CUDA about every GPU and every ordered pair, without creating a context.
//!
//! Individual failures are recorded as results, even of `cuInit`, so that a diagnosis can show
//! them.

use std::path::PathBuf;

use crate::cuda::driver::Driver;
use crate::device::{known, pci_of};
use crate::{Attribute, Error, Failure, P2pAttribute, PciAddress};

/// CUDA's results.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Survey {
    /// Library file.
    pub library: PathBuf,
    /// CUDA version as 1000 × major + 10 × minor; available even if `cuInit` fails.
    pub version: Result<i32, Failure>,
    /// GPUs in CUDA's order, or the failure of `cuInit` or `cuDeviceGetCount`.
    pub gpus: Result<Vec<DeviceSurvey>, Failure>,
    /// Every ordered pair of GPUs.
    pub pairs: Vec<PairSurvey>,
}

/// Results for one GPU.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceSurvey {
    /// CUDA ordinal in this process.
    pub ordinal: u32,
    /// PCI address; `None` for a GPU that is not a PCI device, or if CUDA does not report it.
    pub pci: Option<PciAddress>,
    /// Such as `NVIDIA H200`.
    pub name: Result<String, Failure>,
    /// Requested attributes, in order; `None` if the driver does not know the attribute.
    pub attributes: Vec<(Attribute, Result<Option<i32>, Failure>)>,
}

/// Results for the path between two GPUs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PairSurvey {
    /// CUDA ordinal of the accessing GPU.
    pub from: u32,
    /// CUDA ordinal of the accessed GPU.
    pub to: u32,
    /// `cuDeviceCanAccessPeer`.
    pub can_access: Result<bool, Failure>,
    /// Requested attributes, in order; `None` if the driver does not know the attribute.
    pub attributes: Vec<(P2pAttribute, Result<Option<i32>, Failure>)>,
}

/// Queries these attributes of every GPU and ordered pair. `cuInit` takes about 95 ms with one
/// H200; the rest takes microseconds.
///
/// # Errors
///
/// [`Error::Library`] only.
pub fn survey(attributes: &[Attribute], peer_attributes: &[P2pAttribute]) -> Result<Survey, Error> {
    let (driver, library) = Driver::found()?;
    let version = driver.version();
    let gpus = driver.initialise().and_then(|()| driver.device_count()).map(|count| {
        (0..count).map(|ordinal| gpu(driver, ordinal, attributes)).collect::<Vec<_>>()
    });
    let pairs = gpus.as_ref().map_or(Vec::new(), |gpus| {
        let ordinals = || gpus.iter().map(|gpu| gpu.ordinal);
        ordinals()
            .flat_map(|from| ordinals().filter(move |to| *to != from).map(move |to| (from, to)))
            .map(|(from, to)| pair(driver, from, to, peer_attributes))
            .collect()
    });
    Ok(Survey { library, version, gpus, pairs })
}

fn gpu(driver: Driver, ordinal: u32, attributes: &[Attribute]) -> DeviceSurvey {
    let device = driver.device(ordinal);
    DeviceSurvey {
        ordinal,
        pci: device.ok().and_then(|device| pci_of(driver, device)),
        name: device.and_then(|device| driver.name(device)),
        attributes: attributes
            .iter()
            .map(|&attribute| {
                let value = device.and_then(|device| known(driver.attribute(device, attribute.0)));
                (attribute, value)
            })
            .collect(),
    }
}

fn pair(driver: Driver, from: u32, to: u32, attributes: &[P2pAttribute]) -> PairSurvey {
    let ends = driver.device(from).and_then(|from| driver.device(to).map(|to| (from, to)));
    PairSurvey {
        from,
        to,
        can_access: ends.and_then(|(from, to)| driver.can_access_peer(from, to)),
        attributes: attributes
            .iter()
            .map(|&attribute| {
                let value =
                    ends.and_then(|(from, to)| known(driver.p2p_attribute(attribute.0, from, to)));
                (attribute, value)
            })
            .collect(),
    }
}
