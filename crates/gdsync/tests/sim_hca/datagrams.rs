//! Datagrams of the simulated HCA: within one HCA, between two of a process, and over a socket.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::{SimHca, Violation, socket};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::{Datagram, Wqe};
use gdsync::{Allocator, Error, MappedMemory, MemoryLocation};
use gpu::Gpu;

use super::sides::{BYTES, Side, datagrams, failure};

/// An HCA that several sides share, with its connections.
#[derive(Debug, Clone)]
pub struct Shared(Arc<SimHca>);

impl Hca for Shared {
    fn create(&self, request: &Request) -> Result<QueuePair, Error> {
        self.0.create(request)
    }

    fn connect(&self, local: Endpoint, peer: Endpoint, retry: RetryPolicy) -> Result<(), Error> {
        self.0.connect(local, peer, retry)
    }

    fn stop(&self, local: Endpoint) -> Result<(), Error> {
        self.0.stop(local)
    }

    fn datagram(&self, local: Endpoint, remote: Endpoint, key: u32) -> Result<Datagram, Error> {
        self.0.datagram(local, remote, key)
    }

    fn register(&self, place: &MappedMemory, access: Access) -> Result<MemoryRegion, Error> {
        self.0.register(place, access)
    }
}

fn side(hca: &Shared) -> Side {
    Side::new(&datagrams::request(), |_| Box::new(hca.clone()))
}

/// An HCA for sides of their own.
pub fn hca() -> Shared {
    let allocator = Allocator::new(Gpu::sim(), None);
    Shared(Arc::new(SimHca::new(allocator).unwrap()))
}

fn run(one: &Shared, two: &Shared) {
    datagrams::arrive(side(one), side(two), Duration::ZERO);
    datagrams::are_lost(side(one), side(two), Duration::ZERO);
    fail(side(one), &side(two));
    of_gpu_memory(side(one), side(two));
    for hca in [one, two] {
        assert_eq!(hca.0.violations(), Vec::<Violation>::new());
    }
}

#[test]
fn within_one_hca() {
    let hca = hca();
    run(&hca, &hca);
}

#[test]
fn between_two_hcas() {
    let (one, two) = (hca(), hca());
    one.0.join(&two.0);
    run(&one, &two);
}

#[test]
fn over_a_socket() {
    let (one, two) = (hca(), hca());
    let (local, remote) = UnixStream::pair().unwrap();
    let joined = std::thread::scope(|scope| {
        let other = scope.spawn(|| socket::join(&two.0, remote, socket::Options::default()));
        let joined = socket::join(&one.0, local, socket::Options::default());
        [joined.unwrap(), other.join().unwrap().unwrap()]
    });
    run(&one, &two);
    // A lost link loses datagrams.
    let (mut sender, receiver) = (side(&one), side(&two));
    let there = one.datagram(sender.pair.endpoint, receiver.pair.endpoint, datagrams::KEY).unwrap();
    drop(joined);
    let sent = sender.sent(&Wqe::send(&[]).inline(b"lost").to(there).signalled());
    assert_eq!(sent.event.failed(), None);
}

#[test]
fn rejects_unknown_ports_and_connections() {
    let hca = hca();
    let side = side(&hca);
    let own = side.pair.endpoint;
    let unknown = hca.datagram(own, Endpoint::new(0x7777, 1), 0);
    assert!(matches!(unknown, Err(Error::Unreachable { lid: 0x7777 })), "{unknown:?}");
    let gone = hca.datagram(Endpoint::new(own.lid, 1), own, 0);
    assert!(matches!(gone, Err(Error::NoQueuePair { qpn: 1 })), "{gone:?}");
    let connected = hca.connect(own, own, RetryPolicy::default());
    assert!(matches!(connected, Err(Error::Device(_))), "{connected:?}");
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

/// GPU memory as source and target.
fn of_gpu_memory(mut local: Side, mut peer: Side) {
    let mut places = Vec::new();
    for side in [&local, &peer] {
        let allocator = Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok());
        let place = allocator.place(MemoryLocation::Gpu, BYTES).unwrap();
        let region = side.hca.register(&place, Access::ALL).unwrap();
        places.push((place, region));
    }
    let [(source, from), (target, to)] = &places[..] else { panic!("two places") };
    source.write(100, b"in GPU memory").unwrap();
    peer.pair.receive.post(&[to.segment(0, 100)]).unwrap();
    peer.wait_received();
    let there =
        local.hca.datagram(local.pair.endpoint, peer.pair.endpoint, datagrams::KEY).unwrap();
    local.sent(&Wqe::send(&[from.segment(100, 13)]).to(there).signalled());
    peer.synchronize();
    peer.next_received();
    let mut seen = [0; 13];
    target.read(40, &mut seen).unwrap();
    assert_eq!(&seen, b"in GPU memory");
}
