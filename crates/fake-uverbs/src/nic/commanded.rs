//! What commands to the firmware made (`ioctl`), as the NIC has it: the same completion queues and queue pairs that the older protocol makes.

use crate::ioctl::{pair, queue};
use crate::nic::completion::CompletionQueue;
use crate::nic::memory::Segment;
use crate::nic::pair::{BLOCK, Pair, RELIABLE};
use crate::nic::ports::Destination;
use crate::nic::region::right;
use crate::nic::registers::Register;
use crate::nic::state::Attributes;
use crate::nic::world::World;

/// Handles of these are not those of the older protocol's objects: each is of its object's number.
fn handle(number: u32) -> u32 {
    1 << 31 | number
}

impl World {
    pub fn adopt_queue(&mut self, made: &queue::Queue) {
        let queue = CompletionQueue::new(made.context, (made.ring, made.record), made.entries, 64);
        self.queues.insert(handle(made.number), queue);
    }

    pub fn drop_queue(&mut self, gone: &queue::Queue) {
        self.queues.remove(&handle(gone.number));
    }

    pub fn adopt_pair(&mut self, made: &pair::Pair) {
        let (receives, entries, stride) = made.receives;
        let (sends, blocks) = made.sends;
        let index = u64::from(self.made);
        self.made = self.made.wrapping_add(1);
        let pair = Pair {
            context: made.context,
            number: made.number,
            index,
            user_index: made.user_index,
            kind: RELIABLE,
            domain: made.domain,
            send_queue: handle(made.send_queue),
            receive_queue: handle(made.receive_queue),
            sends: Segment {
                address: sends,
                bytes: blocks as usize * BLOCK,
            },
            receives: Segment {
                address: receives,
                bytes: entries as usize * stride as usize,
            },
            stride: stride as usize,
            record: made.record,
            register: Register::of_page(made.page),
            capacities: [0; 5],
            signals_all: 0,
            now: Attributes::default(),
            rung: 0,
            executed: 0,
            used: 0,
            requests_ended: 0,
            receives_ended: 0,
            waits_since: None,
        };
        self.pairs.insert(handle(made.number), pair);
    }

    pub fn change_pair(&mut self, changed: &pair::Pair) {
        if let Some(pair) = self.pairs.get_mut(&handle(changed.number)) {
            pair.now = attributes(&changed.now);
        }
    }

    pub fn drop_pair(&mut self, gone: &pair::Pair) {
        self.hear();
        self.pairs.remove(&handle(gone.number));
    }
}

/// In the units of `struct ib_uverbs_modify_qp`.
fn attributes(now: &pair::Attributes) -> Attributes {
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let right = |bit: u32, right: u32| if now.rights & bit != 0 { right } else { 0 };
    let port = byte(now.port);
    let address = destination(&now.way, port);
    Attributes {
        state: now.state,
        port,
        access: right(4, right::REMOTE_READ)
            | right(2, right::REMOTE_WRITE)
            | right(1, right::REMOTE_ATOMIC),
        destination: now.peer,
        address,
        is_reached: address.is_own(port),
        receive_psn: now.receive_psn,
        send_psn: now.send_psn,
        max_rd_atomic: 1 << now.log_reads,
        max_dest_rd_atomic: 1 << now.log_answers,
        rnr_timer: byte(now.rnr_timer),
        rnr_retries: byte(now.rnr_retries),
        timeout: byte(now.timeout),
        retries: byte(now.retries),
        path_mtu: byte(now.mtu),
        ..Attributes::default()
    }
}

/// `struct ib_uverbs_qp_dest`. On Ethernet there is always a GID, and the bit that says so is not set in a command.
fn destination(way: &pair::Way, port: u8) -> Destination {
    let mut bytes = [0; 32];
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    bytes[..16].copy_from_slice(&way.gid);
    bytes[20..22].copy_from_slice(&u16::try_from(way.lid).unwrap_or(0).to_ne_bytes());
    bytes[24..28].copy_from_slice(&[way.gid_index, way.hop_limit, way.class, way.level].map(byte));
    bytes[30] = (way.is_global != 0 || way.gid != [0; 16]).into();
    bytes[31] = port;
    Destination(bytes)
}
