//! Completion queues of firmware commands.

use std::ffi::c_int;

use crate::ioctl::fields::{Words, queue as at};
use crate::ioctl::firmware::FirmwareError;
use crate::ioctl::objects::Objects;

#[derive(Debug, Clone)]
pub struct Queue {
    pub context: c_int,
    pub number: u32,
    /// Address of its 64-byte CQEs in this process, and their number.
    pub ring: usize,
    pub entries: u32,
    /// Address of the doorbell records: consumer index and arm.
    pub record: usize,
    pub event_queue: u32,
    /// UMEM of the CQEs and of the doorbell records.
    pub memories: [u32; 2],
    pub offsets: [u64; 2],
    pub page: u32,
}

impl Queue {
    /// `CREATE_CQ`.
    pub fn of(
        objects: &Objects,
        context: c_int,
        number: u32,
        command: &Words,
    ) -> Result<Self, FirmwareError> {
        let memories = [command.get(at::CQ_UMEM_ID), command.get(at::DBR_UMEM_ID)];
        let offsets = [command.long(at::CQ_UMEM_OFFSET), command.long(at::DBR_ADDR)];
        if command.get(at::CQ_UMEM_VALID) != 1 || command.get(at::DBR_UMEM_VALID) != 1 {
            return Err(FirmwareError::parameter(0xc0_0001));
        }
        // Only 64-byte CQEs without compression, which software polling the owner bit requires.
        if command.get(at::CQE_SZ) != 0 || command.get(at::CQE_COMP_EN) != 0 {
            return Err(FirmwareError::parameter(0xc0_0002));
        }
        if command.get(at::CC) != 0 || command.get(at::OI) != 0 {
            return Err(FirmwareError::parameter(0xc0_0003));
        }
        let log = command.get(at::LOG_CQ_SIZE);
        if log > 22 || command.get(at::LOG_PAGE_SIZE) > 20 || command.get(at::C_EQN) == 0 {
            return Err(FirmwareError::parameter(0xc0_0004));
        }
        let entries = 1 << log;
        let page = command.get(at::UAR_PAGE);
        objects.check_page(context, page)?;
        Ok(Self {
            context,
            number,
            ring: objects.place(context, (memories[0], offsets[0]), 64 * entries as usize, 4096)?,
            entries,
            record: objects.place(context, (memories[1], offsets[1]), 8, 8)?,
            event_queue: command.get(at::C_EQN),
            memories,
            offsets,
            page,
        })
    }
}
