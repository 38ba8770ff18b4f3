//! What a user must know about a connection, and about a request that failed.

use verbs::Failure;

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
        notes.push(format!(
            "an MTU of {mtu} bytes is more than the ports allow: {used} is used"
        ));
    }
    let srd = Abilities::common(end.srd, other.srd);
    if let Some(srd) = srd {
        notes.extend(srd.notes(task, end.is_staged() || other.staged));
    }
    if srd.is_none() && !(end.atomics && other.atomics) {
        let (whose, driver) = match end.atomics {
            true => ("remote", None),
            false => ("local", end.driver),
        };
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

/// The likely cause of a failed request for a message of this length, where messages up to `arrived` bytes arrived in earlier steps.
pub fn hint(failure: Failure, bytes: usize, arrived: Option<usize>) -> &'static str {
    if failure.name() != Some("RETRY_EXC_ERR") {
        return "";
    }
    match arrived {
        None => {
            "; no earlier step succeeded: see the GIDs (ibv_devinfo -v, --gid-index), the network between the ports, and its firewall"
        }
        Some(arrived) if arrived < bytes => {
            "; shorter messages arrived before: check that the network between the ports carries packets of their MTU without loss"
        }
        Some(_) => {
            "; messages of this length arrived before: check that the remote process still runs, and the network between the ports for loss"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_claims_what_earlier_steps_showed() {
        // IBV_WC_RETRY_EXC_ERR, and IBV_WC_REM_ACCESS_ERR.
        let [unanswered, denied] = [12, 10].map(|status| Failure {
            status,
            syndrome: 0,
        });
        let says = |arrived, words: &str| hint(unanswered, 4096, arrived).contains(words);
        assert!(says(None, "no earlier step succeeded"));
        assert!(says(Some(4095), "shorter messages arrived"));
        assert!(says(Some(4096), "messages of this length arrived"));
        assert_eq!(hint(denied, 4096, Some(1)), "");
    }
}
