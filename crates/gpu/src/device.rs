//! GPUs in CUDA's numbering and their attributes. No call creates a context.

use gdr_sys::cuda as sys;

use crate::cuda::driver::Driver;
use crate::error::Failure;
use crate::{Error, PciAddress};

/// GPU attribute. The constants cover GPUDirect; any other `CUdevice_attribute` number works too.
pub use gdr_sys::cuda::DeviceAttribute as Attribute;
/// Attribute of a pair of GPUs.
pub use gdr_sys::cuda::P2pAttribute;

/// GPU or MIG instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// CUDA ordinal in this process.
    pub ordinal: u32,
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// Such as `GPU-2f2c…`. CUDA reports MIG instances as `GPU-…` too.
    pub uuid: String,
    /// PCI address; `None` for a simulated GPU.
    pub pci: Option<PciAddress>,
    /// Memory in bytes.
    pub memory: u64,
    /// True for a simulated GPU.
    pub(crate) simulated: bool,
}

/// GPUs visible to this process, in `CUDA_VISIBLE_DEVICES` order. Initialises CUDA without creating
/// a context.
///
/// # Errors
///
/// [`Error::Library`] without a driver library, [`Error::Initialise`] if it does not start (no GPU
/// is [`Kind::Absent`](crate::Kind::Absent) too), [`Error::Device`] if one cannot be read.
pub fn devices() -> Result<Vec<Device>, Error> {
    let driver = Driver::open()?;
    let count = driver.device_count().map_err(Error::Count)?;
    (0..count).map(|ordinal| Device::read(driver, ordinal)).collect()
}

/// CUDA version the driver supports, as 1000 × major + 10 × minor (13000 for 13.0).
///
/// # Errors
///
/// [`Error::Library`] or [`Error::Initialise`].
pub fn driver_version() -> Result<i32, Error> {
    Driver::open()?.version().map_err(Error::Initialise)
}

impl Device {
    /// Reads an attribute; `None` if the driver does not know it.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn attribute(&self, attribute: Attribute) -> Result<Option<i32>, Error> {
        if self.simulated {
            return Ok(crate::sim::attribute(attribute));
        }
        let failed =
            |source| Error::Attribute { ordinal: self.ordinal, attribute: attribute.0, source };
        let driver = Driver::open()?;
        let device = driver.device(self.ordinal).map_err(failed)?;
        known(driver.attribute(device, attribute.0)).map_err(failed)
    }

    /// Reads an attribute of the path to another GPU; `None` if the driver does not know it.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`], [`Error::Foreign`] between a simulated GPU and another.
    pub fn p2p_attribute(
        &self,
        to: &Device,
        attribute: P2pAttribute,
    ) -> Result<Option<i32>, Error> {
        if self.simulated && to.simulated {
            return Ok(crate::sim::p2p_attribute(attribute));
        }
        if self.simulated || to.simulated {
            return Err(Error::Foreign("simulated GPU"));
        }
        let failed =
            |source| Error::Attribute { ordinal: self.ordinal, attribute: attribute.0, source };
        let driver = Driver::open()?;
        let from = driver.device(self.ordinal).map_err(failed)?;
        let to = driver.device(to.ordinal).map_err(failed)?;
        known(driver.p2p_attribute(attribute.0, from, to)).map_err(failed)
    }

    pub(crate) fn read(driver: Driver, ordinal: u32) -> Result<Self, Error> {
        let failed = |source| Error::Device { ordinal, source };
        let device = driver.device(ordinal).map_err(failed)?;
        Ok(Self {
            ordinal,
            name: driver.name(device).map_err(failed)?,
            uuid: uuid_text(driver.uuid(device).map_err(failed)?),
            // Missing on GPUs that are not PCI devices (Tegra).
            pci: pci_of(driver, device),
            memory: driver.total_memory(device).map_err(failed)? as u64,
            simulated: false,
        })
    }
}

pub(crate) fn pci_of(driver: Driver, device: sys::Device) -> Option<PciAddress> {
    driver.pci_bus_id(device).ok()?.parse().ok()
}

/// Maps "invalid value" for an existing device to `None`: the driver does not know the attribute.
pub(crate) fn known(answer: Result<i32, Failure>) -> Result<Option<i32>, Failure> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Returned { result: sys::CuResult::INVALID_VALUE, .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = String::from("GPU");
    for (position, byte) in bytes.into_iter().enumerate() {
        if matches!(position, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuid_format() {
        let bytes =
            [0x2f, 0x2c, 0, 1, 0xab, 0xcd, 0xef, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
        assert_eq!(super::uuid_text(bytes), "GPU-2f2c0001-abcd-ef00-1122-334455667788");
    }
}
