//! What a text names by itself, in an exception or alone: memory that ran out, an error of CUDA, a port, a rendezvous.

use memchr::memmem;

use crate::model::FailureKind::{
    self, ConnectionClosed, ConnectionFailed, CudaFailure, GpuMemory, HostMemory, HostName,
    OpenFiles, PortInUse, Rendezvous, SharedMemory, Timeout,
};

const HEARTBEAT: &str = "heartbeat timeout";

/// The store of PyTorch may be tried again after this.
pub const RETRIED: &str = "the client socket has failed to connect to any network address";

/// Lower-case texts; the first that a line has counts.
const TEXTS: [(&str, FailureKind); 61] = [
    ("too many open files", OpenFiles),
    ("received 0 items of ancdata", OpenFiles),
    ("could not resolve hostname", HostName),
    ("host not found: ", HostName),
    ("ipv4 network addresses of (", HostName),
    ("cuda out of memory", GpuMemory),
    ("torch.outofmemoryerror", GpuMemory),
    ("torch.cuda.outofmemoryerror", GpuMemory),
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
    ("exceeds the memory usage threshold of", HostMemory),
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
    (RETRIED, Rendezvous),
    ("timed out initializing process group in store based barrier", Rendezvous),
    ("cluster registration failed", Rendezvous),
    ("wait timeout after ", Timeout),
    ("runtimeerror: socket timeout", Timeout),
    ("barrier timed out", Timeout),
    ("getkeyvalue() timed out", Timeout),
    (HEARTBEAT, Timeout),
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
    ("with gpus, no gpus found", CudaFailure),
    ("device(s) is/are busy or unavailable", CudaFailure),
    ("devices are busy or unavailable", CudaFailure),
    ("cuda failure ", CudaFailure),
];

/// Words before a text that make it advice, or something that may happen.
const ADVICE: [&str; 11] = [
    "avoid", "prevent", "if ", "in case", "may ", "might ", "could ", "can ", "risk of",
    "against ", "until ",
];

/// Bytes before a text in which such a word counts.
const NEAR: usize = 48;

pub fn kind(text: &str) -> Option<FailureKind> {
    let lower = text.to_ascii_lowercase();
    let is_said = |needle: &str| {
        let at = lower.find(needle)?;
        let near = lower.as_bytes().get(at.saturating_sub(NEAR)..at)?;
        let is_advice = ADVICE.iter().any(|word| memmem::find(near, word.as_bytes()).is_some());
        // `heartbeat timeout: 600` is a setting.
        let is_setting = needle == HEARTBEAT && lower[at + needle.len()..].starts_with([':', '=']);
        (!is_advice && !is_setting).then_some(())
    };
    let found = TEXTS.iter().find(|(needle, _)| is_said(needle).is_some());
    let kind = found.map(|(_, kind)| *kind)?;
    // UCX's lines have a reader of their own.
    let is_of_ucx = kind == OpenFiles && lower.contains("ucx  error");
    // An option may have the name of the error.
    let is_option = kind == PortInUse && lower.contains("enable_");
    (!is_of_ucx && !is_option).then_some(kind)
}

/// True for what a program without a job prints too.
pub fn is_of_any_program(kind: FailureKind) -> bool {
    let is_failure = matches!(kind, FailureKind::Exception | ConnectionClosed | CudaFailure);
    is_failure || matches!(kind, GpuMemory | HostMemory | OpenFiles | HostName)
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
