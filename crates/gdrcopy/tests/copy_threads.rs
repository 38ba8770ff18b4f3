//! Shared copies beside other callers, forks, signals, a single CPU, failed thread creation, exit.
//!
//! A test that changes the whole process runs in its own: this program again, with one test and an
//! environment.

use std::fs;
use std::io::Write;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use copy_support::Guarded;
use gdrcopy::copy::{Caching, Copier, Cpus, fence, split};

mod copy_support;

/// Set in the process of one test.
const CHILD: &str = "GDR_TEST_CHILD";

/// Reads of this size wake helpers.
const LARGE: usize = 1 << 20;

fn copier() -> Copier {
    Copier::for_caching(Caching::WriteCombining).expect("no variable is set")
}

/// Copies there and back, and compares.
fn round_trip(copier: &Copier, len: usize, gap: usize, seed: u8) {
    let pages = (len + gap).div_ceil(4096) + 1;
    let (mut host, mut device, mut back) =
        (Guarded::new(pages), Guarded::new(pages), Guarded::new(pages));
    host.fill(seed);
    back.fill(!seed);
    let device_at = device.place(len, gap, true);
    // SAFETY: both buffers hold `len` bytes from these positions.
    unsafe {
        copier.to_device(device.start().add(device_at), host.start(), len);
        assert!(
            device.bytes()[device_at..device_at + len] == host.bytes()[..len],
            "written, {len} at {gap}"
        );
        copier.from_device(back.start(), device.start().add(device_at), len);
        assert!(back.bytes()[..len] == host.bytes()[..len], "read, {len} at {gap}");
        back.fill(!seed);
        copier.from_device_ordered(back.start(), device.start().add(device_at), len);
    }
    assert!(back.bytes()[..len] == host.bytes()[..len], "read in order, {len} at {gap}");
    let after = back.bytes()[len];
    back.fill(!seed);
    assert_eq!(after, back.bytes()[len], "nothing beyond");
}

#[test]
fn concurrent_large_copies() {
    let copier = copier();
    thread::scope(|scope| {
        for caller in 0..6_u8 {
            scope.spawn(move || {
                for turn in 0..12 {
                    let len = LARGE / (1 + turn % 3) - usize::from(caller) * 333;
                    round_trip(&copier, len, turn * 17 % 130, caller * 31 + turn as u8);
                }
            });
        }
    });
}

#[test]
fn copies_around_thresholds() {
    for threads in [1, 2, 3, 16] {
        let copier = copier().with_threads(threads).near(&Cpus::parse("0-3").expect("a list"));
        for size in [16 << 10, 64 << 10, 128 << 10, 256 << 10, 3 << 20] {
            for len in [size - 1, size, size + 1, size + 4097] {
                round_trip(&copier, len, len % 97, threads as u8);
            }
        }
    }
}

#[test]
fn parts_by_callers_threads() {
    let copier = copier();
    let (mut host, mut device) = (Guarded::new(80), Guarded::new(80));
    host.fill(7);
    let (from, to) = (host.start().expose_provenance(), device.start().expose_provenance());
    thread::scope(|scope| {
        for part in split(to + 13, 300_000, 4) {
            scope.spawn(move || {
                let from = std::ptr::with_exposed_provenance::<u8>(from + part.start);
                let to = std::ptr::with_exposed_provenance_mut::<u8>(to + 13 + part.start);
                // SAFETY: parts lie within the 300,000 bytes of both sides and do not overlap.
                unsafe { copier.to_device_part(to, from, part.len()) };
                fence::writes();
            });
        }
    });
    let bytes = device.bytes();
    assert!(bytes[13..300_013] == host.bytes()[..300_000]);
    assert!(bytes[..13].iter().chain(&bytes[300_013..]).all(|byte| *byte == 0));
}

#[test]
fn split_is_complete_and_line_aligned() {
    for (address, len, parts) in
        [(0x1000, 1 << 20, 16), (0x1001, 1000, 3), (0x103f, 2, 2), (0x1040, 64, 9), (0x1, 0, 4)]
    {
        let mut next = 0;
        for part in split(address, len, parts) {
            assert_eq!(part.start, next);
            assert!(part.start == 0 || (address + part.start) % 64 == 0);
            assert!(!part.is_empty());
            next = part.end;
        }
        assert_eq!(next, len);
        assert!(split(address, len, parts).count() <= parts);
    }
}

/// Forks while other threads copy, so that the parent's pool is busy.
#[test]
fn forked_child_copies() {
    let copier = copier();
    round_trip(&copier, LARGE, 0, 1);
    thread::scope(|scope| {
        for caller in 0..2 {
            scope.spawn(move || (0..40).for_each(|turn| round_trip(&copier, LARGE, turn, caller)));
        }
        for turn in 0..10 {
            // SAFETY: the child copies, checks and calls _exit, with an alarm against hangs.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: only ends this child, later.
                unsafe { libc::alarm(30) };
                let checked = std::panic::catch_unwind(|| {
                    round_trip(&copier, LARGE, turn, 9);
                    round_trip(&copier, LARGE + 5, turn, 10);
                });
                // SAFETY: ends the child without the test program's exit handlers.
                unsafe { libc::_exit(if checked.is_ok() { 0 } else { 1 }) };
            }
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: waits for the child created above.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "exit code and signal of the child");
        }
    });
}

#[test]
fn helpers_have_names_and_block_signals() {
    if cpus() < 2 || runs_alone("helpers_have_names_and_block_signals", &[]) {
        return;
    }
    round_trip(&copier(), LARGE, 0, 3);
    let helpers = until(|| Some(helpers()).filter(|helpers| !helpers.is_empty()));
    for status in helpers {
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a mask");
        let is_blocked = |signal: i32| blocked & (1 << (signal - 1)) != 0;
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGALRM,
            libc::SIGCHLD,
            libc::SIGUSR1,
            libc::SIGPROF,
            40,
        ] {
            assert!(is_blocked(signal), "{signal} in {blocked:x}");
        }
        for fault in [libc::SIGSEGV, libc::SIGBUS] {
            assert!(!is_blocked(fault), "{fault} in {blocked:x}");
        }
    }
    let mine = fs::read_to_string("/proc/thread-self/status").expect("a status");
    let mine = mine
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .expect("a mask")
        .trim()
        .to_owned();
    assert_eq!(mine, "0".repeat(16), "the caller's mask is unchanged");
}

#[test]
fn idle_helpers_sleep() {
    if cpus() < 2 || runs_alone("idle_helpers_sleep", &[]) {
        return;
    }
    round_trip(&copier(), LARGE, 0, 3);
    until(|| {
        let helpers = helpers();
        (!helpers.is_empty() && helpers.iter().all(|status| status.contains("State:\tS")))
            .then_some(())
    });
    let ticks = || {
        // Fields 14 and 15 of the process: ticks in user and in kernel mode.
        let text = fs::read_to_string("/proc/self/stat").expect("a line");
        let after = text.rsplit(')').next().expect("fields").to_owned();
        after
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().expect("ticks"))
            .sum::<u64>()
    };
    let before = ticks();
    thread::sleep(Duration::from_millis(300));
    assert!(ticks() - before <= 3, "sleeping helpers use no CPU");
    round_trip(&copier(), LARGE, 0, 4);
}

/// A helper that is started and copies nothing runs for less than 0.3 ms; its share of this read takes milliseconds.
#[test]
fn first_large_read_is_shared() {
    const MOVED: u64 = 1_000_000;
    if cpus() < 2 {
        return;
    }
    if !is_child() {
        // On a busy machine the helper may start after the copy.
        let is_shared = |_| {
            let output = child("first_large_read_is_shared", &[]).output().expect("a child");
            assert!(output.status.success(), "{}", text(&output));
            text(&output).contains("<shared>")
        };
        assert!((0..20).any(is_shared), "no helper copied in 20 processes");
        return;
    }
    let pages = (64 << 20) / 4096;
    let (host, device) = (Guarded::new(pages), Guarded::new(pages));
    // SAFETY: both buffers have this length.
    unsafe { copier().from_device(host.start(), device.start(), pages * 4096) };
    let on_cpu: u64 = helper_files("schedstat")
        .iter()
        .filter_map(|times| times.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    writeln!(std::io::stdout(), "{}", if on_cpu >= MOVED { "<shared>" } else { "<alone>" })
        .expect("standard output");
}

#[test]
fn no_helpers_for_paced_copies() {
    if runs_alone("no_helpers_for_paced_copies", &[]) {
        return;
    }
    for turn in 0..20 {
        round_trip(&copier(), 64 << 10, turn, 3);
        round_trip(&copier(), 256 << 10, turn, 4);
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(50));
    assert!(helpers().is_empty());
}

#[test]
fn library_writes_no_file() {
    if !is_child() {
        let home = std::env::temp_dir().join(format!("gdr-home-{}", std::process::id()));
        fs::create_dir(&home).expect("a directory");
        let output = child("library_writes_no_file", &[])
            .env("HOME", &home)
            .env_remove("XDG_CACHE_HOME")
            .output()
            .expect("a child");
        let files = fs::read_dir(&home).expect("a directory").count();
        fs::remove_dir_all(&home).expect("the directory");
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(files, 0);
        return;
    }
    let device = Guarded::new(gdrcopy::copy::TUNE_BYTES / 4096);
    // SAFETY: memory of our own, of that length.
    unsafe { gdrcopy::copy::tune(device.start(), gdrcopy::copy::TUNE_BYTES) };
    round_trip(&copier(), LARGE, 0, 3);
}

#[test]
fn no_helpers_on_one_cpu() {
    if runs_alone("no_helpers_on_one_cpu", &[]) {
        return;
    }
    let mut set = [0_u64; 16];
    // SAFETY: the kernel writes at most the given bytes, then reads as many. The affinity of the
    // thread that copies counts.
    unsafe {
        assert!(libc::sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr().cast()) >= 0);
        let word = set.iter().position(|word| *word != 0).expect("a CPU");
        let first = set[word] & set[word].wrapping_neg();
        set = [0; 16];
        set[word] = first;
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()), 0);
    }
    round_trip(&copier(), LARGE, 5, 3);
    round_trip(&copier(), LARGE, 6, 4);
    assert!(helpers().is_empty());
}

#[test]
fn copies_alone_without_threads() {
    if runs_alone("copies_alone_without_threads", &["--test-threads=1"]) {
        return;
    }
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: lowers this process's own limit, and drops root, which has none.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
        if libc::geteuid() == 0 {
            assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
        }
    }
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "the limit works");
    round_trip(&copier(), LARGE, 5, 3);
    round_trip(&copier(), LARGE, 6, 4);
    assert!(helpers().is_empty());
}

#[test]
fn process_with_helpers_exits() {
    if !is_child() {
        let started = Instant::now();
        for _ in 0..5 {
            run("process_with_helpers_exits", &[]);
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        return;
    }
    round_trip(&copier(), LARGE, 0, 3);
    std::process::exit(0);
}

#[test]
fn environment_variables() {
    if !is_child() {
        let of = |variable: &str, value: &str| {
            let output =
                child("environment_variables", &[]).env(variable, value).output().expect("a child");
            assert!(output.status.success(), "{output:?}");
            text(&output)
        };
        assert!(of("GDR_COPY_KERNEL", "portable").contains("<portable portable>"));
        let wrong = of("GDR_COPY_KERNEL", "fast");
        assert!(
            wrong.contains(r#"<invalid GDR_COPY_KERNEL: "fast"; must be one of portable, "#),
            "{wrong}"
        );
        assert!(
            of("GDR_COPY_THREADS", "0")
                .contains(r#"<invalid GDR_COPY_THREADS: "0"; must be 1 to 16>"#)
        );
        assert!(
            of("GDR_COPY_SPIN_US", "-1")
                .contains(r#"<invalid GDR_COPY_SPIN_US: "-1"; must be 0 to 10000>"#)
        );
        assert!(of("GDR_COPY_THREADS", "1").contains("> helpers 0"));
        assert!(of("OMP_NUM_THREADS", "1").contains("> helpers 0"));
        return;
    }
    let outcome = match Copier::for_caching(Caching::WriteCombining) {
        Ok(copier) => {
            round_trip(&copier, LARGE, 1, 2);
            format!(
                "<{} {}> helpers {}",
                copier.write_kernel(),
                copier.read_kernel(),
                helpers().len()
            )
        }
        Err(error) => {
            assert_eq!(
                Copier::for_caching(Caching::Cached).err(),
                Some(error.clone()),
                "an error with any caching"
            );
            format!("<{error}>")
        }
    };
    writeln!(std::io::stdout(), "{outcome}").expect("standard output");
}

#[test]
fn caching_selects_kernels() {
    let cached = Copier::for_caching(Caching::Cached).expect("a copier");
    assert_eq!((cached.write_kernel(), cached.read_kernel()), ("memcpy", "memcpy"));
    let uncached = Copier::for_caching(Caching::Uncached).expect("a copier");
    assert_eq!((uncached.write_kernel(), uncached.read_kernel()), ("portable", "portable"));
    for copier in [cached, uncached] {
        for len in [0, 1, 7, 100, 70_000] {
            round_trip(&copier, len, 3, 5);
        }
    }
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// /proc status of each helper thread of this process.
fn helpers() -> Vec<String> {
    helper_files("status")
}

/// A file of /proc for each helper thread of this process.
fn helper_files(name: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("tasks");
    let tasks = tasks.map(|task| task.expect("a task").path());
    let is_helper = |task: &std::path::PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm == "gdr-copy\n")
    };
    let helpers = tasks.filter(is_helper);
    helpers.filter_map(|task| fs::read_to_string(task.join(name)).ok()).collect()
}

fn until<T>(mut seen: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = seen() {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "not within 10 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// In the test run: runs the test in its own process, and returns true.
fn runs_alone(test: &str, arguments: &[&str]) -> bool {
    if !is_child() {
        run(test, arguments);
    }
    !is_child()
}

/// Runs one test of this program in its own process, where [`is_child`] is true.
fn child(test: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", test, "--nocapture"]).args(arguments).env(CHILD, "1");
    command
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn run(test: &str, arguments: &[&str]) {
    let output = child(test, arguments).output().expect("a child");
    assert!(output.status.success(), "{}", text(&output));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
