//! The kernels of `kernels.ptx`, loaded at first use, launched with exactly the parameters they declare.

use std::ffi::{CStr, c_void};

use gdr_sys::cuda as sys;

use super::driver::call;
use super::gpu::CudaGpu;
use crate::Error;
use crate::backend::Kernel;

/// The text the driver compiles for its GPU.
const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(include_str!("../kernels.ptx"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => panic!("kernels.ptx holds a NUL"),
};

/// Threads a block, of the kernels that use many.
const THREADS: u32 = 256;
/// Blocks at most: enough for the largest GPUs, each thread taking more than one word.
const BLOCKS: u64 = 1024;

/// The module and its functions.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub module: sys::Module,
    ping_pong: sys::Function,
    fill_pattern: sys::Function,
    check_pattern: sys::Function,
}

impl CudaGpu {
    /// The kernels, loaded; the context is current. `wanted` is who asks, for the message.
    pub(super) fn kernels(&self, wanted: &'static str) -> Result<Kernels, Error> {
        let mut lazy = self.lazy();
        if let Some(kernels) = lazy.kernels {
            return Ok(kernels);
        }
        let failed = |source| Error::Kernel { name: wanted, source };
        let mut module = sys::Module::NULL;
        call!(self.driver, cuModuleLoadData(&mut module, TEXT.as_ptr().cast())).map_err(failed)?;
        let find = |name: &CStr| {
            let mut function = sys::Function::NULL;
            call!(self.driver, cuModuleGetFunction(&mut function, module, name.as_ptr()))
                .map(|()| function)
                .map_err(failed)
        };
        let kernels = Kernels {
            module,
            ping_pong: find(c"ping_pong")?,
            fill_pattern: find(c"fill_pattern")?,
            check_pattern: find(c"check_pattern")?,
        };
        Ok(*lazy.kernels.insert(kernels))
    }

    /// Starts a kernel; the context is current.
    ///
    /// # Safety
    ///
    /// The addresses are of memory as large as the kernel's parameters say, valid until the stream is done.
    pub(super) unsafe fn launch(&self, stream: sys::Stream, kernel: Kernel) -> Result<(), Error> {
        let name = kernel.name();
        let kernels = self.kernels(name)?;
        // Each kernel's parameters as kernels.ptx declares them: a u64 each, but for the u32 of ping_pong's rounds, which the
        // driver reads as the low half of its word.
        let (function, mut parameters, words) = match kernel {
            Kernel::PingPong {
                flag,
                reply,
                rounds,
                limit,
            } => {
                let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                let parameters = [flag.get(), reply.get(), u64::from(rounds), limit, 0];
                (kernels.ping_pong, parameters, 1)
            }
            Kernel::FillPattern {
                to,
                words,
                pattern,
                first,
            } => (kernels.fill_pattern, [to.get(), words, pattern.key(), first, 0], words),
            Kernel::CheckPattern {
                from,
                words,
                pattern,
                first,
                result,
            } => (
                kernels.check_pattern,
                [from.get(), words, pattern.key(), first, result.get()],
                words,
            ),
        };
        if words == 0 {
            return Ok(());
        }
        let threads = if words == 1 { 1 } else { THREADS };
        let blocks = words.div_ceil(u64::from(threads)).min(BLOCKS) as u32;
        let mut pointers = parameters
            .each_mut()
            .map(|parameter| std::ptr::from_mut(parameter).cast::<c_void>());
        call!(
            self.driver,
            cuLaunchKernel(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        )
        .map_err(|source| Error::Kernel { name, source })
    }
}
