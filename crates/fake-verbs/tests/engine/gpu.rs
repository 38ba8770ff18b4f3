//! Memory of the simulated CUDA, registered with the simulated NIC by its address and by a dma-buf.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr::null_mut;

use ibverbs_sys::*;
use libloading::os::unix::Library;
use serde_json::{Value, json};

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const PAGE: usize = 4096;

/// Two NICs and two GPUs; GPUDirect RDMA reaches the first one's memory.
fn machine() -> Value {
    let mut machine = two(&json!({}));
    machine["gpus"] = json!([{"attributes": {"116": 1, "124": 1}}, {}]);
    machine
}

/// A GPU, by the process's libcuda, with its context current.
struct Gpu(Library);

/// Calls a function by its name, with cuda.h's types, and takes no error.
macro_rules! call {
    ($gpu:expr, $name:ident ( $($argument:expr => $type:ty),* $(,)? )) => {{
        // SAFETY: cuda.h's signature of this function; pointers come from values that outlive the call.
        let code = unsafe {
            let symbol = $gpu.0.get::<unsafe extern "C" fn($($type),*) -> u32>(stringify!($name)).expect("it is there");
            symbol($($argument),*)
        };
        assert_eq!(code, 0, stringify!($name));
    }};
}

impl Gpu {
    fn open(ordinal: c_int) -> Self {
        // SAFETY: our own library, which does nothing when it is loaded.
        let gpu = Self(unsafe { Library::new("libcuda.so.1") }.expect("the library"));
        let mut context = 0;
        call!(gpu, cuInit(0 => u32));
        call!(gpu, cuDevicePrimaryCtxRetain(&mut context => *mut usize, ordinal => c_int));
        call!(gpu, cuCtxSetCurrent(context => usize));
        gpu
    }

    fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize));
        address
    }

    fn pinned(&self, bytes: usize) -> *mut c_void {
        let mut address = null_mut();
        call!(self, cuMemHostAlloc(&mut address => *mut *mut c_void, bytes => usize, 0 => u32));
        address
    }

    fn export(&self, address: u64, bytes: usize) -> File {
        let mut file: c_int = -1;
        let out = (&raw mut file).cast();
        call!(self, cuMemGetHandleForAddressRange(
            out => *mut c_void, address => u64, bytes => usize, 1 => u32, 0 => u64,
        ));
        // SAFETY: the descriptor was just made for the caller.
        unsafe { File::from_raw_fd(file) }
    }

    fn read(&self, from: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0xee; bytes];
        let to = out.as_mut_ptr().cast();
        call!(self, cuMemcpyDtoHAsync_v2(to => *mut c_void, from => u64, bytes => usize, 0 => usize));
        call!(self, cuCtxSynchronize());
        out
    }
}

/// An address as the NIC is told it.
fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

#[test]
fn device_memory_is_what_cuda_calls_so() {
    let mut machine = machine();
    machine["verbs"]["devices"][0]["peermem"] = json!(false);
    // No mapping has such a name.
    machine["verbs"]["device_memory"] = json!("memfd:nobody");
    on(
        "gpu::device_memory_is_what_cuda_calls_so",
        &machine,
        |verbs| {
            let gpu = Gpu::open(0);
            let (address, pinned) = (gpu.allocate(64 << 10), gpu.pinned(PAGE));
            let [without, with] =
                [0, 1].map(|device| verbs.pd(verbs.open(device)).expect("a domain"));
            let memory = pointer(address);
            assert_eq!(
                verbs.register(without, memory, 64 << 10, ALL),
                Err(libc::EFAULT)
            );
            assert!(
                verbs.register(without, pinned, PAGE, ALL).is_ok(),
                "pinned memory is the host's"
            );
            assert!(verbs.register(with, memory, 64 << 10, ALL).is_ok());

            // And bytes move there.
            let (here, there) = pair(verbs, RC);
            let mr = verbs
                .register(there.pd, memory, 64 << 10, ALL)
                .expect("memory");
            here.write(0, b"for the GPU");
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 11)]);
            // SAFETY: it was just made.
            write.remote = (address + 1000, unsafe { (*mr).rkey });
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.ended(), [(1, 0)]);
            assert_eq!(gpu.read(address + 999, 13), b"\0for the GPU\0");
        },
    );
}

#[test]
fn no_peer_reaches_memory_that_cuda_does_not_let_it_reach() {
    let test = "gpu::no_peer_reaches_memory_that_cuda_does_not_let_it_reach";
    on(test, &machine(), |verbs| {
        let first = Gpu::open(0).allocate(PAGE);
        let second = Gpu::open(1).allocate(PAGE);
        let pd = verbs.pd(verbs.open(0)).expect("a domain");
        assert!(verbs.register(pd, pointer(first), PAGE, ALL).is_ok());
        assert_eq!(
            verbs.register(pd, pointer(second), PAGE, ALL),
            Err(libc::EFAULT)
        );
    });
}

#[test]
fn a_dma_buf_begins_and_ends_with_what_was_exported() {
    let test = "gpu::a_dma_buf_begins_and_ends_with_what_was_exported";
    on(test, &machine(), |verbs| {
        let gpu = Gpu::open(0);
        let address = gpu.allocate(8 * PAGE);
        // Two pages of eight.
        let part = address + 3 * 4096;
        let file = gpu.export(part, 2 * PAGE);
        let (here, there) = pair(verbs, RC);
        let register = |offset: u64, bytes: usize| {
            verbs.register_file(there.pd, (file.as_raw_fd(), offset, bytes), part + offset)
        };
        for (offset, bytes) in [(0, 2 * PAGE + 1), (4096, PAGE + 1), (2 * 4096, 1)] {
            assert_eq!(
                register(offset, bytes).map(drop),
                Err(libc::EINVAL),
                "{bytes} at {offset}"
            );
        }
        let all = register(0, 2 * PAGE).expect("memory");
        let last = register(4096 + 24, 100).expect("memory");
        // The NIC needs the file no more.
        drop(file);
        here.write(0, b"first");
        here.write(64, b"second");
        for (mr, at, (offset, bytes)) in
            [(all, part + 2, (0, 5)), (last, part + 4096 + 30, (64, 6))]
        {
            let pieces = [(offset, bytes)];
            let mut write = request(1, IBV_WR_RDMA_WRITE, &pieces);
            // SAFETY: it was made above, and is not taken back.
            write.remote = (at, unsafe { (*mr).rkey });
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.ended(), [(1, 0)]);
        }
        let mut expected = vec![0; 8 * PAGE];
        expected[3 * PAGE + 2..][..5].copy_from_slice(b"first");
        expected[4 * PAGE + 30..][..6].copy_from_slice(b"second");
        assert!(gpu.read(address, 8 * PAGE) == expected);

        // A copy of the descriptor is of the same part, and of a part that begins where the allocation does.
        let file = gpu.export(address, PAGE);
        let copy = file.try_clone().expect("a descriptor");
        let register =
            |bytes: usize| verbs.register_file(there.pd, (copy.as_raw_fd(), 0, bytes), address);
        assert!(register(PAGE).is_ok());
        assert_eq!(register(PAGE + 1), Err(libc::EINVAL));
    });
}

#[test]
fn a_files_own_position_says_nothing() {
    on(
        "gpu::a_files_own_position_says_nothing",
        &two(&json!({})),
        |verbs| {
            let pd = verbs.pd(verbs.open(0)).expect("a domain");
            let mut file = tempfile::tempfile().expect("a file");
            // As after writing it.
            std::io::Write::write_all(&mut file, &[1; 2 * PAGE]).expect("room");
            assert!(
                verbs
                    .register_file(pd, (file.as_raw_fd(), 0, 2 * PAGE), 0)
                    .is_ok()
            );
        },
    );
}
