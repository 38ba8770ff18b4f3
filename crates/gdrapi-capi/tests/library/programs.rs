//! C programs (tests/c) with the library on SIMULATED device memory, or with the shipped library if
//! no device memory is needed.

use std::path::Path;
use std::process::{Command, Output};

use crate::clib::succeed;
use crate::support::{compile, shipped, simulated};

#[test]
#[ignore = "needs a C compiler"]
fn lifecycle() {
    succeed("lifecycle", &simulated_run("lifecycle", &[], &[]));
}

#[test]
#[ignore = "needs a C compiler"]
fn rejections() {
    succeed("invalid_arguments", &simulated_run("invalid_arguments", &[], &[]));
}

#[test]
#[ignore = "needs a C compiler"]
fn forked_children() {
    succeed("fork", &simulated_run("fork", &[], &[]));
}

/// With all messages on: most come from threads that a child does not have.
#[test]
#[ignore = "needs a C compiler"]
fn fork_during_calls() {
    let logging = [("GDRCOPY_ENABLE_LOGGING", "1"), ("GDRCOPY_LOG_LEVEL", "1")];
    succeed("fork_threads", &simulated_run("fork_threads", &["200"], &logging));
}

#[test]
#[ignore = "needs a C compiler, root"]
fn fork_with_same_pid() {
    // PID namespaces need root.
    succeed("fork_namespace", &simulated_run("fork_namespace", &[], &[]));
}

#[test]
#[ignore = "needs a C compiler"]
fn eight_threads() {
    succeed("threads", &simulated_run("threads", &["60"], &[]));
}

#[test]
#[ignore = "manual: takes a minute, 10,000 rounds of eight threads"]
fn manual_eight_threads_10_000_rounds() {
    succeed("threads", &simulated_run("threads", &["10000"], &[]));
}

#[test]
#[ignore = "needs a C compiler"]
fn log_messages() {
    let silent = simulated_run("invalid_arguments", &[], &[]);
    assert!(silent.stderr.is_empty(), "{}", String::from_utf8_lossy(&silent.stderr));
    let level_alone = simulated_run("invalid_arguments", &[], &[("GDRCOPY_LOG_LEVEL", "1")]);
    assert!(level_alone.stderr.is_empty());

    let errors = simulated_run("invalid_arguments", &[], &[("GDRCOPY_ENABLE_LOGGING", "")]);
    let errors = String::from_utf8(errors.stderr).unwrap();
    assert!(errors.lines().all(|line| line.starts_with("ERR:  ")), "{errors}");
    let wanted = "ERR:  gdr_close: 0x0 is not an open gdr_t (errno 22)";
    assert!(errors.lines().any(|line| line == wanted), "{errors}");

    let all = simulated_run(
        "invalid_arguments",
        &[],
        &[("GDRCOPY_ENABLE_LOGGING", "1"), ("GDRCOPY_LOG_LEVEL", "2")],
    );
    let all = String::from_utf8(all.stderr).unwrap();
    assert!(all.lines().any(|line| line.starts_with("INFO: using backend")), "{all}");
    assert!(!all.contains("DBG:  "), "{all}");
    let debug = simulated_run(
        "invalid_arguments",
        &[],
        &[("GDRCOPY_ENABLE_LOGGING", "1"), ("GDRCOPY_LOG_LEVEL", "1")],
    );
    let debug = String::from_utf8(debug.stderr).unwrap();
    assert!(
        debug.lines().any(|line| line.starts_with("DBG:  pinned 65536 bytes at 0x")),
        "{debug}"
    );
    let none = simulated_run(
        "invalid_arguments",
        &[],
        &[("GDRCOPY_ENABLE_LOGGING", "1"), ("GDRCOPY_LOG_LEVEL", "5")],
    );
    assert!(none.stderr.is_empty());
}

#[test]
#[ignore = "needs a C compiler"]
fn a_file_in_place_of_standard_error_gets_no_messages() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let library = here.join("libgdrapi.so.2");
    std::fs::copy(shipped(), &library).unwrap();
    let program = compile("closed", here, &[path(&library)]);
    let file = here.join("data");
    std::fs::write(&file, "precious\n").unwrap();
    let run = |redirections: &str| {
        Command::new("sh")
            .args(["-c", &format!("exec \"$0\" \"$1\" {redirections}")])
            .args([&program, &file])
            .env("LD_LIBRARY_PATH", here)
            .env("GDRCOPY_ENABLE_LOGGING", "1")
            .output()
            .unwrap()
    };
    let closed = run("0<&- 1>&- 2>&-");
    assert_eq!(closed.status.code(), Some(0), "{closed:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious\n");
    // Where standard error is open, the file gets another number and the message is printed.
    let open = run("");
    assert_eq!(open.status.code(), Some(3));
}

/// With a loadable libcuda on the path, so that its absence from the process proves something.
#[test]
#[ignore = "needs a C compiler"]
fn open_does_not_load_libcuda() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let library = here.join("libgdrapi.so.2");
    std::fs::copy(shipped(), &library).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        let output = Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(here.join(name))
            .output();
        succeed(name, &output.unwrap());
    }
    let program = compile("quiet", here, &[path(&library)]);
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", here).env_remove("GDR_BACKEND");
        command.envs(variables.iter().copied()).output().unwrap()
    };
    for backend in ["gdrdrv", "dmabuf", "rm", "sim"] {
        let output = run(&[("GDR_BACKEND", backend)]);
        succeed(backend, &output);
    }
    succeed("automatic", &run(&[]));
    succeed("dmabuf forced", &run(&[("GDRCOPY_USE_DMABUF_MMAP", "1")]));

    let opened = run(&[("GDR_BACKEND", "sim")]);
    assert_eq!(String::from_utf8_lossy(&opened.stdout), "open 0\nopen 0\nopen 0\n");
    let refused = run(&[("GDR_BACKEND", "nonsense")]);
    let refused = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(refused.lines().all(|line| line == "refused 22"), "{refused}");
}

/// The example of the package copies, over stand-ins for CUDA's functions.
#[test]
#[ignore = "needs a C compiler"]
fn packaged_example_copies() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (example, stubs) =
        (package.join("examples/copy.c"), package.join("../gdsync-capi/tests/stubs"));
    let output = simulated_run_of("cuda_stand_in", &["-I", path(&stubs), path(&example)], &[], &[]);
    succeed("copy.c", &output);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "262144 bytes copied by the CPU and read by the GPU\n"
    );
}

fn simulated_run(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    simulated_run_of(name, &[], arguments, variables)
}

/// Compiles the program with more `sources` and flags of the compiler.
fn simulated_run_of(
    name: &str,
    sources: &[&str],
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let library = simulated();
    let program = compile(
        name,
        directory.path(),
        &[sources, &["-L", path(&library), "-lgdrapi_sim"]].concat(),
    );
    Command::new(&program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", &library)
        .env("GDR_BACKEND", "sim")
        .env_remove("GDRCOPY_ENABLE_LOGGING")
        .env_remove("GDRCOPY_LOG_LEVEL")
        .envs(variables.iter().copied())
        .output()
        .expect("the compiled program")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a target directory in UTF-8")
}
