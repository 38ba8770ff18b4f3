//! Work completions.

use std::mem::offset_of;

use crate::{Field, Record};

/// A work completion. The default is a failure, so that an unfilled one is not mistaken for a success.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ibv_wc {
    wr_id: u64,
    status: ibv_wc_status::Type,
    opcode: ibv_wc_opcode::Type,
    vendor_err: u32,
    byte_len: u32,
    /// Immediate data in network byte order, or the invalidated rkey, according to `wc_flags`.
    pub imm_data: u32,
    /// The local queue pair number.
    pub qp_num: u32,
    /// The sender's queue pair number; datagrams only.
    pub src_qp: u32,
    /// Flags.
    pub wc_flags: ibv_wc_flags,
    /// P_Key index; management datagrams only.
    pub pkey_index: u16,
    /// The sender's LID; datagrams only.
    pub slid: u16,
    /// The service level; datagrams only.
    pub sl: u8,
    /// The path bits of the LID; datagrams only.
    pub dlid_path_bits: u8,
}

impl ibv_wc {
    /// The request's id.
    #[must_use]
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Bytes received.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // The name is that of the published crate.
    pub fn len(&self) -> usize {
        self.byte_len as usize
    }

    /// True if the request succeeded.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.status == ibv_wc_status::IBV_WC_SUCCESS
    }

    /// Status and vendor's syndrome of a failed request.
    #[must_use]
    pub fn error(&self) -> Option<(ibv_wc_status::Type, u32)> {
        (!self.is_valid()).then_some((self.status, self.vendor_err))
    }

    /// The operation.
    #[must_use]
    pub fn opcode(&self) -> ibv_wc_opcode::Type {
        self.opcode
    }

    /// Immediate data in network byte order, if the request succeeded and had some.
    #[must_use]
    pub fn imm_data(&self) -> Option<u32> {
        let has = self.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM != ibv_wc_flags(0);
        (self.is_valid() && has).then_some(self.imm_data)
    }
}

impl Default for ibv_wc {
    fn default() -> Self {
        Self {
            wr_id: 0,
            status: ibv_wc_status::IBV_WC_GENERAL_ERR,
            opcode: ibv_wc_opcode::IBV_WC_SEND,
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            qp_num: 0,
            src_qp: 0,
            wc_flags: ibv_wc_flags(0),
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        }
    }
}

macro_rules! fields {
    ($($field:ident: $size:literal),* $(,)?) => {
        &[$( Field { name: stringify!($field), offset: offset_of!(ibv_wc, $field), size: $size } ),*]
    };
}

pub(crate) const RECORDS: &[Record] = &[Record {
    name: "struct ibv_wc",
    size: size_of::<ibv_wc>(),
    fields: fields![
        wr_id: 8, status: 4, opcode: 4, vendor_err: 4, byte_len: 4, imm_data: 4, qp_num: 4, src_qp: 4, wc_flags: 4,
        pkey_index: 2, slid: 2, sl: 1, dlid_path_bits: 1,
    ],
}];

constants! {
    /// Status of a request.
    values ibv_wc_status {
        IBV_WC_SUCCESS = 0,
        IBV_WC_LOC_LEN_ERR = 1,
        IBV_WC_LOC_QP_OP_ERR = 2,
        IBV_WC_LOC_EEC_OP_ERR = 3,
        IBV_WC_LOC_PROT_ERR = 4,
        IBV_WC_WR_FLUSH_ERR = 5,
        IBV_WC_MW_BIND_ERR = 6,
        IBV_WC_BAD_RESP_ERR = 7,
        IBV_WC_LOC_ACCESS_ERR = 8,
        IBV_WC_REM_INV_REQ_ERR = 9,
        IBV_WC_REM_ACCESS_ERR = 10,
        IBV_WC_REM_OP_ERR = 11,
        IBV_WC_RETRY_EXC_ERR = 12,
        IBV_WC_RNR_RETRY_EXC_ERR = 13,
        IBV_WC_LOC_RDD_VIOL_ERR = 14,
        IBV_WC_REM_INV_RD_REQ_ERR = 15,
        IBV_WC_REM_ABORT_ERR = 16,
        IBV_WC_INV_EECN_ERR = 17,
        IBV_WC_INV_EEC_STATE_ERR = 18,
        IBV_WC_FATAL_ERR = 19,
        IBV_WC_RESP_TIMEOUT_ERR = 20,
        IBV_WC_GENERAL_ERR = 21,
        IBV_WC_TM_ERR = 22,
        IBV_WC_TM_RNDV_INCOMPLETE = 23,
    }

    /// Operation of a request.
    values ibv_wc_opcode {
        IBV_WC_SEND = 0,
        IBV_WC_RDMA_WRITE = 1,
        IBV_WC_RDMA_READ = 2,
        IBV_WC_COMP_SWAP = 3,
        IBV_WC_FETCH_ADD = 4,
        IBV_WC_BIND_MW = 5,
        IBV_WC_LOCAL_INV = 6,
        IBV_WC_TSO = 7,
        IBV_WC_RECV = 128,
        IBV_WC_RECV_RDMA_WITH_IMM = 129,
    }

    /// Flags of a completion.
    flags ibv_wc_flags {
        IBV_WC_GRH = 1,
        IBV_WC_WITH_IMM = 1 << 1,
        IBV_WC_IP_CSUM_OK = 1 << 2,
        IBV_WC_WITH_INV = 1 << 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_completion_is_failure() {
        let completion = ibv_wc::default();
        assert!(!completion.is_valid());
        assert_eq!(completion.error(), Some((ibv_wc_status::IBV_WC_GENERAL_ERR, 0)));
        assert_eq!(completion.imm_data(), None);
    }

    #[test]
    fn immediate_data_requires_success_and_flag() {
        let mut completion =
            ibv_wc { status: ibv_wc_status::IBV_WC_SUCCESS, imm_data: 7, ..ibv_wc::default() };
        assert_eq!(completion.imm_data(), None);
        completion.wc_flags |= ibv_wc_flags::IBV_WC_WITH_IMM;
        assert_eq!(completion.imm_data(), Some(7));
        assert_eq!(completion.error(), None);
    }
}
