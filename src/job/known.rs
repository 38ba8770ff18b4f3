//! Texts of NCCL's warnings that name a kind of failure by themselves.

use crate::model::FailureKind::{
    self, Bootstrap, CollectiveMismatch, ConnectionClosed, ConnectionFailed, CudaFailure, HostName,
    MemoryRegistration, NetworkPlugin, NoNetwork, NoSocketInterface, OpenFiles, PortInUse,
    SharedMemory,
};

/// Lower-case texts; the first that a warning has counts.
const TEXTS: [(&str, FailureKind); 50] = [
    ("too many open files", OpenFiles),
    ("address already in use", PortInUse),
    ("when getting address info", HostName),
    ("no socket interface found", NoSocketInterface),
    ("no interface found", NoSocketInterface),
    ("no ip interface found", NoSocketInterface),
    ("no usable interface", NoSocketInterface),
    ("is neither af_inet(2) nor af_inet6", ConnectionFailed),
    ("socket creation failed : address family not supported", NoSocketInterface),
    ("failed to initialize any net plugin", NoNetwork),
    ("error: network ", NoNetwork),
    ("closed by remote peer", ConnectionClosed),
    ("connection reset by peer", ConnectionClosed),
    ("broken pipe", ConnectionClosed),
    ("/dev/shm/nccl-", SharedMemory),
    ("shared memory segment", SharedMemory),
    ("posix_fallocate failed", SharedMemory),
    ("shm_open failed", SharedMemory),
    ("socketstartconnect: connect", ConnectionFailed),
    ("socketpollconnect", ConnectionFailed),
    ("socketstartconnect: exceeded", ConnectionFailed),
    ("software caused connection abort", ConnectionFailed),
    ("connection refused", ConnectionFailed),
    ("connection timed out", ConnectionFailed),
    ("no route to host", ConnectionFailed),
    ("network is unreachable", ConnectionFailed),
    ("ranks has already checked in", Bootstrap),
    ("mismatch in rank count", Bootstrap),
    ("collective mismatch", CollectiveMismatch),
    ("mismatched collective", CollectiveMismatch),
    ("message truncated", CollectiveMismatch),
    ("bytes instead of ", CollectiveMismatch),
    ("call to connect failed", ConnectionFailed),
    ("wrong type ", ConnectionFailed),
    ("cuda failure", CudaFailure),
    ("failed to cuda ", CudaFailure),
    ("hip failure", CudaFailure),
    ("call to ibv_reg_", MemoryRegistration),
    ("net/ofi unable to register", MemoryRegistration),
    ("net/ofi couldn't", NetworkPlugin),
    ("net/ofi could not create", NetworkPlugin),
    ("net/ofi unable to", NetworkPlugin),
    ("net/ofi unexpected number of remote rails", NetworkPlugin),
    ("ofi fi_getinfo() call failed", NetworkPlugin),
    ("net/ofi initializing plugin failed", NetworkPlugin),
    ("hipipcgetmemhandle failed", CudaFailure),
    ("cudaipcgetmemhandle failed", CudaFailure),
    ("cuda ipc handle : ", CudaFailure),
    ("net/ofi creating new ", NetworkPlugin),
    ("net/ofi could not find", NetworkPlugin),
];

pub fn kind(message: &str) -> Option<FailureKind> {
    let message = message.to_ascii_lowercase();
    TEXTS.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind)
}
