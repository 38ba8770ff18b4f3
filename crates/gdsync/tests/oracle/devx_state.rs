//! State of DEVX objects as the fake kernel decoded them, with its own table of fields (crate `fake-uverbs`,
//! `src/ioctl/fields.rs`).

use crate::memory::Memory;

#[derive(Debug)]
pub struct Queue {
    pub ring: Memory,
    pub entries: u64,
    pub record: Memory,
    pub event_queue: u64,
    pub page: u64,
    /// Offsets of ring and record in their memory.
    pub offsets: [u64; 2],
    /// True if ring and record were registered by a file, as GPU memory is.
    pub by_file: [bool; 2],
}

#[derive(Debug)]
pub struct DevxQueuePair {
    pub receives: Memory,
    pub receive_entries: u64,
    pub stride: u64,
    pub sends: Memory,
    pub blocks: u64,
    pub record: Memory,
    pub offsets: [u64; 2],
    pub by_file: [bool; 2],
    pub domain: u64,
    pub user_index: u64,
    pub queues: [u64; 2],
    pub page: u64,
    pub clock: u64,
    /// State, port, remote access rights, atomic mode.
    pub init: [u64; 4],
    /// MTU, longest message, remote QPN, its PSN, RNR timer, reads as responder.
    pub rtr: [u64; 6],
    /// LID, GRH flag, GID index, hop limit, traffic class, both halves of the GID, DSCP, UDP port, priority, service level, MAC.
    pub path: [u64; 12],
    /// PSN, retries, RNR retries, timeout, reads as requester.
    pub rts: [u64; 5],
}

/// Queries the fields of an object from fake-uverbs, which is preloaded.
fn query<const N: usize>(function: &[u8], number: u32) -> Option<[u64; N]> {
    type Query = unsafe extern "C" fn(u32, *mut u64) -> bool;
    let fake = libloading::os::unix::Library::this();
    // SAFETY: the functions' signature in crate fake-uverbs, which is preloaded.
    let query = unsafe { fake.get::<Query>(function) }.expect("fake-uverbs is preloaded");
    let mut numbers = [0; N];
    // SAFETY: there is room for the N numbers that the function writes.
    unsafe { query(number, numbers.as_mut_ptr()) }.then_some(numbers)
}

/// `bytes` bytes at an address from the fake kernel.
fn memory(address: u64, bytes: u64) -> Memory {
    Memory::new(address as *mut u8, bytes as usize)
}

impl Queue {
    pub fn of(number: u64) -> Self {
        let fields: [u64; 9] =
            query(b"fake_uverbs_devx_queue\0", number as u32).expect("a completion queue");
        let [ring, entries, record, event_queue, page, first, second, ring_file, record_file] =
            fields;
        Self {
            ring: memory(ring, entries * 64),
            entries,
            record: memory(record, 8),
            event_queue,
            page,
            offsets: [first, second],
            by_file: [ring_file == 1, record_file == 1],
        }
    }
}

impl DevxQueuePair {
    pub fn of(number: u32) -> Option<Self> {
        let fields: [u64; 43] = query(b"fake_uverbs_devx_pair\0", number)?;
        let from = |start: usize| fields[start..].iter().copied();
        fn array<const N: usize>(numbers: impl Iterator<Item = u64>) -> [u64; N] {
            let numbers: Vec<u64> = numbers.take(N).collect();
            numbers.try_into().expect("N numbers")
        }
        Some(Self {
            receives: memory(fields[0], fields[1] * fields[2]),
            receive_entries: fields[1],
            stride: fields[2],
            sends: memory(fields[3], fields[4] * 64),
            blocks: fields[4],
            record: memory(fields[5], 8),
            offsets: array(from(6)),
            by_file: [fields[8] == 1, fields[9] == 1],
            domain: fields[10],
            user_index: fields[11],
            queues: array(from(12)),
            page: fields[14],
            clock: fields[15],
            init: array(from(16)),
            rtr: array(from(20)),
            path: array(from(26)),
            rts: array(from(38)),
        })
    }
}

/// Number of umems, register pages, completion queues and queue pairs.
pub fn objects() -> [u64; 4] {
    type Count = unsafe extern "C" fn() -> u64;
    let fake = libloading::os::unix::Library::this();
    // SAFETY: the function's signature in crate fake-uverbs, which is preloaded.
    let count = unsafe { fake.get::<Count>(b"fake_uverbs_devx_objects\0") }
        .expect("fake-uverbs is preloaded");
    // SAFETY: no arguments.
    let counts = unsafe { count() };
    [counts, counts >> 16, counts >> 32, counts >> 48].map(|count| count & 0xffff)
}
