//! NICs of several processes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ibverbs_sys as ib;

use crate::NIC;
use crate::device::Device;
use crate::inside::inside;

const PROCESSES: usize = 8;
/// Directories below that of the sockets, with a file of each process: that it has started, and its LID.
const STARTED: &str = "started";
const CLAIMED: &str = "claimed";

/// Writes this process's file, and waits for those of the others.
fn meet(step: &str, text: &str) {
    let peers = PathBuf::from(std::env::var_os("FAKE_UVERBS_PEERS").expect("a directory"));
    let step = peers.join(step);
    fs::write(step.join(std::process::id().to_string()), text).expect("a file");
    let begun = Instant::now();
    while fs::read_dir(&step).expect("files").count() < PROCESSES {
        assert!(begun.elapsed() < Duration::from_secs(60), "other processes");
    }
}

fn claim() {
    meet(STARTED, "");
    let device = Device::open();
    let mut port = ib::ibv_port_attr::default();
    // SAFETY: an open context, and room for the attributes.
    let failed = unsafe { ib::ibv_query_port(device.context, 1, (&raw mut port).cast()) };
    assert_eq!(failed, 0, "ibv_query_port");
    // It keeps its LID until all have theirs.
    meet(CLAIMED, &port.lid.to_string());
}

/// Processes that start together, where others have ended.
#[test]
#[ignore = "needs libmlx5"]
fn processes_have_lids_of_their_own() {
    let name = "peers::processes_have_lids_of_their_own";
    // The child has it from here; the tests' process has none.
    if std::env::var_os("FAKE_UVERBS_PEERS").is_some() {
        return inside(name, &[NIC], claim);
    }
    for _ in 0..4 {
        let directory = tempfile::tempdir().expect("a directory");
        for step in [STARTED, CLAIMED] {
            fs::create_dir(directory.path().join(step)).expect("a directory");
        }
        for lid in 0x0123..0x0123 + PROCESSES {
            let ended = directory.path().join(format!("{lid:04x}"));
            drop(UnixListener::bind(ended).expect("a socket"));
        }
        let peers = directory.path().to_str().expect("a path");
        std::thread::scope(|scope| {
            for _ in 0..PROCESSES {
                scope.spawn(|| inside(name, &[NIC, ("FAKE_UVERBS_PEERS", peers)], claim));
            }
        });
        let lids: BTreeSet<String> = fs::read_dir(directory.path().join(CLAIMED))
            .expect("files")
            .map(|file| fs::read_to_string(file.expect("a file").path()).expect("a LID"))
            .collect();
        assert_eq!(lids.len(), PROCESSES, "{lids:?}");
    }
}
