//! Syndromes of error CQEs.

use std::fmt;

/// The syndrome of an error CQE: `MLX5_CQE_SYNDROME_…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// 0x01: a message is longer than its receive buffer, or than the limit.
    LocalLength,
    /// 0x02: the queue pair does not support this WQE.
    LocalOperation,
    /// 0x04: local memory is not registered, or lacks the access right.
    LocalProtection,
    /// 0x05: flushed after an earlier error of the queue pair.
    Flushed,
    /// 0x06: binding a memory window failed.
    WindowBind,
    /// 0x10: unexpected response of the remote side.
    BadResponse,
    /// 0x11: received data cannot be written to local memory.
    LocalAccess,
    /// 0x12: the remote side rejected the request as invalid.
    RemoteInvalidRequest,
    /// 0x13: remote memory is not registered with this access right, or its key or address is wrong.
    RemoteAccess,
    /// 0x14: the remote side could not execute the request.
    RemoteOperation,
    /// 0x15: the remote side does not answer.
    TransportRetry,
    /// 0x16: the remote side had no receive posted until the retries ran out.
    ReceiverNotReady,
    /// 0x22: the remote side aborted the operation.
    RemoteAborted,
    /// Another number.
    Other(u8),
}

/// Number, syndrome, name in rdma-core (after `MLX5_CQE_SYNDROME_`) and description.
const KNOWN: [(u8, Syndrome, &str, &str); 13] = [
    (
        0x01,
        Syndrome::LocalLength,
        "LOCAL_LENGTH_ERR",
        "a message is longer than its receive buffer, or than the limit",
    ),
    (0x02, Syndrome::LocalOperation, "LOCAL_QP_OP_ERR", "the queue pair does not support this WQE"),
    (
        0x04,
        Syndrome::LocalProtection,
        "LOCAL_PROT_ERR",
        "local memory is not registered, or lacks the access right",
    ),
    (0x05, Syndrome::Flushed, "WR_FLUSH_ERR", "flushed after an earlier error of the queue pair"),
    (0x06, Syndrome::WindowBind, "MW_BIND_ERR", "binding a memory window failed"),
    (0x10, Syndrome::BadResponse, "BAD_RESP_ERR", "unexpected response of the remote side"),
    (
        0x11,
        Syndrome::LocalAccess,
        "LOCAL_ACCESS_ERR",
        "received data cannot be written to local memory",
    ),
    (
        0x12,
        Syndrome::RemoteInvalidRequest,
        "REMOTE_INVAL_REQ_ERR",
        "the remote side rejected the request: too long, or unsupported by its queue pair",
    ),
    (
        0x13,
        Syndrome::RemoteAccess,
        "REMOTE_ACCESS_ERR",
        "the remote memory is not registered with this access, or its key or address is wrong",
    ),
    (
        0x14,
        Syndrome::RemoteOperation,
        "REMOTE_OP_ERR",
        "the remote side could not execute the request",
    ),
    (
        0x15,
        Syndrome::TransportRetry,
        "TRANSPORT_RETRY_EXC_ERR",
        "the remote side does not answer: it is gone, or the path to it is down",
    ),
    (
        0x16,
        Syndrome::ReceiverNotReady,
        "RNR_RETRY_EXC_ERR",
        "the remote side had no receive posted",
    ),
    (0x22, Syndrome::RemoteAborted, "REMOTE_ABORTED_ERR", "the remote side aborted the operation"),
];

impl Syndrome {
    /// All syndromes of rdma-core, by number.
    pub fn known() -> impl Iterator<Item = Self> {
        KNOWN.iter().map(|&(_, syndrome, ..)| syndrome)
    }

    /// The syndrome of this number.
    #[must_use]
    pub fn of(code: u8) -> Self {
        let known = KNOWN.iter().find(|&&(number, ..)| number == code);
        known.map_or(Self::Other(code), |&(_, syndrome, ..)| syndrome)
    }

    /// Its number.
    #[must_use]
    pub fn code(self) -> u8 {
        match (self, self.entry()) {
            (Self::Other(code), _) => code,
            (_, Some(&(code, ..))) => code,
            // Unreachable: a test checks that every variant but `Other` is in the table.
            (_, None) => 0,
        }
    }

    /// The name in rdma-core without the prefix `MLX5_CQE_SYNDROME_`; `None` for other numbers.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|&(_, _, name, _)| name)
    }

    fn entry(self) -> Option<&'static (u8, Self, &'static str, &'static str)> {
        KNOWN.iter().find(|&&(_, syndrome, ..)| syndrome == self)
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry() {
            Some((code, _, name, text)) => write!(f, "{text} ({name}, syndrome {code:#04x})"),
            None => write!(f, "unknown syndrome {:#04x}", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for code in 0..=u8::MAX {
            assert_eq!(Syndrome::of(code).code(), code);
        }
        // mlx5dv.h.
        let numbers =
            [0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22];
        assert!(Syndrome::known().map(Syndrome::code).eq(numbers));
        assert!(Syndrome::known().all(|syndrome| syndrome.name().is_some()));
    }

    #[test]
    fn displays_name_and_number() {
        let text = Syndrome::of(0x13).to_string();
        assert!(text.contains("REMOTE_ACCESS_ERR, syndrome 0x13"), "{text}");
        assert!(Syndrome::of(0x77).to_string().contains("0x77"));
        assert_eq!(Syndrome::of(0x77).name(), None);
    }
}
