//! `gdr fleet report`: the reports of many nodes in one, with each planted difference named and nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Node, Run, gdr, reports, scratch};

fn merge(dir: &Path, more: &[&str]) -> Value {
    let run = Gdr::new().args(["fleet", "report", "--format", "json"]).args([dir]).args(more).run();
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn table(dir: &Path) -> Run {
    Gdr::new().args(["fleet", "report"]).args([dir]).run()
}

fn write(dir: &Path, name: &str, report: &Value) {
    fs::write(dir.join(name), report.to_string()).expect("a file");
}

#[test]
fn equal_nodes_are_one_group() {
    let dir = scratch();
    reports::write_equal(dir.path(), 12);
    let report = merge(dir.path(), &["--nodes", "n[1-12]"]);
    let state = report["groups"][0]["state"].clone();
    assert_eq!(report["groups"].as_array().map(Vec::len), Some(1), "{report:#}");
    assert_eq!(report["groups"][0]["nodes"], "n[1-12]");
    assert_eq!(report["summary"]["nodes"], 12);
    for empty in ["absent", "facts", "figures"] {
        assert_eq!(report[empty], json!([]), "{empty}");
    }
    assert_eq!(report["versions"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["heat"]["names"].as_array().map(Vec::len), Some(8));
    let cells = report["heat"]["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .flat_map(|row| row.as_array().expect("a row"));
    assert_eq!(cells.filter(|cell| cell.as_f64().is_some_and(|share| share > 0.98)).count(), 56);
    let run = table(dir.path());
    run.assert_stdout("12 nodes are alike");
    assert_eq!(state == "failed", run.code == 1, "{}", run.stdout);
}

/// Each kind of difference on a node of its own, among nodes that are alike.
#[test]
fn differences_are_named_by_node() {
    let dir = scratch();
    reports::write_equal(dir.path(), 20);
    let mut firmware = Node::good();
    firmware.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some("28.39.1002".to_owned());
    write(dir.path(), "n3.json", &reports::doctor(&firmware, "n3", &[]));
    let mut down = Node::good();
    for nic in ["0000:3c:00.0", "0000:3d:00.0"] {
        down.at(nic).rdma.as_mut().expect("a NIC").state = Some("1: DOWN".to_owned());
    }
    for name in ["n7", "n9"] {
        write(dir.path(), &format!("{name}.json"), &reports::doctor(&down, name, &[]));
    }
    write(dir.path(), "n5-p2p.json", &reports::p2p("n5", 5, Some((2, 3, 0.5))));
    let mut wrong = reports::p2p("n11", 11, None);
    wrong["results"][0]["verdict"] = json!("wrong");
    wrong["results"][0]["reason"] = json!("byte 17 is 0 and should be 9");
    write(dir.path(), "n11-p2p.json", &wrong);
    let report = merge(dir.path(), &[]);
    let groups: Vec<(&str, usize)> = report["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| {
            (
                group["nodes"].as_str().expect("nodes"),
                group["differences"].as_array().expect("differences").len(),
            )
        })
        .collect();
    // A slow node is alike, but not well.
    assert_eq!(groups[0], ("n[1-2,4,6,8,10,12-20]", 0), "{groups:?}");
    let others: Vec<&str> = groups[1..].iter().map(|(nodes, _)| *nodes).collect();
    assert_eq!(others, ["n[7,9]", "n3", "n5", "n11"]);
    let fact = |words: &str| {
        let mut facts = report["facts"].as_array().expect("facts").iter();
        facts
            .find(|fact| fact["fact"].as_str().is_some_and(|name| name.contains(words)))
            .unwrap_or_else(|| panic!("no fact {words}: {:#}", report["facts"]))
    };
    let version = fact("rdma.firmware, mlx5_1: ");
    assert_eq!(version["majority"], "28.43.2026");
    assert_eq!(version["count"], 19);
    assert_eq!(version["outliers"], json!([{ "value": "28.39.1002", "count": 1, "nodes": "n3" }]));
    let port = fact("rdma.port, mlx5_4: /sys/class/infiniband/mlx5_4/ports/1/state");
    assert_eq!(port["outliers"], json!([{ "value": "DOWN", "count": 2, "nodes": "n[7,9]" }]));
    let figures = report["figures"].as_array().expect("figures");
    let named: Vec<(&str, &str)> = figures
        .iter()
        .map(|figure| {
            (
                figure["node"].as_str().expect("a node"),
                figure["subject"].as_str().expect("a subject"),
            )
        })
        .collect();
    // Both sizes of the pair.
    assert_eq!(named, [("n5", "GPU2 > GPU3"), ("n5", "GPU2 > GPU3")]);
    assert!(
        figures
            .iter()
            .all(|figure| (figure["loss"].as_f64().expect("a number") - 50.0).abs() < 2.0)
    );
    let link = &report["links"][0];
    assert_eq!(
        (&link["node"], &link["from"], &link["to"]),
        (&json!("n5"), &json!("GPU2"), &json!("GPU3"))
    );
    assert_eq!(report["links"].as_array().map(Vec::len), Some(10));
    let cell = report["heat"]["cells"][2][3].as_f64().expect("a share");
    assert!((0.48..0.52).contains(&cell), "{cell}");
    let findings = report["findings"].as_array().expect("findings");
    let of = |node: &str| findings.iter().find(|finding| finding["nodes"] == node);
    assert_eq!(of("n11").expect("a wrong byte")["outcome"], "fail", "{findings:#?}");
    let rail = of("n[7,9]").expect("a rail that is down");
    assert_eq!((&rail["id"], &rail["outcome"]), (&json!("rdma.port"), &json!("fail")), "{rail:#}");
    let run = table(dir.path());
    run.assert_code(1);
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("byte 17 is 0 and should be 9 (1 node: n11)"), "{}", run.stdout);
    run.assert_stdout("n5: GPU2 to GPU3: 7");
    run.assert_stdout("15 nodes are alike");
}

#[test]
fn nodes_without_a_report_are_named() {
    let dir = scratch();
    reports::write_equal(dir.path(), 6);
    fs::remove_file(dir.path().join("n1.json")).expect("a file");
    fs::remove_file(dir.path().join("n1-p2p.json")).expect("a file");
    for name in ["n2", "n3", "n4", "n5"] {
        fs::remove_file(dir.path().join(format!("{name}-p2p.json"))).expect("a file");
    }
    // A node that died before and while it wrote, one that wrote something else, one of another version.
    fs::write(dir.path().join("n2.json"), "").expect("a file");
    let whole = fs::read(dir.path().join("n3.json")).expect("a report");
    fs::write(dir.path().join("n3.json"), &whole[..whole.len() / 2]).expect("a file");
    fs::write(dir.path().join("n4.json"), "slurmstepd: error: ***").expect("a file");
    write(dir.path(), "n5.json", &json!({ "schema": "gdr.doctor/2", "gdr": "9.0.0" }));
    let report = merge(dir.path(), &["--nodes", "n[1-6]"]);
    let absent: Vec<(&str, &str)> = report["absent"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|absent| {
            (absent["node"].as_str().expect("a name"), absent["why"].as_str().expect("a reason"))
        })
        .collect();
    assert_eq!(
        absent,
        [("n1", "missing"), ("n2", "ended"), ("n3", "ended"), ("n4", "invalid"), ("n5", "version")]
    );
    assert_eq!(report["summary"]["absent"], 5);
    let run = Gdr::new().args(["fleet", "report", "--nodes", "n[1-6]"]).args([dir.path()]).run();
    run.assert_code(1);
    for line in [
        "n1    no report (missing): ",
        "n2    no report (ended): ",
        "n3    no report (ended): ",
        "n4    no report (invalid): ",
        "n5    no report (version): another gdr (9.0.0)",
    ] {
        run.assert_stdout(line);
    }
}

#[test]
fn other_versions_of_gdr_are_named() {
    let dir = scratch();
    reports::write_equal(dir.path(), 4);
    let mut old: Value =
        serde_json::from_slice(&fs::read(dir.path().join("n2.json")).expect("a report"))
            .expect("JSON");
    old["gdr"] = json!("0.0.9");
    write(dir.path(), "n2.json", &old);
    fs::remove_file(dir.path().join("n2-p2p.json")).expect("a file");
    let run = table(dir.path());
    run.assert_stdout("different versions of gdr: 0.1.0 on n[1,3-4]; 0.0.9 on n2");
}

#[test]
fn wrong_arguments_are_errors() {
    let dir = scratch();
    let empty = dir.path().to_string_lossy().into_owned();
    let run = gdr(&["fleet", "report", &empty]);
    run.assert_code(2);
    run.assert_stderr("no file of this directory ends in .json\n");
    fs::write(dir.path().join("nccl.n1.7.log"), "").expect("a file");
    gdr(&["fleet", "report", &empty]).assert_stderr("gdr explain --job reads the logs of a job");
    let run = gdr(&["fleet", "report", "--nodes", "n[1-", &empty]);
    run.assert_code(2);
    run.assert_stderr("--nodes: ");
    let run = gdr(&["fleet", "report", "/nowhere/n1.json"]);
    run.assert_code(1);
    run.assert_stdout("cannot read /nowhere/n1.json");
}

/// With a key a node has one mask in all reports, however many nodes they have; without it, or with another key, it has another one.
#[test]
fn key_gives_a_node_one_mask_in_all_reports() {
    let (all, few) = (scratch(), scratch());
    reports::write_equal(all.path(), 5);
    fs::copy(all.path().join("n3.json"), few.path().join("n3.json")).expect("a copy");
    let key = |name: &str, text: &str| {
        let file = all.path().join(name);
        fs::write(&file, text).expect("a key");
        file.to_string_lossy().into_owned()
    };
    let (one, two) =
        (key("one.key", "0123456789abcdef\n"), key("two.key", "another key of the site"));
    let names = |dir: &Path, key: &str| -> Vec<String> {
        let report = merge(dir, &["--mask-key", key]);
        let text = report.to_string();
        assert!(!text.contains("\"n3\""), "{text}");
        assert_eq!(report["record"], Value::Null);
        let nodes = report["nodes"].as_array().expect("nodes").iter();
        nodes.filter_map(|node| node["name"].as_str().map(str::to_owned)).collect()
    };
    let (of_all, of_few) = (names(all.path(), &one), names(few.path(), &one));
    assert_eq!((of_all.len(), of_few.len()), (5, 1));
    assert!(
        of_all.contains(&of_few[0]) && of_few[0].starts_with("maskedhost"),
        "{of_all:?} {of_few:?}"
    );
    assert_ne!(names(few.path(), &two), of_few);
    let short = key("short.key", "secret");
    let run = Gdr::new().args(["fleet", "report", "--mask-key", &short]).args([few.path()]).run();
    run.assert_code(2);
    run.assert_stderr("the key has 6 bytes; 16 to 4096 are needed");
}

/// Names and texts of a report may be hostile; what is printed is not.
#[test]
fn hostile_reports_are_shown_safely() {
    let dir = scratch();
    for name in ["n1", "n2", "n3"] {
        let mut report = reports::p2p("\u{1b}[31mred\u{202e}", 1, None);
        report["results"][0]["subject"] = json!("GPU0 > \u{1b}]0;x\u{7}<script>alert(1)</script>");
        report["results"][0]["verdict"] = json!("wrong");
        report["results"][0]["reason"] = json!("\r\n\u{0}");
        write(dir.path(), &format!("{name}.json"), &report);
    }
    let run = table(dir.path());
    run.assert_code(1);
    assert!(run.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", run.stdout);
    assert!(!run.stdout.contains('\u{202e}'));
}

/// 1,000 nodes fit into 512 MiB. `cargo bench --bench fleet` measures the time.
#[test]
#[ignore = "slow: 2,000 reports"]
fn thousand_nodes_fit_into_memory() {
    let dir = scratch();
    reports::write_equal(dir.path(), 1000);
    let run = Gdr::within(512 << 20).args(["fleet", "report"]).args([dir.path()]).run();
    run.assert_stdout("1000 nodes are alike");
}
