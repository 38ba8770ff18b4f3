//! Copies by the faster of CPU mapping and GPU copy engine.

use std::time::{Duration, Instant};

use gpu::{Allocation, Gpu, Stream};

use crate::{Error, Gdr, MapRequest, Mapping, PinFlags};

/// Sizes in bytes from which the copy engine is faster than the CPU, for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossover {
    /// Host to GPU.
    pub write: usize,
    /// GPU to host.
    pub read: usize,
}

/// Which engine copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copied {
    /// The CPU, through the mapping.
    ByCpu,
    /// The GPU's copy engine.
    ByEngine,
}

/// Measured sizes, as powers of two in bytes.
const SIZES: std::ops::RangeInclusive<u32> = 10..=23;
const ROUNDS: usize = 5;

impl Crossover {
    /// Always use the CPU.
    pub const NEVER: Self = Self { write: usize::MAX, read: usize::MAX };

    /// Measures with newly allocated memory, between pageable host memory and `gpu`; takes about
    /// 0.1 s. The result applies to this machine and may be cached.
    ///
    /// # Errors
    /// Errors of allocating, pinning, mapping and copying.
    pub fn measure(gdr: &Gdr, gpu: &Gpu) -> Result<Self, Error> {
        let largest = 1 << SIZES.end();
        let memory = gpu.allocate(Allocation::Malloc, largest).map_err(failed)?;
        let stream = gpu.stream().map_err(failed)?;
        let mut mapping =
            gdr.pin(&memory, 0..largest, PinFlags::default())?.map(MapRequest::Default)?;
        let mut host = vec![0x5A; largest];
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        for size in SIZES.map(|shift| 1 << shift) {
            let Some(host) = host.get_mut(..size) else {
                break;
            };
            let cpu = fastest(|| mapping.write(0, host))?;
            let engine = fastest(|| stream.write(&memory, 0, host).map_err(failed))?;
            writes.push((size, cpu, engine));
            let cpu = fastest(|| mapping.read(0, host))?;
            let engine = fastest(|| stream.read(&memory, 0, host).map_err(failed))?;
            reads.push((size, cpu, engine));
        }
        Ok(Self { write: crossing(&writes), read: crossing(&reads) })
    }
}

/// Size, CPU time, engine time.
type Measured = (usize, Duration, Duration);

/// Smallest size from which the engine wins at every measured size.
fn crossing(measured: &[Measured]) -> usize {
    let won = measured.iter().rev().take_while(|(_, cpu, engine)| engine < cpu);
    won.last().map_or(usize::MAX, |&(size, ..)| size)
}

fn fastest(mut copy: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        copy()?;
        fastest = fastest.min(started.elapsed());
    }
    Ok(fastest)
}

impl Mapping {
    /// [`Mapping::write`], by the copy engine if that is faster and `stream` is of the memory's
    /// GPU. Waits for completion. Only memory pinned by [`Gdr::pin`] uses the engine.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Cuda`].
    pub fn write_best(
        &mut self,
        stream: &Stream,
        crossover: Crossover,
        offset: usize,
        bytes: &[u8],
    ) -> Result<Copied, Error> {
        self.holds(offset, bytes.len())?;
        if bytes.len() >= crossover.write
            && let Some((memory, start)) = self.memory()
        {
            // Orders earlier CPU stores first.
            self.fence();
            stream.write(memory, start + offset, bytes).map_err(failed)?;
            return Ok(Copied::ByEngine);
        }
        self.write(offset, bytes).map(|()| Copied::ByCpu)
    }

    /// [`Mapping::read`], by the copy engine if that is faster and `stream` is of the memory's GPU.
    /// Waits for completion. Only memory pinned by [`Gdr::pin`] uses the engine.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Cuda`].
    pub fn read_best(
        &self,
        stream: &Stream,
        crossover: Crossover,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<Copied, Error> {
        self.holds(offset, bytes.len())?;
        if bytes.len() >= crossover.read
            && let Some((memory, start)) = self.memory()
        {
            // Orders earlier CPU stores first.
            self.fence();
            stream.read(memory, start + offset, bytes).map_err(failed)?;
            return Ok(Copied::ByEngine);
        }
        self.read(offset, bytes).map(|()| Copied::ByCpu)
    }

    /// Rejects ranges beyond the mapping, which the engine could still access in the memory.
    fn holds(&self, offset: usize, length: usize) -> Result<(), Error> {
        let available = self.len();
        match offset.checked_add(length) {
            Some(end) if end <= available => Ok(()),
            _ => Err(Error::Range { offset, length, available }),
        }
    }
}

fn failed(source: gpu::Error) -> Error {
    Error::Cuda { operation: "copy with the GPU's engine", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossover_is_where_engine_wins_at_all_larger_sizes() {
        let of = |pairs: &[(usize, u64, u64)]| {
            let measured: Vec<Measured> = pairs
                .iter()
                .map(|&(size, cpu, engine)| {
                    (size, Duration::from_micros(cpu), Duration::from_micros(engine))
                })
                .collect();
            crossing(&measured)
        };
        assert_eq!(
            of(&[(1024, 1, 9), (2048, 9, 8), (4096, 8, 9), (8192, 20, 10), (16384, 40, 11)]),
            8192
        );
        assert_eq!(of(&[(1024, 1, 9), (2048, 2, 9)]), usize::MAX);
        assert_eq!(of(&[(1024, 10, 9), (2048, 10, 9)]), 1024);
        assert_eq!(of(&[]), usize::MAX);
    }
}
