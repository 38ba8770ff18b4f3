//! Questions to CUDA about every GPU and every ordered pair, without creating a context.
//!
//! Each question has its own result, and the version is known even if `cuInit` fails, so that a
//! diagnosis can show what fails.

use std::path::{Path, PathBuf};

use gdr_sys::cuda as sys;

use crate::cuda::driver::Driver;
use crate::device::{known, pci_of};
use crate::{Attribute, Error, Failure, P2pAttribute, PciAddress};

/// The process's libcuda.
#[derive(Debug, Clone)]
pub struct Cuda {
    driver: Driver,
    library: PathBuf,
}

/// One GPU that CUDA counts.
#[derive(Debug, Clone, Copy)]
pub struct CudaDevice {
    driver: Driver,
    ordinal: u32,
    device: Result<sys::Device, Failure>,
}

impl Cuda {
    /// Opens libcuda; initialises nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Library`].
    pub fn open() -> Result<Self, Error> {
        let (driver, library) = Driver::found()?;
        Ok(Self { driver, library })
    }

    /// Library file.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// CUDA version as 1000 × major + 10 × minor.
    ///
    /// # Errors
    ///
    /// CUDA's [`Failure`].
    pub fn version(&self) -> Result<i32, Failure> {
        self.driver.version()
    }

    /// GPUs in CUDA's order. `cuInit` takes about 95 ms with one H200; further questions take
    /// microseconds.
    ///
    /// # Errors
    ///
    /// The failure of `cuInit` or `cuDeviceGetCount`.
    pub fn gpus(&self) -> Result<Vec<CudaDevice>, Failure> {
        let driver = self.driver;
        driver.initialise()?;
        let device = |ordinal| CudaDevice { driver, ordinal, device: driver.device(ordinal) };
        Ok((0..driver.device_count()?).map(device).collect())
    }
}

impl CudaDevice {
    /// CUDA ordinal in this process.
    #[must_use]
    pub fn ordinal(self) -> u32 {
        self.ordinal
    }

    /// PCI address; `None` for a GPU that is not a PCI device, or if CUDA does not report it.
    #[must_use]
    pub fn pci(self) -> Option<PciAddress> {
        pci_of(self.driver, self.device.ok()?)
    }

    /// Such as `NVIDIA H200`.
    ///
    /// # Errors
    ///
    /// CUDA's [`Failure`].
    pub fn name(self) -> Result<String, Failure> {
        self.driver.name(self.device?)
    }

    /// An attribute; `None` if the driver does not know it.
    ///
    /// # Errors
    ///
    /// CUDA's [`Failure`].
    pub fn attribute(self, attribute: Attribute) -> Result<Option<i32>, Failure> {
        known(self.driver.attribute(self.device?, attribute.0))
    }

    /// `cuDeviceCanAccessPeer`: whether this GPU can access the memory of `other`.
    ///
    /// # Errors
    ///
    /// CUDA's [`Failure`].
    pub fn can_access(self, other: Self) -> Result<bool, Failure> {
        self.driver.can_access_peer(self.device?, other.device?)
    }

    /// An attribute of the path from this GPU to the memory of `other`; `None` if the driver does
    /// not know it.
    ///
    /// # Errors
    ///
    /// CUDA's [`Failure`].
    pub fn p2p_attribute(
        self,
        other: Self,
        attribute: P2pAttribute,
    ) -> Result<Option<i32>, Failure> {
        known(self.driver.p2p_attribute(attribute.0, self.device?, other.device?))
    }
}
