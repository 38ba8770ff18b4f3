//! Datagrams of a NIC's own queues: an address of verbs becomes an entry's, and a stream rings for it.

use gdsync::hca::mlx5::{Queues, datagram, wrap};
use gdsync::queue::Waiting;
use gdsync::wire::{
    Completion, DataSegment, Datagram, Event, Origin, RemoteAddress, Transport, Wqe,
};
use gdsync::{Allocator, Error};
use gpu::{Gpu, Stream};
use verbs::{
    Access, Address, Behaviour, Buffer, Context, Direct, MemoryRegion, Pages, Peer,
    ProtectionDomain, QueuePair, QueuePairOptions, Route, Rts,
};

use crate::CARD;
use crate::inside::inside;
use crate::sides::{TIMEOUT, next};

const KEY: u32 = 0x0bad_cafe;
/// What comes before each message.
const ROUTE: u32 = 40;

/// A queue pair of datagrams that is ready, and memory. Fields fall in this order.
struct End {
    laid: Queues,
    pair: QueuePair<Rts, Direct>,
    stream: Stream,
    region: MemoryRegion,
    memory: Buffer,
}

impl End {
    fn new(context: &Context, domain: &ProtectionDomain, way: (Route, Address)) -> Self {
        let allocator = Allocator::new(Gpu::sim(), None);
        let queues = [
            context.direct_completions(15).unwrap(),
            context.direct_completions(15).unwrap(),
        ];
        let options = QueuePairOptions {
            inline_bytes: 64,
            ..QueuePairOptions::of(verbs::Transport::Ud, 8)
        };
        let [sent, received] = [&queues[0], &queues[1]];
        let pair = domain.direct_queue_pair(options, sent, received).unwrap();
        let laid = wrap(
            &allocator,
            &pair,
            [sent, received],
            Transport::Datagram,
            Waiting::Nor,
        )
        .unwrap();
        let peer = Peer {
            address: way.1,
            queue_pair: 0,
            psn: 0,
        };
        let behaviour = Behaviour::of(1024);
        let pair = pair.init(way.0.port, Access::default(), KEY).unwrap();
        let pair = pair.ready_to_receive(way.0, peer, behaviour).unwrap();
        let memory = Buffer::new(4096, Pages::default()).unwrap();
        Self {
            laid,
            pair: pair.ready_to_send(0, behaviour).unwrap(),
            stream: allocator.gpu().stream().unwrap(),
            region: domain.register(&memory, Access::ALL).unwrap(),
            memory,
        }
    }

    fn at(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            length,
            key: self.region.lkey(),
            address: self.memory.address() + offset,
        }
    }

    /// A stream rings for it and waits until it is done.
    fn sent(&mut self, entry: &Wqe) -> Completion {
        let prepared = self.laid.send.prepare(entry).unwrap();
        let wait = self.laid.send_completions.take_wait().unwrap();
        self.stream.batch(&prepared.operations().unwrap()).unwrap();
        self.stream.batch(&wait.operations(true).unwrap()).unwrap();
        self.stream.synchronize_within(TIMEOUT).unwrap();
        let completion = next(&mut self.laid.send_completions);
        assert_eq!(
            self.laid.send.complete(&completion).unwrap(),
            prepared.number()
        );
        completion
    }

    fn received(&mut self) -> Completion {
        let completion = next(&mut self.laid.receive_completions);
        self.laid.receive.complete(&completion).unwrap();
        completion
    }
}

/// InfiniBand with a LID alone, and RoCE: where a completion says that it came from.
fn ways() -> [((Route, Address), Origin); 2] {
    let (lid, gid) = (0x0123, "::ffff:192.168.0.1".parse().unwrap());
    let infiniband = Route {
        service_level: 6,
        ..Route::of(1, 0)
    };
    let none = Origin::default();
    [
        (
            (infiniband, Address { lid, gid: None }),
            Origin {
                lid,
                level: 6,
                ..none
            },
        ),
        (
            (
                Route::of(2, 1),
                Address {
                    lid: 0,
                    gid: Some(gid),
                },
            ),
            Origin {
                has_route: true,
                ..none
            },
        ),
    ]
}

#[test]
#[ignore = "needs libmlx5"]
fn arrive_from_a_stream_at_whom_they_name() {
    inside(
        "datagrams::arrive_from_a_stream_at_whom_they_name",
        &CARD,
        || {
            let context = Context::open("mlx5_0").unwrap();
            let domain = context.domain().unwrap();
            for (way, origin) in ways() {
                let mut local = End::new(&context, &domain, way);
                let mut target = [
                    End::new(&context, &domain, way),
                    End::new(&context, &domain, way),
                ];
                local.memory.write(0, b"all their bytes").unwrap();
                // Addresses may go before what they were made into.
                let to = [0, 1].map(|at| {
                    let address = domain.datagram(way.0, way.1, target[at].pair.number(), KEY);
                    datagram(&address.unwrap()).unwrap()
                });
                // Rings go round.
                for round in 0..40_u32 {
                    let (target, to) = (&mut target[round as usize % 2], to[round as usize % 2]);
                    target
                        .laid
                        .receive
                        .post(&[target.at(60, ROUTE + 200)])
                        .unwrap();
                    let entry = match round % 3 {
                        0 => Wqe::send(&[local.at(0, 15)]),
                        1 => Wqe::send(&[]).inline(b"all their bytes"),
                        _ => Wqe::send(&[local.at(0, 15)]).immediate(round),
                    };
                    let done = local.sent(&entry.to(to).signalled());
                    assert!(matches!(done.event, Event::Sent { .. }), "{done:?}");
                    let came = target.received();
                    let event = match round % 3 {
                        2 => Event::ReceivedImmediate { immediate: round },
                        _ => Event::Received,
                    };
                    assert_eq!(
                        (came.event, came.bytes, came.qpn),
                        (event, ROUTE + 15, target.pair.number())
                    );
                    assert_eq!((came.source, came.origin), (local.pair.number(), origin));
                    let mut bytes = [0; 15];
                    target.memory.read(60 + ROUTE as usize, &mut bytes).unwrap();
                    assert_eq!(&bytes, b"all their bytes");
                    target.memory.fill(0, 4096, 0).unwrap();
                }
            }
        },
    );
}

#[test]
#[ignore = "needs libmlx5"]
fn carry_the_key_that_was_asked_for_and_do_nothing_else() {
    inside(
        "datagrams::carry_the_key_that_was_asked_for_and_do_nothing_else",
        &CARD,
        || {
            let context = Context::open("mlx5_0").unwrap();
            let domain = context.domain().unwrap();
            let (way, _) = ways()[0];
            let (mut local, mut target) = (
                End::new(&context, &domain, way),
                End::new(&context, &domain, way),
            );
            let address = domain
                .datagram(way.0, way.1, target.pair.number(), KEY)
                .unwrap();
            let to = datagram(&address).unwrap();
            target.laid.receive.post(&[target.at(0, 100)]).unwrap();
            let wrong = Datagram { key: KEY ^ 1, ..to };
            local.sent(&Wqe::send(&[]).inline(b"lost").to(wrong).signalled());
            local.sent(&Wqe::send(&[]).inline(b"not lost").to(to).signalled());
            assert_eq!(target.received().bytes, ROUTE + 8);
            // What no datagram is, and an entry for nobody.
            let remote = RemoteAddress { address: 0, key: 0 };
            let write = local.laid.send.prepare(&Wqe::write(remote, &[]).to(to));
            assert!(matches!(write, Err(Error::Wire(_))), "{write:?}");
            let nobody = local.laid.send.prepare(&Wqe::send(&[]));
            assert!(matches!(nobody, Err(Error::Transport { .. })), "{nobody:?}");
            let wide = Datagram { qpn: 1 << 24, ..to };
            let wide = local.laid.send.prepare(&Wqe::send(&[]).to(wide));
            assert!(matches!(wide, Err(Error::Wire(_))), "{wide:?}");
        },
    );
}
