//! What a test asks of the double: what it understood of the commands.

use crate::ioctl::pair::Pair;
use crate::ioctl::queue::Queue;
use crate::ioctl::world::world;

/// How many objects there are: memories, pages, completion queues, queue pairs, in 16 bits each, the first in the lowest.
#[unsafe(no_mangle)]
pub extern "C" fn fake_uverbs_devx_objects() -> u64 {
    let world = world();
    let counts = [
        world.memories.len(),
        world.pages.len(),
        world.queues.len(),
        world.pairs.len(),
    ];
    counts
        .iter()
        .rev()
        .fold(0, |all, count| all << 16 | *count as u64)
}

/// A completion queue by its number: ring, entries, record, event queue, page, offsets of the ring and of the record in their memory,
/// whether each came by a dma-buf.
///
/// # Safety
///
/// There is room for nine numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_uverbs_devx_queue(number: u32, told: *mut u64) -> bool {
    let world = world();
    let Some(queue) = world.queues.values().find(|queue| queue.number == number) else {
        return false;
    };
    let mapped = queue.memories.map(|handle| is_mapped(&world, handle));
    let Queue {
        ring,
        entries,
        record,
        event_queue,
        page,
        offsets,
        ..
    } = queue;
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
    // SAFETY: this function's condition.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), told, all.len()) };
    true
}

/// A queue pair by its number, as the order of the numbers below says.
///
/// # Safety
///
/// There is room for 43 numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_uverbs_devx_pair(number: u32, told: *mut u64) -> bool {
    let world = world();
    let Some(pair) = world.pairs.values().find(|pair| pair.number == number) else {
        return false;
    };
    let mapped = pair.memories.map(|handle| is_mapped(&world, handle));
    let all = numbers(pair, mapped);
    // SAFETY: this function's condition.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), told, all.len()) };
    true
}

fn numbers(pair: &Pair, mapped: [u64; 2]) -> [u64; 43] {
    let now = &pair.now;
    let way = &now.way;
    let gid = u128::from_be_bytes(way.gid);
    [
        // 0: where it lies.
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
        // 10: what it is of.
        pair.domain.into(),
        pair.user_index.into(),
        pair.send_queue.into(),
        pair.receive_queue.into(),
        pair.page.into(),
        pair.clock.into(),
        // 16: Init.
        now.state.into(),
        now.port.into(),
        now.rights.into(),
        now.atomic_mode.into(),
        // 20: Rtr.
        now.mtu.into(),
        now.log_longest.into(),
        now.peer.into(),
        now.receive_psn.into(),
        now.rnr_timer.into(),
        now.log_answers.into(),
        // 26: the way.
        way.lid.into(),
        way.is_global.into(),
        way.gid_index.into(),
        way.hop_limit.into(),
        way.class.into(),
        (gid >> 64) as u64,
        gid as u64,
        way.dscp.into(),
        way.udp_port.into(),
        way.priority.into(),
        way.level.into(),
        way.mac,
        // 38: Rts.
        now.send_psn.into(),
        now.retries.into(),
        now.rnr_retries.into(),
        now.timeout.into(),
        now.log_reads.into(),
    ]
}

fn is_mapped(world: &crate::ioctl::world::World, handle: u32) -> u64 {
    world
        .memories
        .get(&handle)
        .is_some_and(|memory| memory.is_mapped)
        .into()
}
