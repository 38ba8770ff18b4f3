//! Converts the status of a verbs completion to a syndrome.

use verbs::Failure;

use crate::wire::Syndrome;

/// The syndrome that rdma-core's mlx5 provider converts to this status, and the lower eight bits of the vendor syndrome.
///
/// A status without a syndrome becomes its number with the highest bit set, which rdma-core reads as `IBV_WC_GENERAL_ERR`.
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

    // tests/proxy/errors.rs covers the other statuses of verbs.h.
    #[test]
    fn keeps_unknown_status() {
        let (syndrome, vendor) = of(Failure { status: 21, syndrome: 0x181 });
        assert_eq!((syndrome.code(), vendor), (0x95, 0x81));
    }
}
