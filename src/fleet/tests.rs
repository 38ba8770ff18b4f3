//! Majorities of small fleets, and documents of one node.

use serde_json::{Value, json};

use super::document::Part;
use super::isolation::{Measurement, Nic};
use super::node_facts::NodeFact;
use super::schedule::Phase;
use super::{Fleet, Links, exit_code};
use crate::model::{Absence, FleetReport};

fn doctor(host: &str, findings: &[(&str, &str, &str)]) -> Value {
    let findings = findings.iter().map(|(id, outcome, message)| {
        json!({ "id": id, "outcome": outcome, "severity": "error", "subject": "machine", "message": message, "evidence": [] })
    });
    json!({
        "schema": "gdr.doctor/1", "gdr": "1", "host": { "source": "live", "name": host },
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn report(documents: &[(&str, Value)]) -> FleetReport {
    let mut fleet = Fleet::new(|id| id == "pcie.link", |id| id.starts_with("gpu."));
    for (source, document) in documents {
        fleet.add(None, source, document.to_string().as_bytes());
    }
    fleet.report(false, None)
}

fn groups(report: &FleetReport) -> Vec<(&str, usize)> {
    report.groups.iter().map(|group| (group.nodes.as_str(), group.differences.len())).collect()
}

#[test]
fn two_nodes_that_differ_are_two_groups() {
    let node = |host, text| (host, doctor(host, &[("gpu.driver", "pass", text)]));
    let merged = report(&[node("a", "580"), node("b", "570")]);
    assert_eq!(groups(&merged), [("a", 0), ("b", 1)]);
    let merged = report(&[node("a", "580"), node("b", "570"), node("c", "570")]);
    assert_eq!(groups(&merged), [("b,c", 0), ("a", 1)]);
}

/// A row of the table of facts is compared, and fills the field of its column.
#[test]
fn facts_of_documents_have_columns() {
    const DRIVER: &[NodeFact] = &[NodeFact {
        name: "driver",
        of: |part| match part {
            Part::Readings(readings) => readings.versions.get("driver").cloned(),
            _ => None,
        },
        field: Some(|action| &mut action.since),
    }];
    let mut fleet = Fleet::new(|_| false, |_| false);
    fleet.node_facts = DRIVER;
    for (name, outcome, driver) in
        [("a", "fail", "570"), ("b", "pass", "580"), ("c", "pass", "580")]
    {
        let mut node = doctor(name, &[("gpu.present", outcome, "text")]);
        node["readings"] = json!({ "versions": { "driver": driver } });
        fleet.add(None, name, node.to_string().as_bytes());
    }
    let merged = fleet.report(false, None);
    let columns: Vec<_> = merged
        .actions
        .iter()
        .map(|action| (action.node.as_str(), action.since.as_deref()))
        .collect();
    assert_eq!(columns, [("a", Some("570"))]);
    assert!(merged.facts.iter().any(|fact| fact.majority.as_deref() == Some("580")));
}

/// What is not compared is not kept, and the note says so.
#[test]
fn facts_beyond_the_limit_take_no_memory() {
    let row: String = (0..250_000).map(|at| format!("\"{at}\":\"PIX\",")).collect();
    let topology = format!(
        "{{\"schema\":\"gdr.topo/1\",\"gdr\":\"1\",\"host\":{{\"name\":\"a\"}},\"matrix\":{{\"\":{{{row}\"b\":\"PIX\"}}}}}}"
    );
    let mut fleet = Fleet::new(|id| id == "pcie.link", |id| id.starts_with("gpu."));
    fleet.add(None, "a", topology.as_bytes());
    assert_ne!(fleet.texts.text(99_000), "");
    assert_eq!(fleet.texts.text(101_000), "");
    let merged = fleet.report(false, None);
    assert_eq!(merged.notes, ["a: only the first 100000 facts and figures were compared"]);
    assert_eq!(merged.summary.ok, 1);
}

/// A value that every node has differently is a name, not a difference.
#[test]
fn individual_facts_are_no_differences() {
    let node = |host: &'static str| {
        (host, doctor(host, &[("x.serial", "info", host), ("gpu.driver", "pass", "580")]))
    };
    let merged = report(&[node("n1"), node("n2"), node("n3"), node("n4")]);
    assert_eq!(groups(&merged), [("n[1-4]", 0)]);
    assert!(merged.facts.is_empty());
}

#[test]
fn lacking_facts_are_differences() {
    let all = [("gpu.present", "pass", "there"), ("gpu.driver", "pass", "580")];
    let documents =
        [("n1", doctor("n1", &all)), ("n2", doctor("n2", &all)), ("n3", doctor("n3", &all[..1]))];
    let merged = report(&documents);
    assert_eq!(groups(&merged), [("n[1-2]", 0), ("n3", 1)]);
    let difference = &merged.groups[1].differences[0];
    assert_eq!(
        (difference.fact.as_str(), difference.value.as_deref()),
        ("gpu.driver, machine", None)
    );
    assert_eq!(difference.majority.as_deref(), Some("pass: 580"));
}

#[test]
fn several_documents_of_a_host() {
    let probe = |host| json!({ "schema": "gdr.probe/1", "gdr": "1", "host": { "source": "live", "name": host }, "probe": "host", "simulated": false, "complete": false, "results": [] });
    let merged = report(&[("one", doctor("n1", &[])), ("two", probe("n1"))]);
    assert_eq!((merged.summary.nodes, merged.summary.undetermined), (1, 1));
    assert_eq!(exit_code(&merged), 3);
    // Two reports of one kind are of two nodes.
    let merged = report(&[("one", doctor("n1", &[])), ("two", doctor("n1", &[]))]);
    assert_eq!(groups(&merged), [("n1,n1 (two)", 0)]);
    assert_eq!(exit_code(&merged), 0);
}

#[test]
fn late_report_counts() {
    let mut fleet = Fleet::new(|id| id == "pcie.link", |id| id.starts_with("gpu."));
    fleet.expect(["n1".to_owned(), "n2".to_owned(), "n3".to_owned()]);
    fleet.absent("n1", Absence::TimedOut, "no report within 60 s");
    fleet.absent("n2", Absence::TimedOut, "no report within 60 s");
    fleet.add(Some("n2"), "", doctor("host", &[]).to_string().as_bytes());
    let merged = fleet.report(false, None);
    let absent: Vec<(&str, Absence)> =
        merged.absent.iter().map(|absent| (absent.node.as_str(), absent.why)).collect();
    assert_eq!(absent, [("n1", Absence::TimedOut), ("n3", Absence::Missing)]);
    assert_eq!((merged.groups[0].nodes.as_str(), exit_code(&merged)), ("n2", 1));
}

#[test]
fn figures_of_fewer_than_four_nodes_are_not_compared() {
    let probe = |host: &str, rate: f64| {
        json!({ "schema": "gdr.probe/1", "gdr": "1", "host": { "source": "live", "name": host }, "probe": "host", "simulated": false,
            "complete": true, "results": [{ "name": "x", "subject": "GPU0", "bytes": 1, "unit": "GB/s", "median": rate, "verdict": "ok", "reason": null }] })
    };
    let few = [("n1", probe("n1", 50.0)), ("n2", probe("n2", 50.0)), ("n3", probe("n3", 5.0))];
    assert!(report(&few).figures.is_empty());
    let enough = [few.to_vec(), vec![("n4", probe("n4", 50.0))]].concat();
    assert_eq!(report(&enough).figures[0].node, "n3");
    // Less time is better.
    let times = enough.into_iter().map(|(source, mut document)| {
        document["results"][0]["unit"] = json!("us");
        (source, document)
    });
    assert!(report(&times.collect::<Vec<_>>()).figures.is_empty());
}

/// Of four nodes all pairs were measured. If it fails between two of them, that is not a fault of either, and no pass.
#[test]
fn failure_that_no_part_explains_is_no_pass() {
    let nodes = ["n1", "n2", "n3", "n4"];
    let report = |failing: &[usize]| {
        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        let measurement = |(at, (client, server)): (usize, (usize, usize))| {
            let failed = failing.contains(&at);
            let value = |value: f64| (!failed).then_some(value);
            Measurement {
                phase: Phase::Alone,
                client: Nic { node: client, rail: 0 },
                server: Nic { node: server, rail: 0 },
                there: value(10.0),
                back: value(9.0),
                latency: value(2.0),
                lost: 0,
                failed,
            }
        };
        let mut fleet = Fleet::new(|id| id == "pcie.link", |id| id.starts_with("gpu."));
        for node in nodes {
            fleet.add(None, node, doctor(node, &[]).to_string().as_bytes());
        }
        fleet.connect(Links {
            nodes: nodes.map(str::to_owned).to_vec(),
            nics: vec![vec!["mlx5_0".to_owned()]; 4],
            measurements: pairs.into_iter().enumerate().map(measurement).collect(),
            reasons: failing.iter().map(|at| (*at, "no answer".to_owned())).collect(),
            rounds: 3,
            ..Links::default()
        });
        fleet.report(false, None)
    };
    assert_eq!(exit_code(&report(&[])), 0);
    // All measurements of one node: it is dead, and the report has the reason.
    let dead = report(&[0, 1, 2]);
    let faults = &dead.network.as_ref().expect("a network").faults;
    assert_eq!((faults.len(), faults[0].reason.as_deref()), (1, Some("no answer")));
    let report = report(&[4]);
    let network = report.network.as_ref().expect("a network");
    assert_eq!((network.faults.len(), network.unexplained), (0, 1));
    let finding = &report.findings[0];
    assert_eq!(
        (finding.subject.as_str(), finding.nodes.as_str()),
        ("n2 mlx5_0 to n4 mlx5_0", "n[2,4]")
    );
    assert!(finding.message.ends_with(": no answer"), "{finding:?}");
    assert_eq!(exit_code(&report), 1);
}
