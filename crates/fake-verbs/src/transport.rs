//! Execution of work requests: bytes move, or the request fails as the InfiniBand specification says.

use ibverbs_sys::{
    ibv_access_flags, ibv_qp_state, ibv_qp_type, ibv_wc_flags, ibv_wc_opcode,
    ibv_wc_status as status, ibv_wr_opcode,
};

use crate::abi::{Completion, EVENT_QP_ACCESS_ERR, EVENT_QP_REQ_ERR, Element};
use crate::bytes::{Delivery, Segment, after, change, deliver, first, length};
use crate::device::attributes;
use crate::fate::{Fate, delivery};
use crate::machine::{efa_number, lid, of_port};
use crate::objects::{Entry, Objects, Receive, Sge, Side};
use crate::port::{longest, mtu};
use crate::route::{Destination, route_header};

const REMOTE_WRITE: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
const REMOTE_READ: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
const REMOTE_ATOMIC: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
/// Space before a datagram's payload for the global route header.
pub const HEADER: usize = 40;

/// A posted send request.
pub struct Work {
    pub wr_id: u64,
    /// verbs.h's `enum ibv_wr_opcode`.
    pub opcode: u32,
    pub is_signalled: bool,
    pub is_solicited: bool,
    pub sges: Vec<Sge>,
    /// Inline data, copied when it was posted.
    pub inline: Option<Vec<u8>>,
    pub immediate: u32,
    pub target: Target,
    /// Of requests of SRD.
    pub destination: Option<Destination>,
    pub fate: Fate,
    pub through: u64,
}

pub enum Target {
    Queue,
    Memory { address: u64, rkey: u32 },
    Atomic { address: u64, rkey: u32, compare_add: u64, swap: u64 },
    Datagram(Destination),
}

/// Result of a request: the bytes it moved, or status and vendor's syndrome, if the machine file sets one.
pub type Ended = Result<usize, (u32, Option<u32>)>;

enum Outcome {
    Ended(Ended),
    /// Retry when something has changed.
    Waits,
    Vanished,
}

/// A message for a receive queue.
struct Message<'a> {
    payload: &'a [Segment],
    header: Option<[u8; HEADER]>,
    completion: Completion,
}

enum Received {
    Taken,
    /// No receive request was posted.
    NoRequest,
    TooLong,
    /// The receiver failed.
    Broken,
}

/// Name of an opcode in machine files.
pub fn name_of(opcode: u32) -> &'static str {
    use ibv_wr_opcode::*;
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => "write",
        IBV_WR_RDMA_READ => "read",
        IBV_WR_ATOMIC_CMP_AND_SWP => "compare_swap",
        IBV_WR_ATOMIC_FETCH_AND_ADD => "fetch_add",
        _ => "send",
    }
}

fn has_immediate(opcode: u32) -> bool {
    [ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM]
        .contains(&opcode)
}

fn is_reliable(kind: u32) -> bool {
    [ibv_qp_type::IBV_QPT_RC, ibv_qp_type::IBV_QPT_DRIVER].contains(&kind)
}

fn failed(status: u32) -> Outcome {
    Outcome::Ended(Err((status, None)))
}

/// A segment of this library's own memory.
fn own(bytes: &[u8]) -> Segment {
    Segment {
        address: bytes.as_ptr().expose_provenance(),
        bytes: bytes.len(),
        is_device_memory: false,
    }
}

impl Objects {
    /// Executes all requests that can make progress.
    pub fn progress(&mut self) {
        loop {
            let waiting = self.pairs.values().filter(|pair| !pair.sends.is_empty());
            let waiting: Vec<usize> = waiting.map(|pair| pair.raw.address()).collect();
            let moved = waiting.into_iter().filter(|pair| self.advance(*pair)).count();
            if moved == 0 {
                return;
            }
        }
    }

    /// Executes requests of a send queue; true if any was executed.
    fn advance(&mut self, address: usize) -> bool {
        let mut has_moved = false;
        while let Some(pair) = self.pairs.get_mut(&address) {
            let at = (pair.device, pair.now.port_num);
            let is_ready = pair.now.qp_state == ibv_qp_state::IBV_QPS_RTS;
            let Some(work) = is_ready.then(|| pair.sends.pop_front()).flatten() else {
                break;
            };
            match self.execute(address, &work) {
                Outcome::Waits => {
                    if let Some(pair) = self.pairs.get_mut(&address) {
                        pair.sends.push_front(work);
                    }
                    break;
                }
                Outcome::Vanished => {}
                Outcome::Ended(ended) => self.end_send(address, &work, ended),
            }
            self.count_request(at);
            has_moved = true;
        }
        has_moved
    }

    /// Counts one more request on a port, which may take it down.
    fn count_request(&mut self, (device, number): (usize, u8)) {
        let port = self.ports.entry((device, number)).or_default();
        port.requests += 1;
        let last = of_port(device, number, "port_down_after").as_u64();
        if last.is_some_and(|last| port.requests >= last)
            && !std::mem::replace(&mut port.is_down, true)
        {
            self.raise_port_event(device, number);
        }
    }

    fn execute(&mut self, address: usize, work: &Work) -> Outcome {
        match work.fate {
            Fate::Fails { status, vendor } => return Outcome::Ended(Err((status, Some(vendor)))),
            Fate::Vanishes => return Outcome::Vanished,
            Fate::Works => {}
        }
        let pair = &self.pairs[&address];
        let takes = ["read", "fetch_add", "compare_swap"].contains(&name_of(work.opcode));
        let local = match &work.inline {
            Some(bytes) => vec![own(bytes)],
            None => match self.local(pair.domain, &work.sges, takes) {
                Some(segments) => segments,
                None => return failed(status::IBV_WC_LOC_PROT_ERR),
            },
        };
        let bytes = length(&local);
        let is_atomic = matches!(work.target, Target::Atomic { .. });
        let longest = match (&work.destination, &work.target) {
            (Some(_), Target::Memory { .. }) => efa_number(pair.device, "max_rdma_size", 1 << 30),
            _ => longest(pair.device),
        };
        if bytes > longest as usize || (is_atomic && bytes != 8) {
            return failed(status::IBV_WC_LOC_LEN_ERR);
        }
        if takes && pair.now.max_rd_atomic == 0 && work.destination.is_none() {
            return failed(status::IBV_WC_LOC_QP_OP_ERR);
        }
        if let Target::Datagram(_) = work.target {
            return self.datagram(address, work, &local);
        }
        let peer = match &work.destination {
            Some(destination) if destination.domain != pair.domain => {
                return failed(status::IBV_WC_LOC_QP_OP_ERR);
            }
            Some(destination) => self
                .reachable_pair(pair, &destination.to, destination.number)
                .filter(|peer| self.pairs[peer].now.qkey == destination.qkey),
            None => self.remote_pair(pair),
        };
        let Some(peer) = peer else {
            return match (pair.kind, pair.now.timeout) {
                (ibv_qp_type::IBV_QPT_DRIVER, _) => failed(status::IBV_WC_REM_INV_RD_REQ_ERR),
                (ibv_qp_type::IBV_QPT_UC, _) => Outcome::Ended(Ok(bytes)),
                // A timeout of 0 means retries without limit.
                (_, 0) => Outcome::Waits,
                _ => failed(status::IBV_WC_RETRY_EXC_ERR),
            };
        };
        match work.target {
            Target::Queue => self.message(address, peer, work, &local),
            Target::Memory { address: at, rkey } => {
                self.memory(address, peer, work, &local, (at, rkey))
            }
            Target::Atomic { address: at, rkey, compare_add, swap } => {
                self.atomic(peer, work, &local, (at, rkey), (compare_add, swap))
            }
            Target::Datagram(_) => Outcome::Ended(Ok(bytes)),
        }
    }

    /// A send over a connection.
    fn message(&mut self, address: usize, peer: usize, work: &Work, local: &[Segment]) -> Outcome {
        let completion = self.arrival(peer, work, length(local));
        let message = Message { payload: local, header: None, completion };
        let received = self.receive_message(peer, self.pairs[&address].device, work, &message);
        self.sender_outcome(address, received, length(local))
    }

    /// The sender's result.
    fn sender_outcome(&self, address: usize, received: Received, bytes: usize) -> Outcome {
        let pair = &self.pairs[&address];
        if !is_reliable(pair.kind) {
            return Outcome::Ended(Ok(bytes));
        }
        match received {
            Received::Taken => Outcome::Ended(Ok(bytes)),
            // 7: retries without limit.
            Received::NoRequest if pair.now.rnr_retry == 7 => Outcome::Waits,
            Received::NoRequest => failed(status::IBV_WC_RNR_RETRY_EXC_ERR),
            Received::TooLong => failed(status::IBV_WC_REM_INV_REQ_ERR),
            Received::Broken => failed(status::IBV_WC_REM_OP_ERR),
        }
    }

    /// A read or write of remote memory.
    fn memory(
        &mut self,
        address: usize,
        peer: usize,
        work: &Work,
        local: &[Segment],
        at: (u64, u32),
    ) -> Outcome {
        let is_read = work.opcode == ibv_wr_opcode::IBV_WR_RDMA_READ;
        let rights = if is_read { REMOTE_READ } else { REMOTE_WRITE };
        let end = &self.pairs[&peer];
        // A queue pair of SRD has no access rights of its own.
        let is_connected = work.destination.is_none();
        if is_connected
            && (end.now.qp_access_flags & rights == 0
                || (is_read && end.now.max_dest_rd_atomic == 0))
        {
            return self.reject(address, peer, status::IBV_WC_REM_INV_REQ_ERR, length(local));
        }
        let bytes = u32::try_from(length(local)).unwrap_or(u32::MAX);
        let Some(remote) = self.remote(end.domain, at.0, bytes, at.1, rights) else {
            return self.reject(address, peer, status::IBV_WC_REM_ACCESS_ERR, length(local));
        };
        let waits_for_request = has_immediate(work.opcode) && end.receives.is_empty();
        if waits_for_request {
            return self.sender_outcome(address, Received::NoRequest, length(local));
        }
        let (from, to) = if is_read { (&remote[..], local) } else { (local, &remote[..]) };
        self.deliver(self.pairs[&address].device, work, from, to);
        if !has_immediate(work.opcode) {
            return Outcome::Ended(Ok(length(local)));
        }
        let mut completion = self.arrival(peer, work, length(local));
        completion.opcode = ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
        let message = Message { payload: &[], header: None, completion };
        let received = self.receive_message(peer, self.pairs[&address].device, work, &message);
        self.sender_outcome(address, received, length(local))
    }

    /// An atomic operation on remote memory; returns the old value to the sender.
    fn atomic(
        &mut self,
        peer: usize,
        work: &Work,
        local: &[Segment],
        at: (u64, u32),
        operands: (u64, u64),
    ) -> Outcome {
        let end = &self.pairs[&peer];
        let is_able = end.now.qp_access_flags & REMOTE_ATOMIC != 0
            && end.now.max_dest_rd_atomic > 0
            && attributes(end.device).atomic_cap != 0;
        if !is_able || !at.0.is_multiple_of(8) {
            return self.rejected(peer, status::IBV_WC_REM_INV_REQ_ERR);
        }
        let Some(remote) = self.remote(end.domain, at.0, 8, at.1, REMOTE_ATOMIC) else {
            return self.rejected(peer, status::IBV_WC_REM_ACCESS_ERR);
        };
        let Some(word) = remote.first().filter(|word| word.address.is_multiple_of(8)) else {
            return self.rejected(peer, status::IBV_WC_REM_INV_REQ_ERR);
        };
        let (address, is_device_memory, device) = (word.address, word.is_device_memory, end.device);
        let how = delivery(device, name_of(work.opcode), 8, is_device_memory);
        let adds = work.opcode == ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
        // A lost operation changes nothing; a corrupt one returns a wrong old value.
        let changed = |old: u64| {
            if how == Delivery::Nothing {
                old
            } else if adds {
                old.wrapping_add(operands.0)
            } else if old == operands.0 {
                operands.1
            } else {
                old
            }
        };
        // SAFETY: 8 aligned bytes of registered memory, which stays mapped while it is registered.
        let old = unsafe { change(address, changed) };
        // SAFETY: `old` is a local value, and `local` is 8 bytes of registered memory.
        unsafe { deliver(&[own(&old.to_ne_bytes())], local, how) };
        Outcome::Ended(Ok(8))
    }

    /// The remote end rejects the request: it goes to ERR and reports an event. Without acknowledgements the sender learns nothing and
    /// the remote end drops the request.
    fn reject(&mut self, address: usize, peer: usize, status: u32, bytes: usize) -> Outcome {
        match self.pairs[&address].kind {
            ibv_qp_type::IBV_QPT_RC => self.rejected(peer, status),
            // The remote end goes on.
            ibv_qp_type::IBV_QPT_DRIVER => failed(status),
            _ => Outcome::Ended(Ok(bytes)),
        }
    }

    fn rejected(&mut self, peer: usize, status: u32) -> Outcome {
        let event = match status {
            status::IBV_WC_REM_ACCESS_ERR => EVENT_QP_ACCESS_ERR,
            _ => EVENT_QP_REQ_ERR,
        };
        let end = &self.pairs[&peer];
        let qp = end.raw.pointer().cast();
        self.raise_event(end.context, event, Element { qp }, Some(peer));
        self.fail(peer);
        failed(status)
    }

    fn datagram(&mut self, address: usize, work: &Work, local: &[Segment]) -> Outcome {
        let Target::Datagram(Destination { to, domain, number, qkey }) = &work.target else {
            return failed(status::IBV_WC_LOC_QP_OP_ERR);
        };
        let pair = &self.pairs[&address];
        let (device, port) = (pair.device, pair.now.port_num);
        let bytes = length(local);
        if *domain != pair.domain {
            return failed(status::IBV_WC_LOC_QP_OP_ERR);
        }
        if bytes > mtu(device, port) as usize {
            return failed(status::IBV_WC_LOC_LEN_ERR);
        }
        // The highest bit selects the queue pair's own Q_Key.
        let qkey = if qkey >> 31 == 1 { pair.now.qkey } else { *qkey };
        let peer = self.reachable_pair(pair, to, *number);
        let Some(peer) = peer.filter(|peer| self.pairs[peer].now.qkey == qkey) else {
            return Outcome::Ended(Ok(bytes));
        };
        let mut completion = self.arrival(peer, work, bytes + HEADER);
        completion.src_qp = pair.number;
        completion.slid = lid(device, port);
        completion.sl = to.sl;
        let header = if to.is_global != 0 {
            completion.wc_flags |= ibv_wc_flags::IBV_WC_GRH.0;
            route_header(pair, to, bytes)
        } else {
            [0; HEADER]
        };
        let message = Message { payload: local, header: Some(header), completion };
        let received = self.receive_message(peer, device, work, &message);
        self.sender_outcome(address, received, bytes)
    }

    /// The receiver's completion of a message.
    fn arrival(&self, peer: usize, work: &Work, bytes: usize) -> Completion {
        let immediate = has_immediate(work.opcode);
        Completion {
            opcode: ibv_wc_opcode::IBV_WC_RECV,
            byte_len: u32::try_from(bytes).unwrap_or(u32::MAX),
            imm_data: if immediate { work.immediate } else { 0 },
            wc_flags: if immediate { ibv_wc_flags::IBV_WC_WITH_IMM.0 } else { 0 },
            qp_num: self.pairs[&peer].number,
            ..Completion::default()
        }
    }

    /// Delivers a message to the remote end's next receive request.
    fn receive_message(
        &mut self,
        peer: usize,
        from: usize,
        work: &Work,
        message: &Message<'_>,
    ) -> Received {
        let Some(end) = self.pairs.get_mut(&peer) else {
            return Received::Broken;
        };
        let domain = end.domain;
        let Some(receive) = end.receives.pop_front() else {
            return Received::NoRequest;
        };
        let before = if message.header.is_some() { HEADER } else { 0 };
        let bytes = length(message.payload);
        let Some(room) = self.local(domain, &receive.sges, true) else {
            self.break_receive(peer, &receive, status::IBV_WC_LOC_PROT_ERR, None);
            return Received::Broken;
        };
        if length(&room) < before + bytes {
            self.break_receive(peer, &receive, status::IBV_WC_LOC_LEN_ERR, None);
            return Received::TooLong;
        }
        if let Some(header) = &message.header {
            // SAFETY: the header is a local value, and the target registered memory, which stays mapped while it is registered.
            unsafe { deliver(&[own(header)], &first(&room, HEADER), Delivery::Bytes) };
        }
        self.deliver(from, work, message.payload, &first(&after(&room, before), bytes));
        let completion = Completion { wr_id: receive.wr_id, ..message.completion };
        self.end_receive(peer, &receive, completion, work.is_solicited);
        Received::Taken
    }

    /// Copies a request's bytes, or corrupts them as the machine file says.
    fn deliver(&mut self, device: usize, work: &Work, from: &[Segment], to: &[Segment]) {
        let bytes = length(to);
        if bytes == 0 {
            return;
        }
        let touches_device = from.iter().chain(to).any(|segment| segment.is_device_memory);
        let how = delivery(device, name_of(work.opcode), bytes, touches_device);
        // SAFETY: registered memory, which stays mapped while it is registered, or the request's inline data; the access rights of
        // the target allow the write.
        unsafe { deliver(from, to, how) };
    }

    /// Ends a send request: it completes if it is signalled or failed.
    pub fn end_send(&mut self, address: usize, work: &Work, ended: Ended) {
        let Some(pair) = self.pairs.get(&address) else {
            return;
        };
        let (queue, kind) = (pair.send_queue, pair.kind);
        let completion = Completion {
            wr_id: work.wr_id,
            qp_num: pair.number,
            ..match ended {
                Ok(bytes) => Completion {
                    opcode: done(work.opcode),
                    byte_len: u32::try_from(bytes).unwrap_or(u32::MAX),
                    ..Completion::default()
                },
                Err((status, vendor)) => error_completion(status, vendor),
            }
        };
        let completes = work.is_signalled || ended.is_err();
        if completes {
            let entry =
                Entry { completion, pair: address, side: Side::Send, through: work.through };
            self.complete(queue, entry, false);
        }
        let ends_all = kind != ibv_qp_type::IBV_QPT_DRIVER;
        if ends_all && ended.is_err_and(|(status, _)| status != status::IBV_WC_WR_FLUSH_ERR) {
            self.fail(address);
        }
    }

    fn end_receive(
        &mut self,
        address: usize,
        receive: &Receive,
        completion: Completion,
        is_solicited: bool,
    ) {
        let Some(pair) = self.pairs.get(&address) else {
            return;
        };
        let entry = Entry {
            completion: Completion { wr_id: receive.wr_id, qp_num: pair.number, ..completion },
            pair: address,
            side: Side::Receive,
            through: receive.through,
        };
        self.complete(pair.receive_queue, entry, is_solicited);
    }

    /// Fails a receive request and its queue pair.
    fn break_receive(
        &mut self,
        address: usize,
        receive: &Receive,
        status: u32,
        vendor: Option<u32>,
    ) {
        self.end_receive(address, receive, error_completion(status, vendor), false);
        self.fail(address);
    }

    /// Flushes a receive request.
    pub fn flush_receive(&mut self, address: usize, receive: &Receive) {
        self.end_receive(
            address,
            receive,
            error_completion(status::IBV_WC_WR_FLUSH_ERR, None),
            false,
        );
    }
}

fn error_completion(status: u32, vendor: Option<u32>) -> Completion {
    Completion { status, vendor_err: vendor.unwrap_or(0), ..Completion::default() }
}

/// The completion's opcode.
fn done(opcode: u32) -> u32 {
    match name_of(opcode) {
        "write" => ibv_wc_opcode::IBV_WC_RDMA_WRITE,
        "read" => ibv_wc_opcode::IBV_WC_RDMA_READ,
        "compare_swap" => ibv_wc_opcode::IBV_WC_COMP_SWAP,
        "fetch_add" => ibv_wc_opcode::IBV_WC_FETCH_ADD,
        _ => ibv_wc_opcode::IBV_WC_SEND,
    }
}
