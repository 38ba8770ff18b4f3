//! Loads the kernels of `kernels.ptx` and `post.ptx` at first use and launches them.

use std::ffi::{CStr, c_void};
use std::time::Duration;

use gdr_sys::cuda as sys;

use super::driver::call;
use super::gpu::CudaGpu;
use crate::backend::{Kernel, Perform};
use crate::{DevicePtr, Error};

/// PTX text that the driver compiles for its GPU.
const TEXT: &CStr = match CStr::from_bytes_with_nul(
    concat!(include_str!("../kernels.ptx"), include_str!("../post.ptx"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("kernels.ptx holds a NUL"),
};

/// Threads per block of `fill_pattern` and `check_pattern`.
const THREADS: u32 = 256;
/// Maximum number of blocks: fills the largest GPUs; each thread handles several words.
const BLOCKS: u64 = 1024;
/// Threads per block of `copy_words`; each multiprocessor runs one block.
const COPY_THREADS: u32 = 512;
const PARAMETERS: usize = 6;

/// The module and its functions.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub module: sys::Module,
    multiprocessors: u32,
    ping_pong: sys::Function,
    ping_pong_data: sys::Function,
    ping_data: sys::Function,
    fill_pattern: sys::Function,
    check_pattern: sys::Function,
    copy_words: sys::Function,
    chase: sys::Function,
    hold: sys::Function,
    ping: sys::Function,
    perform: sys::Function,
    post_requests: sys::Function,
}

/// Arguments of a kernel launch.
struct Launch {
    name: &'static str,
    function: sys::Function,
    /// In the order of kernels.ptx. The driver reads a u32 parameter from the low half of its word.
    parameters: [u64; PARAMETERS],
    blocks: u32,
    threads: u32,
}

impl CudaGpu {
    /// The loaded kernels; the context is current. Errors name `kernel`.
    pub(super) fn kernels(&self, kernel: &'static str) -> Result<Kernels, Error> {
        let mut lazy = self.lazy();
        if let Some(kernels) = lazy.kernels {
            return Ok(kernels);
        }
        let failed = |source| Error::Kernel { name: kernel, source };
        let multiprocessors = self
            .driver
            .attribute(self.raw, sys::DeviceAttribute::MULTIPROCESSOR_COUNT.0)
            .map_err(failed)?;
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
            multiprocessors: u32::try_from(multiprocessors).unwrap_or(1).max(1),
            ping_pong: find(c"ping_pong")?,
            ping_pong_data: find(c"ping_pong_data")?,
            ping_data: find(c"ping_data")?,
            fill_pattern: find(c"fill_pattern")?,
            check_pattern: find(c"check_pattern")?,
            copy_words: find(c"copy_words")?,
            chase: find(c"chase")?,
            hold: find(c"hold")?,
            ping: find(c"ping")?,
            perform: find(c"perform")?,
            post_requests: find(c"post_requests")?,
        };
        Ok(*lazy.kernels.insert(kernels))
    }

    /// Starts a kernel; the context is current.
    ///
    /// # Safety
    ///
    /// The addresses are memory of the sizes in the kernel's parameters, valid until the stream is
    /// done.
    pub(super) unsafe fn launch(&self, stream: sys::Stream, kernel: Kernel) -> Result<(), Error> {
        let name = kernel.name();
        let kernels = self.kernels(name)?;
        let (function, words) = match kernel {
            Kernel::PingPong { .. } => (kernels.ping_pong, 1),
            Kernel::PingPongData { words, writes: false, .. } => (kernels.ping_pong_data, words),
            Kernel::PingPongData { words, .. } => (kernels.ping_data, words),
            Kernel::Ping { .. } => (kernels.ping, 1),
            Kernel::Hold { .. } => (kernels.hold, 1),
            Kernel::Post { .. } => (kernels.post_requests, 1),
            Kernel::Chase { .. } => (kernels.chase, 1),
            Kernel::FillPattern { words, .. } => (kernels.fill_pattern, words),
            Kernel::CheckPattern { words, result, mark, .. } => {
                self.clear(stream, result, mark)?;
                (kernels.check_pattern, words)
            }
        };
        let threads = if words == 1 { 1 } else { THREADS };
        let (blocks, threads) = match kernel {
            Kernel::Chase { .. } => (kernels.multiprocessors, threads),
            Kernel::PingPongData { blocks, threads, .. } => (blocks, threads),
            Kernel::Post { count, batches, .. } => (count, batches.threads),
            _ => {
                let blocks = words.div_ceil(u64::from(threads)).min(BLOCKS);
                (blocks as u32, threads)
            }
        };
        let launch = Launch { name, function, parameters: parameters(kernel), blocks, threads };
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

    /// Starts `perform`; the context is current.
    ///
    /// # Safety
    ///
    /// As [`Self::launch`]; the list has the operations.
    pub(super) unsafe fn perform(
        &self,
        stream: sys::Stream,
        work: &Perform<'_>,
    ) -> Result<(), Error> {
        let name = "perform";
        let (list, result) = (work.list.get(), work.result.get());
        let limit = nanoseconds(work.limit);
        let launch = Launch {
            name,
            function: self.kernels(name)?.perform,
            parameters: [list, work.ops.len() as u64, result, limit, 0, 0],
            blocks: 1,
            threads: 1,
        };
        self.start(stream, launch)
    }

    /// Resets the result of `check_pattern`: no mismatches, no first mismatch.
    fn clear(&self, stream: sys::Stream, result: DevicePtr, mark: u32) -> Result<(), Error> {
        let (high, first) = (result.offset(4).get(), result.offset(8).get());
        call!(self.driver, cuMemsetD32Async(result.get(), 0, 1, stream))
            .and_then(|()| call!(self.driver, cuMemsetD32Async(high, mark, 1, stream)))
            .and_then(|()| call!(self.driver, cuMemsetD32Async(first, u32::MAX, 2, stream)))
            .map_err(|source| Error::Fill { address: result, bytes: 16, source })
    }

    /// Launches a kernel with at least one block; the context is current.
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
        .map_err(|source| Error::Kernel { name: launch.name, source })
    }
}

/// A kernel's parameters, in the order of kernels.ptx.
fn parameters(kernel: Kernel) -> [u64; PARAMETERS] {
    match kernel {
        Kernel::PingPong { flag: first, reply: second, rounds, limit }
        | Kernel::Ping { ours: first, theirs: second, rounds, limit } => {
            [first.get(), second.get(), u64::from(rounds), nanoseconds(limit), 0, 0]
        }
        Kernel::PingPongData { flags, replies, rounds, limit, data, words, .. } => {
            [flags.get(), replies.get(), u64::from(rounds), nanoseconds(limit), data.get(), words]
        }
        Kernel::Post { queues, batches, .. } => [
            queues.get(),
            batches.rounds.into(),
            batches.batch.into(),
            batches.ahead.into(),
            batches.words.into(),
            nanoseconds(batches.timeout),
        ],
        Kernel::Hold { gate, limit } => [gate.get(), nanoseconds(limit), 0, 0, 0, 0],
        Kernel::Chase { list, start, hops, block, result, mask } => [
            list.get(),
            u64::from(start),
            u64::from(hops),
            u64::from(block),
            result.get(),
            u64::from(mask),
        ],
        Kernel::FillPattern { to, words, pattern, first } => {
            [to.get(), words, pattern.key(), first, 0, 0]
        }
        Kernel::CheckPattern { from, words, pattern, first, result, .. } => {
            [from.get(), words, pattern.key(), first, result.get(), 0]
        }
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
