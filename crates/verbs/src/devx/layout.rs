//! Bit fields of the commands: offset and width, with the names of Linux `include/linux/mlx5/mlx5_ifc.h`. rdma-core's
//! `providers/mlx5/mlx5_ifc.h` has the same structures except the completion queue context and `wq_umem_offset`, which NVSHMEM's
//! `mlx5_prm.h` and `mlx5_ifc.h` also have.
//!
//! The kernel fills in `uid`, and marks UMEM as valid (`devx_set_umem_valid` in mlx5_ib's `devx.c`).

/// Commands: `MLX5_CMD_OP_*`.
pub(super) mod opcode {
    pub const QUERY_HCA_CAP: u64 = 0x100;
    pub const CREATE_CQ: u64 = 0x400;
    pub const CREATE_QP: u64 = 0x500;
    pub const RST2INIT_QP: u64 = 0x502;
    pub const INIT2RTR_QP: u64 = 0x503;
    pub const RTR2RTS_QP: u64 = 0x504;
    pub const TO_ERROR_QP: u64 = 0x507;
}

/// Sizes of commands and responses in bytes.
pub(super) mod bytes {
    /// `create_cq_in`, `create_qp_in`, `rst2init_qp_in`, `init2rtr_qp_in`, `rtr2rts_qp_in`: 0x880 bits, without a page list.
    pub const LONG: usize = 0x880 / 8;
    /// `query_hca_cap_in`, `qp_2err_in`, and every response except one.
    pub const SHORT: usize = 16;
    /// `query_hca_cap_out`: 16 bytes and the largest capability set.
    pub const CAPABILITIES: usize = 16 + 0x8000 / 8;
}

/// Fields of all commands and responses.
pub(super) mod header {
    use crate::devx::bits::{Field, field};

    pub const OPCODE: Field = field("opcode", 0x00, 16);
    pub const OP_MOD: Field = field("op_mod", 0x30, 16);
    /// `qpn` of the commands that change a queue pair.
    pub const NUMBER: Field = field("qpn", 0x48, 24);
    /// In a response.
    pub const STATUS: Field = field("status", 0x00, 8);
    /// In a response.
    pub const SYNDROME: Field = field("syndrome", 0x20, 32);
    /// Number of a new object: `cqn`, `qpn`.
    pub const NEW_NUMBER: Field = field("number", 0x48, 24);
}

/// `create_cq_in`; its context (`cqc`) is at bit 0x80.
pub(super) mod completion_queue {
    use crate::devx::bits::{Field, field};

    const CONTEXT: usize = 0x80;

    pub const DBR_UMEM_VALID: Field = field("dbr_umem_valid", 0x06, 1).within(CONTEXT);
    /// 0: 64-byte CQEs.
    pub const CQE_SZ: Field = field("cqe_sz", 0x08, 3).within(CONTEXT);
    /// Write all completions to the first CQE.
    pub const CC: Field = field("cc", 0x0b, 1).within(CONTEXT);
    /// Ignore overruns.
    pub const OI: Field = field("oi", 0x0e, 1).within(CONTEXT);
    pub const CQE_COMP_EN: Field = field("cqe_comp_en", 0x11, 1).within(CONTEXT);
    pub const DBR_UMEM_ID: Field = field("dbr_umem_id", 0x20, 32).within(CONTEXT);
    pub const LOG_CQ_SIZE: Field = field("log_cq_size", 0x63, 5).within(CONTEXT);
    pub const UAR_PAGE: Field = field("uar_page", 0x68, 24).within(CONTEXT);
    pub const C_EQN: Field = field("c_eqn", 0xb8, 8).within(CONTEXT);
    /// log2 of the page size minus 12.
    pub const LOG_PAGE_SIZE: Field = field("log_page_size", 0xc3, 5).within(CONTEXT);
    /// With UMEM: an offset in it.
    pub const DBR_ADDR: Field = field("dbr_addr", 0x1c0, 64).within(CONTEXT);
    pub const CQ_UMEM_OFFSET: Field = field("cq_umem_offset", 0x280, 64);
    pub const CQ_UMEM_ID: Field = field("cq_umem_id", 0x2c0, 32);
    pub const CQ_UMEM_VALID: Field = field("cq_umem_valid", 0x2e0, 1);
}

/// `create_qp_in` and the state changes; the context (`qpc`) is at bit 0xc0.
pub(super) mod queue_pair {
    use crate::devx::bits::{Field, field};

    const CONTEXT: usize = 0xc0;

    /// The transport: RC 0, UC 1, UD 2 (`MLX5_QPC_ST_*`).
    pub const ST: Field = field("st", 0x08, 8).within(CONTEXT);
    /// 3: no alternate path (`MLX5_QPC_PM_STATE_MIGRATED`).
    pub const PM_STATE: Field = field("pm_state", 0x13, 2).within(CONTEXT);
    pub const PD: Field = field("pd", 0x28, 24).within(CONTEXT);
    /// 1 to 5: 256 to 4096 bytes.
    pub const MTU: Field = field("mtu", 0x40, 3).within(CONTEXT);
    pub const LOG_MSG_MAX: Field = field("log_msg_max", 0x43, 5).within(CONTEXT);
    pub const LOG_RQ_SIZE: Field = field("log_rq_size", 0x49, 4).within(CONTEXT);
    /// log2, in units of 16 bytes.
    pub const LOG_RQ_STRIDE: Field = field("log_rq_stride", 0x4d, 3).within(CONTEXT);
    /// log2, in WQEBBs of 64 bytes.
    pub const LOG_SQ_SIZE: Field = field("log_sq_size", 0x51, 4).within(CONTEXT);
    /// 0: free-running clock; 1: default of the device.
    pub const TS_FORMAT: Field = field("ts_format", 0x58, 2).within(CONTEXT);
    pub const UAR_PAGE: Field = field("uar_page", 0x68, 24).within(CONTEXT);
    /// 0: the NIC reads the send queue's doorbell record; 1: never, and doorbells come from outside the NIC (`NO_DBR_EXT`). In rdma-core's
    /// `tests/mlx5_prm_structs.py` since v45.0.
    pub const SEND_DBR_MODE: Field = field("send_dbr_mode", 0x80, 2).within(CONTEXT);
    pub const USER_INDEX: Field = field("user_index", 0x88, 24).within(CONTEXT);
    pub const REMOTE_QPN: Field = field("remote_qpn", 0xa8, 24).within(CONTEXT);
    /// log2 of the packets between requested acknowledgements.
    pub const LOG_ACK_REQ_FREQ: Field = field("log_ack_req_freq", 0x380, 4).within(CONTEXT);
    /// log2 of the outstanding reads and atomics of this end.
    pub const LOG_SRA_MAX: Field = field("log_sra_max", 0x388, 3).within(CONTEXT);
    pub const RETRY_COUNT: Field = field("retry_count", 0x38d, 3).within(CONTEXT);
    pub const RNR_RETRY: Field = field("rnr_retry", 0x390, 3).within(CONTEXT);
    pub const NEXT_SEND_PSN: Field = field("next_send_psn", 0x3c8, 24).within(CONTEXT);
    pub const CQN_SND: Field = field("cqn_snd", 0x3e8, 24).within(CONTEXT);
    /// log2 of the remote end's reads and atomics that it answers at once.
    pub const LOG_RRA_MAX: Field = field("log_rra_max", 0x488, 3).within(CONTEXT);
    /// 3: words of up to 64 bits.
    pub const ATOMIC_MODE: Field = field("atomic_mode", 0x48c, 4).within(CONTEXT);
    pub const RRE: Field = field("rre", 0x490, 1).within(CONTEXT);
    pub const RWE: Field = field("rwe", 0x491, 1).within(CONTEXT);
    pub const RAE: Field = field("rae", 0x492, 1).within(CONTEXT);
    pub const MIN_RNR_NAK: Field = field("min_rnr_nak", 0x4a3, 5).within(CONTEXT);
    pub const NEXT_RCV_PSN: Field = field("next_rcv_psn", 0x4a8, 24).within(CONTEXT);
    pub const CQN_RCV: Field = field("cqn_rcv", 0x4e8, 24).within(CONTEXT);
    /// With UMEM: an offset in it.
    pub const DBR_ADDR: Field = field("dbr_addr", 0x500, 64).within(CONTEXT);
    /// Datagrams.
    pub const Q_KEY: Field = field("q_key", 0x540, 32).within(CONTEXT);
    /// 0: a normal receive queue.
    pub const RQ_TYPE: Field = field("rq_type", 0x565, 3).within(CONTEXT);
    /// 0: no request payload in CQEs.
    pub const CS_REQ: Field = field("cs_req", 0x630, 8).within(CONTEXT);
    /// 0: no response payload in CQEs.
    pub const CS_RES: Field = field("cs_res", 0x638, 8).within(CONTEXT);
    pub const DBR_UMEM_VALID: Field = field("dbr_umem_valid", 0x683, 1).within(CONTEXT);
    pub const DBR_UMEM_ID: Field = field("dbr_umem_id", 0x720, 32).within(CONTEXT);
    pub const WQ_UMEM_OFFSET: Field = field("wq_umem_offset", 0x800, 64);
    pub const WQ_UMEM_ID: Field = field("wq_umem_id", 0x840, 32);
    pub const WQ_UMEM_VALID: Field = field("wq_umem_valid", 0x860, 1);
}

/// `primary_address_path` (`ads`), at bit 0xc0 of `qpc`.
pub(super) mod path {
    use crate::devx::bits::{Field, field};

    const PATH: usize = 0xc0 + 0xc0;

    pub const PKEY_INDEX: Field = field("pkey_index", 0x10, 16).within(PATH);
    /// InfiniBand: has a GRH. Always 0 on Ethernet, where a GRH is implied.
    pub const GRH: Field = field("grh", 0x28, 1).within(PATH);
    pub const MLID: Field = field("mlid", 0x29, 7).within(PATH);
    pub const RLID: Field = field("rlid", 0x30, 16).within(PATH);
    pub const ACK_TIMEOUT: Field = field("ack_timeout", 0x40, 5).within(PATH);
    pub const SRC_ADDR_INDEX: Field = field("src_addr_index", 0x48, 8).within(PATH);
    pub const HOP_LIMIT: Field = field("hop_limit", 0x58, 8).within(PATH);
    pub const TCLASS: Field = field("tclass", 0x64, 8).within(PATH);
    pub const FLOW_LABEL: Field = field("flow_label", 0x6c, 20).within(PATH);
    /// High half of `rgid_rip`.
    pub const RGID_HIGH: Field = field("rgid_rip", 0x80, 64).within(PATH);
    /// Low half.
    pub const RGID_LOW: Field = field("rgid_rip", 0xc0, 64).within(PATH);
    pub const DSCP: Field = field("dscp", 0x10a, 6).within(PATH);
    pub const UDP_SPORT: Field = field("udp_sport", 0x110, 16).within(PATH);
    pub const ETH_PRIO: Field = field("eth_prio", 0x121, 3).within(PATH);
    pub const SL: Field = field("sl", 0x124, 4).within(PATH);
    pub const VHCA_PORT_NUM: Field = field("vhca_port_num", 0x128, 8).within(PATH);
    /// `rmac_47_32` and `rmac_31_0`.
    pub const RMAC: Field = field("rmac", 0x130, 48).within(PATH);
}

/// `query_hca_cap_out`; the capabilities are at bit 0x80.
pub(super) mod capability {
    use crate::devx::bits::{Field, field};

    const SET: usize = 0x80;

    /// `op_mod` for the current `cmd_hca_cap` (`HCA_CAP_OPMOD_GET_CUR`).
    pub const GENERAL: u64 = 1;
    /// `op_mod` for the current `roce_cap` (`MLX5_CAP_ROCE`, 4, shifted above the bit for current values).
    pub const ROCE: u64 = 0x4 << 1 | 1;

    /// `op_mod` for the current `cmd_hca_cap_2` (`MLX5_CAP_GENERAL_2`, 0x20, shifted above the bit for current values).
    pub const GENERAL_2: u64 = 0x20 << 1 | 1;

    /// Has `cmd_hca_cap_2`.
    pub const HCA_CAP_2: Field = field("hca_cap_2", 0x020, 1).within(SET);
    /// In `cmd_hca_cap_2`; in rdma-core's `tests/mlx5_prm_structs.py` since v45.0.
    pub const SEND_DBR_MODE_NO_DBR_EXT: Field =
        field("send_dbr_mode_no_dbr_ext", 0x2e1, 1).within(SET);
    pub const LOG_MAX_QP_SZ: Field = field("log_max_qp_sz", 0x088, 8).within(SET);
    pub const LOG_MAX_CQ_SZ: Field = field("log_max_cq_sz", 0x0c8, 8).within(SET);
    pub const LOG_MAX_RA_REQ_QP: Field = field("log_max_ra_req_qp", 0x14a, 6).within(SET);
    pub const LOG_MAX_RA_RES_QP: Field = field("log_max_ra_res_qp", 0x15a, 6).within(SET);
    pub const BF: Field = field("bf", 0x260, 1).within(SET);
    pub const LOG_BF_REG_SIZE: Field = field("log_bf_reg_size", 0x26b, 5).within(SET);
    /// In `roce_cap`.
    pub const QP_TS_FORMAT: Field = field("qp_ts_format", 0x01e, 2).within(SET);
}
