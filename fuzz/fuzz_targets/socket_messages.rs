//! Any bytes from the remote side of two software HCAs over a socket: each message is written as it was read, or an error ends it; and an HCA
//! that hears them after a hello does what it can, ends the link in words, and goes on with itself.
//!
//! `cargo +nightly fuzz run socket_messages fuzz/corpus/socket_messages fuzz/seeds/socket_messages`

#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gdsync::hca::sim::socket::{self, HEAD, Messages, Options, Ports};
use gdsync::hca::sim::{Answer, Body, Message, RemoteOperation, SimHca};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::Wqe;
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::Gpu;
use libfuzzer_sys::fuzz_target;

/// One HCA for all inputs, with memory that some of them name and a queue pair that is connected to itself.
struct LocalEnd {
    allocator: Allocator,
    memory: MappedMemory,
    region: MemoryRegion,
    hca: SimHca,
}

fn local() -> &'static LocalEnd {
    static LOCAL: OnceLock<LocalEnd> = OnceLock::new();
    LOCAL.get_or_init(|| {
        let allocator = Allocator::new(Gpu::sim(), None);
        let hca = SimHca::with_lid(allocator.clone(), 1).expect("a thread");
        let memory = allocator.place(MemoryLocation::Host, 1 << 16).expect("memory");
        let region = hca.register(&memory, Access::ALL).expect("registered");
        LocalEnd { allocator, memory, region, hca }
    })
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    hear(bytes);
});

fn brought(message: &Message) -> &[u8] {
    match &message.body {
        Body::Request(
            RemoteOperation::Send { bytes, .. } | RemoteOperation::Write { bytes, .. },
        )
        | Body::Answer(Answer::Done(bytes))
        | Body::Datagram { bytes, .. } => bytes,
        _ => &[],
    }
}

/// Reads them all; what was read is written again.
fn read(bytes: &[u8]) {
    let mut messages = Messages::new(bytes, Ports { local: 1, peer: 2 });
    let mut rest = bytes;
    loop {
        match messages.message() {
            Ok(Some(message)) => {
                let brought = brought(&message);
                let (one, behind) = rest.split_at(HEAD + brought.len());
                assert_eq!((&socket::encode(&message)[..], brought), one.split_at(HEAD));
                rest = behind;
            }
            Ok(None) => return assert!(rest.is_empty()),
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
}

/// Has an HCA hear them: its queue pair asks for something, and has something posted.
fn hear(bytes: &[u8]) {
    let LocalEnd { allocator, memory, region, hca } = local();
    let (ours, mut peer) = UnixStream::pair().expect("a pair");
    peer.write_all(&socket::hello(2)).expect("room for a hello");
    let options = Options { timeout: Duration::from_secs(20), ..Options::default() };
    let connection = socket::join(hca, ours, options).expect("it is joined");
    let mut pair = hca.create(&Request::default()).expect("a pair");
    // What the input says is for 0x100 is for this one, whatever its number is.
    let qpn = pair.endpoint.qpn;
    let there = Endpoint::new(2, 0x77);
    hca.connect(pair.endpoint, there, RetryPolicy::default()).expect("a way");
    pair.receive.post(&[region.segment(0, 4096)]).expect("room");
    let read = Wqe::read(region.remote(0), &[region.segment(64, 8)]).signalled();
    let rung = pair.send.prepare(&read).and_then(gdsync::queue::Prepared::ring);
    rung.expect("room");
    let mut said = bytes.to_vec();
    for head in said.chunks_exact_mut(HEAD) {
        if head[8..12] == [0, 0, 1, 0] {
            head[8..12].copy_from_slice(&qpn.to_be_bytes());
        }
    }
    let _ = peer.write_all(&said);
    let _ = peer.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    peer.read_to_end(&mut answers).expect("it ends");
    wait(|| connection.ended().is_some());
    // Every entry of the pair completes, and the HCA is well.
    wait(|| !matches!(pair.send_completions.poll(), Ok(None)));
    drop((pair, connection));
    let mut own = hca.create(&Request::default()).expect("a pair");
    itself(hca, &mut own);
    assert_eq!(memory.len(), 1 << 16);
    assert!(allocator.gpu().is_sim());
}

fn itself(hca: &SimHca, own: &mut QueuePair) {
    hca.connect(own.endpoint, own.endpoint, RetryPolicy::default()).expect("it reaches itself");
    let rung = own.send.prepare(&Wqe::nop().signalled());
    rung.and_then(gdsync::queue::Prepared::ring).expect("room");
    wait(|| matches!(own.send_completions.poll(), Ok(Some(_))));
}

fn wait(mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never ends");
        std::thread::yield_now();
    }
}
