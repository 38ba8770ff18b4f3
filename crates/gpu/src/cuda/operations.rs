//! Stream memory operations, as the driver takes them.

use gdr_sys::cuda as sys;

use super::driver::{Answer, Driver, call};
use crate::{Compare, DevicePtr, MemOp};

/// As many operations as one call takes: 256 are refused (documented, and seen with driver 580).
const BATCH: usize = 255;

impl Driver {
    /// Puts operations into a stream, in order, in as many calls as it takes.
    ///
    /// CUDA 11.7 and later have the v2 operations on by default. Before, there is v1, off unless a module parameter turns it on,
    /// and without barriers. They are left out: each write comes after a fence of its own (cuda.h,
    /// `CU_STREAM_WRITE_VALUE_DEFAULT`).
    pub(crate) fn batch(self, stream: sys::Stream, ops: &[MemOp<DevicePtr>]) -> Answer<()> {
        let has_v2 = self.functions.cuStreamBatchMemOp_v2.is_some();
        let ops = ops.iter().filter(|op| has_v2 || **op != MemOp::Barrier);
        let mut parameters: Vec<sys::StreamMemOp> = ops.map(|&op| parameters(op)).collect();
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
fn parameters(op: MemOp<DevicePtr>) -> sys::StreamMemOp {
    let word = |operation, at: DevicePtr, value, flags| sys::StreamMemOp {
        operation,
        address: at.get(),
        value,
        flags,
        ..Default::default()
    };
    match op {
        MemOp::Write32 { at, value } => {
            word(sys::STREAM_MEM_OP_WRITE_VALUE_32, at, value.into(), 0)
        }
        MemOp::Write64 { at, value } => word(sys::STREAM_MEM_OP_WRITE_VALUE_64, at, value, 0),
        MemOp::Wait32 {
            at,
            value,
            compare,
            flush,
        } => {
            let flags = wait_flags(compare, flush);
            word(sys::STREAM_MEM_OP_WAIT_VALUE_32, at, value.into(), flags)
        }
        MemOp::Wait64 {
            at,
            value,
            compare,
            flush,
        } => {
            let flags = wait_flags(compare, flush);
            word(sys::STREAM_MEM_OP_WAIT_VALUE_64, at, value, flags)
        }
        MemOp::Barrier => sys::StreamMemOp {
            operation: sys::STREAM_MEM_OP_BARRIER,
            leading_flags: sys::STREAM_MEMORY_BARRIER_TYPE_SYS,
            ..Default::default()
        },
        MemOp::FlushRemoteWrites => sys::StreamMemOp {
            operation: sys::STREAM_MEM_OP_FLUSH_REMOTE_WRITES,
            ..Default::default()
        },
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

    /// The bytes that cuda.h 13.0's union has for these operations, written by hand.
    #[test]
    fn operations_are_laid_out_as_cuda_h_says() {
        let wait = parameters(MemOp::Wait64 {
            at: DevicePtr::new(0x1000),
            value: 5,
            compare: Compare::Nor,
            flush: true,
        });
        assert_eq!((wait.operation, wait.address, wait.value), (4, 0x1000, 5));
        assert_eq!(wait.flags, 0x4000_0003);
        let write = parameters(MemOp::Write32 {
            at: DevicePtr::new(0x2004),
            value: u32::MAX,
        });
        assert_eq!(
            (write.operation, write.address, write.value, write.flags),
            (2, 0x2004, 0xffff_ffff, 0)
        );
        assert_eq!(parameters(MemOp::Barrier).operation, 6);
        assert_eq!(parameters(MemOp::FlushRemoteWrites).operation, 3);
    }
}
