//! Completion queues in caller-provided memory.

use std::sync::Arc;

use ibverbs_sys as raw;

use super::command::{Command, Object, mlx5};
use super::layout::{bytes, completion_queue as at, opcode};
use super::{Devx, Registers, Spot, Umem, power};
use crate::Error;

/// Parameters of a completion queue.
#[derive(Debug, Clone)]
pub struct CompletionQueueOptions {
    /// Number of 64-byte CQEs: a power of two.
    pub entries: u32,
    /// Memory of the CQEs, page-aligned. The caller marks them invalid before the first completion.
    pub ring: Spot,
    /// Memory of the two 32-bit doorbell records: consumer index and arm. A multiple of eight.
    pub records: Spot,
    /// Registers of the same device, for arming, which this crate does not do.
    pub registers: Registers,
}

/// A completion queue created by the firmware: uncompressed 64-byte CQEs; an overrun is an error. Clones share it; it is destroyed with
/// the last clone and the last queue pair that uses it.
#[derive(Debug, Clone)]
pub struct CompletionQueue(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    _object: Object,
    number: u32,
    _held: ([Umem; 2], Registers),
}

impl CompletionQueue {
    /// Its number (CQN).
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }
}

impl Devx {
    /// Creates a completion queue.
    ///
    /// # Errors
    ///
    /// [`Error::Entries`], [`Error::Range`], [`Error::Foreign`]; [`Error::Call`], [`Error::Command`].
    pub fn completion_queue(
        &self,
        options: &CompletionQueueOptions,
    ) -> Result<CompletionQueue, Error> {
        let bytes = options.entries as usize * 64;
        options.ring.has(self, bytes)?;
        options.records.has(self, 8)?;
        options.registers.is_of(self)?;
        let named = Named {
            ring: options.ring.named(),
            records: options.records.named(),
            page: options.registers.number(),
            event_queue: self.event_queue()?,
        };
        let most = self.capabilities().log_most_completions;
        let command = create(options.entries, most, &named)?;
        let (object, number) = command.create(self.context())?;
        let (ring, records) = (&options.ring.memory, &options.records.memory);
        Ok(CompletionQueue(Arc::new(Owned {
            _object: object,
            number,
            _held: ([ring.clone(), records.clone()], options.registers.clone()),
        })))
    }

    /// The event queue number of completion vector 0.
    fn event_queue(&self) -> Result<u32, Error> {
        let function = "mlx5dv_devx_query_eqn";
        let query_eqn = raw::mlx5dv()?.mlx5dv_devx_query_eqn.ok_or(Error::Missing { function })?;
        let context = self.context();
        mlx5(context)?;
        let mut number = 0;
        // SAFETY: the context is open and an mlx5 device's, and the output is valid.
        let errno = unsafe { query_eqn(context.as_raw(), 0, &mut number) };
        context.check_errno(function, errno)?;
        Ok(number)
    }
}

/// Numbers in a `CREATE_CQ` command: UMEM and offsets, register page, event queue.
#[derive(Debug)]
struct Named {
    ring: (u32, u64),
    records: (u32, u64),
    page: u32,
    event_queue: u32,
}

/// `CREATE_CQ`. Page sizes are given as 4 KiB, which divides every larger size.
fn create(entries: u32, most: u32, named: &Named) -> Result<Command, Error> {
    let entries = power("a completion queue", entries, most)?;
    let mut command = Command::new("CREATE_CQ", opcode::CREATE_CQ, bytes::LONG)?;
    for (field, value) in [
        (at::CQE_SZ, 0),
        (at::CC, 0),
        (at::OI, 0),
        (at::CQE_COMP_EN, 0),
        (at::LOG_CQ_SIZE, entries),
        (at::UAR_PAGE, named.page.into()),
        (at::C_EQN, named.event_queue.into()),
        (at::LOG_PAGE_SIZE, 0),
        (at::DBR_UMEM_VALID, 1),
        (at::DBR_UMEM_ID, named.records.0.into()),
        (at::DBR_ADDR, named.records.1),
        (at::CQ_UMEM_VALID, 1),
        (at::CQ_UMEM_ID, named.ring.0.into()),
        (at::CQ_UMEM_OFFSET, named.ring.1),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_cq_bytes() {
        let named = Named {
            ring: (0x0102_0304, 0x1000),
            records: (0x0506_0708, 0x40),
            page: 0x0a_0b0c,
            event_queue: 0x51,
        };
        let command = create(1 << 13, 22, &named).unwrap();
        let mut expected = [0; 272];
        expected[..2].copy_from_slice(&[0x04, 0x00]);
        // cqc: dbr_umem_valid, 13 and the page, the event queue, the records' offset.
        expected[16] = 0x02;
        expected[20..24].copy_from_slice(&[5, 6, 7, 8]);
        expected[28..32].copy_from_slice(&[13, 0x0a, 0x0b, 0x0c]);
        expected[39] = 0x51;
        expected[79] = 0x40;
        // Then the CQEs' offset, UMEM, and cq_umem_valid.
        expected[86] = 0x10;
        expected[88..92].copy_from_slice(&[1, 2, 3, 4]);
        expected[92] = 0x80;
        assert_eq!(command.bytes(), expected);
    }

    #[test]
    fn rejects_invalid_entry_count() {
        let named = Named { ring: (1, 0), records: (2, 0), page: 3, event_queue: 4 };
        for entries in [0, 3, 1 << 23] {
            let refused = create(entries, 22, &named);
            assert!(matches!(refused, Err(Error::Entries { most: 0x40_0000, .. })), "{refused:?}");
        }
    }
}
