//! Putting work into a stream.

use gdr_sys::cuda as sys;

use super::driver::{Answer, call};
use super::gpu::{CudaGpu, raw_context, raw_event};
use crate::backend::Work;
use crate::operation::{Compare, Step};
use crate::{Error, Failure};

/// As many operations as one call takes: 256 are refused (documented, and seen with driver 580).
const BATCH: usize = 255;

impl CudaGpu {
    /// Starts one piece of work; the context is current.
    ///
    /// # Safety
    ///
    /// All memory the work names stays valid until the stream is done with it.
    pub(super) unsafe fn put(&self, stream: sys::Stream, work: Work<'_>) -> Result<(), Error> {
        let driver = self.driver;
        match work {
            Work::HostToDevice { to, from, bytes, .. } => {
                call!(driver, cuMemcpyHtoDAsync(to.get(), from.cast(), bytes, stream)).map_err(copy(to, bytes))
            }
            Work::DeviceToHost { to, from, bytes, .. } | Work::Finding { to, from, bytes } => {
                // SAFETY: the caller's promise.
                unsafe { driver.copy_to_host(to, from.get(), bytes, stream) }.map_err(copy(from, bytes))
            }
            Work::DeviceToDevice { to, from, bytes, .. } => {
                call!(driver, cuMemcpyDtoDAsync(to.get(), from.get(), bytes, stream)).map_err(copy(to, bytes))
            }
            Work::PeerToPeer {
                to,
                to_context,
                from,
                from_context,
                bytes,
                ..
            } => {
                let (to_context, from_context) = (raw_context(to_context), raw_context(from_context));
                call!(
                    driver,
                    cuMemcpyPeerAsync(to.get(), to_context, from.get(), from_context, bytes, stream)
                )
                .map_err(copy(to, bytes))
            }
            Work::FillBytes { to, value, bytes } => call!(driver, cuMemsetD8Async(to.get(), value, bytes, stream))
                .map_err(|source| Error::Fill {
                    address: to,
                    bytes,
                    source,
                }),
            Work::FillWords { to, value, words } => call!(driver, cuMemsetD32Async(to.get(), value, words, stream))
                .map_err(|source| Error::Fill {
                    address: to,
                    bytes: words * 4,
                    source,
                }),
            Work::Record(event) => call!(driver, cuEventRecord(raw_event(event), stream)).map_err(Error::Event),
            Work::Wait(event) => call!(driver, cuStreamWaitEvent(stream, raw_event(event), 0)).map_err(Error::Event),
            Work::Operations(steps) => self.batch(stream, steps).map_err(|source| Error::MemoryOperations {
                count: steps.len(),
                source,
            }),
            // SAFETY: the caller's promise.
            Work::Launch(kernel) => unsafe { self.launch(stream, kernel) },
            Work::CopyWords { to, from, vectors, .. } => {
                // SAFETY: the caller's promise.
                unsafe { self.copy_words(stream, to, from, vectors) }
            }
        }
    }

    /// Puts operations in, in order, in as many calls as it takes.
    fn batch(&self, stream: sys::Stream, steps: &[Step]) -> Answer<()> {
        let mut parameters: Vec<sys::StreamMemOp> = steps.iter().map(|&step| parameters(step)).collect();
        parameters
            .chunks_mut(BATCH)
            .try_for_each(|part| self.part(stream, part))
    }

    /// The v2 operations are on by default since CUDA 11.7. Before, there is v1, off unless the module was told otherwise, and
    /// without barriers.
    fn part(&self, stream: sys::Stream, part: &mut [sys::StreamMemOp]) -> Answer<()> {
        let count = part.len() as u32;
        match call!(self.driver, cuStreamBatchMemOp_v2(stream, count, part.as_mut_ptr(), 0)) {
            Err(Failure::Missing { .. }) => {
                call!(self.driver, cuStreamBatchMemOp_v1(stream, count, part.as_mut_ptr(), 0))
            }
            answer => answer,
        }
    }
}

fn copy(address: crate::DevicePtr, bytes: usize) -> impl Fn(Failure) -> Error {
    move |source| Error::Copy { address, bytes, source }
}

/// One operation as `cuda.h` lays it out.
fn parameters(step: Step) -> sys::StreamMemOp {
    let (operation, address, value, flags) = match step {
        Step::Write32 { address, value } => (sys::STREAM_MEM_OP_WRITE_VALUE_32, address, u64::from(value), 0),
        Step::Write64 { address, value } => (sys::STREAM_MEM_OP_WRITE_VALUE_64, address, value, 0),
        Step::Wait32 {
            address,
            value,
            compare,
            flush,
        } => {
            let flags = wait_flags(compare, flush);
            (sys::STREAM_MEM_OP_WAIT_VALUE_32, address, u64::from(value), flags)
        }
        Step::Wait64 {
            address,
            value,
            compare,
            flush,
        } => (
            sys::STREAM_MEM_OP_WAIT_VALUE_64,
            address,
            value,
            wait_flags(compare, flush),
        ),
        Step::Barrier => {
            return sys::StreamMemOp {
                operation: sys::STREAM_MEM_OP_BARRIER,
                leading_flags: sys::STREAM_MEMORY_BARRIER_TYPE_SYS,
                ..Default::default()
            };
        }
        Step::FlushRemoteWrites => {
            return sys::StreamMemOp {
                operation: sys::STREAM_MEM_OP_FLUSH_REMOTE_WRITES,
                ..Default::default()
            };
        }
    };
    sys::StreamMemOp {
        operation,
        address: address.get(),
        value,
        flags,
        ..Default::default()
    }
}

fn wait_flags(compare: Compare, flush: bool) -> u32 {
    let condition = match compare {
        Compare::Geq => sys::STREAM_WAIT_VALUE_GEQ,
        Compare::Eq => sys::STREAM_WAIT_VALUE_EQ,
        Compare::And => sys::STREAM_WAIT_VALUE_AND,
        Compare::Nor => sys::STREAM_WAIT_VALUE_NOR,
    };
    condition | if flush { sys::STREAM_WAIT_VALUE_FLUSH } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DevicePtr;

    /// The bytes that cuda.h 13.0's union has for these operations, written by hand.
    #[test]
    fn operations_are_laid_out_as_cuda_h_says() {
        let wait = parameters(Step::Wait64 {
            address: DevicePtr::new(0x1000),
            value: 5,
            compare: Compare::Nor,
            flush: true,
        });
        assert_eq!((wait.operation, wait.address, wait.value), (4, 0x1000, 5));
        assert_eq!(wait.flags, 0x4000_0003);
        let write = parameters(Step::Write32 {
            address: DevicePtr::new(0x2004),
            value: u32::MAX,
        });
        assert_eq!(
            (write.operation, write.address, write.value, write.flags),
            (2, 0x2004, 0xffff_ffff, 0)
        );
        assert_eq!(parameters(Step::Barrier).operation, 6);
        assert_eq!(parameters(Step::FlushRemoteWrites).operation, 3);
    }
}
