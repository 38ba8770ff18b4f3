//! Work enqueued on streams runs in stream order without the CPU.

use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Hca, QueuePair, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::Wqe;
use gdsync::{MemoryLocation, Program};
use gpu::{Allocation, Compare};

use super::lane::{Registered, TIMEOUT, allocator, bytes, polled, rung, waited};

fn connected(hca: &SimHca, request: &Request) -> [QueuePair; 2] {
    let pairs = [hca.create(request).unwrap(), hca.create(request).unwrap()];
    let [one, two] = pairs.each_ref().map(|pair| pair.endpoint);
    hca.connect(one, two, RetryPolicy::default()).unwrap();
    hca.connect(two, one, RetryPolicy::default()).unwrap();
    pairs
}

/// Ping-pong between two streams, fully enqueued before the first send.
#[test]
fn streams_play_ping_pong() {
    const ROUNDS: u32 = 40;
    for (location, waiting) in [
        (MemoryLocation::Host, Waiting::Nor),
        (MemoryLocation::Gpu, Waiting::Nor),
        (MemoryLocation::Host, Waiting::WithoutNor),
    ] {
        let allocator = allocator();
        let hca = SimHca::new(allocator.clone()).unwrap();
        let request = Request {
            queues: location,
            records: location,
            completions: [location; 2],
            waiting,
            ..Request::default()
        };
        let [mut local, mut peer] = connected(&hca, &request);
        let memory = [0, 1].map(|_| Registered::new(&hca, &allocator, location, &[0; 4096]));
        memory[0].place.write(0, b"pingpong").unwrap();
        for round in 0..u64::from(ROUNDS) {
            peer.receive.post(&[memory[1].region.segment(round * 8, 8)]).unwrap();
            local.receive.post(&[memory[0].region.segment((round + 1) * 8, 8)]).unwrap();
        }
        let gate = allocator.place(MemoryLocation::Host, 4).unwrap();
        let streams = [0, 1].map(|_| allocator.gpu().stream().unwrap());
        Program::new().wait32(&gate, 0, 1, Compare::Eq).post(&streams[0]).unwrap();
        for round in 0..u64::from(ROUNDS) {
            let ping = Wqe::send(&[memory[0].region.segment(round * 8, 8)]).signalled();
            let pong = Wqe::send(&[memory[1].region.segment(round * 8, 8)]).signalled();
            let mut batch = rung(&mut local, &ping).to_vec();
            batch.extend(waited(&mut local.send_completions, false));
            batch.extend(waited(&mut local.receive_completions, true));
            streams[0].batch(&batch).unwrap();
            let mut batch = waited(&mut peer.receive_completions, true).to_vec();
            batch.extend(rung(&mut peer, &pong));
            batch.extend(waited(&mut peer.send_completions, false));
            streams[1].batch(&batch).unwrap();
        }
        assert!(!streams[0].is_idle().unwrap() && !streams[1].is_idle().unwrap());
        assert!(local.send_completions.poll().unwrap().is_none());
        gate.store_u32(0, 1).unwrap();
        for stream in &streams {
            stream.synchronize_within(TIMEOUT).unwrap();
        }
        // The streams have waited for all completions, so all are there.
        let end = ROUNDS as usize * 8;
        assert_eq!(bytes(&memory[0].place)[end..end + 8], *b"pingpong");
        for pair in [&mut local, &mut peer] {
            for number in 0..ROUNDS {
                let sent = pair.send_completions.poll().unwrap().unwrap();
                assert_eq!(pair.send.complete(&sent).unwrap(), u64::from(number));
                let received = pair.receive_completions.poll().unwrap().unwrap();
                assert_eq!((received.counter, received.bytes), (number as u16, 8));
            }
        }
        assert_eq!(hca.violations(), []);
    }
}

/// Sends see the stream's earlier writes; work after a wait sees the received data.
#[test]
fn data_follows_stream_order() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let [mut local, _peer] = connected(&hca, &Request::default());
    let memory = allocator.gpu().allocate(Allocation::Malloc, 4096).unwrap();
    let gdr = gdrcopy::Gdr::open_with(gdrcopy::BackendKind::Sim).unwrap();
    let place = gdsync::MappedMemory::device(memory.clone(), &gdr).unwrap();
    let region = hca.register(&place, Access::ALL).unwrap();
    let stream = allocator.gpu().stream().unwrap();
    for round in 1..200_u32 {
        let write = Wqe::write(region.remote(1024), &[region.segment(0, 512)]).signalled();
        let prepared = local.send.prepare(&write).unwrap();
        let wait = local.send_completions.take_wait().unwrap();
        stream.fill_words(&memory, 0, 128, round).unwrap();
        stream.batch(&prepared.operations().unwrap()).unwrap();
        stream.batch(&wait.operations(true).unwrap()).unwrap();
        stream.copy(&memory, 2048, &memory, 1024, 512).unwrap();
        stream.fill_words(&memory, 0, 128, 0).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();
        let mut seen = [0; 512];
        stream.read(&memory, 2048, &mut seen).unwrap();
        assert!(seen.chunks(4).all(|word| word == round.to_le_bytes()), "round {round}");
        let completion = local.send_completions.poll().unwrap().unwrap();
        local.send.complete(&completion).unwrap();
    }
}

/// One doorbell sends all WQEs prepared before it.
#[test]
fn last_doorbell_sends_all() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let [mut local, _peer] = connected(&hca, &Request::default());
    let memory = Registered::new(&hca, &allocator, MemoryLocation::Host, &[0; 64]);
    let stream = allocator.gpu().stream().unwrap();
    let mut last = None;
    for position in 0..20_u8 {
        let write = Wqe::write(memory.region.remote(position.into()), &[]).inline(&[position + 1]);
        let write = if position == 19 { write.signalled() } else { write };
        last = Some(local.send.prepare(&write).unwrap());
    }
    stream.batch(&last.unwrap().operations().unwrap()).unwrap();
    let completion = polled(&mut local.send_completions);
    assert_eq!(local.send.complete(&completion).unwrap(), 19);
    assert!(bytes(&memory.place)[..20].iter().copied().eq(1..=20));
    assert_eq!(local.send.pending(), 0);
}

/// Writing the polled word releases a waiting stream.
#[test]
fn writing_the_word_releases_a_wait() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let [mut local, _peer] = connected(&hca, &Request::default());
    let stream = allocator.gpu().stream().unwrap();
    let wait = local.send_completions.take_wait().unwrap();
    stream.batch(&wait.operations(false).unwrap()).unwrap();
    assert!(!stream.is_idle().unwrap());
    let done = allocator.place(MemoryLocation::Host, 4).unwrap();
    Program::new().write32(&done, 0, 7).post(&stream).unwrap();
    assert_eq!(done.load_u32(0).unwrap(), 0);
    wait.word().store_u32(0, 0).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!((done.load_u32(0).unwrap(), wait.busy().load_u32(0).unwrap()), (7, 0));
}
