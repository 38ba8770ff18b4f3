//! The order in which a range of device memory is touched: one pure rule, for every kernel and both
//! directions.
//!
//! Device memory is touched in naturally aligned pieces only, each byte once. Pieces of 1, 2, 4, 8,
//! 16 and 32 bytes lead up to the first 64-byte line, whole lines follow, and pieces of 32 down to
//! 1 byte end it. A kernel whose widest access is narrower than a piece splits it. A line is what
//! write-combining buffers hold and what one PCIe read returns, so a line is never split between
//! two pieces of the body.

/// Bytes of a line: the write-combining and streaming-load buffers of x86-64, and an aligned
/// 64-byte store on aarch64.
pub(crate) const LINE: usize = 64;

/// One access to device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes from the start of the copy.
    pub offset: usize,
    /// Bytes of this access: a power of two, at most 64; the device address is a multiple of it.
    pub width: usize,
}

/// Every access to device memory that a copy of `len` bytes at device address `address` makes, in
/// order, by a kernel whose widest access is `unit` bytes (a power of two, at most 64).
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
        accesses.extend(
            (step.offset..end)
                .step_by(width)
                .map(|offset| Access { offset, width }),
        );
    });
    accesses
}

/// `count` neighbouring pieces of `width` bytes; `count` is 1 unless `width` is [`LINE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) count: usize,
}

/// Calls `take` for each step of a copy. Inlined with it, so that each width is a constant there.
#[inline(always)]
pub(crate) fn walk(address: usize, len: usize, mut take: impl FnMut(Step)) {
    let mut offset = 0;
    let mut rest = len;
    let mut piece = |wanted: bool, width: usize, rest: &mut usize| {
        if wanted {
            take(Step {
                offset,
                width,
                count: if width == LINE { *rest / LINE } else { 1 },
            });
            let taken = if width == LINE {
                *rest & !(LINE - 1)
            } else {
                width
            };
            offset += taken;
            *rest -= taken;
        }
    };
    // Up to the line. Once a piece no longer fits, no wider one does: the loop below then takes
    // what is left, which the address is aligned for.
    let short = address.wrapping_neg() & (LINE - 1);
    if short != 0 {
        piece(short & 1 != 0 && rest >= 1, 1, &mut rest);
        piece(short & 2 != 0 && rest >= 2, 2, &mut rest);
        piece(short & 4 != 0 && rest >= 4, 4, &mut rest);
        piece(short & 8 != 0 && rest >= 8, 8, &mut rest);
        piece(short & 16 != 0 && rest >= 16, 16, &mut rest);
        piece(short & 32 != 0 && rest >= 32, 32, &mut rest);
    }
    piece(rest >= LINE, LINE, &mut rest);
    if rest != 0 {
        piece(rest & 32 != 0, 32, &mut rest);
        piece(rest & 16 != 0, 16, &mut rest);
        piece(rest & 8 != 0, 8, &mut rest);
        piece(rest & 4 != 0, 4, &mut rest);
        piece(rest & 2 != 0, 2, &mut rest);
        piece(rest & 1 != 0, 1, &mut rest);
    }
}
