//! A device whose firmware takes commands, and what it is capable of.

use ibverbs_sys::{self as raw, mlx5dv_context_attr_flags as flags};

use super::command::{Command, mlx5};
use super::layout::{bytes, capability, header, opcode};
use crate::{Context, Error};

/// An mlx5 device whose firmware takes commands. Clones are the same.
#[derive(Debug, Clone)]
pub struct Devx {
    context: Context,
    capabilities: Capabilities,
}

/// What a NIC's firmware says that it is capable of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The most blocks of 64 bytes of a send queue, as a power of two.
    pub log_most_blocks: u32,
    /// The most entries of a completion queue, as a power of two.
    pub log_most_completions: u32,
    /// The most reads and atomic operations that a queue pair has in progress, as a power of two.
    pub log_most_reads: u32,
    /// The most that it answers at once, as a power of two.
    pub log_most_answers: u32,
    /// Bytes of an entry that one of the two buffers of a doorbell register takes instead of a doorbell (half of
    /// `log_bf_reg_size`); 0 where it takes doorbells alone.
    pub inline_register: u32,
    /// What `ts_format` of a queue pair is to be: with a NIC that has no free running clock, its own choice.
    pub(super) clock: u64,
}

impl Devx {
    /// Opens a device for commands.
    ///
    /// # Errors
    ///
    /// As [`Context::open`], and of [`Self::of`]; [`Error::Missing`] below rdma-core 21.
    pub fn open(name: &str) -> Result<Self, Error> {
        let function = "mlx5dv_open_device";
        let open = raw::mlx5dv()?
            .mlx5dv_open_device
            .ok_or(Error::Missing { function })?;
        let context = Context::open_by(name, |device| {
            let mut attributes = raw::mlx5dv_context_attr {
                flags: flags::MLX5DV_CONTEXT_FLAGS_DEVX.0,
                ..raw::mlx5dv_context_attr::default()
            };
            // SAFETY: the device is of the list, which is alive; one that is not mlx5's is refused.
            unsafe { open(device, &mut attributes) }
        })?;
        Self::of(&context)
    }

    /// An open device. Since rdma-core 22 libmlx5 asks for DEVX with every context, where the kernel has it.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`]; [`Error::Command`] where the kernel or the firmware does not take commands.
    pub fn of(context: &Context) -> Result<Self, Error> {
        mlx5(context)?;
        let general = query(context, capability::GENERAL)?;
        // A port of InfiniBand alone has none.
        let clock = match query(context, capability::ROCE) {
            Ok(roce) => roce.get(capability::QP_TS_FORMAT).min(1),
            Err(_) => 0,
        };
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
            clock,
        };
        Ok(Self {
            context: context.clone(),
            capabilities,
        })
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What it is capable of.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

fn query(context: &Context, which: u64) -> Result<super::command::Answer, Error> {
    let mut command = Command::new("QUERY_HCA_CAP", opcode::QUERY_HCA_CAP, bytes::SHORT)?;
    command.set(header::OP_MOD, which)?;
    command.ask(context, bytes::CAPABILITIES)
}
