//! What somebody sees in the first hour: a command line, the words that its output must have, and those that it had before and
//! must not have. Words are compared without regard to line breaks.

use std::fs;

use crate::support::{Gdr, Machine, Run, fake_cuda, scratch};

struct Case<'a> {
    args: &'a [&'a str],
    expected: &'a [&'a str],
    forbidden: &'a [&'a str],
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(case: &Case<'_>, run: &Run) {
    let text = words(&format!("{}\n{}", run.stdout, run.stderr));
    for expected in case.expected {
        let is_there = text.contains(expected);
        assert!(is_there, "{:?}: '{expected}' is not in\n{text}", case.args);
    }
    for forbidden in case.forbidden {
        let is_there = text.contains(forbidden);
        assert!(!is_there, "{:?}: '{forbidden}' is in\n{text}", case.args);
    }
}

const TWO_GPUS: &str = "tests/recorded/h200-x2/snapshot.json";
const GUEST: &str = "tests/recorded/vm-iommu-on/snapshot.json";

#[test]
fn recorded_machines_are_answered() {
    let cases = [
        Case {
            args: &["--from", TWO_GPUS, "fix", "--dry-run"],
            expected: &[
                "0 of 1 failure can be repaired by gdr. By hand: rdma.device machine: Install a NIC",
            ],
            forbidden: &["No failed check has a fix", "Nothing to change"],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor"],
            expected: &[
                "NOT READY for rdma: 1 failure",
                "2 × NVIDIA H200, driver 580.159.04, CUDA 13.0, no NIC",
                "UNKNOWN not available: /sys/kernel/security/lockdown (1 check: platform.lockdown); \
                 needs securityfs (mount -t securityfs securityfs /sys/kernel/security)",
            ],
            forbidden: &["not available: /sys (", "gdr doctor: ("],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--format", "prometheus"],
            // The number of the table.
            expected: &["gdr_findings{outcome=\"fail\"} 1"],
            forbidden: &[],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--format", "markdown"],
            expected: &[
                "**NOT READY for rdma: 1 failure**",
                "2 × NVIDIA H200, driver 580.159.04",
                "**Next step: rdma.device: Install a NIC",
            ],
            forbidden: &[],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--format", "html"],
            expected: &[
                "<p class=\"verdict bad\">NOT READY for rdma: 1 failure</p> <p class=\"step\">Next step: rdma.device: Install",
            ],
            forbidden: &[],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--profile", "p2p", "--format", "html"],
            expected: &["<p class=\"step\">Next step: <code>gdr probe p2p</code></p>"],
            forbidden: &[],
        },
        Case {
            args: &["probe", "copy", "--sim", "--quick", "--size=64KiB", "--format", "html"],
            expected: &["of them without a problem</summary>"],
            forbidden: &[],
        },
        Case {
            args: &["--from", TWO_GPUS, "--color", "always", "doctor", "--profile", "p2p"],
            expected: &["Next step: \u{1b}[1m\u{1b}[36mgdr probe p2p\u{1b}[0m"],
            forbidden: &[],
        },
        Case {
            args: &["--from", GUEST, "doctor"],
            expected: &["Next step: modprobe nvidia", "NOT READY for rdma: 7 failures"],
            forbidden: &["Next step: sudo gdr fix"],
        },
        // One count in all formats.
        Case {
            args: &["--from", GUEST, "doctor", "--format", "html"],
            expected: &["NOT READY for rdma: 7 failures", "7 failed"],
            forbidden: &[],
        },
        Case {
            args: &["--from", GUEST, "doctor", "--format", "prometheus"],
            expected: &["gdr_findings{outcome=\"fail\"} 7"],
            forbidden: &[],
        },
        // A replay has the time and the name of the recording.
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--format", "html"],
            expected: &[
                "(recorded: tests/recorded/h200-x2/snapshot.json, 2026-11-21T",
                "<dt>source</dt><dd>tests/recorded/h200-x2/snapshot.json</dd>",
                "<dt>recorded</dt><dd>2026-11-21T15:37:08Z</dd>",
            ],
            forbidden: &["<dd>live</dd>"],
        },
        Case {
            args: &["--from", TWO_GPUS, "doctor", "--format", "json"],
            expected: &[
                "\"taken\": \"2026-11-21T",
                "\"source\": \"tests/recorded/h200-x2/snapshot.json\"",
            ],
            forbidden: &["\"source\": \"live\""],
        },
        // What failed names the repair, in CI systems too.
        Case {
            args: &["--from", GUEST, "doctor", "--format", "junit"],
            expected: &["fix: modprobe nvidia"],
            forbidden: &[],
        },
        // No rating where there is no NIC.
        Case {
            args: &["--from", TWO_GPUS, "topo", "--format", "html"],
            expected: &["<p>There is no RDMA device: no GPU has a NIC.</p>"],
            forbidden: &[">unknown<"],
        },
        Case { args: &["fix", "asc"], expected: &["did you mean 'acs'?"], forbidden: &[] },
    ];
    for case in &cases {
        check(case, &Gdr::new().args(case.args).run());
    }
}

/// A probe that fails ends with the command that says why, in every format; one that passes, or that took no device, with none.
#[test]
fn failed_probe_has_a_next_step() {
    let directory = scratch();
    // CUDA_ERROR_NO_DEVICE of cuda.h.
    fake_cuda(directory.path(), "100");
    let command = "sudo gdr doctor --profile gdrcopy";
    for (format, expected) in [
        ("table", format!("1 could not run Next step: {command}")),
        ("html", format!("<p class=\"step\">Next step: <code>{command}</code></p>")),
        ("junit", format!("next step: {command}</failure>")),
        ("json", format!("\"command\": \"{command}\"")),
    ] {
        let case = Case {
            args: &["probe", "copy", "--format", format],
            expected: &[&expected],
            forbidden: &[],
        };
        let gdr = Gdr::new().env("LD_LIBRARY_PATH", directory.path()).args(case.args);
        let run = gdr.run();
        run.assert_code(1);
        check(&case, &run);
        assert!(!run.stdout.contains("Nothing was measured"), "{format}: an empty drawing");
    }
    for args in [
        &["probe", "copy", "--sim", "--quick", "--size=64KiB"][..],
        &["--from", TWO_GPUS, "probe", "copy"],
    ] {
        let case = Case { args, expected: &[], forbidden: &["Next step"] };
        check(&case, &Gdr::new().args(case.args).run());
    }
}

/// Doctor and the plan name the same command: one that changes the bits of its mask alone.
#[test]
fn laid_out_machine_is_answered() {
    let laid_out = Machine::load("hgx-acs-redirect").laid_out();
    let cases = [
        Case {
            args: &["doctor"],
            expected: &["setpci -s 0000:17:01.0 ECAP_ACS+0x6.w=0000:000c"],
            forbidden: &["gdr doctor: (recorded", "ECAP_ACS+0x6.w=0011"],
        },
        Case {
            args: &["fix", "acs", "--dry-run"],
            expected: &["setpci -s 0000:17:01.0 ECAP_ACS+0x6.w=0000:000c", "caution: "],
            forbidden: &["mind:"],
        },
    ];
    for case in &cases {
        let run = Gdr::new().sysroot(laid_out.path()).args(case.args).run();
        check(case, &run);
    }
}

#[test]
fn probes_and_fleets_are_answered() {
    let dir = scratch();
    let missing = dir.path().join("missing/figures.json").display().to_string();
    let save = ["probe", "copy", "--sim", "--quick", "--size=64KiB", "--save", &missing];
    let case = Case {
        args: &save,
        expected: &["--save: cannot write", "nothing was measured"],
        forbidden: &["SIMULATED"],
    };
    check(&case, &Gdr::new().args(case.args).run());

    // A node that is a second late is not news.
    let meeting = dir.path().join("meeting").display().to_string();
    let late = ["fleet", "doctor", "--arrival", "1", "--rendezvous", &meeting];
    let case =
        Case { args: &late, expected: &["rank 0 has not written it"], forbidden: &["waiting for"] };
    let variables = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "1"),
    ];
    let gdr = variables
        .iter()
        .fold(Gdr::new().args(case.args), |gdr, (name, value)| gdr.env(name, value));
    check(&case, &gdr.run());
}

/// A CI system shows the message of a node: it names the check and what to do.
#[test]
fn junit_of_a_fleet_names_the_check() {
    let dir = scratch();
    let at = dir.path().join("reports");
    fs::create_dir(&at).expect("a directory");
    let report = Gdr::new().args(["--from", TWO_GPUS, "doctor", "--format", "json"]).run();
    fs::write(at.join("node1.json"), &report.stdout).expect("a file");
    let at = at.display().to_string();
    let case = Case {
        args: &["fleet", "report", &at, "--format", "junit"],
        expected: &[
            "name=\"maskedhost1\"><failure message=\"rdma.device (machine): There is no NIC with RDMA.\">",
            "next step: Install a NIC with RDMA",
        ],
        forbidden: &["a check or a probe failed"],
    };
    check(&case, &Gdr::new().args(case.args).run());
    let case = Case {
        args: &["fleet", "report", &at, "--format", "html"],
        expected: &["What to do first on 1 node</summary>", "Install a NIC with RDMA"],
        forbidden: &[],
    };
    check(&case, &Gdr::new().args(case.args).run());
}
