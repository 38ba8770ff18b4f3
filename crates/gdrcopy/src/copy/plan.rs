//! Order of accesses to device memory, for every kernel and direction.
//!
//! Accesses are naturally aligned and touch each byte once: 1, 2, 4, 8, 16 and 32 bytes up to the
//! first 64-byte line, then whole lines, then 32 down to 1 byte. A kernel splits accesses wider
//! than its widest. Lines are never split between two body accesses, because a write-combining
//! buffer holds a line and a PCIe read returns one.

/// Line size in bytes: the write-combining and streaming-load buffers of x86-64, an aligned 64-byte
/// store on aarch64.
pub(crate) const LINE: usize = 64;

/// One access to device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Offset in the copy in bytes.
    pub offset: usize,
    /// Access size in bytes: a power of two, at most 64; the device address is a multiple of it.
    pub width: usize,
}

/// All device accesses of a copy of `len` bytes at device address `address`, in order, by a kernel
/// whose widest access is `unit` bytes (a power of two, at most 64).
///
/// ```
/// use gdrcopy::copy::{Access, plan};
/// let twice = [Access { offset: 0, width: 2 }, Access { offset: 2, width: 4 }];
/// assert_eq!(plan(0x1002, 6, 64), twice);
/// ```
pub fn plan(address: usize, len: usize, unit: usize) -> Vec<Access> {
    let mut accesses = Vec::new();
    walk(address, len, |step| {
        let width = step.width.min(unit);
        let end = step.offset + step.width * step.count;
        accesses.extend((step.offset..end).step_by(width).map(|offset| Access { offset, width }));
    });
    accesses
}

/// `count` adjacent accesses of `width` bytes; `count` is 1 unless `width` is [`LINE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) count: usize,
}

/// Calls `take` for each step of a copy. Inlined, so that each width is a constant in `take`.
#[inline(always)]
pub(crate) fn walk(address: usize, len: usize, mut take: impl FnMut(Step)) {
    let mut offset = 0;
    let mut rest = len;
    let mut step = |wanted: bool, width: usize, rest: &mut usize| {
        if wanted {
            take(Step { offset, width, count: if width == LINE { *rest / LINE } else { 1 } });
            let taken = if width == LINE { *rest & !(LINE - 1) } else { width };
            offset += taken;
            *rest -= taken;
        }
    };
    // Up to the line. Once an access no longer fits, no wider one does; the loop below handles the
    // rest, for which the address is aligned.
    let short = address.wrapping_neg() & (LINE - 1);
    if short != 0 {
        step(short & 1 != 0 && rest >= 1, 1, &mut rest);
        step(short & 2 != 0 && rest >= 2, 2, &mut rest);
        step(short & 4 != 0 && rest >= 4, 4, &mut rest);
        step(short & 8 != 0 && rest >= 8, 8, &mut rest);
        step(short & 16 != 0 && rest >= 16, 16, &mut rest);
        step(short & 32 != 0 && rest >= 32, 32, &mut rest);
    }
    step(rest >= LINE, LINE, &mut rest);
    if rest != 0 {
        step(rest & 32 != 0, 32, &mut rest);
        step(rest & 16 != 0, 16, &mut rest);
        step(rest & 8 != 0, 8, &mut rest);
        step(rest & 4 != 0, 4, &mut rest);
        step(rest & 2 != 0, 2, &mut rest);
        step(rest & 1 != 0, 1, &mut rest);
    }
}
