//! Why a request or a receive failed: the syndromes of an error completion.

use std::fmt;

/// The syndrome of an error completion: `MLX5_CQE_SYNDROME_…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// 0x01: a message is longer than what was posted for it, or than a message may be.
    LocalLength,
    /// 0x02: the entry is not one that this queue pair can do.
    LocalOperation,
    /// 0x04: local memory of the entry is not registered, or not for this.
    LocalProtection,
    /// 0x05: the queue pair had failed before, and gave this one up.
    Flushed,
    /// 0x06: binding a memory window failed.
    WindowBind,
    /// 0x10: the response of the remote end was unexpected.
    BadResponse,
    /// 0x11: received data cannot be written to local memory.
    LocalAccess,
    /// 0x12: the remote side refused the request as one it does not do.
    RemoteInvalidRequest,
    /// 0x13: the remote side's memory is not registered for this, or the key or the address is wrong.
    RemoteAccess,
    /// 0x14: the remote end could not execute the request.
    RemoteOperation,
    /// 0x15: the remote side does not answer.
    TransportRetry,
    /// 0x16: the remote side had nothing posted to receive into, for too long.
    ReceiverNotReady,
    /// 0x22: the remote end aborted the operation.
    RemoteAborted,
    /// Another number.
    Other(u8),
}

/// Number, syndrome, the name in rdma-core (after `MLX5_CQE_SYNDROME_`) and its words.
const KNOWN: [(u8, Syndrome, &str, &str); 13] = [
    (
        0x01,
        Syndrome::LocalLength,
        "LOCAL_LENGTH_ERR",
        "a message is longer than the buffer posted for it, or than a message may be",
    ),
    (
        0x02,
        Syndrome::LocalOperation,
        "LOCAL_QP_OP_ERR",
        "the entry is not one that the queue pair can do",
    ),
    (
        0x04,
        Syndrome::LocalProtection,
        "LOCAL_PROT_ERR",
        "local memory of the entry is not registered, or not for this",
    ),
    (
        0x05,
        Syndrome::Flushed,
        "WR_FLUSH_ERR",
        "an earlier entry of the queue pair failed, and this one was given up",
    ),
    (
        0x06,
        Syndrome::WindowBind,
        "MW_BIND_ERR",
        "binding a memory window failed",
    ),
    (
        0x10,
        Syndrome::BadResponse,
        "BAD_RESP_ERR",
        "the response of the remote end was unexpected",
    ),
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
        "the remote side refused the request: too long, or not one that its queue pair does",
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
        "the remote end could not execute the request",
    ),
    (
        0x15,
        Syndrome::TransportRetry,
        "TRANSPORT_RETRY_EXC_ERR",
        "the remote side does not answer: the way to it, or it is gone",
    ),
    (
        0x16,
        Syndrome::ReceiverNotReady,
        "RNR_RETRY_EXC_ERR",
        "the remote end had no receive posted",
    ),
    (
        0x22,
        Syndrome::RemoteAborted,
        "REMOTE_ABORTED_ERR",
        "the remote end aborted the operation",
    ),
];

impl Syndrome {
    /// All that rdma-core knows, by number.
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
            // Every variant but `Other` is in the table; a test holds that.
            (_, None) => 0,
        }
    }

    /// The name in rdma-core, as in `MLX5_CQE_SYNDROME_LOCAL_PROT_ERR`; none for a number it does not have.
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
            Some((code, _, name, words)) => write!(f, "{words} ({name}, syndrome {code:#04x})"),
            None => write!(f, "a syndrome that is not known ({:#04x})", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_syndrome_and_back() {
        for code in 0..=u8::MAX {
            assert_eq!(Syndrome::of(code).code(), code);
        }
        // mlx5dv.h.
        let numbers = [
            0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22,
        ];
        assert!(Syndrome::known().map(Syndrome::code).eq(numbers));
        assert!(Syndrome::known().all(|syndrome| syndrome.name().is_some()));
    }

    #[test]
    fn a_syndrome_says_what_it_means() {
        let text = Syndrome::of(0x13).to_string();
        assert!(text.contains("REMOTE_ACCESS_ERR, syndrome 0x13"), "{text}");
        assert!(Syndrome::of(0x77).to_string().contains("0x77"));
        assert_eq!(Syndrome::of(0x77).name(), None);
    }
}
