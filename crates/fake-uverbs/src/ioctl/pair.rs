//! Queue pairs of firmware commands and their state changes.

use std::ffi::c_int;

use crate::ioctl::fields::{Words, pair as at, path};
use crate::ioctl::firmware::{FirmwareError, opcode};
use crate::ioctl::objects::Objects;
use crate::switches::switches;

/// States: `MLX5_QPC_STATE_*`.
pub mod state {
    pub const RESET: u8 = 0;
    pub const INIT: u8 = 1;
    pub const READY_TO_RECEIVE: u8 = 2;
    pub const READY_TO_SEND: u8 = 3;
    pub const ERROR: u8 = 6;
}

/// Transports: `MLX5_QPC_ST_*`.
pub mod transport {
    pub const RELIABLE: u32 = 0;
    pub const UNRELIABLE: u32 = 1;
    pub const DATAGRAMS: u32 = 2;
}

/// `mtu` and `log_msg_max` that mlx5_ib sets for datagrams.
const DATAGRAM: (u32, u32) = (5, 12);

#[derive(Debug, Clone)]
pub struct QueuePair {
    pub context: c_int,
    pub number: u32,
    pub transport: u32,
    pub domain: u32,
    pub user_index: u32,
    pub send_queue: u32,
    pub receive_queue: u32,
    /// Receive queue: address in this process, entries, bytes per entry.
    pub receives: (usize, u32, u32),
    /// Send queue: address in this process, WQEBBs of 64 bytes.
    pub sends: (usize, u32),
    /// Address of the doorbell records: receives posted, WQEBBs posted.
    pub record: usize,
    /// False if the doorbell alone says what WQEBBs are posted (`send_dbr_mode` 1).
    pub has_send_record: bool,
    /// UMEM of the queues and of the doorbell records.
    pub memories: [u32; 2],
    pub offsets: [u64; 2],
    pub page: u32,
    pub clock: u32,
    pub now: Attributes,
}

/// Attributes from the state-change commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    pub state: u8,
    pub port: u32,
    /// Remote access: read 4, write 2, atomic 1.
    pub rights: u32,
    pub atomic_mode: u32,
    pub mtu: u32,
    pub log_longest: u32,
    pub peer: u32,
    pub receive_psn: u32,
    pub rnr_timer: u32,
    pub log_answers: u32,
    pub address_path: AddressPath,
    pub send_psn: u32,
    pub retries: u32,
    pub rnr_retries: u32,
    pub timeout: u32,
    pub log_reads: u32,
    pub qkey: u32,
}

/// The address path to the remote end.
#[derive(Debug, Clone, Copy, Default)]
pub struct AddressPath {
    pub lid: u32,
    pub is_global: u32,
    pub gid_index: u32,
    pub hop_limit: u32,
    pub class: u32,
    pub gid: [u8; 16],
    pub dscp: u32,
    pub udp_port: u32,
    pub priority: u32,
    pub level: u32,
    pub mac: u64,
}

impl QueuePair {
    /// `CREATE_QP`.
    pub fn of(
        objects: &Objects,
        context: c_int,
        number: u32,
        command: &Words,
    ) -> Result<Self, FirmwareError> {
        let get = |bits| command.get(bits);
        if get(at::WQ_UMEM_VALID) != 1 || get(at::DBR_UMEM_VALID) != 1 {
            return Err(FirmwareError::parameter(0xe0_0001));
        }
        // With both queues and without payload in CQEs.
        if get(at::ST) > transport::DATAGRAMS
            || get(at::PM_STATE) != 3
            || get(at::RQ_TYPE) != 0
            || get(at::NO_SQ) != 0
        {
            return Err(FirmwareError::parameter(0xe0_0002));
        }
        let modes = if switches().has_recordless_queues { 1 } else { 0 };
        if get(at::SEND_DBR_MODE) > modes {
            return Err(FirmwareError::parameter(0xe0_0006));
        }
        if get(at::SCATTER) != 0 {
            return Err(FirmwareError::parameter(0xe0_0003));
        }
        let (blocks, entries) = (1_u32 << get(at::LOG_SQ_SIZE), 1_u32 << get(at::LOG_RQ_SIZE));
        let stride = 16_u32 << get(at::LOG_RQ_STRIDE);
        let memories = [get(at::WQ_UMEM_ID), get(at::DBR_UMEM_ID)];
        let offsets = [command.long(at::WQ_UMEM_OFFSET), command.long(at::DBR_ADDR)];
        let received = entries as usize * stride as usize;
        let all = received + blocks as usize * 64;
        if !received.is_multiple_of(64) {
            return Err(FirmwareError::parameter(0xe0_0004));
        }
        let rings = objects.place(context, (memories[0], offsets[0]), all, 4096)?;
        let page = get(at::UAR_PAGE);
        objects.check_page(context, page)?;
        for queue in [get(at::CQN_SND), get(at::CQN_RCV)] {
            let known = objects
                .queues
                .values()
                .any(|known| (known.number, known.context) == (queue, context));
            known.then_some(()).ok_or(FirmwareError::resource(0xe0_0005))?;
        }
        Ok(Self {
            context,
            number,
            transport: get(at::ST),
            domain: get(at::PD),
            user_index: get(at::USER_INDEX),
            send_queue: get(at::CQN_SND),
            receive_queue: get(at::CQN_RCV),
            receives: (rings, entries, stride),
            sends: (rings + received, blocks),
            record: objects.place(context, (memories[1], offsets[1]), 8, 8)?,
            has_send_record: get(at::SEND_DBR_MODE) == 0,
            memories,
            offsets,
            page,
            clock: get(at::TS_FORMAT),
            now: Attributes::default(),
        })
    }

    /// Executes a state-change command.
    pub fn change(&mut self, code: u32, command: &Words) -> Result<(), FirmwareError> {
        let from = match code {
            opcode::RST2INIT_QP => Some(state::RESET),
            opcode::INIT2RTR_QP => Some(state::INIT),
            opcode::RTR2RTS_QP => Some(state::READY_TO_RECEIVE),
            _ => None,
        };
        if from.is_some_and(|from| from != self.now.state) {
            return Err(FirmwareError::state(0xe1_0000 | u32::from(self.now.state)));
        }
        let get = |bits| command.get(bits);
        let now = &mut self.now;
        match code {
            opcode::RST2INIT_QP => {
                now.state = state::INIT;
                now.port = get(path::PORT);
                now.rights = get(at::RIGHTS);
                now.atomic_mode = get(at::ATOMIC_MODE);
                now.qkey = get(at::Q_KEY);
                if ![1, 2].contains(&now.port) || get(path::PKEY_INDEX) != 0 {
                    return Err(FirmwareError::parameter(0xe1_0010));
                }
            }
            opcode::INIT2RTR_QP => {
                now.state = state::READY_TO_RECEIVE;
                now.mtu = get(at::MTU);
                now.log_longest = get(at::LOG_MSG_MAX);
                now.peer = get(at::REMOTE_QPN);
                now.receive_psn = get(at::NEXT_RCV_PSN);
                now.rnr_timer = get(at::MIN_RNR_NAK);
                now.log_answers = get(at::LOG_RRA_MAX);
                now.address_path = address_path(command);
                let is_right = match self.transport {
                    transport::DATAGRAMS => (now.mtu, now.log_longest) == DATAGRAM,
                    _ => (1..=5).contains(&now.mtu) && get(path::PORT) == now.port,
                };
                if !is_right {
                    return Err(FirmwareError::parameter(0xe1_0011));
                }
            }
            opcode::RTR2RTS_QP => {
                now.state = state::READY_TO_SEND;
                now.send_psn = get(at::NEXT_SEND_PSN);
                now.retries = get(at::RETRY_COUNT);
                now.rnr_retries = get(at::RNR_RETRY);
                now.timeout = get(path::ACK_TIMEOUT);
                now.log_reads = get(at::LOG_SRA_MAX);
                if get(at::LOG_ACK_REQ_FREQ) > 8 {
                    return Err(FirmwareError::parameter(0xe1_0012));
                }
            }
            opcode::TO_ERROR_QP => now.state = state::ERROR,
            _ => return Err(FirmwareError::operation(0xe1_0013)),
        }
        Ok(())
    }
}

fn address_path(command: &Words) -> AddressPath {
    let get = |bits| command.get(bits);
    AddressPath {
        lid: get(path::RLID),
        is_global: get(path::GRH),
        gid_index: get(path::SRC_ADDR_INDEX),
        hop_limit: get(path::HOP_LIMIT),
        class: get(path::TCLASS),
        gid: command.gid(path::RGID),
        dscp: get(path::DSCP),
        udp_port: get(path::UDP_SPORT),
        priority: get(path::ETH_PRIO),
        level: get(path::SL),
        mac: u64::from(get(path::RMAC_HIGH)) << 32 | u64::from(get(path::RMAC_LOW)),
    }
}
