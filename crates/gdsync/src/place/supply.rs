//! Whom places are taken from.

use gdrcopy::Gdr;
use gpu::{Allocation, Gpu};

use super::{Place, gpu_failed};
use crate::Error;

/// Where memory is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Home {
    /// Pinned host memory.
    #[default]
    Host,
    /// The GPU's memory, mapped for the CPU.
    Gpu,
}

/// Whom places are taken from: a GPU, and a way to map its memory for the CPU, if there is one.
#[derive(Debug, Clone)]
pub struct Supply {
    gpu: Gpu,
    gdr: Option<Gdr>,
}

impl Supply {
    /// Places of this GPU.
    #[must_use]
    pub fn new(gpu: Gpu, gdr: Option<Gdr>) -> Self {
        Self { gpu, gdr }
    }

    /// Its GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// A place of `bytes` bytes, zeroed.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`], [`Error::Mapping`]; [`Error::NoMapping`] for GPU memory without a way to map it.
    pub fn place(&self, home: Home, bytes: usize) -> Result<Place, Error> {
        match home {
            Home::Host => {
                let memory = self.gpu.pinned(bytes).map_err(gpu_failed("pin host memory"))?;
                Ok(Place::host(memory))
            }
            Home::Gpu => {
                let gdr = self.gdr.as_ref().ok_or(Error::NoMapping)?;
                let memory = self.gpu.allocate(Allocation::Malloc, bytes);
                let place = Place::device(memory.map_err(gpu_failed("allocate GPU memory"))?, gdr)?;
                place.write(0, &vec![0; bytes])?;
                Ok(place)
            }
        }
    }
}
