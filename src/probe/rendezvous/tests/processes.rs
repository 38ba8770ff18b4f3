//! A peer in another process that is killed, stopped and continued.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

const PORT: &str = "GDR_TEST_RENDEZVOUS_PORT";
const NAME: &str = "probe::rendezvous::tests::processes::child_process";

/// The body of the child process, not a test. It waits for a failure and prints it.
#[test]
fn child_process() {
    let Some(port) = std::env::var(PORT).ok().and_then(|port| port.parse().ok()) else {
        return;
    };
    let link: Text = connect("127.0.0.1", port, &secret(), &conditions(GENEROUS), &mut |_| {})
        .expect("a listener");
    link.send(&word("here")).expect("sent");
    let mut out = std::io::stdout();
    loop {
        if let Some(error) = link.failure() {
            writeln!(out, "ERROR {error}").expect("written");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A child that ends with the test.
struct OtherProcess(Child);

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl OtherProcess {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("a signal");
    }
}

fn with_other_process() -> (Text, OtherProcess) {
    let (listener, address) = listener();
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME, "--nocapture"])
        .env(PORT, address.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let other = OtherProcess(child);
    let link = accept(listener);
    assert_eq!(link.receive(soon()), Ok(word("here")));
    (link, other)
}

#[test]
fn detects_killed_process() {
    let (link, mut other) = with_other_process();
    let begun = Instant::now();
    other.0.kill().expect("killed");
    let error = failure(&link);
    assert!(matches!(error, Error::PeerGone { .. }), "{error}");
    assert!(begun.elapsed() < BOTH, "{:?}", begun.elapsed());
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn detects_frozen_process() {
    let (link, mut other) = with_other_process();
    let begun = Instant::now();
    other.signal(Signal::STOP);
    let error = failure(&link);
    assert!(error.to_string().contains("no heartbeat for 4 s"), "{error}");
    assert!(begun.elapsed() < BOTH + BUSY, "{:?}", begun.elapsed());
    drop(link);
    other.signal(Signal::CONT);
    let out = BufReader::new(other.0.stdout.take().expect("a pipe"));
    let line =
        out.lines().map_while(Result::ok).find(|line| line.contains("ERROR")).expect("its error");
    assert!(line.contains("failed: it lost the connection: no heartbeat for 4 s"), "{line}");
}

#[test]
#[ignore = "slow: waits longer than a timeout"]
fn short_freeze_stays_connected() {
    let (link, other) = with_other_process();
    for _ in 0..2 {
        other.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1800));
        other.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(1300));
        assert_eq!(link.failure(), None);
    }
    link.bye().expect("both are well");
}
