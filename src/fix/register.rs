//! Registers in PCI configuration space, found by their capability where they are now.

use super::Error;
use crate::model::{Bdf, ConfigWrite};
use crate::pci::{ConfigSpace, ReadError, offset_of};
use crate::world::Executor;

/// A register of a function.
pub struct Register {
    bdf: Bdf,
    offset: u16,
    width: u8,
}

impl Register {
    /// The register that a step writes.
    pub fn find(executor: &Executor, write: &ConfigWrite) -> Result<Self, Error> {
        // First of all the function must be there: walking its list of capabilities has no error for a missing file.
        executor.read_config(write.bdf, 0, 1)?;
        let space = Space {
            executor,
            bdf: write.bdf,
        };
        match offset_of(&space, write.capability) {
            Ok(Some(offset)) if matches!(write.width, 1 | 2 | 4) => Ok(Self {
                bdf: write.bdf,
                offset: offset.saturating_add(write.offset),
                width: write.width,
            }),
            Ok(_) => Err(Error::Surprise(format!(
                "{} has no register {}",
                write.bdf,
                register(write)
            ))),
            Err(why) => Err(Error::Surprise(format!(
                "the capabilities of {} cannot be read: {}",
                write.bdf,
                why.phrase()
            ))),
        }
    }

    pub fn read(&self, executor: &Executor) -> Result<u32, Error> {
        let width = usize::from(self.width);
        let bytes = executor.read_config(self.bdf, self.offset, width)?;
        if bytes.len() != width {
            return Err(Error::Surprise(format!(
                "configuration space of {} ends before {:#x}",
                self.bdf, self.offset
            )));
        }
        if bytes.iter().all(|byte| *byte == 0xff) {
            return Err(Error::Surprise(format!(
                "{} answers ones, as a device that is gone does",
                self.bdf
            )));
        }
        let mut whole = [0; 4];
        whole[..width].copy_from_slice(&bytes);
        Ok(u32::from_le_bytes(whole))
    }

    /// Sets the bits of `mask` as they are in `wanted`, and reads them back: whether the device took them.
    pub fn set(&self, executor: &Executor, mask: u32, wanted: u32) -> Result<u32, Error> {
        let now = self.read(executor)?;
        let bytes = (now & !mask | wanted & mask).to_le_bytes();
        executor.write_config(self.bdf, self.offset, &bytes[..usize::from(self.width)])?;
        self.read(executor)
    }
}

/// The configuration space of a function that is being changed.
struct Space<'e> {
    executor: &'e Executor,
    bdf: Bdf,
}

impl ConfigSpace for Space<'_> {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = self
            .executor
            .read_config(self.bdf, offset, out.len())
            .map_err(|_| ReadError::Failed)?;
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// A register as setpci names it.
pub fn register(write: &ConfigWrite) -> String {
    let size = match write.width {
        1 => "b",
        2 => "w",
        _ => "l",
    };
    format!("{}+{:#x}.{size}", write.capability.setpci(), write.offset)
}

/// The same with its function.
pub fn name(write: &ConfigWrite) -> String {
    format!("{} of {}", register(write), write.bdf)
}

/// A register's value in as many digits as it has.
pub fn value(write: &ConfigWrite, value: u32) -> String {
    format!("{value:0width$x}", width = usize::from(write.width) * 2)
}
