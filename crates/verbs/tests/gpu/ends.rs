//! Two connected NICs.

use std::time::{Duration, Instant};

use verbs::{
    Access, Address, Behaviour, Completion, CompletionQueue, Context, Error, Peer,
    ProtectionDomain, QueuePair, QueuePairOptions, Request, Route, Rts, Transport, Work,
};

/// Completion timeout.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A NIC with a connected queue pair.
pub struct End {
    pub domain: ProtectionDomain,
    pub pair: QueuePair<Rts>,
    pub completions: CompletionQueue,
}

/// A NIC's protection domain.
pub fn domain(name: &str) -> ProtectionDomain {
    Context::open(name).expect("a NIC").domain().expect("a domain")
}

/// `mlx5_0` and `mlx5_1`, whose ports have LIDs 7 and 9.
pub fn ends() -> (End, End) {
    let [first, second] = [7, 9].map(|lid| Address { lid, gid: None });
    connected(first, second, 0)
}

/// `mlx5_0` and `mlx5_1` at these addresses. Both use the GID at `gid_index` as their own.
pub fn connected(first: Address, second: Address, gid_index: u8) -> (End, End) {
    let new = |name: &str| {
        let domain = domain(name);
        let completions = domain.context().completions(16).expect("a queue");
        let options =
            QueuePairOptions { inline_bytes: 32, ..QueuePairOptions::of(Transport::Rc, 8) };
        let pair = domain.queue_pair(options, &completions, &completions).expect("a pair");
        let pair = pair.init(1, Access::ALL, 0).expect("a port");
        (domain, completions, pair)
    };
    let (here, there) = (new("mlx5_0"), new("mlx5_1"));
    let (number, remote) = (here.2.number(), there.2.number());
    let start = |(domain, completions, pair): (
        ProtectionDomain,
        CompletionQueue,
        QueuePair<verbs::Init>,
    ),
                 address,
                 queue_pair| {
        let peer = Peer { address, queue_pair, psn: 1 };
        let behaviour = Behaviour::of(4096);
        let pair = pair.ready_to_receive(Route::of(1, gid_index), peer, behaviour).expect("a way");
        let pair = pair.ready_to_send(1, behaviour).expect("a connection");
        End { domain, pair, completions }
    };
    (start(here, second, remote), start(there, first, number))
}

impl End {
    /// Posts a request and returns its completion.
    pub fn done(&mut self, request: &Request<'_>) -> Result<Completion, Error> {
        self.pair.send(request)?;
        let begun = Instant::now();
        let mut found = [None];
        while begun.elapsed() < TIMEOUT {
            self.completions.poll(&mut found)?;
            if let [Some(completion)] = found {
                return Ok(completion);
            }
        }
        panic!("no completion of {:?}", request.id);
    }

    /// True if no completion is pending.
    pub fn is_idle(&self) -> bool {
        self.completions.poll(&mut [None]).expect("a queue that works") == 0
    }

    pub fn works(&mut self, work: Work<'_>, pieces: &[verbs::Sge<'_>]) {
        let completion = self.done(&Request::new(5, work, pieces)).expect("it is taken");
        assert!(completion.outcome.is_ok() && completion.id == 5, "{completion:?}");
    }
}
