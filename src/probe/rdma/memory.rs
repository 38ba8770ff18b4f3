//! Memory under test: filled, cleared and compared by other means than the NIC that moves it.

use gpu::{Allocation, DeviceMemory, Gpu, HostMemory, Pattern, Stream, pointer};
use verbs::{Buffer, Pages};

use super::task::Memory;
use crate::probe::failure::StepError;
use crate::probe::integrity::{Wrong, by_kernel, by_slice};

/// GPU memory is allocated in multiples of so many bytes: its pages are whole and not shared.
const GPU_PAGE: usize = 2 << 20;
/// Fewer bytes than these are compared by the CPU: a kernel compares words.
const WORDS: usize = 4096;
/// Fill value of bytes that are not read yet.
const UNREAD: u8 = 0xa5;

/// The memory of an end.
pub enum Store {
    Host(Buffer),
    /// The host's, pinned by a GPU's driver.
    Pinned(HostMemory),
    Device {
        memory: DeviceMemory,
        /// The stream that fills and compares it.
        stream: Stream,
    },
}

impl Store {
    /// Allocates at least so many bytes.
    pub fn take(memory: &Memory, bytes: usize) -> Result<Self, StepError> {
        Ok(match memory {
            Memory::Host => Self::Host(Buffer::new(bytes, Pages::Ordinary)?),
            Memory::Huge => Self::Host(Buffer::new(bytes, Pages::Huge)?),
            Memory::Pinned(target) => Self::Pinned(target.open()?.pinned(bytes)?),
            Memory::Gpu(target, _) => Self::on_gpu(&target.open()?, bytes)?,
        })
    }

    /// Allocates at least so many bytes of a GPU, zeroed.
    pub fn on_gpu(gpu: &Gpu, bytes: usize) -> Result<Self, StepError> {
        let memory = gpu.allocate(Allocation::Malloc, bytes.next_multiple_of(GPU_PAGE))?;
        if !gpu.is_sim() {
            // Otherwise a synchronous copy may return early, and the NIC reads old bytes. Ignored: older drivers lack it, and copies
            // here are waited for.
            let _ = pointer::set_sync_memops(memory.address());
        }
        let stream = gpu.stream()?;
        // The remote end may read all of it during a test case, and CUDA does not clear new memory.
        stream.fill(&memory, 0, memory.len(), 0)?;
        stream.synchronize()?;
        Ok(Self::Device { memory, stream })
    }

    /// The GPU memory and its stream; none for host memory.
    pub fn device(&self) -> Option<(&DeviceMemory, &Stream)> {
        match self {
            Self::Device { memory, stream } => Some((memory, stream)),
            Self::Host(_) | Self::Pinned(_) => None,
        }
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), StepError> {
        match self {
            Self::Host(buffer) => buffer.write(offset, bytes)?,
            Self::Pinned(memory) => memory.write(offset, bytes)?,
            Self::Device { memory, stream } => stream.write(memory, offset, bytes)?,
        }
        Ok(())
    }

    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), StepError> {
        match self {
            Self::Host(buffer) => buffer.read(offset, bytes)?,
            Self::Pinned(memory) => memory.read(offset, bytes)?,
            Self::Device { memory, stream } => {
                settle(memory.gpu());
                stream.read(memory, offset, bytes)?;
            }
        }
        Ok(())
    }

    /// Writes a pattern to its start.
    pub fn fill(&self, bytes: usize, pattern: Pattern) -> Result<(), StepError> {
        if let (Self::Device { memory, stream }, true) = (self, in_words(bytes)) {
            stream.fill_pattern(memory, 0, bytes, pattern, 0)?;
            return Ok(stream.synchronize()?);
        }
        let mut text = vec![0; bytes.next_multiple_of(4)];
        pattern.fill(&mut text, 0);
        self.write(0, &text[..bytes])
    }

    /// Compares the start of the memory: large GPU memory by a kernel, all else by the CPU.
    pub fn check(&self, bytes: usize, pattern: Pattern) -> Result<Option<Wrong>, StepError> {
        if let (Self::Device { memory, stream }, true) = (self, in_words(bytes)) {
            settle(memory.gpu());
            return Ok(by_kernel(stream, memory, bytes, pattern)?);
        }
        // The last word is compared whole: its bytes beyond the message hold the pattern, all others must be read.
        let mut seen = vec![0; bytes.next_multiple_of(4)];
        pattern.fill(&mut seen, 0);
        seen[..bytes].fill(UNREAD);
        self.read(0, &mut seen[..bytes])?;
        Ok(by_slice(&seen, pattern)?)
    }

    /// Writes its first 64-bit word.
    pub fn set_word(&self, value: u64) -> Result<(), StepError> {
        self.write(0, &value.to_ne_bytes())
    }

    /// Its first 64-bit word.
    pub fn word(&self) -> Result<u64, StepError> {
        let mut bytes = [0; 8];
        self.read(0, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Zeroes from there on.
    pub fn clear(&self, offset: usize, bytes: usize) -> Result<(), StepError> {
        match self {
            Self::Host(buffer) => Ok(buffer.fill(offset, bytes, 0)?),
            Self::Pinned(_) => self.write(offset, &vec![0; bytes]),
            Self::Device { memory, stream } => {
                stream.fill(memory, offset, bytes, 0)?;
                Ok(stream.synchronize()?)
            }
        }
    }

    /// Gives the pages of its first bytes back to the kernel: they are zero at the next access, which takes a page fault.
    pub fn release(&self, bytes: usize) -> Result<(), StepError> {
        match self {
            Self::Host(buffer) => Ok(buffer.release(bytes)?),
            Self::Pinned(_) | Self::Device { .. } => Err(StepError::OutOfStep),
        }
    }

    /// The address of ordinary and huge pages of the host.
    pub fn host_address(&self) -> Option<u64> {
        match self {
            Self::Host(buffer) => Some(buffer.address()),
            Self::Pinned(_) | Self::Device { .. } => None,
        }
    }

    /// True if the CPU can poll bytes that a NIC writes.
    pub fn is_seen(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Pinned(_))
    }

    /// Loads one byte with acquire order: earlier bytes of the message are visible too.
    pub fn load(&self, offset: usize) -> Result<u8, StepError> {
        match self {
            Self::Host(buffer) => Ok(buffer.load(offset)?),
            Self::Pinned(memory) => {
                let word = memory.load_u32(offset & !3)?.to_ne_bytes();
                Ok(word[offset & 3])
            }
            Self::Device { .. } => {
                let mut byte = [0];
                self.read(offset, &mut byte)?;
                Ok(byte[0])
            }
        }
    }

    /// Writes one byte.
    pub fn store(&self, offset: usize, value: u8) -> Result<(), StepError> {
        match self {
            Self::Host(buffer) => Ok(buffer.store(offset, value)?),
            Self::Pinned(_) | Self::Device { .. } => self.write(offset, &[value]),
        }
    }
}

fn in_words(bytes: usize) -> bool {
    bytes >= WORDS && bytes.is_multiple_of(4)
}

/// Makes a NIC's writes visible to the GPU's next operations. Ignored: the GPU may order them by itself, or the driver may lack
/// the call.
fn settle(gpu: &Gpu) {
    let _ = gpu.flush_remote_writes(false);
}

/// Half of the memory of an end, for messages of `room` bytes: whole cache lines.
pub fn half(room: usize) -> usize {
    room.next_multiple_of(64).max(64)
}
