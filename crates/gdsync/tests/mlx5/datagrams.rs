//! Datagrams of an mlx5 NIC: address handles of verbs in WQEs that a stream rings.

use std::time::Duration;

use gdsync::hca::Request;
use gdsync::hca::mlx5::{Queues, datagram, wrap};
use gdsync::wire::{
    Completion, DataSegment, Datagram, Event, Origin, RemoteAddress, Transport, Wqe,
};
use gdsync::{Allocator, Error};
use gpu::{Gpu, Stream};
use verbs::{
    Access, Address, Behaviour, Buffer, Context, Direct, MemoryRegion, Pages, Peer,
    ProtectionDomain, QueuePair, QueuePairOptions, Route, Rts,
};

use crate::inside::inside;
use crate::sides::{Side, TIMEOUT, datagrams, failure, next};
use crate::{NIC, side};

const KEY: u32 = 0x0bad_cafe;
/// Bytes reserved for the GRH before each message.
const ROUTE: u32 = 40;

/// A datagram queue pair in RTS, and memory. The order of the fields is the drop order.
struct End {
    queues: Queues,
    pair: QueuePair<Rts, Direct>,
    stream: Stream,
    region: MemoryRegion,
    memory: Buffer,
}

impl End {
    fn new(context: &Context, domain: &ProtectionDomain, address: (Route, Address)) -> Self {
        let allocator = Allocator::new(Gpu::sim(), None);
        let completions =
            [context.direct_completions(15).unwrap(), context.direct_completions(15).unwrap()];
        let options =
            QueuePairOptions { inline_bytes: 64, ..QueuePairOptions::of(verbs::Transport::Ud, 8) };
        let [sent, received] = [&completions[0], &completions[1]];
        let pair = domain.direct_queue_pair(options, sent, received).unwrap();
        let queues = wrap(
            &allocator,
            &pair,
            [sent, received],
            &Request { transport: Transport::Datagram, ..Request::default() },
        )
        .unwrap();
        let peer = Peer { address: address.1, queue_pair: 0, psn: 0 };
        let behaviour = Behaviour::of(1024);
        let pair = pair.init(address.0.port, Access::default(), KEY).unwrap();
        let pair = pair.ready_to_receive(address.0, peer, behaviour).unwrap();
        let memory = Buffer::new(4096, Pages::default()).unwrap();
        Self {
            queues,
            pair: pair.ready_to_send(0, behaviour).unwrap(),
            stream: allocator.gpu().stream().unwrap(),
            region: domain.register(&memory, Access::ALL).unwrap(),
            memory,
        }
    }

    fn at(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment { length, key: self.region.lkey(), address: self.memory.address() + offset }
    }

    /// Rings and waits by the stream, and returns the completion.
    fn sent(&mut self, entry: &Wqe) -> Completion {
        let prepared = self.queues.send.prepare(entry).unwrap();
        let wait = self.queues.send_completions.take_wait().unwrap();
        self.stream.batch(&prepared.operations().unwrap()).unwrap();
        self.stream.batch(&wait.operations(true).unwrap()).unwrap();
        self.stream.synchronize_within(TIMEOUT).unwrap();
        let completion = next(&mut self.queues.send_completions);
        assert_eq!(self.queues.send.complete(&completion).unwrap(), prepared.number());
        completion
    }

    fn received(&mut self) -> Completion {
        let completion = next(&mut self.queues.receive_completions);
        self.queues.receive.complete(&completion).unwrap();
        completion
    }
}

/// InfiniBand with a LID only, and RoCE, with the origin in the receiver's CQE.
fn addresses() -> [((Route, Address), Origin); 2] {
    let (lid, gid) = (0x0123, "::ffff:192.168.0.1".parse().unwrap());
    let infiniband = Route { service_level: 6, ..Route::of(1, 0) };
    let none = Origin::default();
    [
        ((infiniband, Address { lid, gid: None }), Origin { lid, level: 6, ..none }),
        ((Route::of(2, 1), Address { lid: 0, gid: Some(gid) }), Origin { has_route: true, ..none }),
    ]
}

#[test]
#[ignore = "needs libmlx5"]
fn arrive_at_their_destination() {
    inside("datagrams::arrive_at_their_destination", &NIC, || {
        let context = Context::open("mlx5_0").unwrap();
        let domain = context.domain().unwrap();
        for (address, origin) in addresses() {
            let mut local = End::new(&context, &domain, address);
            let mut target =
                [End::new(&context, &domain, address), End::new(&context, &domain, address)];
            local.memory.write(0, b"fifteen  bytes.").unwrap();
            // The address handle may be dropped first.
            let to = [0, 1].map(|at| {
                let handle = domain.datagram(address.0, address.1, target[at].pair.number(), KEY);
                datagram(&handle.unwrap()).unwrap()
            });
            // More rounds than the rings have slots.
            for round in 0..40_u32 {
                let (target, to) = (&mut target[round as usize % 2], to[round as usize % 2]);
                target.queues.receive.post(&[target.at(60, ROUTE + 200)]).unwrap();
                let entry = match round % 3 {
                    0 => Wqe::send(&[local.at(0, 15)]),
                    1 => Wqe::send(&[]).inline(b"fifteen  bytes."),
                    _ => Wqe::send(&[local.at(0, 15)]).immediate(round),
                };
                let done = local.sent(&entry.to(to).signalled());
                assert!(matches!(done.event, Event::Sent { .. }), "{done:?}");
                let received = target.received();
                let event = match round % 3 {
                    2 => Event::ReceivedImmediate { immediate: round },
                    _ => Event::Received,
                };
                assert_eq!(
                    (received.event, received.bytes, received.qpn),
                    (event, ROUTE + 15, target.pair.number())
                );
                assert_eq!((received.source, received.origin), (local.pair.number(), origin));
                let mut bytes = [0; 15];
                target.memory.read(60 + ROUTE as usize, &mut bytes).unwrap();
                assert_eq!(&bytes, b"fifteen  bytes.");
                target.memory.fill(0, 4096, 0).unwrap();
            }
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn check_key_and_operation() {
    inside("datagrams::check_key_and_operation", &NIC, || {
        let context = Context::open("mlx5_0").unwrap();
        let domain = context.domain().unwrap();
        let (address, _) = addresses()[0];
        let (mut local, mut target) =
            (End::new(&context, &domain, address), End::new(&context, &domain, address));
        let handle = domain.datagram(address.0, address.1, target.pair.number(), KEY).unwrap();
        let to = datagram(&handle).unwrap();
        target.queues.receive.post(&[target.at(0, 100)]).unwrap();
        let wrong = Datagram { key: KEY ^ 1, ..to };
        local.sent(&Wqe::send(&[]).inline(b"lost").to(wrong).signalled());
        local.sent(&Wqe::send(&[]).inline(b"not lost").to(to).signalled());
        assert_eq!(target.received().bytes, ROUTE + 8);
        // An RDMA write, and a send without a destination.
        let remote = RemoteAddress { address: 0, key: 0 };
        let write = local.queues.send.prepare(&Wqe::write(remote, &[]).to(to));
        assert!(matches!(write, Err(Error::Wire(_))), "{write:?}");
        let unaddressed = local.queues.send.prepare(&Wqe::send(&[]));
        assert!(matches!(unaddressed, Err(Error::Transport { .. })), "{unaddressed:?}");
        let wide = Datagram { qpn: 1 << 24, ..to };
        let wide = local.queues.send.prepare(&Wqe::send(&[]).to(wide));
        assert!(matches!(wide, Err(Error::Wire(_))), "{wide:?}");
    });
}

/// By [`gdsync::hca::Hca`].
#[test]
#[ignore = "needs libmlx5"]
fn of_the_hca() {
    inside("datagrams::of_the_hca", &NIC, || {
        for port in [1, 2] {
            let side = || side(port, &datagrams::request());
            datagrams::arrive(side(), side(), Duration::ZERO);
            datagrams::are_lost(side(), side(), Duration::ZERO);
            need_a_receive(side(), side());
            fail(side(), &side());
        }
    });
}

/// A datagram longer than an MTU, and one from memory that is not registered, fail.
fn fail(mut local: Side, peer: &Side) {
    let there =
        local.hca.datagram(local.pair.endpoint, peer.pair.endpoint, datagrams::KEY).unwrap();
    let long = Wqe::send(&[local.at(0, 4097)]).to(there).signalled();
    let failed = local.sent(&long);
    assert_eq!(failure(&failed).0, 0x01, "{failed:?}");
    // Later work is flushed.
    let flushed = local.sent(&Wqe::send(&[]).inline(b"late").to(there).signalled());
    assert_eq!(failure(&flushed).0, 0x05, "{flushed:?}");
}

/// Without a receive a datagram is lost: this NIC delivers it before its send completes.
fn need_a_receive(mut local: Side, mut peer: Side) {
    let there =
        local.hca.datagram(local.pair.endpoint, peer.pair.endpoint, datagrams::KEY).unwrap();
    datagrams::send(&mut local, there, b"no receive");
    peer.pair.receive.post(&[peer.at(0, 100)]).unwrap();
    datagrams::arrives(&mut local, &mut peer, there);
}
