//! PCI configuration registers, located by walking the capability list.

use super::Error;
use crate::model::{Bdf, ConfigWrite};
use crate::pci::{ConfigSpace, ReadError, offset_of};
use crate::world::Executor;

pub struct Register {
    bdf: Bdf,
    offset: u16,
    width: u8,
}

impl Register {
    pub fn find(executor: &Executor, write: &ConfigWrite) -> Result<Self, Error> {
        // A missing function must be an error; the capability walk would report no capability.
        executor.read_config(write.bdf, 0, 1)?;
        let space = Space { executor, bdf: write.bdf };
        match offset_of(&space, write.capability) {
            Ok(Some(offset)) if matches!(write.width, 1 | 2 | 4) => Ok(Self {
                bdf: write.bdf,
                offset: offset.saturating_add(write.offset),
                width: write.width,
            }),
            Ok(_) => {
                Err(Error::Unexpected(format!("{} has no register {}", write.bdf, register(write))))
            }
            Err(why) => Err(Error::Unexpected(format!(
                "cannot read the capabilities of {}: {}",
                write.bdf,
                why.phrase()
            ))),
        }
    }

    pub fn read(&self, executor: &Executor) -> Result<u32, Error> {
        let width = usize::from(self.width);
        let bytes = executor.read_config(self.bdf, self.offset, width)?;
        if bytes.len() != width {
            return Err(Error::Unexpected(format!(
                "configuration space of {} ends before {:#x}",
                self.bdf, self.offset
            )));
        }
        if bytes.iter().all(|byte| *byte == 0xff) {
            return Err(Error::Unexpected(format!(
                "all bytes of {} read ff: the device is gone",
                self.bdf
            )));
        }
        let mut whole = [0; 4];
        whole[..width].copy_from_slice(&bytes);
        Ok(u32::from_le_bytes(whole))
    }

    /// Sets the bits of `mask` to `value`, and returns what the register reads afterwards.
    pub fn set(&self, executor: &Executor, mask: u32, value: u32) -> Result<u32, Error> {
        let now = self.read(executor)?;
        let bytes = (now & !mask | value & mask).to_le_bytes();
        executor.write_config(self.bdf, self.offset, &bytes[..usize::from(self.width)])?;
        self.read(executor)
    }
}

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

/// The register in setpci's notation.
pub fn register(write: &ConfigWrite) -> String {
    let size = match write.width {
        1 => "b",
        2 => "w",
        _ => "l",
    };
    format!("{}+{:#x}.{size}", write.capability.setpci(), write.offset)
}

pub fn name(write: &ConfigWrite) -> String {
    format!("{} of {}", register(write), write.bdf)
}

pub fn value(write: &ConfigWrite, value: u32) -> String {
    format!("{value:0width$x}", width = usize::from(write.width) * 2)
}
