//! Expected results of `ibv_poll_cq`, as tables from rdma-core's `providers/mlx5/cq.c` (`mlx5_parse_cqe`, `handle_good_req`,
//! `handle_responder`, `mlx5_handle_error_cqe`) and its headers.

use ibverbs_sys as ib;

use crate::completion::{Cqe, opcode};

/// For a send, by the opcode of its WQE: opcode, bytes and flags of the work completion.
///
/// `MLX5_OPCODE_…` of mlx5dv.h; `enum ibv_wc_opcode` and `enum ibv_wc_flags` of verbs.h.
pub const DONE: [(u8, u32, Bytes, u32); 10] = [
    // NOP: the opcode that the provider stored for the WQE, which is 0 for all requests of these tests.
    (0x00, 0, Bytes::Unwritten, 0),
    // SEND_INVAL, RDMA_WRITE, RDMA_WRITE_IMM, SEND, SEND_IMM, TSO.
    (0x01, 0, Bytes::Unwritten, 0),
    (0x08, 1, Bytes::Unwritten, 0),
    (0x09, 1, Bytes::Unwritten, WITH_IMM),
    (0x0a, 0, Bytes::Unwritten, 0),
    (0x0b, 0, Bytes::Unwritten, WITH_IMM),
    (0x0e, 7, Bytes::Unwritten, 0),
    // RDMA_READ, ATOMIC_CS, ATOMIC_FA.
    (0x10, 2, Bytes::Cqe, 0),
    (0x11, 3, Bytes::Eight, 0),
    (0x12, 4, Bytes::Eight, 0),
];

/// For a receive, by the opcode of its CQE: opcode and flags of the work completion.
const ARRIVED: [(u8, u32, u32); 4] = [
    (opcode::WRITTEN, 129, WITH_IMM),
    (opcode::RECEIVED, 128, 0),
    (opcode::RECEIVED_IMMEDIATE, 128, WITH_IMM),
    (opcode::RECEIVED_INVALIDATE, 128, WITH_INV),
];

/// Syndrome and status (`mlx5_handle_error_cqe`, `enum ibv_wc_status`); other syndromes become 21, `IBV_WC_GENERAL_ERR`.
const STATUS: [(u8, u32); 13] = [
    (0x01, 1),
    (0x02, 2),
    (0x04, 4),
    (0x05, 5),
    (0x06, 6),
    (0x10, 7),
    (0x11, 8),
    (0x12, 9),
    (0x13, 10),
    (0x14, 11),
    (0x15, 12),
    (0x16, 13),
    (0x22, 16),
];

/// `IBV_WC_GRH`.
const GRH: u32 = 1 << 0;
/// `IBV_WC_WITH_IMM`.
const WITH_IMM: u32 = 1 << 1;
/// `IBV_WC_WITH_INV`.
const WITH_INV: u32 = 1 << 3;

/// Length in a work completion.
#[derive(Clone, Copy)]
pub enum Bytes {
    /// The provider does not write it.
    Unwritten,
    Cqe,
    Eight,
}

/// Fill byte of fields that the provider does not write.
const UNTOUCHED: u8 = 0xa5;

/// A work completion filled with [`UNTOUCHED`].
pub fn untouched() -> ib::ibv_wc {
    let bytes = [UNTOUCHED; size_of::<ib::ibv_wc>()];
    // SAFETY: the structure consists of integers and has this size.
    unsafe { std::mem::transmute::<[u8; size_of::<ib::ibv_wc>()], ib::ibv_wc>(bytes) }
}

/// The status of an error CQE with this syndrome.
pub fn status(syndrome: u8) -> u32 {
    let found = STATUS.iter().find(|(code, _)| *code == syndrome);
    found.map_or(21, |(_, status)| *status)
}

/// Compares a result of `ibv_poll_cq` with the tables.
pub fn check(wc: &ib::ibv_wc, id: u64, entry: &Cqe) {
    let word = u32::from_ne_bytes([UNTOUCHED; 4]);
    let error = matches!(entry.opcode, opcode::REQUESTER_ERROR | opcode::RESPONDER_ERROR)
        .then(|| (status(entry.syndrome), u32::from(entry.vendor)));
    // Opcode, bytes and flags; value and source of receives.
    let (opcode, bytes, flags, value, source) = if error.is_some() {
        (word, word, 0, word, word)
    } else if entry.opcode == opcode::REQUESTER {
        let (_, opcode, bytes, flags) = DONE
            .into_iter()
            .find(|row| row.0 == entry.send_opcode)
            .expect("an opcode of the table");
        let bytes = match bytes {
            Bytes::Unwritten => word,
            Bytes::Cqe => entry.bytes,
            Bytes::Eight => 8,
        };
        (opcode, bytes, flags, word, word)
    } else {
        let (_, opcode, flags) =
            ARRIVED.into_iter().find(|row| row.0 == entry.opcode).expect("an opcode of the table");
        // Immediate data keeps its byte order; a key is a number.
        let value = match flags {
            WITH_IMM => u32::from_ne_bytes(entry.value.to_be_bytes()),
            WITH_INV => entry.value,
            _ => word,
        };
        let (lid, path, level, has_route) = entry.origin;
        assert_eq!((wc.slid, wc.dlid_path_bits, wc.sl), (lid, path, level), "{entry:#x?}");
        let flags = flags | if has_route { GRH } else { 0 };
        (opcode, entry.bytes, flags, value, entry.source)
    };
    assert_eq!(wc.wr_id(), id, "{entry:#x?}");
    assert_eq!(wc.error(), error, "{entry:#x?}");
    assert_eq!(wc.opcode(), opcode, "{entry:#x?}");
    assert_eq!(wc.len(), bytes as usize, "{entry:#x?}");
    assert_eq!(wc.wc_flags.0, flags, "{entry:#x?}");
    assert_eq!(wc.imm_data, value, "{entry:#x?}");
    assert_eq!(wc.src_qp, source, "{entry:#x?}");
    assert_eq!(wc.qp_num, entry.queue_pair, "{entry:#x?}");
}
