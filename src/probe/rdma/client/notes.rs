//! What a user must know about a connection.

use crate::probe::rdma::control::Offer;
use crate::probe::rdma::end::End;
use crate::probe::rdma::settings::RelaxedOrdering;
use crate::probe::rdma::srd::Abilities;
use crate::probe::rdma::task::Task;

/// What a user must know about a connection.
pub fn connection_notes(task: &Task, end: &End, other: &Offer) -> Vec<String> {
    let mut notes = Vec::new();
    let (ours, theirs) = (end.mtu, other.mtu);
    let used = task.settings.mtu(ours, theirs);
    if ours != theirs {
        notes.push(format!(
            "the MTUs of the two ports are {ours} and {theirs} bytes: {used} is used"
        ));
    }
    if let Some(mtu) = task.settings.mtu.filter(|mtu| *mtu > used) {
        notes.push(format!("an MTU of {mtu} bytes is more than the ports allow: {used} is used"));
    }
    let srd = Abilities::common(end.srd, other.srd);
    if let Some(srd) = srd {
        notes.extend(srd.notes(task, end.is_staged() || other.staged));
    }
    if srd.is_none() && !(end.atomics && other.atomics) {
        let (whose, driver) = if end.atomics { ("remote", None) } else { ("local", end.driver) };
        let why = driver.and_then(|driver| driver.atomics);
        let why = why.map(|why| format!("; {why}")).unwrap_or_default();
        notes.push(format!(
            "atomic operations are not verified: the {whose} NIC reports none (ibv_query_device){why}"
        ));
    }
    if task.relaxed_ordering != RelaxedOrdering::Off && srd.is_none() {
        match (&end.relaxed_ordering, other.relaxed_ordering) {
            (Err(why), _) => notes.push(format!("relaxed ordering is off: {why}")),
            (Ok(()), false) => {
                notes.push("relaxed ordering is off: the remote end cannot use it".to_owned());
            }
            (Ok(()), true) => {}
        }
    }
    notes
}
