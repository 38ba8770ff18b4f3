//! The firmware: executes commands, or rejects them with a status and a syndrome.

use std::ffi::c_int;

use crate::ioctl::attributes::Attributes;
use crate::ioctl::fields::{self, Words, capability};
use crate::ioctl::nic;
use crate::ioctl::objects::Objects;
use crate::ioctl::pair::QueuePair;
use crate::ioctl::queue::Queue;
use crate::switches::switches;

/// `MLX5_CMD_OP_*`.
pub mod opcode {
    pub const QUERY_HCA_CAP: u32 = 0x100;
    pub const CREATE_CQ: u32 = 0x400;
    pub const CREATE_QP: u32 = 0x500;
    pub const RST2INIT_QP: u32 = 0x502;
    pub const INIT2RTR_QP: u32 = 0x503;
    pub const RTR2RTS_QP: u32 = 0x504;
    pub const TO_ERROR_QP: u32 = 0x507;
}

/// Attributes of the command methods: handle, command, response.
mod attribute {
    pub const HANDLE: u16 = 0;
    pub const COMMAND: u16 = 1;
    pub const ANSWER: u16 = 2;
}

/// Error of a command: `MLX5_CMD_STAT_*` and a syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirmwareError {
    status: u32,
    syndrome: u32,
}

impl FirmwareError {
    pub const fn operation(syndrome: u32) -> Self {
        Self { status: 0x02, syndrome }
    }

    pub const fn parameter(syndrome: u32) -> Self {
        Self { status: 0x03, syndrome }
    }

    pub const fn resource(syndrome: u32) -> Self {
        Self { status: 0x05, syndrome }
    }

    pub const fn state(syndrome: u32) -> Self {
        Self { status: 0x10, syndrome }
    }
}

impl Objects {
    /// `MLX5_IB_METHOD_DEVX_OTHER`: a command without an object.
    pub fn query(&mut self, call: &mut Attributes) -> Result<(), c_int> {
        // Without a handle, so the attribute ids are one lower.
        let command = Words(call.bytes(attribute::COMMAND - 1)?);
        let room = 16 + 0x1000;
        let response = match command.get(fields::OPCODE) {
            opcode::QUERY_HCA_CAP => capabilities(command.get(fields::OP_MOD), room),
            _ => return Err(libc::EINVAL),
        };
        let code = command.get(fields::OPCODE);
        respond(
            call,
            attribute::ANSWER - 1,
            response.and_then(|response| check_fault(code).map(|()| response)),
        )
    }

    /// `MLX5_IB_METHOD_DEVX_OBJ_CREATE`.
    pub fn create(&mut self, context: c_int, call: &mut Attributes) -> Result<(), c_int> {
        let command = Words(call.bytes(attribute::COMMAND)?);
        let code = command.get(fields::OPCODE);
        let handle = self.next();
        let created = check_fault(code).and_then(|()| match code {
            opcode::CREATE_CQ => {
                let number = 0x00_7100 + handle;
                let queue = Queue::of(self, context, number, &command)?;
                nic::queue_created(&queue);
                self.queues.insert(handle, queue);
                Ok(number)
            }
            opcode::CREATE_QP => {
                let number = 0xb6_d400 + handle;
                let pair = QueuePair::of(self, context, number, &command)?;
                nic::pair_created(&pair);
                self.pairs.insert(handle, pair);
                Ok(number)
            }
            _ => Err(FirmwareError::operation(0xe2_0000)),
        });
        let created = created.map(|number| {
            let mut answer = Words(vec![0; 16]);
            answer.put(fields::NUMBER, number);
            answer
        });
        respond(call, attribute::ANSWER, created)?;
        call.put_handle(attribute::HANDLE, handle)
    }

    /// `MLX5_IB_METHOD_DEVX_OBJ_MODIFY`: the command must name the object, as the kernel checks (`devx_is_valid_obj_id`).
    pub fn modify(&mut self, context: c_int, call: &mut Attributes) -> Result<(), c_int> {
        let command = Words(call.bytes(attribute::COMMAND)?);
        let code = command.get(fields::OPCODE);
        let handle = call.u32(attribute::HANDLE)?;
        let pair = self.pairs.get_mut(&handle).filter(|pair| pair.context == context);
        let pair = pair.ok_or(libc::ENOENT)?;
        if command.get(fields::NUMBER) != pair.number {
            return Err(libc::EINVAL);
        }
        let mut changed = pair.clone();
        let outcome = check_fault(code).and_then(|()| changed.change(code, &command));
        if outcome.is_ok() {
            nic::pair_changed(&changed);
            *pair = changed;
        }
        respond(call, attribute::ANSWER, outcome.map(|()| Words(vec![0; 16])))
    }

    /// `MLX5_IB_METHOD_DEVX_OBJ_DESTROY`: `EBUSY` for a completion queue that a queue pair uses.
    pub fn destroy(&mut self, context: c_int, call: &Attributes) -> Result<(), c_int> {
        let handle = call.u32(attribute::HANDLE)?;
        if let Some(pair) = self.pairs.get(&handle).filter(|pair| pair.context == context) {
            nic::pair_destroyed(pair);
            self.pairs.remove(&handle);
            return Ok(());
        }
        let queue = self.queues.get(&handle).filter(|queue| queue.context == context);
        let queue = queue.ok_or(libc::ENOENT)?;
        let used = |pair: &QueuePair| [pair.send_queue, pair.receive_queue].contains(&queue.number);
        if self.pairs.values().any(used) {
            return Err(libc::EBUSY);
        }
        nic::queue_destroyed(queue);
        self.queues.remove(&handle);
        Ok(())
    }
}

/// Writes the response or error output; on an error the kernel also fails with EREMOTEIO (`mlx5_cmd_check`).
fn respond(
    call: &mut Attributes,
    which: u16,
    outcome: Result<Words, FirmwareError>,
) -> Result<(), c_int> {
    match outcome {
        Ok(answer) => call.put(which, &answer.0),
        Err(FirmwareError { status, syndrome }) => {
            let mut answer = Words(vec![0; 16]);
            answer.put(fields::STATUS, status);
            answer.put(fields::SYNDROME, syndrome);
            call.put(which, &answer.0)?;
            Err(libc::EREMOTEIO)
        }
    }
}

/// Fails if the environment rejects this command.
fn check_fault(code: u32) -> Result<(), FirmwareError> {
    let Ok(wanted) = std::env::var("FAKE_UVERBS_DEVX_REFUSE") else {
        return Ok(());
    };
    let mut numbers = wanted.split(':').map(|digits| u32::from_str_radix(digits, 16));
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(wanted)), Some(Ok(status)), Some(Ok(syndrome))) if wanted == code => {
            Err(FirmwareError { status, syndrome })
        }
        _ => Ok(()),
    }
}

/// `QUERY_HCA_CAP` of the current general and RoCE capabilities.
fn capabilities(which: u32, room: usize) -> Result<Words, FirmwareError> {
    let mut answer = Words(vec![0; room]);
    let has_recordless_queues = u32::from(switches().has_recordless_queues);
    let values: &[_] = match which {
        0x1 => &[
            (capability::HCA_CAP_2, has_recordless_queues),
            (capability::LOG_MAX_QP_SZ, 15),
            (capability::LOG_MAX_CQ_SZ, 22),
            (capability::LOG_MAX_RA_REQ_QP, 4),
            (capability::LOG_MAX_RA_RES_QP, 4),
            (capability::BF, 1),
            (capability::LOG_BF_REG_SIZE, 9),
        ],
        // Two clocks: the default format of the device.
        0x9 => &[(capability::QP_TS_FORMAT, 2)],
        0x41 if has_recordless_queues == 1 => &[(capability::SEND_DBR_MODE_NO_DBR_EXT, 1)],
        _ => return Err(FirmwareError::parameter(0xe2_0001)),
    };
    for (bits, value) in values {
        answer.put(*bits, *value);
    }
    Ok(answer)
}
