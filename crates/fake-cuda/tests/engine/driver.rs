//! The simulated driver in a process, loaded like the real one. It reads its machine once per
//! process, so each case runs in its own process: the test runs itself. Signatures are written from
//! cuda.h 13.0.

use std::ffi::{CString, c_int, c_void};
use std::fs::{self, File};
use std::os::fd::FromRawFd as _;
use std::process::Command;

use fakes::{Driver, cuda};
use libloading::os::unix::Library;
use serde_json::Value;

/// Name of the test, set for the child process.
const CASE: &str = "FAKE_CUDA_CASE";

/// Runs `case` in a process with this machine and this list of visible GPUs.
pub fn seeing(test: &str, machine: &Value, visible: Option<&str>, case: impl FnOnce(&Cuda)) {
    if let Ok(meant) = std::env::var(CASE) {
        if meant == test {
            case(&Cuda::load());
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.json");
    fs::write(&file, machine.to_string()).expect("a file");
    let library = cuda::build(Driver::Current).expect("the simulated library");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(CASE, test);
    command.env_remove("CUDA_VISIBLE_DEVICES");
    command.envs(visible.map(|list| ("CUDA_VISIBLE_DEVICES", list)));
    let output = command.envs(cuda::environment(&library, &file)).output().expect("it starts");
    let texts =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // The name of no test would pass without a call.
    let has_run = texts[0].contains("1 passed");
    assert!(output.status.success() && has_run, "{}", texts.concat());
}

/// As above, with all GPUs visible.
pub fn on(test: &str, machine: &Value, case: impl FnOnce(&Cuda)) {
    seeing(test, machine, None, case);
}

pub struct Cuda(Library);

/// Calls a function by name, with cuda.h's argument types.
macro_rules! call {
    ($cuda:expr, $name:ident ( $($argument:expr => $type:ty),* $(,)? )) => {{
        // SAFETY: cuda.h's signature of this function; pointers come from values that outlive the call.
        let code: u32 = unsafe {
            let symbol = $cuda.symbol::<unsafe extern "C" fn($($type),*) -> u32>(stringify!($name));
            symbol($($argument),*)
        };
        code
    }};
}

impl Cuda {
    fn load() -> Self {
        // SAFETY: our own library, whose constructors do nothing.
        Self(unsafe { Library::new("libcuda.so.1") }.expect("the library"))
    }

    /// # Safety
    ///
    /// `T` is the type of the function of this name.
    unsafe fn symbol<T: Copy>(&self, name: &str) -> T {
        // SAFETY: this function's own condition.
        *unsafe { self.0.get::<T>(name) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn init(&self) -> u32 {
        call!(self, cuInit(0 => u32))
    }

    pub fn count(&self) -> c_int {
        let mut out = -1;
        assert_eq!(call!(self, cuDeviceGetCount(&mut out => *mut c_int)), 0);
        out
    }

    /// Last byte of a device's UUID: its index in the machine file.
    pub fn place(&self, device: c_int) -> u8 {
        let mut out = [0; 16];
        assert_eq!(call!(self, cuDeviceGetUuid_v2(&mut out => *mut [u8; 16], device => c_int)), 0);
        out[15]
    }

    pub fn retain(&self, device: c_int) -> Result<usize, u32> {
        let mut out = 0;
        let code = call!(self, cuDevicePrimaryCtxRetain(&mut out => *mut usize, device => c_int));
        answer(code, out)
    }

    pub fn release(&self, device: c_int) -> u32 {
        call!(self, cuDevicePrimaryCtxRelease_v2(device => c_int))
    }

    /// Initialised, with contexts of this many devices, the first current.
    pub fn start(&self, devices: c_int) -> Vec<usize> {
        assert_eq!(self.init(), 0);
        let contexts: Vec<usize> =
            (0..devices).map(|device| self.retain(device).expect("a context")).collect();
        assert_eq!(self.current(contexts[0]), 0);
        contexts
    }

    pub fn current(&self, context: usize) -> u32 {
        call!(self, cuCtxSetCurrent(context => usize))
    }

    pub fn device(&self) -> Result<c_int, u32> {
        let mut out = -1;
        let code = call!(self, cuCtxGetDevice(&mut out => *mut c_int));
        answer(code, out)
    }

    pub fn enable(&self, peer: usize) -> u32 {
        call!(self, cuCtxEnablePeerAccess(peer => usize, 0 => u32))
    }

    pub fn disable(&self, peer: usize) -> u32 {
        call!(self, cuCtxDisablePeerAccess(peer => usize))
    }

    pub fn allocate(&self, bytes: usize) -> Result<u64, u32> {
        let mut out = 0;
        let code = call!(self, cuMemAlloc_v2(&mut out => *mut u64, bytes => usize));
        answer(code, out)
    }

    /// A dma-buf, or a handle of another type.
    pub fn export(&self, address: u64, bytes: usize, kind: u32, flags: u64) -> Result<File, u32> {
        let mut out: c_int = -1;
        let place = (&raw mut out).cast();
        let code = call!(self, cuMemGetHandleForAddressRange(
            place => *mut c_void, address => u64, bytes => usize, kind => u32, flags => u64,
        ));
        // SAFETY: the descriptor was created for the caller.
        answer(code, out).map(|file| unsafe { File::from_raw_fd(file) })
    }

    pub fn free(&self, address: u64) -> u32 {
        call!(self, cuMemFree_v2(address => u64))
    }

    pub fn info(&self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        assert_eq!(
            call!(self, cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)),
            0
        );
        (free, total)
    }

    pub fn pinned(&self, bytes: usize) -> *mut u8 {
        let mut out = std::ptr::null_mut();
        assert_eq!(
            call!(self, cuMemHostAlloc(&mut out => *mut *mut c_void, bytes => usize, 3 => u32)),
            0
        );
        out.cast()
    }

    /// As memory, mapped for all contexts.
    pub fn register(&self, bytes: &mut [u8]) -> u32 {
        self.register_as(3, bytes)
    }

    pub fn register_as(&self, flags: u32, bytes: &mut [u8]) -> u32 {
        call!(self, cuMemHostRegister_v2(bytes.as_mut_ptr().cast() => *mut c_void, bytes.len() => usize, flags => u32))
    }

    pub fn unregister(&self, bytes: &mut [u8]) -> u32 {
        call!(self, cuMemHostUnregister(bytes.as_mut_ptr().cast() => *mut c_void))
    }

    pub fn device_pointer<T>(&self, memory: *mut T) -> Result<u64, u32> {
        let mut out = 0;
        let code = call!(
            self,
            cuMemHostGetDevicePointer_v2(&mut out => *mut u64, memory.cast() => *mut c_void, 0 => u32)
        );
        answer(code, out)
    }

    pub fn stream(&self) -> usize {
        let mut out = 0;
        assert_eq!(call!(self, cuStreamCreate(&mut out => *mut usize, 1 => u32)), 0);
        out
    }

    pub fn query(&self, stream: usize) -> u32 {
        call!(self, cuStreamQuery(stream => usize))
    }

    pub fn synchronize(&self, stream: usize) -> u32 {
        call!(self, cuStreamSynchronize(stream => usize))
    }

    /// Copies from pageable memory and waits for the end.
    pub fn upload(&self, to: u64, bytes: &[u8]) -> u32 {
        let from = bytes.as_ptr().cast();
        let code = call!(self, cuMemcpyHtoDAsync_v2(to => u64, from => *const c_void, bytes.len() => usize, 0 => usize));
        if code == 0 { self.synchronize(0) } else { code }
    }

    pub fn download(&self, from: u64, bytes: usize) -> Result<Vec<u8>, u32> {
        let mut out = vec![0xee; bytes];
        let to = out.as_mut_ptr().cast();
        let code = call!(self, cuMemcpyDtoHAsync_v2(to => *mut c_void, from => u64, bytes => usize, 0 => usize));
        answer(code, out)
    }

    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> u32 {
        call!(self, cuMemcpyDtoDAsync_v2(to => u64, from => u64, bytes => usize, 0 => usize))
    }

    /// Copies from the memory of one context's GPU to another's.
    pub fn peer_copy(
        &self,
        (to, to_context): (u64, usize),
        (from, from_context): (u64, usize),
        bytes: usize,
    ) -> u32 {
        call!(
            self,
            cuMemcpyPeerAsync(
                to => u64, to_context => usize, from => u64, from_context => usize, bytes => usize, 0 => usize,
            )
        )
    }

    pub fn fill(&self, to: u64, word: u32, words: usize) -> u32 {
        call!(self, cuMemsetD32Async(to => u64, word => u32, words => usize, 0 => usize))
    }

    /// Batch of stream memory operations, each of cuda.h's 48 bytes: operation, address, value,
    /// flags.
    pub fn batch(&self, stream: usize, operations: &[(u32, u64, u64, u32)]) -> u32 {
        let mut list: Vec<[u64; 6]> = operations
            .iter()
            .map(|&(operation, address, value, flags)| {
                [operation.into(), address, value, flags.into(), 0, 0]
            })
            .collect();
        call!(self, cuStreamBatchMemOp_v2(
            stream => usize, list.len() as u32 => u32, list.as_mut_ptr() => *mut [u64; 6], 0 => u32,
        ))
    }

    /// As above, with the v1 function.
    pub fn batch_v1(&self, stream: usize, operation: (u32, u64, u64, u32)) -> u32 {
        let (operation, address, value, flags) = operation;
        let mut list = [operation.into(), address, value, flags.into(), 0, 0];
        call!(self, cuStreamBatchMemOp(stream => usize, 1 => u32, &mut list => *mut [u64; 6], 0 => u32))
    }

    /// Module of a text with kernels of these names, without bodies.
    pub fn module(&self, kernels: &[&str]) -> Result<usize, u32> {
        let entries =
            kernels.iter().map(|name| format!(".visible .entry {name}(\n)\n{{ ret; }}\n"));
        let text: String = std::iter::once(".version 6.0\n".to_owned()).chain(entries).collect();
        let text = CString::new(text).expect("no NUL");
        let mut out = 0;
        let code = call!(self, cuModuleLoadData(&mut out => *mut usize, text.as_ptr().cast() => *const c_void));
        answer(code, out)
    }

    pub fn function(&self, module: usize, name: &str) -> Result<usize, u32> {
        let name = CString::new(name).expect("no NUL");
        let mut out = 0;
        let code = call!(
            self,
            cuModuleGetFunction(&mut out => *mut usize, module => usize, name.as_ptr() => *const std::ffi::c_char)
        );
        answer(code, out)
    }

    /// Launches a kernel in a new module; a `u32` parameter is the low half of its word.
    pub fn launch(&self, name: &str, parameters: &[u64], blocks: u32, stream: usize) -> u32 {
        let module = self.module(&[name]).expect("a module");
        let function = self.function(module, name).expect("a function");
        let mut pointers: Vec<*const u64> = parameters.iter().map(std::ptr::from_ref).collect();
        call!(
            self,
            cuLaunchKernel(
                function => usize, blocks => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32,
                stream => usize, pointers.as_mut_ptr() => *mut *const u64, std::ptr::null_mut() => *mut *mut c_void,
            )
        )
    }

    pub fn error_name(&self, code: u32) -> Option<String> {
        let mut out = std::ptr::null();
        let answer =
            call!(self, cuGetErrorName(code => u32, &mut out => *mut *const std::ffi::c_char));
        assert_eq!(answer != 0, out.is_null());
        (answer == 0).then(|| {
            // SAFETY: not null: a static text of the library.
            unsafe { std::ffi::CStr::from_ptr(out) }.to_string_lossy().into_owned()
        })
    }
}

fn answer<T>(code: u32, value: T) -> Result<T, u32> {
    match code {
        0 => Ok(value),
        code => Err(code),
    }
}
