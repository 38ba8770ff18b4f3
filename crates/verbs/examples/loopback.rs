//! All operations between two queue pairs of one port, with every byte compared, and all errors that can be provoked. Runs on
//! Soft-RoCE and on NICs.
//!
//! `cargo run -p gdr-verbs --example loopback -- [DEVICE]`

#![allow(clippy::print_stdout)] // It is its purpose.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use verbs::{
    Access, Address, Behaviour, Buffer, Completion, CompletionQueue, Context, Datagram, Error,
    Failure, Gid, MemoryRegion, Operation, Pages, Peer, ProtectionDomain, QueuePair,
    QueuePairOptions, Request, Route, Rts, Transport, Work, WorkCompletion, device_names,
};

/// Completion timeout.
const TIMEOUT: Duration = Duration::from_secs(20);
const BYTES: usize = 1 << 20;
const QKEY: u32 = 0x1111_1111;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match all() {
        Ok(()) => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut words = error.to_string();
            let mut source = error.source();
            while let Some(error) = source {
                words.push_str(&format!(": {error}"));
                source = error.source();
            }
            println!("error: {words}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Outcome {
    let name = match std::env::args().nth(1) {
        Some(name) => name,
        None => device_names()?.into_iter().next().ok_or("no device")?,
    };
    let context = Context::open(&name)?;
    let port = context.port(1)?;
    let table = context.gids(port.gids)?;
    let gid = Gid::best(&table, 1).ok_or("the port has no GID")?;
    println!("{name}, GID {} {} {:?}, MTU {:?}", gid.index, gid.address, gid.kind, port.active_mtu);
    let settings = Settings {
        address: Address { lid: port.lid, gid: Some(gid.address) },
        route: Route::of(1, u8::try_from(gid.index)?),
        behaviour: Behaviour {
            // An emulated CPU can be slow: four seconds.
            timeout: 20,
            ..Behaviour::of(port.active_mtu.unwrap_or(1024))
        },
    };
    for transport in [Transport::Rc, Transport::Uc] {
        let mut pair = Loopback::new(&context, transport, settings)?;
        report(transport, "send", sends(&mut pair, &[1, 64, 4096, 65536, BYTES]));
        report(transport, "write", writes(&mut pair, &[1, 4096, BYTES]));
        report(transport, "immediate data", immediate(&mut pair));
        report(transport, "SGEs", gather_and_scatter(&mut pair));
        report(transport, "inline", inline(&mut pair));
        if transport == Transport::Rc {
            report(transport, "read", reads(&mut pair, &[1, 4096, BYTES]));
            report(transport, "atomic operations", atomics(&mut pair));
            report(transport, "events", events(&mut pair));
        }
        pair.finish()?;
    }
    datagrams(&context, settings)?;
    for (what, status, provoke) in [
        (
            "an invalid key",
            "REM_ACCESS_ERR",
            wrong_key as fn(&mut Loopback) -> Result<Failure, Error>,
        ),
        ("an address outside", "REM_ACCESS_ERR", outside),
        ("read-only memory", "REM_ACCESS_ERR", read_only),
        // NICs report an invalid request, Soft-RoCE an operation error.
        ("a message too long", "REM_INV_REQ_ERR REM_OP_ERR", too_long),
        ("no receive buffer", "RNR_RETRY_EXC_ERR", no_buffer),
    ] {
        let mut pair = Loopback::new(&context, Transport::Rc, settings)?;
        let failure = provoke(&mut pair)?;
        println!("{what}: {failure}");
        if !failure.name().is_some_and(|name| status.split(' ').any(|status| status == name)) {
            return Err(format!("{what}: not {status}").into());
        }
        // Later requests are flushed.
        let sges = [pair.local.region.sge(0, 8)?];
        pair.left.send(&Request::new(99, Work::Send(None), &sges))?;
        match pair.sent.one()?.outcome {
            Err(failure) if failure.is_flush() => {}
            other => return Err(format!("after {what}: {other:?}").into()),
        }
    }
    full(&context, settings)?;
    let event = context.event(Duration::from_millis(1))?;
    println!("asynchronous events: {event:?}");
    Ok(())
}

fn report(transport: Transport, what: &str, outcome: Outcome) {
    match outcome {
        Ok(()) => println!("ok: {transport:?} {what}"),
        Err(error) => {
            println!("FAILED: {transport:?} {what}: {error}");
            std::process::exit(1);
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    address: Address,
    route: Route,
    behaviour: Behaviour,
}

struct Side {
    buffer: Buffer,
    region: MemoryRegion,
}

impl Side {
    fn new(domain: &ProtectionDomain, access: Access) -> Result<Self, Error> {
        let buffer = Buffer::new(BYTES, Pages::Ordinary)?;
        let region = domain.register(&buffer, access)?;
        Ok(Self { buffer, region })
    }

    fn set(&self, seed: u8, bytes: usize) -> Result<(), Error> {
        self.buffer.write(0, &pattern(seed, bytes))
    }

    fn holds(&self, seed: u8, bytes: usize) -> Outcome {
        let mut seen = vec![0; bytes];
        self.buffer.read(0, &mut seen)?;
        match seen.iter().zip(pattern(seed, bytes)).position(|(seen, sent)| *seen != sent) {
            None => Ok(()),
            Some(at) => Err(format!("{bytes} bytes: byte {at} is {:#x}", seen[at]).into()),
        }
    }
}

/// Patterns of two seeds differ in almost every byte.
fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    let word = |at: usize| {
        (at as u32 / 4).wrapping_mul(0x9e37_79b9).wrapping_add(u32::from(seed) << 16 | 1)
    };
    (0..bytes).map(|at| (word(at) >> (8 * (at % 4))) as u8 ^ seed).collect()
}

/// Polls until there is a completion.
struct Queue(CompletionQueue);

impl Queue {
    fn one(&self) -> Result<Completion, Error> {
        let begun = Instant::now();
        let mut found = [None];
        while begun.elapsed() < TIMEOUT {
            self.0.poll(&mut found)?;
            if let [Some(completion)] = found {
                return Ok(completion);
            }
            std::thread::yield_now();
        }
        println!("FAILED: no completion within {TIMEOUT:?}");
        std::process::exit(1);
    }

    fn wait_for(&self, id: u64) -> Result<WorkCompletion, Box<dyn std::error::Error>> {
        let completion = self.one()?;
        if completion.id != id {
            return Err(format!("the completion of {} instead of {id}", completion.id).into());
        }
        Ok(completion.outcome?)
    }
}

/// Two connected queue pairs and their memory.
struct Loopback {
    left: QueuePair<Rts>,
    right: QueuePair<Rts>,
    sent: Queue,
    received: Queue,
    local: Side,
    remote_side: Side,
    domain: ProtectionDomain,
}

impl Loopback {
    fn new(context: &Context, transport: Transport, settings: Settings) -> Result<Self, Error> {
        let domain = context.domain()?;
        let (sent, received) = (context.completions(32)?, context.completions_with_events(32)?);
        let options = QueuePairOptions {
            send_sges: 4,
            receive_sges: 4,
            inline_bytes: 32,
            ..QueuePairOptions::of(transport, 8)
        };
        let access = match transport {
            Transport::Rc => Access::ALL,
            _ => Access { remote_read: false, remote_atomic: false, ..Access::ALL },
        };
        let make = || domain.queue_pair(options, &sent, &received)?.init(1, access, 0);
        let (left, right) = (make()?, make()?);
        let peer = |queue_pair, psn| Peer { address: settings.address, queue_pair, psn };
        let (left_number, right_number) = (left.number(), right.number());
        let left =
            left.ready_to_receive(settings.route, peer(right_number, 7), settings.behaviour)?;
        let right = right.ready_to_receive(
            settings.route,
            peer(left_number, 0xff_fffe),
            settings.behaviour,
        )?;
        let behaviour = Behaviour {
            // Limited: a test expects the error.
            receiver_retries: 1,
            ..settings.behaviour
        };
        Ok(Self {
            left: left.ready_to_send(0xff_fffe, behaviour)?,
            right: right.ready_to_send(7, behaviour)?,
            sent: Queue(sent),
            received: Queue(received),
            local: Side::new(&domain, Access::ALL)?,
            remote_side: Side::new(&domain, Access::ALL)?,
            domain,
        })
    }

    /// Checks that both queues are empty.
    fn finish(self) -> Outcome {
        for queue in [&self.sent, &self.received] {
            if queue.0.poll(&mut [None])? != 0 {
                return Err("unexpected completion".into());
            }
        }
        Ok(())
    }
}

fn sends(pair: &mut Loopback, sizes: &[usize]) -> Outcome {
    for (seed, bytes) in (1..).zip(sizes.iter().copied()) {
        pair.local.set(seed, bytes)?;
        pair.remote_side.buffer.fill(0, BYTES, 0)?;
        pair.right.receive(10, &[pair.remote_side.region.sge(0, BYTES)?])?;
        let sges = [pair.local.region.sge(0, bytes)?];
        pair.left.send(&Request::new(20, Work::Send(None), &sges))?;
        let received = pair.received.wait_for(10)?;
        if (received.operation, received.bytes as usize) != (Operation::Receive, bytes) {
            return Err(format!("{bytes} bytes came as {received:?}").into());
        }
        if pair.sent.wait_for(20)?.operation != Operation::Send {
            return Err("not a send".into());
        }
        pair.remote_side.holds(seed, bytes)?;
    }
    Ok(())
}

fn writes(pair: &mut Loopback, sizes: &[usize]) -> Outcome {
    let last = pair.remote_side.region.remote();
    for (seed, bytes) in (40..).zip(sizes.iter().copied()) {
        pair.local.set(seed, bytes)?;
        pair.remote_side.buffer.fill(0, BYTES, 0)?;
        let sges = [pair.local.region.sge(0, bytes)?];
        pair.left.send(&Request::new(1, Work::Write(last, None), &sges))?;
        pair.sent.wait_for(1)?;
        let begun = Instant::now();
        // UC: the sender's completion says nothing about delivery.
        while pair.remote_side.holds(seed, bytes).is_err() && begun.elapsed() < TIMEOUT {
            std::thread::yield_now();
        }
        pair.remote_side.holds(seed, bytes)?;
    }
    Ok(())
}

fn immediate(pair: &mut Loopback) -> Outcome {
    let remote = pair.remote_side.region.remote();
    for (work, operation) in [
        (Work::Send(Some(0x1234_5678)), Operation::Receive),
        (Work::Write(remote, Some(0x1234_5678)), Operation::ReceiveWrite),
    ] {
        pair.local.set(77, 256)?;
        pair.right.receive(3, &[pair.remote_side.region.sge(0, 4096)?])?;
        let sges = [pair.local.region.sge(0, 256)?];
        pair.left.send(&Request::new(4, work, &sges))?;
        let received = pair.received.wait_for(3)?;
        pair.sent.wait_for(4)?;
        if (received.immediate, received.operation) != (Some(0x1234_5678), operation) {
            return Err(format!("{received:?}").into());
        }
        pair.remote_side.holds(77, 256)?;
        pair.remote_side.buffer.fill(0, 256, 0)?;
    }
    Ok(())
}

/// Gathers four SGEs of a buffer in another order and scatters them again.
fn gather_and_scatter(pair: &mut Loopback) -> Outcome {
    pair.local.set(5, 4000)?;
    let remote_side = &pair.remote_side.region;
    let scattered =
        [remote_side.sge(3000, 1000)?, remote_side.sge(2000, 1000)?, remote_side.sge(0, 2000)?];
    pair.right.receive(1, &scattered)?;
    let local = &pair.local.region;
    let gathered =
        [local.sge(3000, 1000)?, local.sge(2000, 1000)?, local.sge(0, 500)?, local.sge(500, 1500)?];
    pair.left.send(&Request::new(2, Work::Send(None), &gathered))?;
    pair.received.wait_for(1)?;
    pair.sent.wait_for(2)?;
    pair.remote_side.holds(5, 4000)
}

fn inline(pair: &mut Loopback) -> Outcome {
    let most = pair.left.inline_bytes().min(32) as usize;
    pair.local.set(6, most)?;
    pair.right.receive(1, &[pair.remote_side.region.sge(0, 4096)?])?;
    let sges = [pair.local.region.sge(0, most)?];
    let request = Request { inline: true, ..Request::new(2, Work::Send(None), &sges) };
    pair.left.send(&request)?;
    // Inline data was copied.
    pair.local.buffer.fill(0, most, 0)?;
    pair.received.wait_for(1)?;
    pair.sent.wait_for(2)?;
    pair.remote_side.holds(6, most)
}

fn reads(pair: &mut Loopback, sizes: &[usize]) -> Outcome {
    for (seed, bytes) in (80..).zip(sizes.iter().copied()) {
        pair.remote_side.set(seed, bytes)?;
        pair.local.buffer.fill(0, BYTES, 0)?;
        let sges = [pair.local.region.sge(0, bytes)?];
        pair.left.send(&Request::new(1, Work::Read(pair.remote_side.region.remote()), &sges))?;
        pair.sent.wait_for(1)?;
        pair.local.holds(seed, bytes)?;
    }
    Ok(())
}

fn atomics(pair: &mut Loopback) -> Outcome {
    let word = |side: &Side, at: usize| -> Result<u64, Error> {
        let mut bytes = [0; 8];
        side.buffer.read(at, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    };
    let remote = pair.remote_side.region.remote().offset(8);
    pair.remote_side.buffer.write(8, &41_u64.to_ne_bytes())?;
    for (work, before, after) in [
        (Work::FetchAdd(remote, 1 << 40), 41, 41 + (1 << 40)),
        (Work::CompareSwap { remote, compare: 41 + (1 << 40), swap: 7 }, 41 + (1 << 40), 7),
        (Work::CompareSwap { remote, compare: 8, swap: 9 }, 7, 7),
    ] {
        let sges = [pair.local.region.sge(64, 8)?];
        pair.left.send(&Request::new(1, work, &sges))?;
        pair.sent.wait_for(1)?;
        let seen = (word(&pair.local, 64)?, word(&pair.remote_side, 8)?);
        if seen != (before, after) {
            return Err(format!("{work:?} left {seen:?}").into());
        }
    }
    Ok(())
}

/// Waits for events; only solicited messages wake a wait for solicited ones.
fn events(pair: &mut Loopback) -> Outcome {
    pair.local.set(9, 64)?;
    for solicited in [false, true] {
        pair.received.0.arm(true)?;
        pair.right.receive(1, &[pair.remote_side.region.sge(0, 64)?])?;
        let sges = [pair.local.region.sge(0, 64)?];
        let request = Request { solicited, ..Request::new(2, Work::Send(None), &sges) };
        pair.left.send(&request)?;
        pair.sent.wait_for(2)?;
        let allowed = if solicited { TIMEOUT } else { Duration::from_millis(200) };
        if pair.received.0.wait(allowed)? != solicited {
            return Err(format!("solicited {solicited}: the event is wrong").into());
        }
        pair.received.wait_for(1)?;
    }
    Ok(())
}

fn datagrams(context: &Context, settings: Settings) -> Outcome {
    let domain = context.domain()?;
    let queue = Queue(context.completions(8)?);
    let pair = || {
        domain.queue_pair(QueuePairOptions::of(Transport::Ud, 4), &queue.0, &queue.0)?.init(
            1,
            Access::default(),
            QKEY,
        )
    };
    let start = |pair: QueuePair<verbs::Init>| {
        let peer = Peer { address: settings.address, queue_pair: 0, psn: 0 };
        pair.ready_to_receive(settings.route, peer, settings.behaviour)?
            .ready_to_send(0, settings.behaviour)
    };
    let (mut left, mut right) = (start(pair()?)?, start(pair()?)?);
    let (local, remote_side) = (Side::new(&domain, Access::ALL)?, Side::new(&domain, Access::ALL)?);
    let address: Datagram =
        domain.datagram(settings.route, settings.address, right.number(), QKEY)?;
    local.set(3, 512)?;
    right.receive(1, &[remote_side.region.sge(0, 40 + 512)?])?;
    let sges = [local.region.sge(0, 512)?];
    for work in [Work::Send(None), Work::Write(remote_side.region.remote(), None)] {
        match left.send(&Request::new(9, work, &sges)) {
            Err(Error::Transport { .. }) => {}
            other => return Err(format!("{work:?} without an address: {other:?}").into()),
        }
    }
    left.send(&Request::new(2, Work::SendTo(&address, None), &sges))?;
    let mut received = None;
    for _ in 0..2 {
        let completion = queue.one()?;
        let done = completion.outcome?;
        if completion.id == 1 {
            received = Some(done);
        }
    }
    let received = received.ok_or("no datagram")?;
    let mut seen = vec![0; 512];
    remote_side.buffer.read(40, &mut seen)?;
    if (received.bytes, received.has_route) != (552, true) || seen != pattern(3, 512) {
        return Err(format!("a datagram came as {received:?}").into());
    }
    println!("ok: Ud send");
    Ok(())
}

fn fails(pair: &mut Loopback, work: Work<'_>, bytes: usize) -> Result<Failure, Error> {
    let sges = [pair.local.region.sge(0, bytes)?];
    pair.left.send(&Request::new(1, work, &sges))?;
    match pair.sent.one()?.outcome {
        Err(failure) => Ok(failure),
        Ok(done) => {
            println!("FAILED: {done:?}");
            std::process::exit(1);
        }
    }
}

fn wrong_key(pair: &mut Loopback) -> Result<Failure, Error> {
    let mut remote = pair.remote_side.region.remote();
    remote.rkey ^= 0x55;
    fails(pair, Work::Write(remote, None), 64)
}

fn outside(pair: &mut Loopback) -> Result<Failure, Error> {
    let remote = pair.remote_side.region.remote().offset(BYTES as u64 - 63);
    fails(pair, Work::Write(remote, None), 64)
}

fn read_only(pair: &mut Loopback) -> Result<Failure, Error> {
    let access = Access { remote_read: true, ..Access::default() };
    let side = Side::new(&pair.domain, access)?;
    fails(pair, Work::Write(side.region.remote(), None), 64)
}

fn too_long(pair: &mut Loopback) -> Result<Failure, Error> {
    pair.right.receive(1, &[pair.remote_side.region.sge(0, 32)?])?;
    fails(pair, Work::Send(None), 64)
}

fn no_buffer(pair: &mut Loopback) -> Result<Failure, Error> {
    fails(pair, Work::Send(None), 64)
}

/// A full queue fails, and accepts requests again after a completion.
fn full(context: &Context, settings: Settings) -> Outcome {
    let mut pair = Loopback::new(context, Transport::Rc, settings)?;
    let piece = pair.remote_side.region.sge(0, 64)?;
    let taken = (0..100_000)
        .find_map(|count| pair.right.receive(count, &[piece]).err().map(|error| (count, error)));
    let (count, error) = taken.ok_or("the queue never fills up")?;
    let words = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    println!("a queue of {count} is full: {error}: {words}");
    match (count >= 8, error.errno()) {
        (true, Some(12)) => {}
        other => return Err(format!("{other:?}").into()),
    }
    let sges = [pair.local.region.sge(0, 64)?];
    pair.left.send(&Request::new(1, Work::Send(None), &sges))?;
    pair.sent.wait_for(1)?;
    pair.received.wait_for(0)?;
    pair.right.receive(0, &[piece])?;
    Ok(())
}
