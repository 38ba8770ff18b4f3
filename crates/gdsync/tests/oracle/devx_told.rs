//! What the kernel's double understood of commands to the NIC's firmware, which it reads by a table of its own (crate `fake-uverbs`,
//! `src/ioctl/fields.rs`).

use crate::memory::Memory;

#[derive(Debug)]
pub struct Queue {
    pub ring: Memory,
    pub entries: u64,
    pub record: Memory,
    pub event_queue: u64,
    pub page: u64,
    /// Of the ring and of the record in their memory.
    pub offsets: [u64; 2],
    /// Whether they came by a file, as GPU memory does.
    pub by_file: [bool; 2],
}

#[derive(Debug)]
pub struct Pair {
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
    /// State, port, rights of the remote side, mode of atomic operations.
    pub init: [u64; 4],
    /// MTU, longest message, far number, its first packet, RNR timer, reads answered.
    pub met: [u64; 6],
    /// LID, global, GID index, hops, class, both halves of the GID, DSCP, UDP port, priority, level, MAC address.
    pub way: [u64; 12],
    /// First packet, retries, RNR retries, timeout, reads begun.
    pub begun: [u64; 5],
}

/// Asks the double, which is preloaded, for the numbers of an object.
fn ask<const N: usize>(function: &[u8], number: u32) -> Option<[u64; N]> {
    type Ask = unsafe extern "C" fn(u32, *mut u64) -> bool;
    let double = libloading::os::unix::Library::this();
    // SAFETY: the functions' signature in crate fake-uverbs, which is preloaded.
    let ask = unsafe { double.get::<Ask>(function) }.expect("the double is preloaded");
    let mut numbers = [0; N];
    // SAFETY: room for as many numbers as that function tells.
    unsafe { ask(number, numbers.as_mut_ptr()) }.then_some(numbers)
}

/// So many bytes that the double finds there.
fn memory(address: u64, bytes: u64) -> Memory {
    Memory::new(address as *mut u8, bytes as usize)
}

impl Queue {
    pub fn of(number: u64) -> Self {
        let told: [u64; 9] =
            ask(b"fake_uverbs_devx_queue\0", number as u32).expect("a completion queue");
        let [
            ring,
            entries,
            record,
            event_queue,
            page,
            first,
            second,
            ring_file,
            record_file,
        ] = told;
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

impl Pair {
    pub fn of(number: u32) -> Option<Self> {
        let told: [u64; 43] = ask(b"fake_uverbs_devx_pair\0", number)?;
        let some = |from: usize| told[from..].iter().copied();
        fn array<const N: usize>(numbers: impl Iterator<Item = u64>) -> [u64; N] {
            let numbers: Vec<u64> = numbers.take(N).collect();
            numbers.try_into().expect("as many")
        }
        Some(Self {
            receives: memory(told[0], told[1] * told[2]),
            receive_entries: told[1],
            stride: told[2],
            sends: memory(told[3], told[4] * 64),
            blocks: told[4],
            record: memory(told[5], 8),
            offsets: array(some(6)),
            by_file: [told[8] == 1, told[9] == 1],
            domain: told[10],
            user_index: told[11],
            queues: array(some(12)),
            page: told[14],
            clock: told[15],
            init: array(some(16)),
            met: array(some(20)),
            way: array(some(26)),
            begun: array(some(38)),
        })
    }
}

/// How many memories, pages of registers, completion queues and queue pairs there are.
pub fn objects() -> [u64; 4] {
    type Count = unsafe extern "C" fn() -> u64;
    let double = libloading::os::unix::Library::this();
    // SAFETY: the function's signature in crate fake-uverbs, which is preloaded.
    let count = unsafe { double.get::<Count>(b"fake_uverbs_devx_objects\0") }
        .expect("the double is preloaded");
    // SAFETY: no arguments.
    let counts = unsafe { count() };
    [counts, counts >> 16, counts >> 32, counts >> 48].map(|count| count & 0xffff)
}
