//! CQEs written by the offsets of `struct mlx5_cqe64` in mlx5dv.h, without the code under test. They free slots of work queues.

use crate::provider::QueuePair;

/// Offsets in bytes.
mod at {
    pub const USER_INDEX: usize = 32;
    pub const BYTES: usize = 44;
    pub const OPCODE_AND_PAIR: usize = 56;
    pub const COUNTER: usize = 60;
    pub const OPCODE_AND_OWNER: usize = 63;
}

/// A send completion: `MLX5_CQE_REQ` (0).
pub fn requester(pair: &QueuePair, index: u16, opcode: u8, owner: u8) -> [u8; 64] {
    requester_of((pair.number, pair.user_index), index, opcode, owner)
}

/// The same by QPN and user index.
pub fn requester_of(
    (number, user_index): (u32, u32),
    index: u16,
    opcode: u8,
    owner: u8,
) -> [u8; 64] {
    let mut entry = [0; 64];
    let named = u32::from(opcode) << 24 | number;
    entry[at::USER_INDEX..][..4].copy_from_slice(&user_index.to_be_bytes());
    entry[at::OPCODE_AND_PAIR..][..4].copy_from_slice(&named.to_be_bytes());
    entry[at::COUNTER..][..2].copy_from_slice(&index.to_be_bytes());
    entry[at::OPCODE_AND_OWNER] = owner;
    entry
}

/// A receive completion: `MLX5_CQE_RESP_SEND` (2).
pub fn responder(pair: &QueuePair, index: u16, bytes: u32, owner: u8) -> [u8; 64] {
    responder_of((pair.number, pair.user_index), index, bytes, owner)
}

/// The same by QPN and user index.
pub fn responder_of(
    (number, user_index): (u32, u32),
    index: u16,
    bytes: u32,
    owner: u8,
) -> [u8; 64] {
    let mut entry = [0; 64];
    entry[at::USER_INDEX..][..4].copy_from_slice(&user_index.to_be_bytes());
    entry[at::BYTES..][..4].copy_from_slice(&bytes.to_be_bytes());
    entry[at::OPCODE_AND_PAIR..][..4].copy_from_slice(&number.to_be_bytes());
    entry[at::COUNTER..][..2].copy_from_slice(&index.to_be_bytes());
    entry[at::OPCODE_AND_OWNER] = 2 << 4 | owner;
    entry
}
