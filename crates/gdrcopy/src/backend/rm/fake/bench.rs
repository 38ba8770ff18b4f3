//! Scratch memory of the fake, and its contents.

use gpu::DevicePtr;
use gpu::pointer::ScratchKind;

use super::{BLOCK, Fake};
use crate::backend::rm::owner::{AllocationKind, Bench, Own, Owner, Retained};

impl Bench for Fake {
    fn scratch(&self, kind: ScratchKind, bytes: usize) -> Result<Own, gpu::Error> {
        let kind = match kind {
            ScratchKind::Malloc => AllocationKind::Malloc,
            ScratchKind::Create { exportable } => AllocationKind::Create { exportable },
        };
        let address = self.allocate(kind, bytes as u64);
        let bytes = match kind {
            AllocationKind::Create { .. } => bytes.next_multiple_of(BLOCK as usize),
            _ => bytes,
        };
        Ok(Own { address, bytes, scratch: None })
    }

    fn unmapped(&self, bytes: usize) -> Result<(Box<dyn Retained>, usize), gpu::Error> {
        let kind = ScratchKind::Create { exportable: false };
        let own = self.scratch(kind, bytes)?;
        Ok((self.retain(own.address)?, own.bytes))
    }

    fn scratch_pool(&self, _sizes: &[usize]) -> Result<Vec<Own>, gpu::Error> {
        Ok(Vec::new())
    }

    fn write(&self, own: &Own, bytes: &[u8]) -> Result<(), gpu::Error> {
        self.poke(own.address, bytes);
        Ok(())
    }

    fn read_each(&self, parts: &mut [(DevicePtr, &mut [u8])]) -> Result<(), gpu::Error> {
        for (address, bytes) in parts {
            if self.state().find(*address).is_none() {
                // CUDA's result for a freed address.
                return Err(gpu::Error::Copy {
                    address: *address,
                    bytes: bytes.len(),
                    source: gpu::Failure::Returned {
                        function: "cuMemcpyDtoHAsync_v2",
                        result: gdr_sys::cuda::CuResult::INVALID_VALUE,
                    },
                });
            }
            self.peek(*address, bytes);
        }
        Ok(())
    }
}
