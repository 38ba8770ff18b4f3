//! C programs (tests/c) that make queue pairs, with a SIMULATED CUDA and a SIMULATED libibverbs of two connected NICs.

use std::path::Path;

use fake_nvml_build::uverbs;
use serde_json::{Value, json};

use crate::clib::succeed;
use crate::programs::{Program, compiled_with};
use crate::support::{run, simulated_libraries, simulated_libraries_and_verbs};

/// The CUDA of an H200, and two InfiniBand NICs.
fn machine() -> Value {
    json!({
        "gpu": {"memory": 1 << 30, "attributes": {"122": 1, "123": 1}}, "gpus": [{}],
        "verbs": {"devices": [
            {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
            {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]},
        ]},
    })
}

/// A GPU before Volta: no NOR, no words of 64 bits, and a flush.
fn old_gpu() -> Value {
    let mut machine = machine();
    machine["gpu"]["attributes"] = json!({"98": 1});
    machine
}

/// These NICs are nobody's: a machine may have ones of the same names.
const PROXY: (&str, &str) = ("GDS_HCA", "proxy");
/// For the program of that name alone, whose waits are to end.
fn timeout(name: &str) -> Option<(&'static str, &'static str)> {
    (name == "pair_timeout").then_some(("GDS_CPU_WAIT_TIMEOUT_MS", "300"))
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn streams_and_the_cpu_do_every_operation() {
    for machine in [machine(), old_gpu()] {
        check("pairs", &machine);
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn requests_are_prepared_ahead_posted_once_and_given_up() {
    for machine in [machine(), old_gpu()] {
        check("requests", &machine);
    }
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn failed_work_ends_its_wait_and_no_stream_waits_for_what_is_destroyed() {
    check("failures", &machine());
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn waits_of_the_cpu_end_in_time_and_with_their_queue_pair() {
    check("pair_timeout", &machine());
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn misuse_of_queue_pairs_is_refused() {
    check("pair_misuse", &machine());
}

/// The CUDA of an H200, beside rdma-core's own libibverbs and libmlx5.
fn cuda_alone(mut machine: Value) -> Value {
    machine.as_object_mut().expect("a machine").remove("verbs");
    machine
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev, libmlx5"]
fn a_card_whose_doorbells_the_gpu_rings_itself_does_the_same() {
    // On a GPU without NOR an error ends no wait in even passes.
    let cases = [
        ("pairs", vec![machine(), old_gpu()]),
        ("requests", vec![machine(), old_gpu()]),
        ("failures", vec![machine()]),
        ("pair_misuse", vec![machine()]),
        ("pair_timeout", vec![machine(), old_gpu()]),
        // With connections a NIC and the proxy do the same; these a NIC does alone.
        ("datagrams", vec![machine(), old_gpu()]),
    ];
    for (name, machines) in cases {
        // The machine's own library has its symbols in versions, of which a program linked with another would get the oldest.
        let own = |cuda: &Path| {
            [
                simulated_libraries(cuda),
                vec!["-l:libibverbs.so.1".to_owned()],
            ]
            .concat()
        };
        let program = compiled_with(name, own);
        for machine in machines {
            let sysfs = tempfile::tempdir().expect("a directory");
            let nic = uverbs::nic(sysfs.path()).expect("a NIC");
            let nic = nic
                .iter()
                .map(|(name, value)| (*name, value.to_str().expect("text")));
            let mut variables: Vec<(&str, &str)> = nic
                .chain([("GDS_HCA", "mlx5"), ("FAR_CARD", "mlx5_0")])
                .collect();
            // The address sanitizer wants to be the first library; what is preloaded is before it, and takes nothing that it needs.
            variables.push(("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"));
            variables.extend(timeout(name));
            let output = run(&program.path, &[], &cuda_alone(machine), &variables);
            succeed(name, &output);
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                format!("{name}: well\n")
            );
        }
    }
}

fn compiled(name: &str) -> Program {
    compiled_with(name, simulated_libraries_and_verbs)
}

fn check(name: &str, machine: &Value) {
    let program = compiled(name);
    let variables: Vec<_> = [PROXY].into_iter().chain(timeout(name)).collect();
    let output = run(&program.path, &[], machine, &variables);
    succeed(name, &output);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{name}: well\n")
    );
}
