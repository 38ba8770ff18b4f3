//! One round of questions to CUDA about the whole machine: every GPU, every ordered pair, nothing that makes a context.
//!
//! A question that fails leaves the others standing, and a driver that does not start is an answer, not an error: a
//! diagnosis wants to know what it said.

use std::path::PathBuf;

use crate::cuda::driver::Driver;
use crate::device::{known, pci_of};
use crate::{Attribute, Error, Failure, P2pAttribute, PciAddress};

/// What CUDA said.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Survey {
    /// The library's file.
    pub library: PathBuf,
    /// 1000 × major + 10 × minor of the newest CUDA the library serves. It tells that even where it does not start.
    pub version: Result<i32, Failure>,
    /// The GPUs in CUDA's order; the refusal of `cuInit` or `cuDeviceGetCount` where there are none to ask.
    pub gpus: Result<Vec<Surveyed>, Failure>,
    /// Every ordered pair of GPUs.
    pub pairs: Vec<SurveyedPair>,
}

/// What CUDA said of one GPU.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Surveyed {
    /// CUDA's number of it in this process.
    pub ordinal: u32,
    /// Where it is plugged in; `None` for a GPU that is not a PCI device, or whose address CUDA does not give.
    pub pci: Option<PciAddress>,
    /// Such as `NVIDIA H200`.
    pub name: Result<String, Failure>,
    /// The attributes that were asked for, in that order; `None` where the driver is older than the attribute.
    pub attributes: Vec<(Attribute, Result<Option<i32>, Failure>)>,
}

/// What CUDA said of the way from one GPU to another.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SurveyedPair {
    /// CUDA's number of the GPU that reaches.
    pub from: u32,
    /// CUDA's number of the GPU that is reached.
    pub to: u32,
    /// `cuDeviceCanAccessPeer`.
    pub can_access: Result<bool, Failure>,
    /// The attributes that were asked for, in that order; `None` where the driver is older than the attribute.
    pub attributes: Vec<(P2pAttribute, Result<Option<i32>, Failure>)>,
}

/// Asks these attributes of every GPU, and of every ordered pair. CUDA is initialised, which takes some 95 ms with one
/// H200; the rest is microseconds.
///
/// # Errors
///
/// [`Error::Library`], and nothing else: without a library there is nobody to ask.
pub fn survey(attributes: &[Attribute], peer_attributes: &[P2pAttribute]) -> Result<Survey, Error> {
    let (driver, library) = Driver::found()?;
    let version = driver.version();
    let gpus = driver
        .initialise()
        .and_then(|()| driver.device_count())
        .map(|count| {
            (0..count)
                .map(|ordinal| gpu(driver, ordinal, attributes))
                .collect::<Vec<_>>()
        });
    let pairs = gpus.as_ref().map_or(Vec::new(), |gpus| {
        let ordinals = || gpus.iter().map(|gpu| gpu.ordinal);
        ordinals()
            .flat_map(|from| {
                ordinals()
                    .filter(move |to| *to != from)
                    .map(move |to| (from, to))
            })
            .map(|(from, to)| pair(driver, from, to, peer_attributes))
            .collect()
    });
    Ok(Survey {
        library,
        version,
        gpus,
        pairs,
    })
}

fn gpu(driver: Driver, ordinal: u32, attributes: &[Attribute]) -> Surveyed {
    let device = driver.device(ordinal);
    Surveyed {
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

fn pair(driver: Driver, from: u32, to: u32, attributes: &[P2pAttribute]) -> SurveyedPair {
    let ends = driver
        .device(from)
        .and_then(|from| driver.device(to).map(|to| (from, to)));
    SurveyedPair {
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
