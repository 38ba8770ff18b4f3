//! Runs the C programs of tests/c with a SIMULATED CUDA.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use fakes::{Driver, uverbs};
use serde_json::{Value, json};

use crate::clib::succeed;
use crate::support::{compile, run, run_on, simulated_cuda, simulated_libraries};

/// As an H200: all v2 operations, and no flush.
pub fn hopper() -> Value {
    json!({"gpu": {"memory": 1 << 30, "attributes": {"122": 1, "123": 1}}, "gpus": [{}]})
}

/// A GPU with flush, and only 32-bit words.
pub fn flushing() -> Value {
    json!({"gpu": {"memory": 1 << 30, "attributes": {"123": 1, "98": 1}}, "gpus": [{}]})
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn stream_executes_lists_in_order() {
    for machine in [hopper(), flushing()] {
        check("order", &machine, &[]);
    }
    check("order", &flushing(), &[("GDS_DISABLE_REMOTE_FLUSH", "1"), ("GDS_DISABLE_WRITE64", "1")]);
}

/// The v1 operations, which a module parameter enables and which imply no barriers.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn supports_drivers_before_cuda_11_7() {
    let program = compiled("order");
    let enabled =
        json!({"gpu": {"memory": 1 << 30, "attributes": {"92": 1, "94": 1}}, "gpus": [{}]});
    succeed("order", &run_on(Driver::Old, &program.path, &[], &enabled, &[]));
    let off = run_on(
        Driver::Old,
        &program.path,
        &[],
        &json!({"gpu": {"attributes": {"94": 1}}, "gpus": [{}]}),
        &[],
    );
    let text = String::from_utf8_lossy(&off.stderr).into_owned();
    assert!(
        text.contains("cuStreamBatchMemOp_v1: CUDA_ERROR_NOT_SUPPORTED (801) (errno 1)"),
        "{text}"
    );
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn cpu_executes_lists() {
    check("cpu", &hopper(), &[]);
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn cpu_waits_time_out() {
    check("timeout", &hopper(), &[("GDS_CPU_WAIT_TIMEOUT_MS", "400")]);
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn rejects_misuse() {
    check("misuse", &hopper(), &[]);
}

/// Comments in the program number the calls.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn registers_host_memory_once() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("calls");
    let mut machine = hopper();
    machine["log"] = json!(log);
    check("registration", &machine, &[]);
    let calls = fs::read_to_string(&log).unwrap();
    let count = |name: &str| calls.lines().filter(|line| *line == name).count();
    // The program: two registrations and their ends. The library: 1, 2, 3 (fails), 4, 5, then three for two pages, and two for its own
    // memory. It ends those two, and tries a third that was already ended.
    assert_eq!(count("cuMemHostRegister_v2"), 2 + 10);
    assert_eq!(count("cuMemHostUnregister"), 2 + 3);
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn logs_in_libgdsync_format() {
    let program = compiled("misuse");
    let plain = run(&program.path, &[], &hopper(), &[]);
    succeed("misuse", &plain);
    let plain = String::from_utf8(plain.stderr).unwrap();
    let is_known = |line: &str| {
        line.starts_with('[')
            && ["GDS ERR  ", "GDS WARN ", "GDS INFO "].iter().any(|kind| line.contains(kind))
    };
    assert!(plain.lines().all(is_known), "{plain}");
    let null = "GDS ERR   gds_query_param() value is NULL (errno 22)";
    assert!(plain.lines().any(|line| line.ends_with(null)), "{plain}");
    let second = "descriptor 1: invalid request: not prepared by gds_prepare_send or gds_prepare_wait_cq, or modified since (errno 22)";
    assert!(plain.lines().any(|line| line.ends_with(second)), "{plain}");
    // Only the rejected batch is logged.
    assert!(plain.contains("0: write32 0x1000 value 0x00000001"), "{plain}");
    assert!(!plain.contains("GDS DBG"), "{plain}");

    let debug = run(
        &program.path,
        &[],
        &hopper(),
        &[("GDS_ENABLE_DEBUG", "1"), ("GDS_ENABLE_DUMP_MEMOPS", "0")],
    );
    let debug = String::from_utf8(debug.stderr).unwrap();
    assert!(debug.contains("GDS DBG   gds_alloc_mapped_memory() 100 bytes: d_ptr=0x"), "{debug}");

    let program = compiled("order");
    let dumped = run(&program.path, &[], &flushing(), &[("GDS_ENABLE_DUMP_MEMOPS", "1")]);
    let dumped = String::from_utf8(dumped.stderr).unwrap();
    // The list of twelve descriptors: 10, plus 16 + 1 words of the two memory writes, plus 3 barriers; only flushes differ.
    assert!(
        dumped.contains("GDS INFO  gds_stream_post_descriptors() nops=30"),
        "{}",
        head(&dumped)
    );
    assert!(dumped.contains("Geq 0xfffffff0 flush true"), "{}", head(&dumped));
    assert!(dumped.contains("barrier"), "{}", head(&dumped));
    let unflushed = run(
        &program.path,
        &[],
        &flushing(),
        &[("GDS_ENABLE_DUMP_MEMOPS", "1"), ("GDS_DISABLE_REMOTE_FLUSH", "1")],
    );
    let unflushed = String::from_utf8(unflushed.stderr).unwrap();
    assert!(
        unflushed.contains("flush false") && !unflushed.contains("flush true"),
        "{}",
        head(&unflushed)
    );
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn rejects_unsupported_nor_waits() {
    let program = compiled("order");
    let off = run(&program.path, &[], &hopper(), &[("GDS_DISABLE_WAIT_NOR", "1")]);
    let old = json!({"gpu": {"memory": 1 << 30}, "gpus": [{}]});
    let lacking = run(&program.path, &[], &old, &[]);
    for output in [off, lacking] {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(text.contains("descriptor 10: this GPU's streams do not wait by NOR"), "{text}");
    }
}

/// CUDA errors become the errno of libgdsync.
#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn converts_cuda_errors_to_errno() {
    let program = compiled("errno");
    let answer = |argument: &str, function: &str, code: u32| {
        let mut machine = hopper();
        machine["errors"] = json!({function: code});
        let output = run(&program.path, &[argument], &machine, &[]);
        succeed("errno", &output);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (function, code, expected) in [
        ("cuStreamBatchMemOp_v2", 801, libc::EPERM),
        ("cuStreamBatchMemOp_v2", 1, libc::EINVAL),
        ("cuStreamBatchMemOp_v2", 2, libc::ENOMEM),
        ("cuStreamBatchMemOp_v2", 719, libc::EIO),
        ("cuMemHostRegister_v2", 800, libc::EPERM),
        ("cuMemHostRegister_v2", 1, libc::EINVAL),
        ("cuMemHostRegister_v2", 304, libc::EIO),
        ("cuCtxGetDevice", 201, libc::EINVAL),
        ("cuInit", 100, libc::ENODEV),
    ] {
        assert_eq!(answer(function, function, code), format!("{expected}\n"), "{function} {code}");
    }
    // CUDA's pinned memory cannot be registered again (libgdsync's issue 25), and need not be.
    assert_eq!(answer("pinned", "cuMemHostRegister_v2", 1), "0\n");
}

pub struct Program {
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

pub fn compiled(name: &str) -> Program {
    compiled_with(name, simulated_libraries)
}

/// Compiles a program of tests/c.
pub fn compiled_with(name: &str, libraries: impl FnOnce(&Path) -> Vec<String>) -> Program {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let path = directory.path().join(name);
    let arguments = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"];
    compile("cc", &arguments, &[source], &path, &libraries(&simulated_cuda()));
    Program { path, _directory: directory }
}

/// Compiles a program of tests/c with the system's libibverbs.
pub fn compiled_for_mlx5(name: &str) -> Program {
    compiled_with(name, mlx5_libraries)
}

/// With the system's libibverbs. Its symbols are versioned: another library would select the oldest versions.
pub fn mlx5_libraries(cuda: &Path) -> Vec<String> {
    let mut libraries = simulated_libraries(cuda);
    libraries.push("-l:libibverbs.so.1".to_owned());
    libraries
}

/// Runs a program over libmlx5 with the NIC in software. The machine must have no simulated verbs.
pub fn run_on_mlx5(program: &Program, machine: &Value, variables: &[(&str, &str)]) -> Output {
    let sysfs = tempfile::tempdir().expect("a directory");
    let nic = uverbs::nic(sysfs.path()).expect("a NIC");
    let nic = nic.iter().map(|(name, value)| (*name, value.to_str().expect("text")));
    let always = [
        ("GDS_HCA", "mlx5"),
        ("REMOTE_NIC", "mlx5_0"),
        // The address sanitizer requires to be the first library, but the preloaded fake comes first. That is harmless.
        ("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"),
    ];
    let variables: Vec<_> = nic.chain(always).chain(variables.iter().copied()).collect();
    run(&program.path, &[], machine, &variables)
}

fn check(name: &str, machine: &Value, variables: &[(&str, &str)]) {
    let program = compiled(name);
    let output = run(&program.path, &[], machine, variables);
    succeed(name, &output);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: ok\n"));
}

fn head(text: &str) -> String {
    text.lines().take(60).collect::<Vec<_>>().join("\n")
}
