//! Stream memory operations, as the driver takes them.

use gdr_sys::cuda as sys;

use super::driver::{Answer, Driver, call};
use crate::Compare;
use crate::operation::Step;

/// As many operations as one call takes: 256 are refused (documented, and seen with driver 580).
const BATCH: usize = 255;

impl Driver {
    /// Puts operations into a stream, in order, in as many calls as it takes.
    ///
    /// The v2 operations are on by default since CUDA 11.7. Before, there is v1, off unless the
    /// module was told otherwise, and without barriers: those are left out, as each write comes
    /// after a fence of its own (cuda.h, `CU_STREAM_WRITE_VALUE_DEFAULT`).
    pub(crate) fn batch(self, stream: sys::Stream, steps: &[Step]) -> Answer<()> {
        let has_v2 = self.functions.cuStreamBatchMemOp_v2.is_some();
        let steps = steps
            .iter()
            .filter(|step| has_v2 || **step != Step::Barrier);
        let mut parameters: Vec<sys::StreamMemOp> = steps.map(|&step| parameters(step)).collect();
        parameters.chunks_mut(BATCH).try_for_each(|part| {
            let count = part.len() as u32;
            match has_v2 {
                true => call!(
                    self,
                    cuStreamBatchMemOp_v2(stream, count, part.as_mut_ptr(), 0)
                ),
                false => call!(
                    self,
                    cuStreamBatchMemOp_v1(stream, count, part.as_mut_ptr(), 0)
                ),
            }
        })
    }
}

/// One operation as `cuda.h` lays it out.
fn parameters(step: Step) -> sys::StreamMemOp {
    let (operation, address, value, flags) = match step {
        Step::Write32 { address, value } => (
            sys::STREAM_MEM_OP_WRITE_VALUE_32,
            address,
            u64::from(value),
            0,
        ),
        Step::Write64 { address, value } => (sys::STREAM_MEM_OP_WRITE_VALUE_64, address, value, 0),
        Step::Wait32 {
            address,
            value,
            compare,
            flush,
        } => {
            let flags = wait_flags(compare, flush);
            (
                sys::STREAM_MEM_OP_WAIT_VALUE_32,
                address,
                u64::from(value),
                flags,
            )
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
    condition
        | if flush {
            sys::STREAM_WAIT_VALUE_FLUSH
        } else {
            0
        }
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
