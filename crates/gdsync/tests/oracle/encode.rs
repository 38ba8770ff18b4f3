//! The only use of the code under test: converts the oracle's requests and completions to the types of `wire`.

use gdsync::wire::{
    AddressVector, BLOCK, Completion, Control, DataSegment, Datagram, Depth, Event, Failed, Fence,
    Flags, GlobalRoute, MAX_BLOCKS, Operation, Origin, Payload, RemoteAddress, SEGMENT, Syndrome,
    Transport, Wqe, completion_record, decode_receive, encode_receive, queue_record,
};

use crate::address::{Address, Link, Route};
use crate::completion;
use crate::request::{self, Request, Sge};

/// Our encoding of a request.
pub struct Encoded {
    /// Whole blocks of 64 bytes.
    pub blocks: Vec<u8>,
    /// Number of valid 16-byte segments.
    pub segments: usize,
    /// Offsets that the provider does not write: padding of inline data, compare value of fetch-and-add.
    pub unwritten: Vec<usize>,
}

/// Encodes a send WQE. With `signals_all` the queue pair signals every WQE.
pub fn send(
    request: &Request,
    signals_all: bool,
    number: u32,
    index: u16,
    arena: &[u8],
) -> Encoded {
    let entry = entry(request, signals_all, arena);
    let mut blocks = vec![0; MAX_BLOCKS * BLOCK];
    let count = entry.encode(number, index, &mut blocks).expect("a valid WQE");
    blocks.truncate(count * BLOCK);
    let segments = usize::from(Control::decode(&blocks).expect("our own").segments);
    Encoded { unwritten: unwritten(request, segments), blocks, segments }
}

/// The WQE of a request.
pub fn entry(request: &Request, signals_all: bool, arena: &[u8]) -> Wqe {
    let payload = if request.inline {
        Payload::Inline(request.inline_bytes(arena))
    } else {
        Payload::Segments(request.pieces.iter().map(segment).collect())
    };
    Wqe {
        operation: operation(request.operation),
        flags: Flags {
            signalled: request.signalled || signals_all,
            solicited: request.solicited,
            fence: if request.fenced { Fence::SmallAndReads } else { Fence::None },
        },
        datagram: request.to.map(|to| Datagram {
            qpn: to.queue_pair,
            key: to.key,
            path: path(&to.address),
        }),
        payload,
    }
}

/// Offsets that rdma-core does not write (`set_data_inl_seg` and `_set_atomic_seg` in `providers/mlx5/qp.c`).
fn unwritten(request: &Request, segments: usize) -> Vec<usize> {
    if matches!(request.operation, request::Operation::FetchAdd(..)) {
        // After the control segment, the remote address and the summand.
        return (40..48).collect();
    }
    let bytes: usize = request.pieces.iter().map(|piece| piece.length as usize).sum();
    if !request.inline || bytes == 0 {
        return Vec::new();
    }
    let padding = (4 + bytes).next_multiple_of(SEGMENT) - (4 + bytes);
    (segments * SEGMENT - padding..segments * SEGMENT).collect()
}

/// Decodes blocks and encodes them again.
pub fn reencode(blocks: &[u8], datagrams: bool) -> Vec<u8> {
    let transport = if datagrams { Transport::Datagram } else { Transport::Connected };
    let decoded = Wqe::decode(blocks, transport).expect("a WQE of the provider");
    let mut again = vec![0; decoded.blocks * BLOCK];
    let count = decoded.entry.encode(decoded.qpn, decoded.index, &mut again);
    assert_eq!(count, Ok(decoded.blocks));
    again
}

/// Encodes a receive WQE of `stride` bytes.
pub fn receive(pieces: &[Sge], stride: usize) -> Vec<u8> {
    let mut entry = vec![0; stride];
    let pieces: Vec<_> = pieces.iter().map(segment).collect();
    encode_receive(&pieces, &mut entry).expect("a valid WQE");
    entry
}

/// Decodes the SGEs of a receive WQE: length, key, address.
pub fn received(entry: &[u8]) -> Vec<(u32, u32, u64)> {
    let pieces = decode_receive(entry).expect("a WQE of the provider");
    let pieces = pieces.iter().map(|piece| (piece.length, piece.key, piece.address));
    pieces.collect()
}

/// The doorbell record of a work queue.
pub fn record(counter: u32) -> [u8; 4] {
    queue_record(counter as u16).to_ne_bytes()
}

/// The doorbell record of a completion queue.
pub fn consumed(counter: u32) -> [u8; 4] {
    completion_record(counter).to_ne_bytes()
}

/// The eight bytes of a doorbell.
pub fn ring(block: &[u8; BLOCK]) -> [u8; 8] {
    Control::doorbell(block).to_ne_bytes()
}

/// QPN and WQE index of a doorbell.
pub fn rung(doorbell: [u8; 8]) -> (u32, u16) {
    Control::rung(u64::from_ne_bytes(doorbell))
}

/// The owner bit of the `n`th completion of a queue.
pub fn owner(entries: u32, n: u32) -> bool {
    Depth::completions(entries).expect("a power of two").parity(n)
}

/// The re-armed word of the slot of the `n`th completion.
pub fn rearmed(entries: u32, n: u32) -> [u8; 4] {
    gdsync::wire::rearmed(owner(entries, n)).to_ne_bytes()
}

/// Encodes a CQE.
pub fn complete(entry: &completion::Cqe, owner: bool) -> [u8; BLOCK] {
    let failed = Failed {
        syndrome: Syndrome::of(entry.syndrome),
        vendor: entry.vendor,
        opcode: entry.send_opcode,
    };
    let event = match entry.opcode {
        0 => Event::Sent { opcode: entry.send_opcode },
        1 => Event::Written { immediate: entry.value },
        2 => Event::Received,
        3 => Event::ReceivedImmediate { immediate: entry.value },
        4 => Event::ReceivedInvalidate { key: entry.value },
        13 => Event::SendFailed(failed),
        14 => Event::ReceiveFailed(failed),
        other => unreachable!("completion opcode {other}"),
    };
    let completion = Completion {
        event,
        qpn: entry.queue_pair,
        counter: entry.counter,
        bytes: entry.bytes,
        user_index: entry.user_index,
        source: entry.source,
        origin: Origin {
            lid: entry.origin.0,
            path: entry.origin.1,
            level: entry.origin.2,
            has_route: entry.origin.3,
        },
        timestamp: entry.timestamp,
        solicited: entry.solicited,
    };
    completion.encode(owner)
}

fn segment(piece: &Sge) -> DataSegment {
    DataSegment { length: piece.length, key: piece.key, address: piece.address }
}

fn operation(operation: request::Operation) -> Operation {
    use request::Operation as Oracle;
    let remote =
        |remote: request::Remote| RemoteAddress { address: remote.address, key: remote.key };
    let immediate = |data| Some(u32::from_be_bytes(data));
    match operation {
        Oracle::Send => Operation::Send { immediate: None },
        Oracle::SendImmediate(data) => Operation::Send { immediate: immediate(data) },
        Oracle::Write(to) => Operation::Write { remote: remote(to), immediate: None },
        Oracle::WriteImmediate(to, data) => {
            Operation::Write { remote: remote(to), immediate: immediate(data) }
        }
        Oracle::Read(from) => Operation::Read { remote: remote(from) },
        Oracle::CompareSwap(at, compare, swap) => {
            Operation::CompareSwap { remote: remote(at), compare, swap }
        }
        Oracle::FetchAdd(at, add) => Operation::FetchAdd { remote: remote(at), add },
    }
}

/// True if an address handle decodes to this address.
pub fn is_path(vector: &[u8; 48], address: &Address) -> bool {
    AddressVector::decode(vector) == Ok(path(address))
}

fn path(address: &Address) -> AddressVector {
    let route = |route: Route| GlobalRoute {
        gid: route.gid,
        source_index: route.source,
        flow_label: route.flow_label,
        traffic_class: route.class,
        hop_limit: route.hops,
    };
    let (level, rate) = (address.service_level, address.rate);
    match address.link {
        Link::InfiniBand { lid, path } => {
            AddressVector::infiniband(lid, path, level, rate, address.route.map(route))
        }
        Link::Ethernet { mac, port } => {
            let route = route(address.route.expect("RoCE always has one"));
            AddressVector::ethernet(mac, port, level, rate, route)
        }
    }
}
