//! Links with faults between two guests: packets that are lost or overtake each other, ports that are shaped or dead. A busy host delays
//! guests for longer than a timeout, so these tests are run by hand.

use std::fs;

use serde_json::Value;

use crate::{built, in_machine, json};

/// Soft-RoCE repeats what a cable loses, and `gdr probe rdma` says by which counters.
#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn manual_probe_rdma_counts_what_a_cable_loses() {
    let files = in_machine("two-guests", "probe-rdma-loss", vec![built("gdr")]);
    let rose = |round: &str| {
        let report = json(&files.join(format!("guest2/{round}.json")));
        assert_eq!(report["complete"], true, "{report:#}");
        let results = report["results"].as_array().expect("results");
        let wrong = results.iter().find(|result| result["verdict"] != "ok");
        assert!(!results.is_empty() && wrong.is_none(), "{wrong:#?}");
        rises(&report)
    };
    // A suspended guest answers later than the timeout.
    let late = ["completer_retry_err", "duplicate_request"];
    let clean = rose("clean");
    assert!(clean.iter().all(|(_, name)| late.contains(&name.as_str())), "{clean:?}");
    for (round, expected) in [
        (
            "lost",
            &[
                (true, "out_of_seq_request"),
                (false, "rcvd_seq_err"),
                (false, "completer_retry_err"),
            ][..],
        ),
        ("reordered", &[(true, "out_of_seq_request")]),
    ] {
        let found = rose(round);
        for (is_remote, name) in expected {
            let wanted = (*is_remote, (*name).to_owned());
            assert!(found.contains(&wanted), "{round}: {found:?}");
        }
    }
}

/// The counters of rxe0 that rose, with their end; each is a loss that the transport hid.
fn rises(report: &Value) -> Vec<(bool, String)> {
    let changes = report["counters"].as_array();
    let changes = changes.map_or(&[][..], Vec::as_slice).iter();
    let rise = |change: &Value| {
        assert_eq!((&change["of"], &change["kind"]), (&"rxe0:1".into(), &"loss".into()));
        let is_remote = change["remote"].as_bool().expect("an end");
        (is_remote, change["name"].as_str().expect("a name").to_owned())
    };
    changes.map(rise).collect()
}

/// Two guests with four Soft-RoCE ports each: one port is shaped, one loses packets, and one is dead. Guest 1 is rank 0.
#[test]
#[ignore = "needs qemu-system-x86_64, root"]
fn manual_fleet_probe_names_the_ports_that_are_shaped_lossy_or_dead() {
    let files = in_machine("two-guests", "fleet-links", vec![built("gdr")]);
    let report = |name: &str| json(&files.join("guest1").join(name));
    let faults = |report: &Value| -> Vec<(String, String)> {
        let faults = report["network"]["faults"].as_array().expect("faults");
        let text = |fault: &Value, key: &str| fault[key].as_str().expect("a text").to_owned();
        faults
            .iter()
            .map(|fault| {
                let subject = text(fault, "subject");
                let port = subject.split(',').next().unwrap_or_default().to_owned();
                (port, fault["symptoms"][0].as_str().unwrap_or_default().to_owned())
            })
            .collect()
    };
    let healthy = report("healthy.json");
    assert_eq!(faults(&healthy), [], "{healthy:#}");
    let faulty = report("faulty.json");
    let named = faults(&faulty);
    let (shaped, lossy) = ("two-guests-2 rxe1:1", "two-guests-1 rxe2:1");
    let dead = "two-guests-2 rxe3:1";
    for port in [shaped, lossy, dead] {
        assert!(named.iter().any(|(found, _)| found == port), "{port}: {faulty:#}");
    }
    let found = named.iter().find(|(found, _)| found == dead);
    assert_eq!(found.map(|(_, symptom)| symptom.as_str()), Some("dead"));
    // No healthy one.
    for (found, _) in &named {
        assert!([shaped, lossy, dead].contains(&found.as_str()), "{found}: {faulty:#}");
    }
    // tc's own counters: what it delayed and dropped.
    for (guest, port, word) in [(2, 1, "overlimits "), (1, 2, "dropped "), (2, 3, "dropped ")] {
        let file = files.join(format!("guest{guest}/port{port}.txt"));
        let text = fs::read_to_string(&file).expect("counters");
        let after = text.split(word).nth(1).expect("the counter");
        let digits = after.split(|c: char| !c.is_ascii_digit()).next();
        let count: u64 = digits.and_then(|digits| digits.parse().ok()).expect("a number");
        assert!(count > 0, "{text}");
    }
}
