//! What a plan leaves: failures that gdr cannot repair, with their next step; and the fixes that another one requires.

use gdr::fix::FIXES;
use serde_json::{Value, json};

use crate::support::{Bench, Run, gdr};

fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A recorded machine whose only failure is a missing NIC.
#[test]
fn failure_without_a_fix_is_listed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/h200-x1/snapshot.json");
    for args in [&["fix", "--dry-run"][..], &["fix", "--yes"]] {
        let run = gdr(&[args, &["--from", file]].concat());
        run.assert_code(1);
        let text = flat(&run);
        let says = "0 of 1 failure can be repaired by gdr. By hand: rdma.device machine: Install a NIC with RDMA";
        assert!(text.contains(says), "{text}");
    }
    // A named fix leaves it too, which is not a failure of that fix.
    let run = gdr(&["fix", "peer-mapping", "--dry-run", "--from", file]);
    run.assert_code(0);
    let text = flat(&run);
    let says =
        "This plan repairs 0 of 1 failure. It leaves: rdma.device machine: Install a NIC with RDMA";
    assert!(text.contains(says), "{text}");
    let run = gdr(&["fix", "--dry-run", "--format", "json", "--from", file]);
    run.assert_code(1);
    let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
    assert_eq!(plan["failures"], 1);
    assert_eq!(plan["left"][0]["check"], "rdma.device");
    let run = gdr(&["fix", "--dry-run", "--format", "script", "--from", file]);
    run.assert_code(1);
    run.assert_stdout("# left: rdma.device machine: Install a NIC with RDMA");
}

#[test]
fn sound_machine_has_nothing_to_repair() {
    let run = Bench::of("sound", &json!({})).gdr(&["fix", "--dry-run"]);
    run.assert_code(0);
    run.assert_stdout("No check failed: there is nothing to repair.");
}

/// Two redirecting ports and an IOMMU that translates, which is a warning: the plan passes the devices through first.
#[test]
fn prerequisite_comes_first() {
    let patch = json!({
        "roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
            "02:00.0": {"acs_ctl": "001d", "below": {"03:00.0": {"is": "h200", "iommu": "DMA-FQ", "iommu_group": 13}}},
            "02:01.0": {"acs_ctl": "001d"}}}}}}}},
        "files": {
            "usr/sbin/update-grub": "", "usr/sbin/grub-mkconfig": "", "etc/default/grub": "GRUB_CMDLINE_LINUX=\"\"\n"}
    });
    let bench = Bench::of("sound", &patch);
    let iommu = bench.outcomes("pcie.iommu", &[]);
    assert!(iommu.values().any(|outcome| outcome == "warn"), "{iommu:?}");
    for args in [&["fix", "--dry-run"][..], &["fix", "acs", "--dry-run"]] {
        let run = bench.gdr(&[args, &["--format", "json"]].concat());
        run.assert_code(0);
        let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
        let repairs = plan["repairs"].as_array().expect("repairs");
        let ids: Vec<&Value> = repairs.iter().map(|repair| &repair["fix"]).collect();
        assert_eq!(ids, ["iommu", "acs"], "{args:?}");
        assert!(repairs.iter().all(|repair| repair["steps"][0].is_object()), "{args:?}: {plan}");
    }
    // The unit that clears the bits at every boot changes nothing else.
    let run = bench.gdr(&["fix-acs", "--dry-run", "--format", "json"]);
    let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
    assert_eq!(plan["repairs"].as_array().expect("repairs").len(), 1);
}

/// The table of fixes: what one requires comes before it, and each check that names a fix is a check of it.
#[test]
fn fixes_name_their_checks_and_prerequisites() {
    for (at, fix) in FIXES.iter().enumerate() {
        for required in fix.requires {
            let before = FIXES[..at].iter().any(|other| other.id == *required);
            assert!(before, "{} requires {required}", fix.id);
        }
        for check in fix.checks {
            assert!(gdr::check::find(check).is_some(), "{}: {check}", fix.id);
        }
    }
    let mut named = 0;
    for machine in crate::support::names() {
        let bench = Bench::of(&machine, &json!({}));
        let run = bench.gdr(&["doctor", "--format", "json", "--profile", "all"]);
        let report: Value = serde_json::from_str(&run.stdout).expect("a report");
        for finding in report["findings"].as_array().expect("findings") {
            let Some(id) = finding["fix"]["id"].as_str() else {
                continue;
            };
            let fix = gdr::fix::find(id).expect("a fix");
            let check = finding["id"].as_str().expect("an id");
            assert!(fix.checks.contains(&check), "{check} names {id}");
            named += 1;
        }
    }
    assert!(named > 10, "only {named} findings name a fix");
}

#[test]
fn swapped_letters_get_a_suggestion() {
    let run = gdr(&["fix", "asc"]);
    run.assert_code(2);
    run.assert_stderr("there is no fix 'asc' (did you mean 'acs'?)");
}

/// doctor and the plan name the same command.
#[test]
fn doctor_and_plan_have_one_setpci() {
    let patch = json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": {
        "02:00.0": {"acs_ctl": "003d"}}}}}}}}});
    let bench = Bench::of("sound", &patch);
    let command = "setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000:000c";
    for args in [&["doctor", "--only", "pcie.acs"][..], &["fix-acs", "--dry-run"]] {
        let text = flat(&bench.gdr(args));
        assert!(text.contains(command), "{args:?}: {text}");
        assert!(!text.contains("mind:"), "{text}");
    }
}
