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

    #[test]
    fn every_status_has_the_number_of_its_syndrome() {
        // Statuses of verbs.h, and what mlx5_handle_error_cqe of rdma-core reads them from.
        let table = [
            (1, 0x01),
            (2, 0x02),
            (4, 0x04),
            (5, 0x05),
            (6, 0x06),
            (7, 0x10),
            (8, 0x11),
            (9, 0x12),
            (10, 0x13),
            (11, 0x14),
            (12, 0x15),
            (13, 0x16),
            (16, 0x22),
            (21, 0x95),
        ];
        for (status, code) in table {
            let (syndrome, vendor) = of(Failure {
                status,
                syndrome: 0x181,
            });
            assert_eq!((syndrome.code(), vendor), (code, 0x81), "{status}");
        }
    }
}
