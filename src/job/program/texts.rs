//! What a text names by itself, in an exception or alone: memory that ran out, an error of CUDA, a port, a rendezvous.

use crate::model::FailureKind::{
    self, ConnectionClosed, ConnectionFailed, CudaFailure, GpuMemory, HostMemory, PortInUse,
    Rendezvous, SharedMemory, Timeout,
};

/// Lower-case texts; the first that a line has counts.
const TEXTS: [(&str, FailureKind); 48] = [
    ("cuda out of memory", GpuMemory),
    ("hip out of memory", GpuMemory),
    ("cuda error: out of memory", GpuMemory),
    ("cuda_error_out_of_memory", GpuMemory),
    ("cudaerrormemoryallocation", GpuMemory),
    ("resource_exhausted: out of memory", GpuMemory),
    ("resource_exhausted: failed to allocate", GpuMemory),
    ("not enough memory. please try to increase --mem-fraction", GpuMemory),
    ("no available memory for the cache blocks", GpuMemory),
    ("out of shared memory", SharedMemory),
    ("unable to allocate shared memory", SharedMemory),
    ("unable to write to file </torch_", SharedMemory),
    ("defaultcpuallocator: ", HostMemory),
    ("std::bad_alloc", HostMemory),
    ("killed due to memory pressure (oom)", HostMemory),
    ("killed due to the node running low on memory", HostMemory),
    ("oom-kill:constraint", HostMemory),
    ("out of memory: killed process", HostMemory),
    ("memory cgroup out of memory", HostMemory),
    ("oomkilled", HostMemory),
    ("[errno 12] cannot allocate memory", HostMemory),
    ("eaddrinuse", PortInUse),
    ("[errno 98] ", PortInUse),
    ("(errno: 98 - address already in use)", PortInUse),
    ("runtimeerror: address already in use", PortInUse),
    ("rendezvoustimeouterror", Rendezvous),
    ("rendezvousconnectionerror", Rendezvous),
    ("rendezvousclosederror", Rendezvous),
    ("connect() timed out. original timeout", Rendezvous),
    ("the client socket has timed out after", Rendezvous),
    ("timed out initializing process group in store based barrier", Rendezvous),
    ("cluster registration failed", Rendezvous),
    ("wait timeout after ", Timeout),
    ("runtimeerror: socket timeout", Timeout),
    ("barrier timed out", Timeout),
    ("getkeyvalue() timed out", Timeout),
    ("heartbeat timeout", Timeout),
    ("for recv operation to complete", Timeout),
    ("for send operation to complete", Timeout),
    ("connectfullmesh failed", ConnectionFailed),
    ("connection closed by peer [", ConnectionClosed),
    ("connection reset by peer", ConnectionClosed),
    ("cuda driver version is insufficient", CudaFailure),
    ("cuda driver initialization failed", CudaFailure),
    ("cuda error: ", CudaFailure),
    ("triton error [cuda]: ", CudaFailure),
    ("hip error: ", CudaFailure),
    ("no cuda gpus are available", CudaFailure),
];

pub fn kind(text: &str) -> Option<FailureKind> {
    let lower = text.to_ascii_lowercase();
    let found = TEXTS.iter().find(|(needle, _)| lower.contains(needle));
    let kind = found.map(|(_, kind)| *kind)?;
    // `No such file`, of an option that names the error.
    (!lower.contains("enable_") || kind != PortInUse).then_some(kind)
}

/// True for what a program without a job prints too.
pub fn is_of_any_program(kind: FailureKind) -> bool {
    matches!(kind, GpuMemory | HostMemory | CudaFailure | FailureKind::Exception | ConnectionClosed)
}

/// The results of NCCL's functions (`ncclGetErrorString`, src/init.cc, 2.4 to 2.30).
const RESULTS: [&str; 6] = [
    "unhandled cuda error",
    "unhandled system error",
    "internal error",
    "invalid argument",
    "invalid usage",
    "remote process exited or there was a network error",
];

/// What NCCL returned, in an exception of PyTorch, vLLM, Horovod or XLA, or in nccl-tests.
pub fn nccl_result(text: &str) -> Option<&'static str> {
    let at =
        ["NCCL error", "NCCL Error", "NCCL failure ", "NCCL operation ", "ncclCommInit", "ncclAll"]
            .iter()
            .find_map(|word| text.find(word))?;
    let rest = &text[at..];
    RESULTS.iter().find(|result| rest.contains(*result)).copied()
}
