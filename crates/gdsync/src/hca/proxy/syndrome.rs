//! What verbs say of a request that failed, as a completion entry has it.

use verbs::Failure;

use crate::wire::Syndrome;

/// The syndrome of which rdma-core's mlx5 makes this status, and what the vendor's hardware adds, of which an entry has the lower
/// eight bits.
///
/// A status that it makes of no syndrome has its number and the highest bit: rdma-core reads it as `IBV_WC_GENERAL_ERR`.
pub(super) fn of(failure: Failure) -> (Syndrome, u8) {
    let syndrome = match failure.name() {
        Some("LOC_LEN_ERR") => Syndrome::LocalLength,
        Some("LOC_QP_OP_ERR") => Syndrome::LocalOperation,
        Some("LOC_PROT_ERR") => Syndrome::LocalProtection,
        Some("WR_FLUSH_ERR") => Syndrome::Flushed,
        Some("MW_BIND_ERR") => Syndrome::WindowBind,
        Some("BAD_RESP_ERR") => Syndrome::BadResponse,
        Some("LOC_ACCESS_ERR") => Syndrome::LocalAccess,
        Some("REM_INV_REQ_ERR") => Syndrome::RemoteInvalidRequest,
        Some("REM_ACCESS_ERR") => Syndrome::RemoteAccess,
        Some("REM_OP_ERR") => Syndrome::RemoteOperation,
        Some("RETRY_EXC_ERR") => Syndrome::TransportRetry,
        Some("RNR_RETRY_EXC_ERR") => Syndrome::ReceiverNotReady,
        Some("REM_ABORT_ERR") => Syndrome::RemoteAborted,
        _ => Syndrome::Other(failure.status as u8 | 0x80),
    };
    (syndrome, failure.syndrome as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    // tests/proxy/errors.rs holds the other statuses of verbs.h.
    #[test]
    fn an_unknown_status_keeps_its_number_and_the_vendors_has_eight_bits() {
        let (syndrome, vendor) = of(Failure {
            status: 21,
            syndrome: 0x181,
        });
        assert_eq!((syndrome.code(), vendor), (0x95, 0x81));
    }
}
