//! All queue pairs there are: by their addresses, as programs name them, and by their own numbers, as requests do. A pointer is looked up
//! here and never followed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use process::PerProcess;

use crate::abi::{Cq, Qp};
use crate::call_error::CallError;
use crate::pair::{Pair, Side};

struct Table {
    by_address: BTreeMap<usize, Arc<Pair>>,
    by_id: BTreeMap<u64, Arc<Pair>>,
    /// Numbers are given once.
    next: u64,
}

/// Of this process: neither verbs nor CUDA survive a fork.
static TABLE: PerProcess<Mutex<Table>> = PerProcess::new(|| {
    Mutex::new(Table {
        by_address: BTreeMap::new(),
        by_id: BTreeMap::new(),
        next: 1,
    })
});

/// A number for the next queue pair.
pub(crate) fn number() -> u64 {
    let mut table = table();
    table.next += 1;
    table.next - 1
}

/// Takes a queue pair in; what the program calls it by.
pub(crate) fn add(pair: Pair) -> *mut Qp {
    let pair = Arc::new(pair);
    let shown = pair.shown();
    let mut table = table();
    table.by_id.insert(pair.id, Arc::clone(&pair));
    table.by_address.insert(shown.expose_provenance(), pair);
    shown
}

/// Takes a queue pair out.
pub(crate) fn remove(qp: *mut Qp) -> Result<Arc<Pair>, CallError> {
    let mut table = table();
    let pair = table.by_address.remove(&qp.addr()).ok_or(NO_PAIR)?;
    table.by_id.remove(&pair.id);
    Ok(pair)
}

/// The queue pair at an address.
pub(crate) fn of(qp: *const Qp) -> Result<Arc<Pair>, CallError> {
    if qp.is_null() {
        return Err(CallError::Null { what: "qp" });
    }
    table().by_address.get(&qp.addr()).cloned().ok_or(NO_PAIR)
}

/// The queue pair of a completion queue, and which of the two that is.
pub(crate) fn of_queue(cq: *const Cq) -> Result<(Arc<Pair>, Side), CallError> {
    if cq.is_null() {
        return Err(CallError::Null { what: "cq" });
    }
    let table = table();
    let of = |side: Side| {
        let pair = table
            .by_address
            .get(&cq.addr().wrapping_sub(side.offset()))?;
        Some((Arc::clone(pair), side))
    };
    of(Side::Sent)
        .or_else(|| of(Side::Received))
        .ok_or(CallError::Gone {
            what: "completion queue",
        })
}

/// The queue pair of a number.
pub(crate) fn numbered(id: u64) -> Result<Arc<Pair>, CallError> {
    table().by_id.get(&id).cloned().ok_or(NO_PAIR)
}

const NO_PAIR: CallError = CallError::Gone { what: "queue pair" };

/// A panic while the lock was held leaves maps that are whole.
fn table() -> MutexGuard<'static, Table> {
    TABLE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
