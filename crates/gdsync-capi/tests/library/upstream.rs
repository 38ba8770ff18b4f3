//! libgdsync's programs that need no NIC, gds_sanity and gds_poll_lat, with our headers and library on a SIMULATED CUDA.
//! `GDSYNC_UPSTREAM` is a checkout of libgdsync.
//!
//! ```sh
//! git clone https://github.com/gpudirect/libgdsync /tmp/libgdsync
//! GDSYNC_UPSTREAM=/tmp/libgdsync cargo test -p gdsync-capi --test library upstream -- --ignored
//! ```

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::clib::succeed;
use crate::support::{compatible, compile, run, simulated_cuda, simulated_libraries};

#[test]
#[ignore = "manual: needs libgdsync's sources in GDSYNC_UPSTREAM"]
fn manual_programs_of_libgdsync_pass() {
    let upstream = PathBuf::from(std::env::var_os("GDSYNC_UPSTREAM").expect("GDSYNC_UPSTREAM"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let machine =
        json!({"gpu": {"memory": 1 << 30, "attributes": {"122": 1, "123": 1}}, "gpus": [{}]});
    // With and without memory writes, an option of libgdsync's configure.
    for has_write_memory in [true, false] {
        let sanity = build(&upstream, "gds_sanity.cpp", "c++", has_write_memory, directory.path());
        // Each round lasts a second with the slow clock: the program waits 1 ms to check that nothing happens.
        for options in
            [vec![], vec!["-f"], vec!["-g"], vec!["-m"], vec!["-N"], vec!["-g", "-m", "-N", "-f"]]
        {
            let arguments = [&["-n", "3"], options.as_slice()].concat();
            let output = run(&sanity, &arguments, &machine, &[]);
            succeed(&format!("gds_sanity {arguments:?}"), &output);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.ends_with(">>> SUCCESS\n"), "{text}");
        }
    }
    let latency = build(&upstream, "gds_poll_lat.c", "cc", true, directory.path());
    for options in [
        vec![],
        vec!["-f"],
        vec!["-g"],
        vec!["-m"],
        vec!["-w"],
        vec!["-c"],
        vec!["-P", "300", "-c", "-w"],
        vec!["-p", "2", "-g", "-m"],
    ] {
        let arguments = [&["-n", "50"], options.as_slice()].concat();
        let output = run(&latency, &arguments, &machine, &[]);
        succeed(&format!("gds_poll_lat {arguments:?}"), &output);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("average wait time: "), "{text}");
    }
}

/// Links the slow clock, because simulated GPU threads are slower than the programs' timeouts.
fn build(
    upstream: &Path,
    source: &str,
    compiler: &str,
    has_write_memory: bool,
    into: &Path,
) -> PathBuf {
    let stubs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs");
    let program = into.join(format!("{source}-{has_write_memory}"));
    let mut objects = Vec::new();
    let define =
        format!("-DHAVE_DECL_CU_STREAM_MEM_OP_WRITE_MEMORY={}", u32::from(has_write_memory));
    for (compiler, source) in [
        (compiler, upstream.join("tests").join(source)),
        ("cc", stubs.join("gpu.c")),
        ("cc", stubs.join("slow_clock.c")),
    ] {
        let object = into.join(format!("{}.o", objects.len()));
        // Warnings in upstream's code are ignored.
        compile(compiler, &["-c", "-O2", "-w", &define, &compatible()], &[source], &object, &[]);
        objects.push(object);
    }
    compile(compiler, &[], &objects, &program, &simulated_libraries(&simulated_cuda()));
    program
}
