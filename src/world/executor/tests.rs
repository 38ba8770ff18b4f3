//! Several processes change one machine at once.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Executor;

const THREADS: usize = 6;
const ROUNDS: usize = 500;

fn executor(root: &Path) -> Executor {
    Executor::directory(root, None, Duration::from_secs(1)).expect("a machine")
}

#[test]
fn concurrent_make_directory_succeeds() {
    for round in 0..ROUNDS {
        let root = tempfile::tempdir().expect("a directory");
        let barrier = Barrier::new(THREADS);
        let make = || {
            let executor = executor(root.path());
            barrier.wait();
            executor.make_private(Path::new("/var/lib/gdr")).map(drop)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(make)).collect();
            for thread in threads {
                let made = thread.join().expect("no panic");
                assert!(made.is_ok(), "round {round}: {}", made.expect_err("an error").sentence());
            }
        });
    }
}

#[test]
fn file_removed_meanwhile_is_absent() {
    let root = tempfile::tempdir().expect("a directory");
    let file = root.path().join("file");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::fs::write(&file, "x").expect("written");
                std::fs::remove_file(&file).expect("removed");
            }
        });
        let executor = executor(root.path());
        let failed = (0..20_000).find_map(|_| executor.file(Path::new("/file")).err());
        ended.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

#[test]
fn dangling_link_is_error() {
    let root = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink("/nowhere", root.path().join("var")).expect("a link");
    let error = executor(root.path()).missing_above(Path::new("/var/lib")).expect_err("an error");
    assert!(error.is_absent(), "{error:?}");
}
