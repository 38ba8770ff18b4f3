//! Error syndromes of `mlx5dv.h` (`MLX5_CQE_SYNDROME_*`) and a vendor's syndrome for each.

pub const LOCAL_LENGTH: u8 = 0x01;
pub const LOCAL_OPERATION: u8 = 0x02;
pub const LOCAL_PROTECTION: u8 = 0x04;
pub const FLUSHED: u8 = 0x05;
pub const REMOTE_INVALID_REQUEST: u8 = 0x12;
pub const REMOTE_ACCESS: u8 = 0x13;
pub const REMOTE_OPERATION: u8 = 0x14;
pub const TRANSPORT_RETRY: u8 = 0x15;
pub const RECEIVER_NOT_READY: u8 = 0x16;

/// A distinct vendor's syndrome for each, so that tests see it arrive. 0x81 (retry exceeded), 0x88 (remote access), 0x8a (invalid
/// request) and 0xf9 (flush) appear in logs of ConnectX NICs; the others are invented.
pub fn vendor(syndrome: u8) -> u8 {
    match syndrome {
        LOCAL_LENGTH => 0x69,
        LOCAL_OPERATION => 0x68,
        LOCAL_PROTECTION => 0x53,
        FLUSHED => 0xf9,
        REMOTE_INVALID_REQUEST => 0x8a,
        REMOTE_ACCESS => 0x88,
        REMOTE_OPERATION => 0x89,
        TRANSPORT_RETRY => 0x81,
        RECEIVER_NOT_READY => 0x87,
        _ => 0xee,
    }
}
