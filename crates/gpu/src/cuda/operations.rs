//! Stream memory operations in the driver's format.

use gdr_sys::cuda as sys;

use super::driver::{Answer, Driver, call};
use crate::{Compare, DevicePtr, MemOp};

/// Maximum operations per call: 256 are rejected (documented; confirmed with driver 580).
const BATCH: usize = 255;

impl Driver {
    /// Enqueues operations in order, in as many calls as needed.
    ///
    /// CUDA 11.7 and later enable the v2 operations by default. Before, v1 needs a module parameter
    /// and has no barriers.
    pub(crate) fn batch(self, stream: sys::Stream, ops: &[MemOp<DevicePtr>]) -> Answer<()> {
        let has_v2 = self.functions.cuStreamBatchMemOp_v2.is_some();
        let needed = needed(ops, has_v2);
        let mut parameters: Vec<sys::StreamMemOp> = needed.map(|&op| parameters(op)).collect();
        parameters.chunks_mut(BATCH).try_for_each(|part| {
            let count = part.len() as u32;
            if has_v2 {
                call!(self, cuStreamBatchMemOp_v2(stream, count, part.as_mut_ptr(), 0))
            } else {
                call!(self, cuStreamBatchMemOp_v1(stream, count, part.as_mut_ptr(), 0))
            }
        })
    }
}

/// The operations without barriers that are not needed or do not exist: a write fences by default
/// (cuda.h, `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`), so a barrier before one only takes time.
fn needed(ops: &[MemOp<DevicePtr>], has_v2: bool) -> impl Iterator<Item = &MemOp<DevicePtr>> {
    let next = ops.iter().skip(1).map(Some).chain([None]);
    ops.iter().zip(next).filter_map(move |(op, next)| {
        let is_write = matches!(next, Some(MemOp::Write32 { .. } | MemOp::Write64 { .. }));
        let is_needed = *op != MemOp::Barrier || has_v2 && !is_write;
        is_needed.then_some(op)
    })
}

/// One operation in `cuda.h`'s layout.
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
        MemOp::Wait32 { at, value, compare, flush } => {
            let flags = wait_flags(compare, flush);
            word(sys::STREAM_MEM_OP_WAIT_VALUE_32, at, value.into(), flags)
        }
        MemOp::Wait64 { at, value, compare, flush } => {
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
    condition | if flush { sys::STREAM_WAIT_VALUE_FLUSH } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_barriers_before_writes() {
        let at = DevicePtr::new(0x1000);
        let write = MemOp::Write64 { at, value: 1 };
        let wait = MemOp::Wait32 { at, value: 1, compare: Compare::Eq, flush: false };
        let barrier = MemOp::Barrier;
        let ops = [barrier, write, barrier, wait, write, barrier];
        let kept = |has_v2| needed(&ops, has_v2).copied().collect::<Vec<_>>();
        assert_eq!(kept(true), [write, barrier, wait, write, barrier]);
        assert_eq!(kept(false), [write, wait, write]);
    }

    /// Expected bytes of cuda.h 13.0's union, written by hand.
    #[test]
    fn layout_matches_cuda_h() {
        let wait = parameters(MemOp::Wait64 {
            at: DevicePtr::new(0x1000),
            value: 5,
            compare: Compare::Nor,
            flush: true,
        });
        assert_eq!((wait.operation, wait.address, wait.value), (4, 0x1000, 5));
        assert_eq!(wait.flags, 0x4000_0003);
        let write = parameters(MemOp::Write32 { at: DevicePtr::new(0x2004), value: u32::MAX });
        assert_eq!(
            (write.operation, write.address, write.value, write.flags),
            (2, 0x2004, 0xffff_ffff, 0)
        );
        assert_eq!(parameters(MemOp::Barrier).operation, 6);
        assert_eq!(parameters(MemOp::FlushRemoteWrites).operation, 3);
    }
}
