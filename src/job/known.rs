//! Texts of NCCL's warnings that name a kind of failure by themselves.

use crate::model::FailureKind::{
    self, Bootstrap, CollectiveMismatch, ConnectionClosed, ConnectionFailed, CudaFailure,
    NoNetwork, NoSocketInterface, SharedMemory,
};

/// Lower-case texts; the first that a warning has counts.
const TEXTS: [(&str, FailureKind); 28] = [
    ("no socket interface found", NoSocketInterface),
    ("no interface found", NoSocketInterface),
    ("no ip interface found", NoSocketInterface),
    ("no usable interface", NoSocketInterface),
    ("is neither af_inet(2) nor af_inet6", NoSocketInterface),
    ("socket creation failed : address family not supported", NoSocketInterface),
    ("failed to initialize any net plugin", NoNetwork),
    ("error: network ", NoNetwork),
    ("closed by remote peer", ConnectionClosed),
    ("/dev/shm/nccl-", SharedMemory),
    ("shared memory segment", SharedMemory),
    ("posix_fallocate failed", SharedMemory),
    ("socketstartconnect: connect", ConnectionFailed),
    ("socketpollconnect: connect", ConnectionFailed),
    ("connection refused", ConnectionFailed),
    ("connection timed out", ConnectionFailed),
    ("no route to host", ConnectionFailed),
    ("network is unreachable", ConnectionFailed),
    ("ranks has already checked in", Bootstrap),
    ("mismatch in rank count", Bootstrap),
    ("collective mismatch", CollectiveMismatch),
    ("mismatched collective", CollectiveMismatch),
    ("message truncated", CollectiveMismatch),
    ("cuda failure", CudaFailure),
    ("failed to cuda ", CudaFailure),
    ("hip failure", CudaFailure),
    ("hipipcgetmemhandle failed", CudaFailure),
    ("cudaipcgetmemhandle failed", CudaFailure),
];

pub fn kind(message: &str) -> Option<FailureKind> {
    let message = message.to_ascii_lowercase();
    TEXTS.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind)
}
