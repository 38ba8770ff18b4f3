//! Streams and events: order, threads, shutdown.

use std::time::{Duration, Instant};

use gpu::{Allocation, Compare, Error, Gpu, Kind, MemOp};

use crate::{MOMENT, TIMEOUT, sim};

#[test]
fn wait_for_event_of_other_stream() {
    let gpu = Gpu::sim();
    let (first, second) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let gate = gpu.allocate(Allocation::Malloc, 4).unwrap();
    let data = gpu.allocate(Allocation::Malloc, 8).unwrap();
    first.fill(&gate, 0, 4, 0).unwrap();
    first.fill(&data, 0, 8, 0).unwrap();
    first.synchronize().unwrap();

    let event = gpu.event().unwrap();
    assert!(event.is_done().unwrap(), "never recorded");
    let wait = MemOp::wait32(&gate, 0, 1, Compare::Eq).unwrap();
    first.batch(&[wait]).unwrap();
    first.fill(&data, 0, 4, 0x11).unwrap();
    first.record(&event).unwrap();
    second.wait(&event).unwrap();
    second.copy(&data, 4, &data, 0, 4).unwrap();

    std::thread::sleep(MOMENT);
    assert!(!event.is_done().unwrap() && !second.is_idle().unwrap());
    let third = gpu.stream().unwrap();
    third.batch(&[MemOp::write32(&gate, 0, 1).unwrap()]).unwrap();
    event.synchronize().unwrap();
    second.synchronize_within(TIMEOUT).unwrap();
    let mut seen = [0; 8];
    second.read(&data, 0, &mut seen).unwrap();
    assert_eq!(seen, [0x11; 8]);
}

#[test]
fn wait_for_latest_earlier_record() {
    let gpu = Gpu::sim();
    let (first, second) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let gate = gpu.pinned(4).unwrap();
    let event = gpu.event().unwrap();
    // Not recorded yet: nothing to wait for.
    second.wait(&event).unwrap();
    second.synchronize_within(TIMEOUT).unwrap();
    first.record(&event).unwrap();
    second.wait(&event).unwrap();
    // A second record, behind a gate: not what the wait above waits for.
    first.batch(&[MemOp::wait32(&gate, 0, 1, Compare::Eq).unwrap()]).unwrap();
    first.record(&event).unwrap();
    second.synchronize_within(TIMEOUT).unwrap();
    assert!(!event.is_done().unwrap());
    gate.store_u32(0, 1).unwrap();
    event.synchronize().unwrap();
}

#[test]
fn event_times() {
    let (gpu, stream) = sim();
    let gate = gpu.pinned(4).unwrap();
    let (start, end) = (gpu.event().unwrap(), gpu.event().unwrap());
    assert!(matches!(end.elapsed_since(&start).unwrap_err(), Error::Event(_)));
    stream.record(&start).unwrap();
    stream.batch(&[MemOp::wait32(&gate, 0, 1, Compare::Eq).unwrap()]).unwrap();
    stream.record(&end).unwrap();
    start.synchronize().unwrap();
    std::thread::sleep(MOMENT);
    assert_eq!(end.elapsed_since(&start).unwrap_err().kind(), Kind::Busy);
    gate.store_u32(0, 1).unwrap();
    end.synchronize().unwrap();
    assert!(end.elapsed_since(&start).unwrap() >= MOMENT);
    assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO);
}

#[test]
fn timeout_describes_wait() {
    let (gpu, stream) = sim();
    let word = gpu.pinned(4).unwrap();
    word.store_u32(0, 0x21).unwrap();
    stream.batch(&[MemOp::wait32(&word, 0, 0x42, Compare::Geq).unwrap()]).unwrap();
    let start = Instant::now();
    loop {
        let error = stream.synchronize_within(MOMENT).unwrap_err();
        assert_eq!(error.kind(), Kind::Busy);
        // On a busy machine the stream may not have started it yet.
        if error.to_string().contains("Geq 0x42; it is 0x21") {
            break;
        }
        assert!(start.elapsed() < TIMEOUT, "{error}");
    }
    word.store_u32(0, 0x42).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
}

#[test]
fn eight_threads_with_own_streams() {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 50;
    let gpu = Gpu::sim();
    let turn = gpu.allocate(Allocation::Malloc, 4).unwrap();
    let log = gpu.pinned(4 * (THREADS * ROUNDS) as usize).unwrap();
    gpu.stream().unwrap().write(&turn, 0, &[0; 4]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gpu, turn, log) = (&gpu, &turn, &log);
            scope.spawn(move || {
                let stream = gpu.stream().unwrap();
                for round in 0..ROUNDS {
                    let mine = round * THREADS + thread;
                    stream
                        .batch(&[
                            MemOp::wait32(turn, 0, mine, Compare::Eq).unwrap(),
                            MemOp::write32(log, 4 * mine as usize, thread + 1).unwrap(),
                            MemOp::write32(turn, 0, mine + 1).unwrap(),
                        ])
                        .unwrap();
                }
                stream.synchronize_within(TIMEOUT).unwrap();
            });
        }
    });
    for position in 0..THREADS * ROUNDS {
        let seen = log.load_u32(4 * position as usize).unwrap();
        assert_eq!(seen, position % THREADS + 1, "turn {position}");
    }
}

#[test]
fn eight_threads_share_stream() {
    let (gpu, stream) = sim();
    let memory = gpu.allocate(Allocation::Malloc, 8 * 1024).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (stream, memory) = (&stream, &memory);
            scope.spawn(move || {
                let offset = usize::from(thread) * 1024;
                for round in 0..50_u8 {
                    stream.write(memory, offset, &[thread ^ round; 1024]).unwrap();
                    let mut seen = [0; 1024];
                    stream.read(memory, offset, &mut seen).unwrap();
                    assert_eq!(seen, [thread ^ round; 1024]);
                }
            });
        }
    });
}

#[test]
fn ping_pong_replies() {
    let gpu = Gpu::sim();
    let (stream, writer) = (gpu.stream().unwrap(), gpu.stream().unwrap());
    let flag = gpu.allocate(Allocation::Malloc, 4).unwrap();
    let reply = gpu.pinned(4).unwrap();
    writer.write(&flag, 0, &[0; 4]).unwrap();
    stream.ping_pong(&flag, &reply, 20).unwrap();
    for round in 1..=20_u32 {
        writer.write(&flag, 0, &round.to_le_bytes()).unwrap();
        while reply.load_u32(0).unwrap() != round {
            std::thread::yield_now();
        }
    }
    stream.synchronize_within(TIMEOUT).unwrap();

    // Stopped on request, it reports that.
    writer.write(&flag, 0, &[0; 4]).unwrap();
    stream.ping_pong(&flag, &reply, 5).unwrap();
    writer.write(&flag, 0, &[0xff; 4]).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(reply.load_u32(0).unwrap(), u32::MAX);
}
