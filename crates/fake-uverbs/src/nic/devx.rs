//! DEVX objects (`ioctl`) on the NIC, as the same completion queues and queue pairs that the write protocol creates.

use crate::ioctl::pair::transport;
use crate::ioctl::{pair, queue};
use crate::nic::completion::CompletionQueue;
use crate::nic::memory::Segment;
use crate::nic::objects::Objects;
use crate::nic::pair::{BLOCK, DATAGRAMS, QueuePair, RELIABLE, UNRELIABLE};
use crate::nic::ports::Destination;
use crate::nic::region::right;
use crate::nic::registers::Register;
use crate::nic::state::Attributes;

/// A handle distinct from those of the write protocol.
fn handle(number: u32) -> u32 {
    1 << 31 | number
}

impl Objects {
    pub fn adopt_queue(&mut self, created: &queue::Queue) {
        let queue = CompletionQueue::new(
            created.context,
            (created.ring, created.record),
            created.entries,
            64,
        );
        self.queues.insert(handle(created.number), queue);
    }

    pub fn drop_queue(&mut self, gone: &queue::Queue) {
        self.queues.remove(&handle(gone.number));
    }

    pub fn adopt_pair(&mut self, created: &pair::QueuePair) {
        let (receives, entries, stride) = created.receives;
        let (sends, blocks) = created.sends;
        let index = u64::from(self.created);
        self.created = self.created.wrapping_add(1);
        let pair = QueuePair {
            context: created.context,
            number: created.number,
            index,
            user_index: created.user_index,
            kind: match created.transport {
                transport::RELIABLE => RELIABLE,
                transport::UNRELIABLE => UNRELIABLE,
                _ => DATAGRAMS,
            },
            domain: created.domain,
            send_queue: handle(created.send_queue),
            receive_queue: handle(created.receive_queue),
            sends: Segment { address: sends, bytes: blocks as usize * BLOCK },
            receives: Segment { address: receives, bytes: entries as usize * stride as usize },
            stride: stride as usize,
            record: created.record,
            has_send_record: created.has_send_record,
            register: Register::of_page(created.page),
            capacities: [0; 5],
            signals_all: 0,
            now: Attributes::default(),
            posted: 0,
            executed: 0,
            used: 0,
            requests_ended: 0,
            waits_since: None,
            call: None,
        };
        self.pairs.insert(handle(created.number), pair);
    }

    pub fn change_pair(&mut self, changed: &pair::QueuePair) {
        if let Some(pair) = self.pairs.get_mut(&handle(changed.number)) {
            pair.now = attributes(&changed.now);
        }
    }

    pub fn drop_pair(&mut self, gone: &pair::QueuePair) {
        self.read_doorbells();
        self.pairs.remove(&handle(gone.number));
    }
}

/// In the units of `struct ib_uverbs_modify_qp`.
fn attributes(now: &pair::Attributes) -> Attributes {
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let right = |bit: u32, right: u32| if now.rights & bit != 0 { right } else { 0 };
    let port = byte(now.port);
    let address = destination(&now.address_path, port);
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
        qkey: now.qkey,
        ..Attributes::default()
    }
}

/// `struct ib_uverbs_qp_dest`. On Ethernet a GID is always present, without the bit that says so.
fn destination(address_path: &pair::AddressPath, port: u8) -> Destination {
    let mut bytes = [0; 32];
    let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    bytes[..16].copy_from_slice(&address_path.gid);
    bytes[20..22].copy_from_slice(&u16::try_from(address_path.lid).unwrap_or(0).to_ne_bytes());
    bytes[24..28].copy_from_slice(
        &[address_path.gid_index, address_path.hop_limit, address_path.class, address_path.level]
            .map(byte),
    );
    bytes[30] = (address_path.is_global != 0 || address_path.gid != [0; 16]).into();
    bytes[31] = port;
    Destination(bytes)
}
