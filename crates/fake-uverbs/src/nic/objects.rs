//! All objects of the process, under one lock: the NIC does not access an object after the command that destroys it has returned.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bytes::{Answer, Request};
use crate::nic::channel::Channel;
use crate::nic::completion::CompletionQueue;
use crate::nic::pair::QueuePair;
use crate::nic::peers::Peers;
use crate::nic::ports;
use crate::nic::region::Region;
use crate::nic::registers::Registers;
use crate::nic::thread;

/// An open device. `registers` is none if the NIC does not execute.
pub struct Context {
    pub fd: c_int,
    pub registers: Option<Registers>,
}

/// Objects by handle. Handles are never reused.
pub struct Objects {
    pub contexts: Vec<Context>,
    /// The context of each protection domain.
    domains: BTreeMap<u32, c_int>,
    addresses: BTreeMap<u32, (c_int, u32)>,
    pub channels: Vec<Channel>,
    pub regions: BTreeMap<u32, Region>,
    pub queues: BTreeMap<u32, CompletionQueue>,
    pub pairs: BTreeMap<u32, QueuePair>,
    /// Queue pairs created so far.
    pub created: u32,
    last: u32,
    /// NICs of other processes.
    pub peers: Option<Peers>,
    /// Calls to them so far.
    pub calls: u64,
    /// True while the NIC's thread runs.
    pub is_running: bool,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects {
    contexts: Vec::new(),
    domains: BTreeMap::new(),
    addresses: BTreeMap::new(),
    channels: Vec::new(),
    regions: BTreeMap::new(),
    queues: BTreeMap::new(),
    pairs: BTreeMap::new(),
    created: 0,
    last: 0,
    peers: None,
    calls: 0,
    is_running: false,
});

pub fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// The next handle.
    pub fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    pub fn open(&mut self, fd: c_int, registers: Option<Registers>) {
        let executes = registers.is_some();
        self.contexts.push(Context { fd, registers });
        if executes && self.peers.is_none() {
            self.peers = Peers::open();
        }
        if executes && !self.is_running {
            self.is_running = thread::start();
        }
    }

    pub fn close(&mut self, fd: c_int) {
        self.pairs.retain(|_, pair| pair.context != fd);
        self.queues.retain(|_, queue| queue.context != fd);
        self.channels.retain(|channel| channel.context != fd);
        self.regions.retain(|_, region| region.context != fd);
        self.addresses.retain(|_, address| address.0 != fd);
        self.domains.retain(|_, context| *context != fd);
        self.contexts.retain(|context| context.fd != fd);
    }

    /// `ALLOC_PD`: `struct ib_uverbs_alloc_pd_resp`, then `struct mlx5_ib_alloc_pd_resp` at 4.
    pub fn protection_domain(&mut self, context: c_int) -> Answer {
        let handle = self.next();
        self.domains.insert(handle, context);
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, handle); // pdn
        answer
    }

    /// `DEALLOC_PD`: `EBUSY` while an object uses it.
    pub fn drop_protection_domain(
        &mut self,
        context: c_int,
        request: Request,
    ) -> Result<Answer, c_int> {
        let handle = request.u32(0);
        self.check_domain(context, handle)?;
        let is_used = self.pairs.values().any(|pair| pair.domain == handle)
            || self.regions.values().any(|region| region.domain == handle)
            || self.addresses.values().any(|address| address.1 == handle);
        if is_used {
            return Err(libc::EBUSY);
        }
        self.domains.remove(&handle);
        Ok(Answer::new())
    }

    /// `EINVAL` unless the protection domain belongs to this context.
    pub fn check_domain(&self, context: c_int, handle: u32) -> Result<(), c_int> {
        let known = self.domains.get(&handle) == Some(&context);
        known.then_some(()).ok_or(libc::EINVAL)
    }

    /// `CREATE_AH`: `struct ib_uverbs_create_ah_resp`, then `struct mlx5_ib_create_ah_resp` at 4.
    ///
    /// The request has the protection domain at 16 and `struct ib_uverbs_ah_attr` at 24, which starts with the destination GID. The
    /// response has its MAC address (`ports::mac`).
    pub fn address_handle(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let domain = request.u32(16);
        self.check_domain(context, domain)?;
        let handle = self.next();
        self.addresses.insert(handle, (context, domain));
        let gid = request.gid(24);
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, 16); // response_length
        for (at, byte) in ports::mac(&gid).into_iter().enumerate() {
            answer.u8(8 + at, byte);
        }
        Ok(answer)
    }

    /// `DESTROY_AH`.
    pub fn drop_address_handle(
        &mut self,
        context: c_int,
        request: Request,
    ) -> Result<Answer, c_int> {
        let handle = request.u32(0);
        let known = self.addresses.get(&handle).is_some_and(|address| address.0 == context);
        known.then(|| self.addresses.remove(&handle)).ok_or(libc::EINVAL)?;
        Ok(Answer::new())
    }
}
