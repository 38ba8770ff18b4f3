//! A completion queue in memory that commands name.

use std::sync::Arc;

use ibverbs_sys as raw;

use super::command::{Command, Object, mlx5};
use super::layout::{bytes, completion_queue as at, opcode};
use super::{Devx, Registers, Spot, Umem, power};
use crate::Error;

/// How a completion queue is made.
#[derive(Debug, Clone)]
pub struct CompletionQueueOptions {
    /// Entries of 64 bytes: a power of two.
    pub entries: u32,
    /// Where they lie, on a page's border. They are to be marked as never written before anything completes.
    pub ring: Spot,
    /// Where the two doorbell records of 32 bits lie: the consumer index, and what arms it for an event. A multiple of eight.
    pub records: Spot,
    /// Registers of the same device; arming it goes by them, which nobody does here.
    pub registers: Registers,
}

/// A completion queue that the firmware made: entries of 64 bytes, one after the other, none compressed; a full queue is an error.
/// Clones are the same; it is destroyed when the last of them, and of the queue pairs that complete there, is dropped.
#[derive(Debug, Clone)]
pub struct CompletionQueue(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    _object: Object,
    number: u32,
    _held: ([Umem; 2], Registers),
}

impl CompletionQueue {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }
}

impl Devx {
    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// [`Error::Entries`], [`Error::Range`], [`Error::Foreign`]; [`Error::Call`], [`Error::Command`].
    pub fn completion_queue(&self, options: &CompletionQueueOptions) -> Result<CompletionQueue, Error> {
        let bytes = options.entries as usize * 64;
        options.ring.has(self, bytes)?;
        options.records.has(self, 8)?;
        options.registers.is_of(self)?;
        let most = self.capabilities().log_most_completions;
        let command = create(options, most, self.event_queue()?)?;
        let (object, number) = command.create(self.context())?;
        let (ring, records) = (&options.ring.memory, &options.records.memory);
        Ok(CompletionQueue(Arc::new(Owned {
            _object: object,
            number,
            _held: ([ring.clone(), records.clone()], options.registers.clone()),
        })))
    }

    /// The card's number of the first completion vector's event queue.
    fn event_queue(&self) -> Result<u32, Error> {
        let function = "mlx5dv_devx_query_eqn";
        let ask = raw::mlx5dv()?
            .mlx5dv_devx_query_eqn
            .ok_or(Error::Missing { function })?;
        let context = self.context();
        mlx5(context)?;
        let mut number = 0;
        // SAFETY: the context is open and an mlx5 device's, and there is room for the number.
        let errno = unsafe { ask(context.as_raw(), 0, &mut number) };
        context.answered(function, errno)?;
        Ok(number)
    }
}

/// `CREATE_CQ`. Pages are told as of 4 KiB, of which any larger one is made.
fn create(options: &CompletionQueueOptions, most: u32, event_queue: u32) -> Result<Command, Error> {
    let entries = power("a completion queue", options.entries, most)?;
    let mut command = Command::new("CREATE_CQ", opcode::CREATE_CQ, bytes::LONG)?;
    for (field, value) in [
        (at::CQE_SZ, 0),
        (at::CC, 0),
        (at::OI, 0),
        (at::CQE_COMP_EN, 0),
        (at::LOG_CQ_SIZE, entries),
        (at::UAR_PAGE, options.registers.number().into()),
        (at::C_EQN, event_queue.into()),
        (at::LOG_PAGE_SIZE, 0),
        (at::DBR_UMEM_VALID, 1),
        (at::DBR_UMEM_ID, options.records.memory.number().into()),
        (at::DBR_ADDR, options.records.offset as u64),
        (at::CQ_UMEM_VALID, 1),
        (at::CQ_UMEM_ID, options.ring.memory.number().into()),
        (at::CQ_UMEM_OFFSET, options.ring.offset as u64),
    ] {
        command.set(field, value)?;
    }
    Ok(command)
}
