//! The kernels of `kernels.ptx`, loaded at first use, launched with exactly the parameters they
//! declare.

use std::ffi::{CStr, c_void};
use std::time::Duration;

use gdr_sys::cuda as sys;

use super::driver::call;
use super::gpu::CudaGpu;
use crate::backend::Kernel;
use crate::{DevicePtr, Error};

/// The text the driver compiles for its GPU.
const TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("../kernels.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("kernels.ptx holds a NUL"),
    };

/// Threads a block, of the kernels that use many.
const THREADS: u32 = 256;
/// Blocks at most: enough for the largest GPUs, each thread taking more than one word.
const BLOCKS: u64 = 1024;
/// Threads a block of `copy_words`, of which each multiprocessor runs one.
const COPY_THREADS: u32 = 512;
const PARAMETERS: usize = 6;

/// The module and its functions.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub module: sys::Module,
    multiprocessors: u32,
    ping_pong: sys::Function,
    fill_pattern: sys::Function,
    check_pattern: sys::Function,
    copy_words: sys::Function,
    chase: sys::Function,
    hold: sys::Function,
    ping: sys::Function,
}

/// A kernel as the driver is to start it.
struct Launch {
    name: &'static str,
    function: sys::Function,
    /// As kernels.ptx declares them: a u64 each, or a u32, which the driver reads as the low half
    /// of its word.
    parameters: [u64; PARAMETERS],
    blocks: u32,
    threads: u32,
}

impl CudaGpu {
    /// The kernels, loaded; the context is current. `wanted` is who asks, for the message.
    pub(super) fn kernels(&self, wanted: &'static str) -> Result<Kernels, Error> {
        let mut lazy = self.lazy();
        if let Some(kernels) = lazy.kernels {
            return Ok(kernels);
        }
        let failed = |source| Error::Kernel {
            name: wanted,
            source,
        };
        let multiprocessors = self
            .driver
            .attribute(self.raw, sys::DeviceAttribute::MULTIPROCESSOR_COUNT.0)
            .map_err(failed)?;
        let mut module = sys::Module::NULL;
        call!(
            self.driver,
            cuModuleLoadData(&mut module, TEXT.as_ptr().cast())
        )
        .map_err(failed)?;
        let find = |name: &CStr| {
            let mut function = sys::Function::NULL;
            call!(
                self.driver,
                cuModuleGetFunction(&mut function, module, name.as_ptr())
            )
            .map(|()| function)
            .map_err(failed)
        };
        let kernels = Kernels {
            module,
            multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1),
            ping_pong: find(c"ping_pong")?,
            fill_pattern: find(c"fill_pattern")?,
            check_pattern: find(c"check_pattern")?,
            copy_words: find(c"copy_words")?,
            chase: find(c"chase")?,
            hold: find(c"hold")?,
            ping: find(c"ping")?,
        };
        Ok(*lazy.kernels.insert(kernels))
    }

    /// Starts a kernel; the context is current.
    ///
    /// # Safety
    ///
    /// The addresses are of memory as large as the kernel's parameters say, valid until the stream
    /// is done.
    pub(super) unsafe fn launch(&self, stream: sys::Stream, kernel: Kernel) -> Result<(), Error> {
        let name = kernel.name();
        let kernels = self.kernels(name)?;
        let one = |function, parameters| Launch {
            name,
            function,
            parameters,
            blocks: 1,
            threads: 1,
        };
        let many = |function, parameters, words: u64| {
            let threads = if words == 1 { 1 } else { THREADS };
            Launch {
                name,
                function,
                parameters,
                blocks: words.div_ceil(u64::from(threads)).min(BLOCKS) as u32,
                threads,
            }
        };
        let launch = match kernel {
            Kernel::PingPong {
                flag,
                reply,
                rounds,
                limit,
            } => one(
                kernels.ping_pong,
                [
                    flag.get(),
                    reply.get(),
                    u64::from(rounds),
                    nanoseconds(limit),
                    0,
                    0,
                ],
            ),
            Kernel::Ping {
                ours,
                theirs,
                rounds,
                limit,
            } => one(
                kernels.ping,
                [
                    ours.get(),
                    theirs.get(),
                    u64::from(rounds),
                    nanoseconds(limit),
                    0,
                    0,
                ],
            ),
            Kernel::Hold { gate, limit } => {
                one(kernels.hold, [gate.get(), nanoseconds(limit), 0, 0, 0, 0])
            }
            Kernel::Chase {
                list,
                start,
                hops,
                block,
                result,
                mask,
            } => Launch {
                blocks: kernels.multiprocessors,
                ..one(
                    kernels.chase,
                    [
                        list.get(),
                        u64::from(start),
                        u64::from(hops),
                        u64::from(block),
                        result.get(),
                        u64::from(mask),
                    ],
                )
            },
            Kernel::FillPattern {
                to,
                words,
                pattern,
                first,
            } => many(
                kernels.fill_pattern,
                [to.get(), words, pattern.key(), first, 0, 0],
                words,
            ),
            Kernel::CheckPattern {
                from,
                words,
                pattern,
                first,
                result,
                mark,
            } => {
                self.clear(stream, result, mark)?;
                many(
                    kernels.check_pattern,
                    [from.get(), words, pattern.key(), first, result.get(), 0],
                    words,
                )
            }
        };
        self.start(stream, launch)
    }

    /// Starts `copy_words`; the context is current.
    ///
    /// # Safety
    ///
    /// As [`Self::launch`].
    pub(super) unsafe fn copy_words(
        &self,
        stream: sys::Stream,
        to: DevicePtr,
        from: DevicePtr,
        vectors: u64,
    ) -> Result<(), Error> {
        let name = "copy_words";
        let kernels = self.kernels(name)?;
        let blocks = vectors.div_ceil(u64::from(COPY_THREADS));
        let launch = Launch {
            name,
            function: kernels.copy_words,
            parameters: [to.get(), from.get(), vectors, 0, 0, 0],
            blocks: blocks.min(u64::from(kernels.multiprocessors)) as u32,
            threads: COPY_THREADS,
        };
        self.start(stream, launch)
    }

    /// The result of `check_pattern` before it has found anything: no differences, the first of
    /// them nowhere.
    fn clear(&self, stream: sys::Stream, result: DevicePtr, mark: u32) -> Result<(), Error> {
        let (high, first) = (result.offset(4).get(), result.offset(8).get());
        call!(self.driver, cuMemsetD32Async(result.get(), 0, 1, stream))
            .and_then(|()| call!(self.driver, cuMemsetD32Async(high, mark, 1, stream)))
            .and_then(|()| call!(self.driver, cuMemsetD32Async(first, u32::MAX, 2, stream)))
            .map_err(|source| Error::Fill {
                address: result,
                bytes: 16,
                source,
            })
    }

    /// The context is current. A kernel of no blocks has nothing to do.
    fn start(&self, stream: sys::Stream, mut launch: Launch) -> Result<(), Error> {
        if launch.blocks == 0 {
            return Ok(());
        }
        let mut pointers = launch
            .parameters
            .each_mut()
            .map(|parameter| std::ptr::from_mut(parameter).cast::<c_void>());
        call!(
            self.driver,
            cuLaunchKernel(
                launch.function,
                launch.blocks,
                1,
                1,
                launch.threads,
                1,
                1,
                0,
                stream,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        )
        .map_err(|source| Error::Kernel {
            name: launch.name,
            source,
        })
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
