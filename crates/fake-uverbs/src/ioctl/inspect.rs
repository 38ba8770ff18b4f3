//! Exports for tests: the objects as the firmware decoded them.

use crate::ioctl::objects::objects;
use crate::ioctl::pair::QueuePair;
use crate::ioctl::queue::Queue;

/// Number of UMEMs, pages, completion queues and queue pairs, 16 bits each from the lowest.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_devx_objects() -> u64 {
    let objects = objects();
    let counts =
        [objects.memories.len(), objects.pages.len(), objects.queues.len(), objects.pairs.len()];
    counts.iter().rev().fold(0, |all, count| all << 16 | *count as u64)
}

/// A completion queue by number: ring, entries, record, event queue, page, UMEM offsets of ring and record, and for each UMEM
/// whether it is a dma-buf.
///
/// # Safety
///
/// `out` has room for nine numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_uverbs_devx_queue(number: u32, out: *mut u64) -> bool {
    let objects = objects();
    let Some(queue) = objects.queues.values().find(|queue| queue.number == number) else {
        return false;
    };
    let mapped = queue.memories.map(|handle| is_mapped(&objects, handle));
    let Queue { ring, entries, record, event_queue, page, offsets, .. } = queue;
    let all = [
        *ring as u64,
        (*entries).into(),
        *record as u64,
        (*event_queue).into(),
        (*page).into(),
        offsets[0],
        offsets[1],
        mapped[0],
        mapped[1],
    ];
    // SAFETY: the caller's guarantee.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), out, all.len()) };
    true
}

/// A queue pair by number, in the order below.
///
/// # Safety
///
/// `out` has room for 43 numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_uverbs_devx_pair(number: u32, out: *mut u64) -> bool {
    let objects = objects();
    let Some(pair) = objects.pairs.values().find(|pair| pair.number == number) else {
        return false;
    };
    let mapped = pair.memories.map(|handle| is_mapped(&objects, handle));
    let all = numbers(pair, mapped);
    // SAFETY: the caller's guarantee.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), out, all.len()) };
    true
}

fn numbers(pair: &QueuePair, mapped: [u64; 2]) -> [u64; 43] {
    let now = &pair.now;
    let address_path = &now.address_path;
    let gid = u128::from_be_bytes(address_path.gid);
    [
        // 0: memory.
        pair.receives.0 as u64,
        pair.receives.1.into(),
        pair.receives.2.into(),
        pair.sends.0 as u64,
        pair.sends.1.into(),
        pair.record as u64,
        pair.offsets[0],
        pair.offsets[1],
        mapped[0],
        mapped[1],
        // 10: objects.
        pair.domain.into(),
        pair.user_index.into(),
        pair.send_queue.into(),
        pair.receive_queue.into(),
        pair.page.into(),
        pair.clock.into(),
        // 16: INIT.
        now.state.into(),
        now.port.into(),
        now.rights.into(),
        now.atomic_mode.into(),
        // 20: RTR.
        now.mtu.into(),
        now.log_longest.into(),
        now.peer.into(),
        now.receive_psn.into(),
        now.rnr_timer.into(),
        now.log_answers.into(),
        // 26: address path.
        address_path.lid.into(),
        address_path.is_global.into(),
        address_path.gid_index.into(),
        address_path.hop_limit.into(),
        address_path.class.into(),
        (gid >> 64) as u64,
        gid as u64,
        address_path.dscp.into(),
        address_path.udp_port.into(),
        address_path.priority.into(),
        address_path.level.into(),
        address_path.mac,
        // 38: RTS.
        now.send_psn.into(),
        now.retries.into(),
        now.rnr_retries.into(),
        now.timeout.into(),
        now.log_reads.into(),
    ]
}

fn is_mapped(objects: &crate::ioctl::objects::Objects, handle: u32) -> u64 {
    objects.memories.get(&handle).is_some_and(|memory| memory.is_mapped).into()
}
