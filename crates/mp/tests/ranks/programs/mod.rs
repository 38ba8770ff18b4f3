//! Random programs of 2 to 8 ranks with faults: what they leave in memory is compared with a sequential model, and every failure with the
//! fault.

mod model;
mod network;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::wire::Syndrome;
use gdsync::{MappedMemory, MemoryLocation};
use gpu::Stream;
use mp::bootstrap::Local;
use mp::{Bootstrap, Cause, Communicator, Error, Options, Region, Request, Transfer, Window};

use super::support::{LONG, allocator, hcas, read};
use model::{Fault, MEMORY, Model, Op, Phase, Program, Random};
use network::{Lost, Network};

/// Of every wait in a program whose fault ends by it.
const SHORT: Duration = Duration::from_secs(2);

/// How an operation ended: well with a count of bytes, or not.
type Outcome = Result<u64, Option<Cause>>;

/// Side (0: own operations, 1: receives), lane and index of a request.
type Started = ((usize, (usize, usize)), Result<Request, Error>);

/// One rank's resources.
struct Rank {
    own: usize,
    ranks: Communicator,
    hca: Arc<SimHca>,
    memories: [(MappedMemory, Region, Window); 2],
    stream: Stream,
    random: Random,
    /// For the end of each phase. A rank that panics makes it fail on the others.
    all: Local,
}

/// What the ranks share.
struct Run<'a> {
    program: &'a Program,
    /// Before the last phase.
    before: &'a Model,
    network: &'a Network,
    /// QPNs, by ranks.
    pairs: &'a Mutex<HashMap<(usize, usize), u32>>,
}

impl Rank {
    fn connect(
        [local, all]: [Local; 2],
        hca: Arc<SimHca>,
        own: usize,
        random: Random,
        model: &Model,
        timeout: Duration,
    ) -> Self {
        let options = Options { depth: 16, timeout, ..Options::default() };
        let ranks =
            Communicator::connect(Box::new(local), hca.clone(), allocator(), options).unwrap();
        let memories = [MemoryLocation::Host, MemoryLocation::Gpu].map(|location| {
            let place = ranks.allocator().place(location, MEMORY).unwrap();
            let region = ranks.register(&place).unwrap();
            let window = ranks.window(&region).unwrap();
            (place, region, window)
        });
        for ((place, ..), bytes) in memories.iter().zip(&model.0[own]) {
            place.write(0, bytes).unwrap();
        }
        Self {
            own,
            stream: ranks.allocator().gpu().stream().unwrap(),
            memories,
            hca,
            ranks,
            random,
            all,
        }
    }

    /// Runs all phases. The inner results: of the last phase's own operations and receives, by rank and index.
    fn run(&mut self, run: &Run<'_>) -> [HashMap<(usize, usize), Outcome>; 2] {
        let last = run.program.phases.len() - 1;
        let mut outcomes = Default::default();
        for (number, phase) in run.program.phases.iter().enumerate() {
            let fault = run.program.fault.filter(|_| number == last);
            outcomes = self.phase(run, phase, number % 2, fault);
            self.barrier();
            if number != last {
                let ended: Vec<&Outcome> = outcomes.iter().flat_map(HashMap::values).collect();
                assert!(ended.iter().all(|ended| ended.is_ok()), "{ended:?}");
            }
        }
        outcomes
    }

    fn barrier(&mut self) {
        self.all.barrier(LONG).unwrap();
    }

    fn phase(
        &mut self,
        run: &Run<'_>,
        phase: &Phase,
        source: usize,
        fault: Option<Fault>,
    ) -> [HashMap<(usize, usize), Outcome>; 2] {
        let received = self.receive(phase, 1 - source, fault);
        if let Some(fault) = fault {
            self.prepare_fault(run, fault);
        }
        self.barrier();
        let dies = matches!(fault, Some(Fault::Dead { rank, .. }) if rank == self.own);
        let mut requests = self.start(phase, source, dies);
        if dies {
            self.die(run, matches!(fault, Some(Fault::Dead { silently: true, .. })));
        }
        let mut outcomes = [HashMap::new(), HashMap::new()];
        requests.extend(received.into_iter().map(|(key, request)| ((1, key), Ok(request))));
        if run.program.streams_wait {
            self.wait_on_stream(&requests);
        }
        while !requests.is_empty() {
            let position = self.random.below(requests.len());
            let ((side, key), started) = requests.swap_remove(position);
            let outcome = started.and_then(|request| self.ranks.wait(request));
            let outcome = outcome.map_err(|error| match error {
                Error::Failed(failure) => {
                    assert_eq!(failure.peer as usize, key.0);
                    Some(failure.cause)
                }
                Error::PeerFailed { peer, .. } => {
                    assert_eq!(peer as usize, key.0);
                    None
                }
                error => panic!("{error}"),
            });
            outcomes[side].insert(key, outcome);
        }
        self.stream.synchronize_within(LONG).unwrap();
        assert_eq!(self.ranks.open_requests(), 0);
        outcomes
    }

    /// Posts the receives of a phase.
    fn receive(
        &self,
        phase: &Phase,
        target: usize,
        fault: Option<Fault>,
    ) -> Vec<((usize, usize), Request)> {
        let mut received = Vec::new();
        for (from, lanes) in phase.iter().enumerate() {
            for (index, op) in lanes[self.own].iter().enumerate() {
                let missing = Fault::NoReceive { from, to: self.own, index };
                if let Op::Send { into, .. } = op
                    && fault != Some(missing)
                {
                    let blocks: Vec<_> = into.iter().map(|(at, length)| *at..at + length).collect();
                    let region = &self.memories[target].1;
                    let request = self.ranks.receive(from as u32, region, &blocks).unwrap();
                    received.push(((from, index), request));
                }
            }
        }
        received
    }

    fn prepare_fault(&self, run: &Run<'_>, fault: Fault) {
        match fault {
            Fault::Lost { from, to, index, answer } if from == self.own => {
                let (from, to) = if answer { (to, from) } else { (from, to) };
                run.network.lose(Lost { from, to, after: index, answer });
            }
            Fault::Failed { from, to, index } if from == self.own => {
                let qpn = run.pairs.lock().unwrap()[&(from, to)];
                let (syndrome, vendor) = (Syndrome::LocalOperation, 0x55);
                self.hca.inject(qpn, index as u32, Effect::Fail { syndrome, vendor });
            }
            _ => {}
        }
    }

    /// Starts all operations; if it dies, about half of them.
    fn start(&mut self, phase: &Phase, source: usize, dies: bool) -> Vec<Started> {
        let lanes = &phase[self.own];
        let mut next = vec![0; lanes.len()];
        let mut requests = Vec::new();
        let left: usize = lanes.iter().map(Vec::len).sum();
        for _ in 0..if dies { left / 2 } else { left } {
            let open: Vec<usize> =
                (0..lanes.len()).filter(|to| next[*to] < lanes[*to].len()).collect();
            let Some(&to) = open.get(self.random.below(open.len().max(1))) else {
                break;
            };
            // One to three operations in one way.
            let start = next[to];
            let end = lanes[to].len().min(start + 1 + self.random.below(3));
            next[to] = end;
            let ops = &lanes[to][start..end];
            let started = self.start_some(ops, to, source);
            requests.extend(
                (start..end).zip(started).map(|(index, request)| ((0, (to, index)), request)),
            );
        }
        // Nobody can wait for a quiet put; the lane's last one that is waited for shows that it is done.
        requests.retain(|((_, (to, index)), _)| {
            !matches!(lanes[*to][*index], Op::Put { quiet: true, .. })
        });
        requests
    }

    fn start_some(&mut self, ops: &[Op], to: usize, source: usize) -> Vec<Result<Request, Error>> {
        let way = self.random.below(4);
        let blocks: Vec<Vec<std::ops::Range<usize>>> = ops.iter().map(local_blocks).collect();
        let transfer = |position: usize| {
            let (peer, other) = (to as u32, &self.memories[source].2);
            let [read, written] = [source, 1 - source].map(|memory| &self.memories[memory]);
            let blocks = &blocks[position];
            match &ops[position] {
                Op::Send { .. } => Transfer::send(peer, &read.1, blocks),
                Op::Put { at, inline, quiet, .. } => {
                    let put = Transfer::put(peer, &written.2, *at as u64, &read.1, blocks);
                    let put = if *inline { put.inline() } else { put };
                    if *quiet { put.without_completion() } else { put }
                }
                Op::Get { at, .. } => Transfer::get(peer, other, *at as u64, &written.1, blocks),
            }
        };
        let all = 0..ops.len();
        match way {
            0 => all.map(|position| self.ranks.start(&transfer(position))).collect(),
            1 => {
                all.map(|position| self.ranks.start_on(&self.stream, &transfer(position))).collect()
            }
            _ => {
                let prepared: Vec<_> =
                    all.map(|position| self.ranks.prepare(&transfer(position))).collect();
                let posted = match way {
                    2 => self.ranks.post_on(&self.stream, prepared.iter().flatten()),
                    _ => {
                        let mut queue = self.ranks.descriptor_queue();
                        let added =
                            prepared.iter().flatten().try_for_each(|request| queue.send(request));
                        added.and_then(|()| queue.post(&self.ranks, &self.stream))
                    }
                };
                let is_failed = |error: &Error| matches!(error, Error::PeerFailed { .. });
                assert!(posted.as_ref().err().is_none_or(is_failed), "{posted:?}");
                prepared
            }
        }
    }

    /// Lets the stream wait for some requests.
    fn wait_on_stream(&mut self, requests: &[Started]) {
        for (_, request) in requests {
            if let Ok(request) = request
                && self.random.is(30)
            {
                match self.ranks.wait_on(&self.stream, [request]) {
                    Ok(())
                    | Err(Error::Failed(_) | Error::PeerFailed { .. } | Error::NotPosted { .. }) => {
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// The HCA of this rank ends; or nothing arrives from it any more.
    fn die(&self, run: &Run<'_>, silently: bool) {
        if silently {
            run.network.silence(self.own);
            return;
        }
        for (_, qpn) in run.pairs.lock().unwrap().iter().filter(|((from, _), _)| *from == self.own)
        {
            // Its queue pairs answer no more.
            let endpoint = gdsync::hca::Endpoint::new(self.hca.lid(), *qpn);
            gdsync::hca::Hca::stop(&*self.hca, endpoint).unwrap();
        }
    }
}

/// The blocks of the own memory.
fn local_blocks(op: &Op) -> Vec<std::ops::Range<usize>> {
    let pieces = match op {
        Op::Send { from, .. } => from.clone(),
        Op::Put { from, .. } => vec![*from],
        Op::Get { into, .. } => vec![*into],
    };
    pieces.iter().map(|(at, length)| *at..at + length).collect()
}

/// Compares the outcomes of the last phase with the fault, and returns the lanes whose memory is known.
fn check(
    run: &Run<'_>,
    outcomes: &[[HashMap<(usize, usize), Outcome>; 2]],
    source: usize,
) -> Vec<Vec<bool>> {
    let phase = run.program.phases.last().unwrap();
    let ranks = phase.len();
    let mut known = vec![vec![true; ranks]; ranks];
    for (from, lanes) in phase.iter().enumerate() {
        for (to, lane) in lanes.iter().enumerate() {
            let here = |a: usize, b: usize| [(from, to), (to, from)].contains(&(a, b));
            let culprit = match run.program.fault {
                Some(
                    Fault::Lost { from: a, to: b, index, .. }
                    | Fault::Failed { from: a, to: b, index }
                    | Fault::NoReceive { from: a, to: b, index },
                ) if here(a, b) => {
                    known[from][to] = false;
                    // The other direction may fail at any time afterwards.
                    (a == from).then_some(index)
                }
                Some(Fault::Dead { rank, .. }) if [from, to].contains(&rank) => {
                    known[from][to] = false;
                    None
                }
                _ => Some(lane.len()),
            };
            for (index, op) in lane.iter().enumerate() {
                let sent = outcomes[from][0].get(&(to, index));
                let received = outcomes[to][1].get(&(from, index));
                if let (Some(sent), Some(culprit)) = (sent, culprit) {
                    check_sent(run.program.fault, index, culprit, op, sent);
                }
                if let Some(Ok(bytes)) = received {
                    let moved = run.before.moved(op, from, to, source);
                    assert_eq!(*bytes, moved.len() as u64);
                }
                if known[from][to] && matches!(op, Op::Send { .. }) {
                    assert!(received.unwrap().is_ok(), "{received:?}");
                }
            }
        }
    }
    known
}

fn check_sent(fault: Option<Fault>, index: usize, culprit: usize, op: &Op, sent: &Outcome) {
    match index.cmp(&culprit) {
        std::cmp::Ordering::Less => {
            let bytes = if let Op::Get { into, .. } = op { into.1 as u64 } else { 0 };
            assert_eq!(*sent, Ok(bytes), "{index} is before {culprit}");
        }
        std::cmp::Ordering::Equal => {
            let is_right = match fault {
                Some(Fault::Failed { .. }) => {
                    matches!(sent, Err(Some(Cause::Hca { vendor: 0x55, .. })))
                }
                // The peer's timeout may come first.
                Some(Fault::Lost { .. } | Fault::NoReceive { .. }) => {
                    matches!(sent, Err(Some(Cause::TimedOut(_) | Cause::NoAnswer | Cause::Flushed)))
                }
                _ => false,
            };
            assert!(is_right, "{fault:?}: {sent:?}");
        }
        std::cmp::Ordering::Greater => {
            assert!(
                matches!(sent, Err(None | Some(Cause::Flushed))),
                "{fault:?}: {index}: {sent:?}"
            );
        }
    }
}

/// Connects for each program with a fault, and for twenty without.
fn run(programs: usize, mut random: Random) {
    let mut left = programs;
    while left > 0 {
        let ranks = 2 + random.below(7);
        let mut model = Model::random(&mut random, ranks);
        // Faults end by timeouts. Without one, a busy machine must not run into a short timeout.
        let has_fault = random.is(50);
        let (mut here, timeout) = if has_fault { (1, SHORT) } else { (20, LONG) };
        let hcas = hcas(ranks as u32);
        let network = Network::of(&hcas, Random(random.next()));
        let seed = random.next();
        let [locals, ends] = [(); 2].map(|()| Local::ranks(ranks as u32));
        let mut all: Vec<Rank> = std::thread::scope(|scope| {
            let connect = |(((local, all), hca), own)| {
                let model = &model;
                let random = Random(seed ^ (own as u64 + 1) << 20);
                scope.spawn(move || Rank::connect([local, all], hca, own, random, model, timeout))
            };
            let locals = locals.into_iter().zip(ends);
            let threads: Vec<_> = locals.zip(hcas).zip(0..).map(connect).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Queue pairs are created in the order of the peers, from this number.
        let number = |from: usize, to: usize| 0x100 + to as u32 - u32::from(to > from);
        let lanes = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let pairs =
            lanes.filter(|(from, to)| from != to).map(|(from, to)| ((from, to), number(from, to)));
        let pairs = Mutex::new(pairs.collect());
        while left > 0 && here > 0 {
            (left, here) = (left - 1, here - 1);
            let program = Program::random(&mut random, ranks, has_fault);
            network.disturb(if random.is(50) { 20 } else { 0 });
            execute(&program, &mut model, &network, &pairs, &mut all);
        }
    }
}

fn execute(
    program: &Program,
    model: &mut Model,
    network: &Network,
    pairs: &Mutex<HashMap<(usize, usize), u32>>,
    all: &mut [Rank],
) {
    let last = program.phases.len() - 1;
    let mut before = model.clone();
    for (number, phase) in program.phases.iter().enumerate() {
        if number == last {
            before = model.clone();
        }
        for (from, lanes) in phase.iter().enumerate() {
            for (to, lane) in lanes.iter().enumerate() {
                lane.iter().for_each(|op| model.apply(op, from, to, number % 2));
            }
        }
    }
    let run = Run { program, before: &before, network, pairs };
    let start = Instant::now();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = all.iter_mut().map(|rank| scope.spawn(|| rank.run(&run))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = start.elapsed();
    assert!(took < LONG, "{took:?}: {:?}", program.fault);
    // A stream that waits for a lost message delays the other lanes of its rank beyond the timeout.
    let is_timed = !matches!(program.fault, None | Some(Fault::Failed { .. }));
    if is_timed && program.streams_wait {
        return;
    }
    let known = check(&run, &outcomes, last % 2);
    if program.fault.is_none() {
        for rank in &*all {
            assert_eq!(rank.hca.violations(), []);
        }
    }
    compare(model, &known, all);
}

/// Compares the memories with the model, but for the lanes that a fault has touched.
fn compare(model: &Model, known: &[Vec<bool>], all: &[Rank]) {
    for rank in all {
        for (number, (place, ..)) in rank.memories.iter().enumerate() {
            let found = read(place, 0, MEMORY);
            let expected = &model.0[rank.own][number];
            let area = MEMORY / 8;
            for (peer, known) in known
                .iter()
                .enumerate()
                .map(|(peer, lanes)| (peer, lanes[rank.own] && known[rank.own][peer]))
            {
                let part = peer * area..(peer + 1) * area;
                let mut differing = part.filter(|at| found[*at] != expected[*at]);
                let first = differing.next().filter(|_| known);
                assert_eq!(first, None, "rank {}, memory {number}, from {peer}", rank.own);
            }
        }
    }
}

/// `MP_PROGRAMS` programs from `MP_SEED`; 10,000 take minutes.
#[test]
#[ignore = "slow: hundreds of programs"]
fn programs_match_the_model() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    run(number("MP_PROGRAMS", 100) as usize, Random(number("MP_SEED", 0x5eed)));
}
