//! All queue pairs, by address for programs and by id for requests. Pointers are looked up, never dereferenced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdr_sys::process::PerProcess;
use verbs::raw::{ibv_cq, ibv_qp};

use crate::abi::{Cq, Qp};
use crate::call_error::CallError;
use crate::flags;
use crate::pair::{ProgramQueuePair, Side};

struct Table {
    by_address: BTreeMap<usize, Arc<ProgramQueuePair>>,
    by_id: BTreeMap<u64, Arc<ProgramQueuePair>>,
    /// By address of its verbs objects: the queue pair and both completion queues.
    by_object: BTreeMap<usize, Arc<ProgramQueuePair>>,
    /// The next id; ids are never reused.
    next: u64,
}

/// Per process: neither verbs nor CUDA survive a fork.
static TABLE: PerProcess<Mutex<Table>> = PerProcess::new(|| {
    Mutex::new(Table {
        by_address: BTreeMap::new(),
        by_id: BTreeMap::new(),
        by_object: BTreeMap::new(),
        next: 1,
    })
});

/// An id for a new queue pair.
pub(crate) fn next_id() -> u64 {
    let mut table = table();
    table.next += 1;
    table.next - 1
}

/// Adds a queue pair and returns the program's pointer to it.
pub(crate) fn add(pair: ProgramQueuePair) -> *mut Qp {
    let pair = Arc::new(pair);
    let qp = pair.qp();
    let mut table = table();
    table.by_id.insert(pair.id, Arc::clone(&pair));
    for address in pair.objects() {
        table.by_object.insert(address, Arc::clone(&pair));
    }
    table.by_address.insert(qp.expose_provenance(), pair);
    qp
}

/// Removes a queue pair.
pub(crate) fn remove(qp: *mut Qp) -> Result<Arc<ProgramQueuePair>, CallError> {
    let mut table = table();
    let pair = table.by_address.remove(&qp.addr()).ok_or(NO_PAIR)?;
    table.by_id.remove(&pair.id);
    for address in pair.objects() {
        table.by_object.remove(&address);
    }
    Ok(pair)
}

/// The queue pair at an address.
pub(crate) fn of(qp: *const Qp) -> Result<Arc<ProgramQueuePair>, CallError> {
    flags::not_null("qp", qp)?;
    table().by_address.get(&qp.addr()).cloned().ok_or(NO_PAIR)
}

/// The queue pair and side of a completion queue.
pub(crate) fn of_queue(cq: *const Cq) -> Result<(Arc<ProgramQueuePair>, Side), CallError> {
    flags::not_null("cq", cq)?;
    let table = table();
    let of = |side: Side| {
        let pair = table.by_address.get(&cq.addr().wrapping_sub(side.offset()))?;
        Some((Arc::clone(pair), side))
    };
    of(Side::Sent)
        .or_else(|| of(Side::Received))
        .ok_or(CallError::Gone { what: "completion queue" })
}

/// The queue pair and side of a verbs completion queue, if a queue pair has it.
pub(crate) fn of_verbs_queue(cq: *const ibv_cq) -> Option<(Arc<ProgramQueuePair>, Side)> {
    let pair = of_object(cq.addr())?;
    let side = pair.side_of(cq)?;
    Some((pair, side))
}

/// The queue pair of a verbs queue pair, if there is one.
pub(crate) fn of_verbs_pair(qp: *const ibv_qp) -> Option<Arc<ProgramQueuePair>> {
    of_object(qp.addr()).filter(|pair| pair.is_of(qp))
}

fn of_object(address: usize) -> Option<Arc<ProgramQueuePair>> {
    table().by_object.get(&address).cloned()
}

/// The queue pair with this id.
pub(crate) fn by_id(id: u64) -> Result<Arc<ProgramQueuePair>, CallError> {
    table().by_id.get(&id).cloned().ok_or(NO_PAIR)
}

const NO_PAIR: CallError = CallError::Gone { what: "queue pair" };

/// Ignores poisoning: every change is one step.
fn table() -> MutexGuard<'static, Table> {
    TABLE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
