//! The checks of one allocation and its mapping: stores, copies, offsets and writes of the GPU. Each byte is compared along another
//! path.

use gdrcopy::Mapping;
use gpu::{DeviceMemory, Pattern};

use super::session::{Session, allowance, device_differs, pattern, wrong_at};
use crate::model::ProbeResult;
use crate::probe::bytes::{Mismatch, compare, inverted};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::UNTOUCHED;
use crate::probe::verdict::Subject;

/// The offsets of gdrcopy's tests, in bytes and in words of four bytes.
const OFFSETS: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 11, 129, 1023];
/// Bytes of the buffer for the test of offsets.
const AREA: usize = 16 << 10;
/// Bytes of the buffer for the test of single stores.
pub const STORED: usize = 64 << 10;
/// Larger allocations are verified in blocks of this size.
pub const BLOCK: usize = 64 << 20;
/// A check of one allocation.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Stores,
    Copies,
    Offsets,
    GpuWrites,
}

impl Part {
    pub const ALL: [Self; 4] = [Self::Stores, Self::Copies, Self::Offsets, Self::GpuWrites];

    /// The last word of the result's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stores => "stores",
            Self::Copies => "copies",
            Self::Offsets => "offsets",
            Self::GpuWrites => "gpu-writes",
        }
    }
}

pub type Outcome = Result<Verified, StepError>;

/// The number of right bytes, or the first wrong one.
pub enum Verified {
    Right(usize),
    Wrong(String),
}

impl Verified {
    pub fn result(self, about: &Subject, name: &str, bytes: Option<usize>) -> ProbeResult {
        match self {
            Self::Right(verified) => about.right(name, bytes, verified),
            Self::Wrong(reason) => about.wrong(name, bytes, reason),
        }
    }
}

/// An allocation and its mapping.
pub struct Check<'a, 'b> {
    pub session: &'a Session<'a>,
    pub memory: &'a DeviceMemory,
    pub mapping: &'a mut Mapping,
    pub reporter: &'a mut Reporter<'b>,
}

impl Check<'_, '_> {
    pub fn run(&mut self, part: Part) -> Outcome {
        match part {
            Part::Stores => self.stores(),
            Part::Copies => self.copies(),
            Part::Offsets => self.offsets(),
            Part::GpuWrites => self.gpu_writes(),
        }
    }

    /// Begins a step for each further block of a large allocation.
    fn begin_block(&mut self, start: usize, length: usize) -> Result<(), StepError> {
        if start > 0 {
            let what = format!("{length} bytes from {start} on ({})", self.memory.kind());
            self.reporter.doing_for(what, allowance(length))?;
        }
        Ok(())
    }

    fn wrong(&self, offset: usize, mismatch: &Mismatch, path: &str) -> Verified {
        Verified::Wrong(format!("{} ({path})", wrong_at(self.memory, offset, mismatch)))
    }

    /// Compares device memory, read by the copy engine.
    fn compare_by_engine(&self, offset: usize, expected: &[u8], path: &str) -> Outcome {
        Ok(match device_differs(&self.session.stream, self.memory, offset, expected)? {
            Some(mismatch) => self.wrong(offset, &mismatch, path),
            None => Verified::Right(expected.len()),
        })
    }

    /// Single stores of each width by the CPU, read by single loads and by the copy engine.
    fn stores(&mut self) -> Outcome {
        let length = self.memory.len().min(STORED);
        let expected = pattern(1, length);
        let quarters = length / 4 / 8 * 8;
        let word = |at: usize, width: usize| -> u64 {
            expected[at..at + width].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let mut at = 0;
        for (width, end) in
            [(1, quarters), (2, 2 * quarters), (4, 3 * quarters), (8, length / 8 * 8)]
        {
            while at + width <= end {
                match width {
                    1 => self.mapping.store(at, word(at, 1) as u8)?,
                    2 => self.mapping.store(at, word(at, 2) as u16)?,
                    4 => self.mapping.store(at, word(at, 4) as u32)?,
                    _ => self.mapping.store(at, word(at, 8))?,
                }
                at += width;
            }
        }
        self.mapping.fence();
        for place in (0..at).step_by(8) {
            let loaded: u64 = self.mapping.load(place)?;
            if let Some(mismatch) = compare(&expected[place..place + 8], &loaded.to_le_bytes()) {
                return Ok(self.wrong(place, &mismatch, "stored and loaded by the CPU"));
            }
        }
        self.compare_by_engine(0, &expected[..at], "stored by the CPU, read by the copy engine")
    }

    /// Copies of the CPU, read by the copy engine (by a kernel if there are several blocks) and by the CPU.
    fn copies(&mut self) -> Outcome {
        let whole = self.memory.len();
        let mut verified = 0;
        let mut host = vec![0; whole.min(BLOCK)];
        for start in (0..whole).step_by(BLOCK) {
            let length = BLOCK.min(whole - start);
            self.begin_block(start, length)?;
            let first = (start / 4) as u64;
            let host = &mut host[..length];
            Pattern::new(2).fill(host, first);
            self.mapping.write(start, host)?;
            // A kernel compares whole words without a copy back to the host.
            if whole > BLOCK && length.is_multiple_of(4) {
                let stream = &self.session.stream;
                let differ =
                    stream.check_pattern(self.memory, start, length, Pattern::new(2), first)?;
                if let Some(word) = differ.first {
                    let at = start + word as usize * 4;
                    let end = (at + 4).min(whole);
                    let expected = &host[at - start..end - start];
                    let path = "written by the CPU, read by a kernel of the GPU";
                    return Ok(match self.compare_by_engine(at, expected, path)? {
                        Verified::Right(_) => Verified::Wrong(format!(
                            "byte {at} at {}: a kernel of the GPU read {} wrong words of what the CPU wrote, this one first; the copy \
                             engine read it later, and it was right",
                            self.memory.address().offset(at as u64),
                            differ.words
                        )),
                        wrong => wrong,
                    });
                }
            } else if let wrong @ Verified::Wrong(_) =
                self.compare_by_engine(start, host, "written by the CPU, read by the copy engine")?
            {
                return Ok(wrong);
            }
            let mut back = inverted(host);
            self.mapping.read(start, &mut back)?;
            if let Some(mismatch) = compare(host, &back) {
                return Ok(self.wrong(start, &mismatch, "written and read back by the CPU"));
            }
            verified += 2 * length;
        }
        Ok(Verified::Right(verified))
    }

    /// Copies at offsets of the device, of the host and of both. No other byte may change.
    fn offsets(&mut self) -> Outcome {
        let area = self.memory.len().min(AREA);
        let source = pattern(3, area);
        let mut verified = 0;
        for offset in OFFSETS
            .into_iter()
            .flat_map(|offset| [offset, 4 * offset])
            .filter(|offset| *offset < area)
        {
            for (device, host) in [(offset, 0), (0, offset), (offset, offset)] {
                let length = area - offset;
                self.session.stream.fill(self.memory, 0, area, UNTOUCHED)?;
                self.session.stream.synchronize()?;
                self.mapping.write(device, &source[host..host + length])?;
                let mut image = vec![UNTOUCHED; area];
                image[device..device + length].copy_from_slice(&source[host..host + length]);
                if let wrong @ Verified::Wrong(_) =
                    self.compare_by_engine(0, &image, "written by the CPU at an offset")?
                {
                    return Ok(wrong);
                }
                let mut found = vec![UNTOUCHED; area];
                self.mapping.read(device, &mut found[host..host + length])?;
                let mut expected = vec![UNTOUCHED; area];
                expected[host..host + length].copy_from_slice(&image[device..device + length]);
                if let Some(mismatch) = compare(&expected, &found) {
                    // The device offset of the host buffer's first byte.
                    let from = device.wrapping_sub(host);
                    return Ok(self.wrong(from, &mismatch, "read by the CPU at an offset"));
                }
                verified += 2 * area;
            }
        }
        Ok(Verified::Right(verified))
    }

    /// Writes of a kernel, read by the CPU.
    fn gpu_writes(&mut self) -> Outcome {
        let whole = self.memory.len() / 4 * 4;
        let seed = Pattern::new(4);
        self.session.stream.fill_pattern(self.memory, 0, whole, seed, 0)?;
        self.session.stream.synchronize()?;
        let mut expected = vec![0; whole.min(BLOCK)];
        let mut found = vec![0; whole.min(BLOCK)];
        for start in (0..whole).step_by(BLOCK) {
            let length = BLOCK.min(whole - start);
            self.begin_block(start, length)?;
            seed.fill(&mut expected[..length], (start / 4) as u64);
            for (found, expected) in found.iter_mut().zip(&expected[..length]) {
                *found = !expected;
            }
            self.mapping.read(start, &mut found[..length])?;
            if let Some(mismatch) = compare(&expected[..length], &found[..length]) {
                return Ok(self.wrong(
                    start,
                    &mismatch,
                    "written by a kernel of the GPU, read by the CPU",
                ));
            }
        }
        Ok(Verified::Right(whole))
    }
}
