//! Reads, failures, and random bytes.

use std::cell::RefCell;

use super::*;

/// Counts reads, and fails from an offset on.
struct CountingSpace {
    bytes: Vec<u8>,
    reads: RefCell<Vec<(u16, usize)>>,
    refuse: Option<(u16, ReadError)>,
}

impl CountingSpace {
    fn new(bytes: Vec<u8>, refuse: Option<(u16, ReadError)>) -> Self {
        let reads = RefCell::default();
        Self { bytes, reads, refuse }
    }
}

impl ConfigSpace for CountingSpace {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        self.reads.borrow_mut().push((offset, out.len()));
        match self.refuse {
            Some((from, error)) if offset >= from => Err(error),
            _ => self.bytes.as_slice().read(offset, out),
        }
    }
}

#[test]
fn reads_only_what_it_decodes() {
    let space = CountingSpace::new(endpoint(), None);
    decode(&space, Depth::Header);
    assert_eq!(space.reads.take(), [(0, 64)]);
    decode(&space, Depth::Express);
    let express = [(0, 64), (0x40, 4), (0x60, 4), (0x64, 16), (0x90, 4)];
    assert_eq!(space.reads.take(), express);
    decode(&space, Depth::Full);
    let beyond = [(0x100, 4), (0x140, 4), (0x144, 4), (0x160, 4), (0x164, 4)];
    assert_eq!(space.reads.take(), [&express[..], &beyond].concat());
}

#[test]
fn read_errors_keep_their_reason() {
    let denied = CountingSpace::new(endpoint(), Some((0, ReadError::Denied)));
    expect(&decode(&denied, Depth::Full), "DDDD", &[]);
    let denied = CountingSpace::new(endpoint(), Some((0x40, ReadError::Denied)));
    expect(&decode(&denied, Depth::Full), "+DDD", &[]);
    let failed = CountingSpace::new(endpoint(), Some((0x140, ReadError::Failed)));
    expect(&decode(&failed, Depth::Full), "++BB", &["could not read extended capability at 0x140"]);
}

#[test]
fn random_bytes_do_not_panic() {
    // Knuth's MMIX generator; use its upper bits.
    let mut state = 0x5eed_u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as usize
    };
    let lengths = [0, 1, 63, 64, 65, 128, 255, 256, 257, 300, 4095, 4096];
    for _ in 0..4000 {
        let mut space = endpoint();
        match random() % 3 {
            0 => space.iter_mut().for_each(|byte| *byte = random() as u8),
            1 => (0..40).for_each(|_| space[random() % 0x180] = random() as u8),
            _ => (0..0x180).for_each(|at| space[at] |= (random() & random() & random()) as u8),
        }
        // Usually with a list and relevant ids.
        space[0x06] |= 0x10;
        space[0x0e] &= 0x83;
        for at in (0x100..4096).step_by(4).filter(|_| random() % 2 == 0).collect::<Vec<_>>() {
            let id = [0x00, 0x01, 0x03, 0x0d, 0x0f, 0x10, 0x15][random() % 7];
            put(&mut space, at, &[id, 0]);
        }
        space.truncate(lengths[random() % lengths.len()]);
        for depth in [Depth::Header, Depth::Express, Depth::Full] {
            decode(&space.as_slice(), depth);
        }
    }
}
