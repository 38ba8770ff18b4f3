//! A dma-buf of the fake CUDA, registered with the fake NIC.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use ibverbs_sys::*;
use libloading::os::unix::Library;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const PAGE: usize = 4096;

/// The process's libcuda, with GPU 0's context current.
struct Gpu(Library);

/// Calls a function by its name, with cuda.h's types, and expects success.
macro_rules! call {
    ($gpu:expr, $name:ident ( $($argument:expr => $type:ty),* $(,)? )) => {{
        // SAFETY: cuda.h's signature of this function; pointers come from values that outlive the call.
        let code = unsafe {
            let symbol = $gpu.0.get::<unsafe extern "C" fn($($type),*) -> u32>(stringify!($name)).expect("an exported function");
            symbol($($argument),*)
        };
        assert_eq!(code, 0, stringify!($name));
    }};
}

impl Gpu {
    fn open() -> Self {
        // SAFETY: a fake library without constructors.
        let gpu = Self(unsafe { Library::new("libcuda.so.1") }.expect("the library"));
        let mut context = 0;
        call!(gpu, cuInit(0 => u32));
        call!(gpu, cuDevicePrimaryCtxRetain(&mut context => *mut usize, 0 => c_int));
        call!(gpu, cuCtxSetCurrent(context => usize));
        gpu
    }

    fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&mut address => *mut u64, bytes => usize));
        address
    }

    fn export(&self, address: u64, bytes: usize) -> File {
        let mut file: c_int = -1;
        let out = (&raw mut file).cast();
        call!(self, cuMemGetHandleForAddressRange(
            out => *mut c_void, address => u64, bytes => usize, 1 => u32, 0 => u64,
        ));
        // SAFETY: a new descriptor that the caller owns.
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

#[test]
fn dma_buf_covers_exported_part() {
    let test = "gpu::dma_buf_covers_exported_part";
    let mut machine = two(&json!({}));
    machine["gpus"] = json!([{"attributes": {"116": 1, "124": 1}}]);
    on(test, &machine, |verbs| {
        let gpu = Gpu::open();
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
        // The registration keeps the memory.
        drop(file);
        here.write(0, b"first");
        here.write(64, b"second");
        for (mr, at, (offset, bytes)) in
            [(all, part + 2, (0, 5)), (last, part + 4096 + 30, (64, 6))]
        {
            let sges = [(offset, bytes)];
            let mut write = request(1, IBV_WR_RDMA_WRITE, &sges);
            // SAFETY: a live registration.
            write.remote = (at, unsafe { (*mr).rkey });
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.completions(), [(1, 0)]);
        }
        let mut expected = vec![0; 8 * PAGE];
        expected[3 * PAGE + 2..][..5].copy_from_slice(b"first");
        expected[4 * PAGE + 30..][..6].copy_from_slice(b"second");
        assert!(gpu.read(address, 8 * PAGE) == expected);

        // A duplicated descriptor covers the same part, here from the start of the allocation.
        let file = gpu.export(address, PAGE);
        let copy = file.try_clone().expect("a descriptor");
        let register =
            |bytes: usize| verbs.register_file(there.pd, (copy.as_raw_fd(), 0, bytes), address);
        assert!(register(PAGE).is_ok());
        assert_eq!(register(PAGE + 1), Err(libc::EINVAL));
    });
}
