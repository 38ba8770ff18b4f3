//! Devices with DEVX, and their capabilities.

use ibverbs_sys::{self as raw, mlx5dv_context_attr_flags as flags};

use super::command::{Command, mlx5};
use super::layout::{bytes, capability, header, opcode};
use crate::{Context, Error};

/// An mlx5 device whose firmware accepts commands. Clones share it.
#[derive(Debug, Clone)]
pub struct Devx {
    context: Context,
    capabilities: Capabilities,
}

/// Capabilities reported by a NIC's firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// log2 of the maximum of WQEBBs in a send queue.
    pub log_most_blocks: u32,
    /// log2 of the maximum of CQEs in a completion queue.
    pub log_most_completions: u32,
    /// log2 of the maximum of outstanding reads and atomics per queue pair.
    pub log_most_reads: u32,
    /// log2 of the maximum of reads and atomics that a queue pair answers at once.
    pub log_most_answers: u32,
    /// Bytes of a BlueFlame buffer, of which a doorbell register has two (half of `log_bf_reg_size`); 0 without BlueFlame.
    pub inline_register: u32,
    /// True if queue pairs can have a send queue without a doorbell record.
    pub has_recordless_queues: bool,
    /// Value for a queue pair's `ts_format`: the default format if the NIC has no free-running clock.
    pub(super) clock: u64,
}

impl Devx {
    /// Opens a device with DEVX.
    ///
    /// # Errors
    ///
    /// As [`Context::open`] and [`Self::of`]; [`Error::Missing`] below rdma-core 21.
    pub fn open(name: &str) -> Result<Self, Error> {
        let function = "mlx5dv_open_device";
        let open = raw::mlx5dv()?.mlx5dv_open_device.ok_or(Error::Missing { function })?;
        let context = Context::open_by(name, |device| {
            let mut attributes = raw::mlx5dv_context_attr {
                flags: flags::MLX5DV_CONTEXT_FLAGS_DEVX.0,
                ..raw::mlx5dv_context_attr::default()
            };
            // SAFETY: the device is in the list, which is alive; the check before rejects devices that are not mlx5.
            unsafe { open(device, &mut attributes) }
        })?;
        Self::of(&context)
    }

    /// Wraps an open device. Since rdma-core 22 libmlx5 requests DEVX for every context if the kernel supports it.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`]; [`Error::Command`] if the kernel or the firmware does not accept commands.
    pub fn of(context: &Context) -> Result<Self, Error> {
        mlx5(context)?;
        let general = query(context, capability::GENERAL)?;
        // InfiniBand-only NICs have no RoCE capabilities.
        let clock = match query(context, capability::ROCE) {
            Ok(roce) => roce.get(capability::QP_TS_FORMAT).min(1),
            Err(_) => 0,
        };
        let has_recordless_queues = general.get(capability::HCA_CAP_2) == 1
            && query(context, capability::GENERAL_2)
                .is_ok_and(|second| second.get(capability::SEND_DBR_MODE_NO_DBR_EXT) == 1);
        let number = |field| general.get(field) as u32;
        let capabilities = Capabilities {
            log_most_blocks: number(capability::LOG_MAX_QP_SZ),
            log_most_completions: number(capability::LOG_MAX_CQ_SZ),
            log_most_reads: number(capability::LOG_MAX_RA_REQ_QP),
            log_most_answers: number(capability::LOG_MAX_RA_RES_QP),
            inline_register: match number(capability::BF) {
                0 => 0,
                _ => (1 << number(capability::LOG_BF_REG_SIZE)) / 2,
            },
            has_recordless_queues,
            clock,
        };
        Ok(Self { context: context.clone(), capabilities })
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its capabilities.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

fn query(context: &Context, which: u64) -> Result<super::command::Response, Error> {
    let mut command = Command::new("QUERY_HCA_CAP", opcode::QUERY_HCA_CAP, bytes::SHORT)?;
    command.set(header::OP_MOD, which)?;
    command.query(context, bytes::CAPABILITIES)
}
