//! The GPUs of a machine as CUDA numbers them, and what each can do; nothing here makes a context.

use gdr_sys::cuda as sys;

use crate::cuda::driver::Driver;
use crate::error::Failure;
use crate::{Error, PciAddress};

/// A question about a GPU. The constants are those that bear on GPUDirect; any other number of `CUdevice_attribute` will do.
pub use gdr_sys::cuda::DeviceAttribute as Attribute;
/// A question about a pair of GPUs.
pub use gdr_sys::cuda::P2pAttribute;

/// One GPU, or one MIG instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// CUDA's number of it in this process.
    pub ordinal: u32,
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// Such as `GPU-2f2c…`; `MIG-…` is not told from it by CUDA and shows as `GPU-…` too.
    pub uuid: String,
    /// Where it is plugged in; `None` for a simulated GPU.
    pub pci: Option<PciAddress>,
    /// Bytes of memory.
    pub memory: u64,
    /// Whose GPU it is.
    pub(crate) simulated: bool,
}

/// The GPUs of this process, as `CUDA_VISIBLE_DEVICES` leaves and orders them. Initialises CUDA, never makes a context.
///
/// # Errors
///
/// [`Error::Library`] without a driver library, [`Error::Initialise`] if it does not start (no GPU is
/// [`Kind::Absent`](crate::Kind::Absent) too), [`Error::Device`] if one cannot be read.
pub fn devices() -> Result<Vec<Device>, Error> {
    let driver = Driver::open()?;
    let count = driver.device_count().map_err(Error::Count)?;
    (0..count)
        .map(|ordinal| Device::read(driver, ordinal))
        .collect()
}

/// 1000 × major + 10 × minor of the newest CUDA the driver serves (13000 for 13.0).
///
/// # Errors
///
/// [`Error::Library`] or [`Error::Initialise`].
pub fn driver_version() -> Result<i32, Error> {
    Driver::open()?.version().map_err(Error::Initialise)
}

impl Device {
    /// An attribute of this GPU; `None` if the driver is older than the attribute.
    ///
    /// # Errors
    ///
    /// [`Error::Attribute`].
    pub fn attribute(&self, attribute: Attribute) -> Result<Option<i32>, Error> {
        if self.simulated {
            return Ok(crate::sim::attribute(attribute));
        }
        let failed = |source| Error::Attribute {
            ordinal: self.ordinal,
            attribute: attribute.0,
            source,
        };
        let driver = Driver::open()?;
        let device = driver.device(self.ordinal).map_err(failed)?;
        known(driver.attribute(device, attribute.0)).map_err(failed)
    }

    /// An attribute of the way from this GPU to another; `None` if the driver is older than the attribute.
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
        let failed = |source| Error::Attribute {
            ordinal: self.ordinal,
            attribute: attribute.0,
            source,
        };
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
            // Absent on GPUs that are not PCI devices (Tegra).
            pci: pci_of(driver, device),
            memory: driver.total_memory(device).map_err(failed)? as u64,
            simulated: false,
        })
    }
}

pub(crate) fn pci_of(driver: Driver, device: sys::Device) -> Option<PciAddress> {
    driver.pci_bus_id(device).ok()?.parse().ok()
}

/// "Invalid value" of a device that is there means an attribute the driver does not know.
pub(crate) fn known(answer: Result<i32, Failure>) -> Result<Option<i32>, Failure> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Returned {
            result: sys::CuResult::INVALID_VALUE,
            ..
        }) => Ok(None),
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
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let bytes = [
            0x2f, 0x2c, 0, 1, 0xab, 0xcd, 0xef, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        ];
        assert_eq!(
            super::uuid_text(bytes),
            "GPU-2f2c0001-abcd-ef00-1122-334455667788"
        );
    }
}
