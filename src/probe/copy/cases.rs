//! The tests of the probe: their names, and what gdrcopy's programs call them.

use super::session::Session;
use super::task::Choices;
use super::{calls, kernels_check, other_gpu, ping_pong, sanity, sweep, validate};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// One test.
pub struct Test {
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The program of gdrcopy that does it, and its test; empty if none does.
    pub upstream: &'static str,
    /// Runs without `--test`.
    pub by_default: bool,
    pub(super) run: fn(&mut Session<'_>, &mut Reporter<'_>) -> Result<(), StepError>,
}

const fn test(
    name: &'static str,
    upstream: &'static str,
    about: &'static str,
    run: fn(&mut Session<'_>, &mut Reporter<'_>) -> Result<(), StepError>,
) -> Test {
    Test { name, about, upstream, by_default: true, run }
}

/// All tests, in the order in which they run.
pub const TESTS: &[Test] = &[
    test(
        "malloc",
        "sanity: basic_cumemalloc, basic_v2_cumemalloc, data_validation_cumemalloc, data_validation_v2_cumemalloc",
        "verifies stores, copies, offsets and writes of the GPU in memory of cuMemAlloc",
        |session, reporter| validate::run(session, &["malloc"], reporter),
    ),
    test(
        "create",
        "sanity: basic_vmmalloc, basic_v2_vmmalloc, data_validation_vmmalloc",
        "the same in memory of cuMemCreate, also exportable",
        |session, reporter| validate::run(session, &["create", "create-exportable"], reporter),
    ),
    test(
        "pool",
        "",
        "the same in memory of pools, the default one and one that can be exported",
        |session, reporter| validate::run(session, &["pool", "pool-exportable"], reporter),
    ),
    test(
        "neighbours",
        "sanity: basic_small_buffers_mapping",
        "maps every other one of 16 small allocations that share a page, and verifies all",
        validate::run_neighbours,
    ),
    test(
        "unaligned",
        "sanity: basic_unaligned_mapping",
        "pins and maps ranges that begin and end within pages, and verifies them and what surrounds them",
        sanity::unaligned,
    ),
    test(
        "mixed-mappings",
        "sanity: data_validation_mix_mappings_cumemalloc",
        "maps the same memory twice, writes through one mapping and reads through the other",
        sanity::mixed_mappings,
    ),
    test(
        "two-mappings",
        "sanity: invalidation_two_mappings_cumemalloc, …_vmmalloc",
        "frees one of two mapped allocations; the other stays mapped and right",
        sanity::two_mappings,
    ),
    test(
        "thread",
        "sanity: basic_child_thread_pins_buffer_cumemalloc, …_vmmalloc",
        "pins in one thread, maps and copies in another",
        sanity::thread,
    ),
    test(
        "attributes",
        "sanity: attributes_sanity",
        "verifies what the backend says about itself",
        sanity::attributes,
    ),
    Test {
        by_default: false,
        ..test(
            "force-pcie",
            "sanity: basic_v2_forcepci_cumemalloc, …_vmmalloc, data_validation_v2_forcepci_cumemalloc",
            "maps over PCI Express where the GPU has NVLink-C2C too (GDR_PIN_FLAG_FORCE_PCIE), and verifies copies",
            sanity::force_pcie,
        )
    },
    Test {
        by_default: false,
        ..test(
            "other-gpu",
            "",
            "maps memory of one GPU while the context of another is current, both ways; needs two GPUs",
            other_gpu::run,
        )
    },
    test(
        "kernels",
        "",
        "verifies each copy kernel of this CPU at many sizes and offsets",
        kernels_check::run,
    ),
    test("api", "apiperf", "times pin, map, info, unmap and unpin", |session, reporter| {
        calls::run(session, reporter)
    }),
    test(
        "ping-pong",
        "pplat",
        "times round trips with a kernel, with --data also with data that the kernel verifies",
        |session, reporter| ping_pong::run(session, reporter),
    ),
    Test {
        by_default: false,
        ..test(
            BANDWIDTH,
            "copybw, copylat",
            "times copies of each size through the mapping alone; part of latency",
            |session, reporter| {
                if has(&session.task.choices, LATENCY) {
                    Ok(())
                } else {
                    sweep::mapping(session, reporter)
                }
            },
        )
    },
    test(
        LATENCY,
        "copylat -c",
        "times copies of each size through the mapping and by cuMemcpy, with latency, bandwidth and CPU time",
        sweep::run,
    ),
];

const BANDWIDTH: &str = "bandwidth";
const LATENCY: &str = "latency";

/// The tests to run, in the order of the table.
pub fn chosen(choices: &Choices) -> impl Iterator<Item = &'static Test> {
    TESTS.iter().filter(|test| has(choices, test.name))
}

/// True if copies of each size are measured.
pub fn includes_sweep(choices: &Choices) -> bool {
    has(choices, BANDWIDTH) || has(choices, LATENCY)
}

fn has(choices: &Choices, name: &str) -> bool {
    if choices.tests.is_empty() {
        TESTS.iter().any(|test| test.name == name && test.by_default)
    } else {
        choices.tests.iter().any(|test| test == name)
    }
}
