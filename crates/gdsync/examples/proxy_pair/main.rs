//! Streams of two processes, on one or two machines, exchange data through proxy HCAs. The GPU is SIMULATED; the verbs device is a NIC or
//! Soft-RoCE.
//!
//! `proxy_pair DEVICE` is the server, `proxy_pair DEVICE ADDRESS` the client. Both print `ok: …` for each comparison, and
//! `passed` at the end.

#![allow(clippy::print_stdout)]

mod end;

use std::process::ExitCode;

use gdsync::wire::{Event, Operation, Wqe};

use end::{BULK, End, Outcome};

/// Number of echoed messages, and bytes per message.
const ROUNDS: usize = 20;
const MESSAGE: usize = 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [device] => End::server(device).and_then(serve),
        [device, address] => End::client(device, address).and_then(request),
        _ => Err("proxy_pair DEVICE [ADDRESS]".into()),
    };
    match outcome {
        Ok(()) => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request(mut end: End) -> Outcome {
    // Each message has three segments; the server's stream echoes it.
    end.memory.write(0, &pattern(1, ROUNDS * MESSAGE))?;
    for round in 0..ROUNDS {
        end.post(BULK + round * MESSAGE, MESSAGE)?;
    }
    end.synchronize_with_peer("echo")?;
    for round in 0..ROUNDS {
        let start = round * MESSAGE;
        let pieces = [(start, 1), (start + 1, 299), (start + 300, 700)];
        let pieces = pieces.map(|(offset, bytes)| end.region.segment(offset as u64, bytes));
        end.ring(&Wqe::send(&pieces).signalled())?;
        end.wait_sent()?;
        end.wait_received()?;
    }
    end.synchronize()?;
    for round in 0..ROUNDS {
        end.expect_sent(0x0a)?;
        end.expect_received(round, Event::Received, MESSAGE)?;
    }
    end.compare("echo", BULK, &pattern(1, ROUNDS * MESSAGE))?;

    end.memory.write(0, &pattern(2, BULK))?;
    end.synchronize_with_peer("write")?;
    let all = end.region.segment(0, BULK as u32);
    end.execute(&Wqe::write(end.peer(BULK), &[all]).immediate(0x0102_0304), 9)?;
    end.synchronize_with_peer("read")?;
    end.memory.write(0, &[0; BULK])?;
    end.execute(&Wqe::read(end.peer(0), &[all]), 0x10)?;
    end.compare("read", 0, &pattern(3, BULK))?;

    end.synchronize_with_peer("atomic operations")?;
    let (remote, word) = (end.peer(BULK), end.region.segment(0, 8));
    end.execute(&Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[word]), 0x12)?;
    end.compare("fetch and add", 0, &41_u64.to_ne_bytes())?;
    let (compare, swap) = (42, 7);
    end.execute(&Wqe::new(Operation::CompareSwap { remote, compare, swap }, &[word]), 0x11)?;
    end.compare("compare and swap", 0, &42_u64.to_ne_bytes())?;

    for part in 0..3 {
        let entry =
            Wqe::write(end.peer(part * 100), &[]).inline(&pattern(4, 300)[part * 100..][..100]);
        end.ring(&entry)?;
    }
    end.execute(&Wqe::nop(), 0)?;
    end.is_quiet()?;
    end.synchronize_with_peer("inline")?;

    end.synchronize_with_peer("denied")?;
    let mut remote = end.peer(0);
    remote.key += 1;
    end.ring(&Wqe::write(remote, &[]).inline(b"denied").signalled())?;
    end.ring(&Wqe::write(end.peer(0), &[]).inline(b"too late").signalled())?;
    end.wait_sent()?;
    end.wait_sent()?;
    end.synchronize()?;
    end.expect_failure("denied", 0x13)?;
    end.expect_failure("flushed", 0x05)?;
    end.synchronize_with_peer("failed")?;
    end.synchronize_with_peer("end")
}

fn serve(mut end: End) -> Outcome {
    for round in 0..ROUNDS {
        end.post(round * MESSAGE, MESSAGE)?;
        // Enqueue everything before the first message arrives.
        end.wait_received()?;
        let message = end.region.segment((round * MESSAGE) as u64, MESSAGE as u32);
        end.ring(&Wqe::send(&[message]).signalled())?;
    }
    end.synchronize_with_peer("echo")?;
    end.synchronize()?;
    for round in 0..ROUNDS {
        end.expect_received(round, Event::Received, MESSAGE)?;
        end.expect_sent(0x0a)?;
    }
    end.compare("echoed", 0, &pattern(1, ROUNDS * MESSAGE))?;

    end.post(0, 0)?;
    end.wait_received()?;
    end.synchronize_with_peer("write")?;
    end.synchronize()?;
    let immediate = 0x0102_0304;
    end.expect_received(ROUNDS, Event::Written { immediate }, BULK)?;
    end.compare("written", BULK, &pattern(2, BULK))?;
    end.memory.write(0, &pattern(3, BULK))?;
    end.synchronize_with_peer("read")?;

    end.memory.write(BULK, &41_u64.to_ne_bytes())?;
    end.synchronize_with_peer("atomic operations")?;
    end.synchronize_with_peer("inline")?;
    end.compare("swapped", BULK, &7_u64.to_ne_bytes())?;
    end.compare("inline", 0, &pattern(4, 300))?;

    end.synchronize_with_peer("denied")?;
    end.synchronize_with_peer("failed")?;
    // Soft-RoCE itself flushes no receive that is posted now.
    end.post(BULK, 8)?;
    end.wait_received()?;
    end.synchronize()?;
    end.expect_receive_failure()?;
    end.compare("untouched", 0, &pattern(4, 300))?;
    end.synchronize_with_peer("end")
}

/// Test bytes that depend on position and seed.
fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect()
}
