//! Bit fields of firmware commands: big-endian words of 4 bytes, and bits counted from the least significant. Offsets are those that
//! the kernel's `MLX5_GET` computes from `mlx5_ifc.h` (`__mlx5_dw_off`, `__mlx5_dw_bit_off`).

/// A bit field: byte offset of its word, shift, and width.
#[derive(Clone, Copy)]
pub struct Bits(pub usize, pub u32, pub u32);

/// A command or its response.
#[derive(Clone)]
pub struct Words(pub Vec<u8>);

impl Words {
    fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_be_bytes)
    }

    pub fn get(&self, Bits(at, below, bits): Bits) -> u32 {
        let mask = u32::MAX.checked_shr(32 - bits).unwrap_or(0);
        self.word(at) >> below & mask
    }

    /// Two words, the high one first.
    pub fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4))
    }

    /// A GID: 16 bytes.
    pub fn gid(&self, at: usize) -> [u8; 16] {
        let bytes = self.0.get(at..at + 16).and_then(|bytes| bytes.try_into().ok());
        bytes.unwrap_or([0; 16])
    }

    pub fn put(&mut self, Bits(at, below, bits): Bits, value: u32) {
        let mask = u32::MAX.checked_shr(32 - bits).unwrap_or(0);
        let word = self.word(at) & !(mask << below) | (value & mask) << below;
        if let Some(place) = self.0.get_mut(at..at + 4) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}

pub const OPCODE: Bits = Bits(0, 16, 16);
pub const OP_MOD: Bits = Bits(4, 0, 16);
/// The queue pair of a command, and the number of a new object in a response.
pub const NUMBER: Bits = Bits(8, 0, 24);
pub const STATUS: Bits = Bits(0, 24, 8);
pub const SYNDROME: Bits = Bits(4, 0, 32);

/// `create_cq_in`: `cqc` at offset 16.
pub mod queue {
    use super::Bits;

    const C: usize = 16;
    pub const DBR_UMEM_VALID: Bits = Bits(C, 25, 1);
    pub const CQE_SZ: Bits = Bits(C, 21, 3);
    pub const CC: Bits = Bits(C, 20, 1);
    pub const OI: Bits = Bits(C, 17, 1);
    pub const CQE_COMP_EN: Bits = Bits(C, 14, 1);
    pub const DBR_UMEM_ID: Bits = Bits(C + 4, 0, 32);
    pub const LOG_CQ_SIZE: Bits = Bits(C + 12, 24, 5);
    pub const UAR_PAGE: Bits = Bits(C + 12, 0, 24);
    pub const C_EQN: Bits = Bits(C + 20, 0, 8);
    pub const LOG_PAGE_SIZE: Bits = Bits(C + 24, 24, 5);
    pub const DBR_ADDR: usize = C + 56;
    pub const CQ_UMEM_OFFSET: usize = 80;
    pub const CQ_UMEM_ID: Bits = Bits(88, 0, 32);
    pub const CQ_UMEM_VALID: Bits = Bits(92, 31, 1);
}

/// `create_qp_in` and the state changes: `qpc` at offset 24.
pub mod pair {
    use super::Bits;

    const Q: usize = 24;
    pub const ST: Bits = Bits(Q, 16, 8);
    pub const PM_STATE: Bits = Bits(Q, 11, 2);
    pub const PD: Bits = Bits(Q + 4, 0, 24);
    pub const MTU: Bits = Bits(Q + 8, 29, 3);
    pub const LOG_MSG_MAX: Bits = Bits(Q + 8, 24, 5);
    pub const LOG_RQ_SIZE: Bits = Bits(Q + 8, 19, 4);
    pub const LOG_RQ_STRIDE: Bits = Bits(Q + 8, 16, 3);
    pub const NO_SQ: Bits = Bits(Q + 8, 15, 1);
    pub const LOG_SQ_SIZE: Bits = Bits(Q + 8, 11, 4);
    pub const TS_FORMAT: Bits = Bits(Q + 8, 6, 2);
    pub const UAR_PAGE: Bits = Bits(Q + 12, 0, 24);
    pub const SEND_DBR_MODE: Bits = Bits(Q + 16, 30, 2);
    pub const USER_INDEX: Bits = Bits(Q + 16, 0, 24);
    pub const REMOTE_QPN: Bits = Bits(Q + 20, 0, 24);
    pub const LOG_ACK_REQ_FREQ: Bits = Bits(Q + 112, 28, 4);
    pub const LOG_SRA_MAX: Bits = Bits(Q + 112, 21, 3);
    pub const RETRY_COUNT: Bits = Bits(Q + 112, 16, 3);
    pub const RNR_RETRY: Bits = Bits(Q + 112, 13, 3);
    pub const NEXT_SEND_PSN: Bits = Bits(Q + 120, 0, 24);
    pub const CQN_SND: Bits = Bits(Q + 124, 0, 24);
    pub const LOG_RRA_MAX: Bits = Bits(Q + 144, 21, 3);
    pub const ATOMIC_MODE: Bits = Bits(Q + 144, 16, 4);
    pub const RIGHTS: Bits = Bits(Q + 144, 13, 3);
    pub const MIN_RNR_NAK: Bits = Bits(Q + 148, 24, 5);
    pub const NEXT_RCV_PSN: Bits = Bits(Q + 148, 0, 24);
    pub const CQN_RCV: Bits = Bits(Q + 156, 0, 24);
    pub const DBR_ADDR: usize = Q + 160;
    pub const Q_KEY: Bits = Bits(Q + 168, 0, 32);
    pub const RQ_TYPE: Bits = Bits(Q + 172, 24, 3);
    pub const SCATTER: Bits = Bits(Q + 196, 0, 16);
    pub const DBR_UMEM_VALID: Bits = Bits(Q + 208, 28, 1);
    pub const DBR_UMEM_ID: Bits = Bits(Q + 228, 0, 32);
    pub const WQ_UMEM_OFFSET: usize = 256;
    pub const WQ_UMEM_ID: Bits = Bits(264, 0, 32);
    pub const WQ_UMEM_VALID: Bits = Bits(268, 31, 1);
}

/// `primary_address_path` (`ads`): at offset 24 of `qpc`.
pub mod path {
    use super::Bits;

    const A: usize = 24 + 24;
    pub const PKEY_INDEX: Bits = Bits(A, 0, 16);
    pub const GRH: Bits = Bits(A + 4, 23, 1);
    pub const RLID: Bits = Bits(A + 4, 0, 16);
    pub const ACK_TIMEOUT: Bits = Bits(A + 8, 27, 5);
    pub const SRC_ADDR_INDEX: Bits = Bits(A + 8, 16, 8);
    pub const HOP_LIMIT: Bits = Bits(A + 8, 0, 8);
    pub const TCLASS: Bits = Bits(A + 12, 20, 8);
    pub const RGID: usize = A + 16;
    pub const DSCP: Bits = Bits(A + 32, 16, 6);
    pub const UDP_SPORT: Bits = Bits(A + 32, 0, 16);
    pub const ETH_PRIO: Bits = Bits(A + 36, 28, 3);
    pub const SL: Bits = Bits(A + 36, 24, 4);
    pub const PORT: Bits = Bits(A + 36, 16, 8);
    pub const RMAC_HIGH: Bits = Bits(A + 36, 0, 16);
    pub const RMAC_LOW: Bits = Bits(A + 40, 0, 32);
}

/// `query_hca_cap_out`: capabilities at offset 16.
pub mod capability {
    use super::Bits;

    const H: usize = 16;
    pub const HCA_CAP_2: Bits = Bits(H + 4, 31, 1);
    /// In the second set of general capabilities.
    pub const SEND_DBR_MODE_NO_DBR_EXT: Bits = Bits(H + 0x5c, 30, 1);
    pub const LOG_MAX_QP_SZ: Bits = Bits(H + 0x10, 16, 8);
    pub const LOG_MAX_CQ_SZ: Bits = Bits(H + 0x18, 16, 8);
    pub const LOG_MAX_RA_REQ_QP: Bits = Bits(H + 0x28, 16, 6);
    pub const LOG_MAX_RA_RES_QP: Bits = Bits(H + 0x28, 0, 6);
    pub const BF: Bits = Bits(H + 0x4c, 31, 1);
    pub const LOG_BF_REG_SIZE: Bits = Bits(H + 0x4c, 16, 5);
    pub const QP_TS_FORMAT: Bits = Bits(H, 0, 2);
}
