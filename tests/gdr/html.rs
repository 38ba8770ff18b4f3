//! The HTML pages: self-contained, whole without scripts, safe whatever the names, and laid out in a real browser at five widths.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::fleet_history::ten_days;
use crate::support::{Gdr, Machine, Node, names, recorded, reports, scratch};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(args: &[&str]) -> String {
    let run = Gdr::new().args(args).args(["--format", "html"]).run();
    assert!(run.code != 2 && run.stdout.starts_with("<!DOCTYPE html>"), "{args:?}: {}", run.stderr);
    run.stdout
}

/// A page of each command for every recorded machine, for some authored ones, and for fleets.
fn pages(dir: &Path) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for name in recorded() {
        let snapshot =
            root().join("tests/recorded").join(&name).join("snapshot.json").display().to_string();
        for command in [&["doctor"][..], &["topo"], &["probe", "host"]] {
            let args = [&["--from", &snapshot], command].concat();
            pages.push((format!("{name}-{}", command[0]), page(&args)));
        }
    }
    for name in names()
        .into_iter()
        .filter(|name| ["hgx-acs-redirect", "broken", "grace-gh200"].contains(&name.as_str()))
    {
        let laid_out = Machine::load(&name).laid_out();
        let at = laid_out.path().display().to_string();
        for command in ["doctor", "topo"] {
            pages.push((format!("{name}-{command}"), page(&["--sysroot", &at, command])));
        }
    }
    pages.push((
        "probe-copy".to_owned(),
        page(&["probe", "copy", "--sim", "--quick", "--size", "4096,65536"]),
    ));
    let log = dir.join("job.log");
    fs::write(&log, JOB).expect("a log");
    pages.push((
        "explain-job".to_owned(),
        page(&["explain", "--no-run", &log.display().to_string()]),
    ));
    let log = dir.join("ranks.log");
    fs::write(&log, ranks(64)).expect("a log");
    pages.push((
        "explain-ranks".to_owned(),
        page(&["explain", "--no-run", &log.display().to_string()]),
    ));
    pages.push(("fleet".to_owned(), page(&["fleet", "report", &fleet(dir)])));
    let days = ten_days();
    pages.push((
        "fleet-history".to_owned(),
        page(&["fleet", "history", &days.path().display().to_string()]),
    ));
    pages.extend(compared(dir));
    pages
}

/// Two states of a node: their snapshots, and the later one with what changed.
fn compared(dir: &Path) -> [(String, String); 2] {
    let mut changed = Node::good();
    changed.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").state = Some("1: DOWN".to_owned());
    changed.at("0000:3b:00.0").link = Some(("32GT/s".to_owned(), 8));
    let roots = [Node::good().laid_out(), changed.laid_out()];
    let files = ["before.json", "after.json"].map(|name| dir.join(name).display().to_string());
    for (root, file) in roots.iter().zip(&files) {
        Gdr::new().sysroot(root.path()).args(["snapshot", "-o", file]).run().assert_code(0);
    }
    let doctor = ["doctor", "--format", "json"];
    let report = Gdr::new().args(["--from", &files[0]]).args(doctor).run().stdout;
    let baseline = dir.join("baseline.json").display().to_string();
    fs::write(&baseline, report).expect("a file");
    [
        ("snapshot-diff".to_owned(), page(&["snapshot", "--diff", &files[0], &files[1]])),
        (
            "doctor-baseline".to_owned(),
            page(&["--from", &files[1], "doctor", "--baseline", &baseline]),
        ),
    ]
}

/// A job of nodes with eight ranks each, in a ring; two ranks use shared memory, one sends without GPUDirect RDMA.
fn ranks(count: usize) -> String {
    let node = |rank: usize| {
        format!("node{:02}:{}:{} [{}]", rank / 8 + 1, 1000 + rank, 1000 + rank, rank % 8)
    };
    let mut log = String::new();
    for rank in 0..count {
        log.push_str(&format!(
            "{} NCCL INFO ncclCommInitRank comm 0x{:x} rank {rank} nranks {count} cudaDev {} busId {:x} commId 0x9ab - Init COMPLETE\n",
            node(rank), 256 + rank, rank % 8, (rank % 8 + 1) << 12
        ));
    }
    for rank in 0..count {
        let next = (rank + 1) % count;
        let ends = format!("{rank}[{}] -> {next}[{}]", rank % 8, next % 8);
        let via = match rank {
            19 | 20 => "via SHM/direct/direct".to_owned(),
            31 => format!("[send] via NET/IB/{}", rank % 8),
            _ if rank % 8 == 7 => format!("[send] via NET/IB/{}/GDRDMA", rank % 8),
            _ => "via P2P/CUMEM".to_owned(),
        };
        log.push_str(&format!("{} NCCL INFO Channel 00/0 : {ends} {via}\n", node(rank)));
    }
    log
}

/// A job with everything that a page shows.
const JOB: &str = "\
    n1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n\
    n1:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n\
    n1:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 3 cudaDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
    n1:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 3 cudaDev 1 busId 70 commId 0x9 - Init COMPLETE\n\
    n2:3:3 [0] NCCL INFO ncclCommInitRank comm 0x3 rank 2 nranks 3 cudaDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
    n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n\
    n1:2:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0\n\
    n2:3:3 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 33 bytes, error: No space left on device (28)\n";

/// A fleet with everything that a page shows.
fn fleet(dir: &Path) -> String {
    let at = dir.join("fleet");
    fs::create_dir(&at).expect("a directory");
    reports::write_equal(&at, 6);
    let mut down = Node::good();
    down.at("0000:3c:00.0").rdma.as_mut().expect("a NIC").state = Some("1: DOWN".to_owned());
    let report = reports::doctor(&down, "n3", &[]).to_string();
    fs::write(at.join("n3.json"), report).expect("a file");
    fs::write(at.join("n4-p2p.json"), reports::p2p("n4", 4, Some((2, 3, 0.5))).to_string())
        .expect("a file");
    fs::write(at.join("n7.json"), "").expect("a file");
    at.display().to_string()
}

/// Text as it stands in HTML.
fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn pages_are_whole_and_small() {
    let dir = scratch();
    for (name, html) in pages(dir.path()) {
        assert!(html.len() < 1_000_000, "{name}: {} bytes", html.len());
        assert!(
            !html.contains("<script") && !html.contains(" src=") && !html.contains("url("),
            "{name}"
        );
        let links = html.matches("href=\"").count();
        assert_eq!(links, html.matches("href=\"#").count(), "{name}: a link leads out of the page");
        assert!(
            html.contains("<html lang=\"en\">") && html.trim_end().ends_with("</html>"),
            "{name}"
        );
    }
    // Every finding of the report is in the page.
    let snapshot = root().join("tests/recorded/h200-x4/snapshot.json").display().to_string();
    let html = page(&["--from", &snapshot, "doctor", "--profile", "all"]);
    let report = Gdr::new()
        .args(["--from", &snapshot, "doctor", "--profile", "all", "--format", "json"])
        .run();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.len() > 50);
    for finding in findings {
        for part in ["id", "subject", "message"] {
            let text = escaped(finding[part].as_str().expect("a text"));
            assert!(html.contains(&text), "{text}");
        }
    }
}

/// A thousand nodes, and a probe of many GPUs, still fit.
#[test]
fn large_reports_stay_below_a_megabyte() {
    let dir = scratch();
    let at = dir.path().join("many");
    fs::create_dir(&at).expect("a directory");
    for number in 0..300 {
        let mut report = reports::p2p(&format!("n{number}"), number, Some((1, 2, 0.3)));
        let results = report["results"].as_array_mut().expect("results");
        for (at, result) in results.iter_mut().enumerate() {
            result["verdict"] = json!("wrong");
            result["reason"] =
                json!(format!("byte {at} of node {number} is <{}>", "x".repeat(200)));
        }
        fs::write(at.join(format!("n{number}.json")), report.to_string()).expect("a file");
    }
    let html = page(&["fleet", "report", &at.display().to_string()]);
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert!(html.contains("findings are not listed"), "it says that something is left out");
}

#[test]
fn hostile_names_are_only_text() {
    const EVIL: &str = "</title></td></svg><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\u{1b}[31m'\"&";
    let dir = scratch();
    let mut node = Node::good();
    node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").fw = Some(EVIL.replace('\u{1b}', ""));
    node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").board = Some(EVIL.replace('\u{1b}', ""));
    node.gpu(0)["name"] = json!({ "known": EVIL });
    node.machine.extra.files.insert(
        "proc/sys/kernel/hostname".to_owned(),
        serde_json::from_value(json!(EVIL)).expect("a text"),
    );
    let laid_out = node.laid_out();
    let at = laid_out.path().display().to_string();
    let mut pages: Vec<String> = [&["doctor"][..], &["topo"], &["probe", "host"]]
        .iter()
        .map(|command| page(&[&["--sysroot", &at], *command].concat()))
        .collect();
    let mut report = reports::p2p(EVIL, 1, None);
    report["results"][0]["subject"] = json!(format!("{EVIL} > {EVIL}"));
    report["results"][0]["verdict"] = json!("wrong");
    report["results"][0]["reason"] = json!(EVIL);
    fs::write(dir.path().join("a.json"), report.to_string()).expect("a file");
    pages.push(page(&["fleet", "report", &dir.path().display().to_string()]));
    let mut seen = 0;
    for html in &pages {
        assert!(
            !html.contains("<script") && !html.contains("<img"),
            "markup of a name is markup of the page"
        );
        assert!(html.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')));
        seen += html.matches("&lt;script&gt;alert(1)").count();
    }
    assert!(seen > 8, "{seen}");
    let junit = Gdr::new().args(["fleet", "report", "--format", "junit"]).args([dir.path()]).run();
    assert!(!junit.stdout.contains("<script"), "{}", junit.stdout);
    roxmltree::Document::parse(&junit.stdout).expect("XML");
}

#[test]
fn junit_has_the_failures() {
    let snapshot = root().join("tests/recorded/h200-x1/snapshot.json").display().to_string();
    let run = Gdr::new().args(["--from", &snapshot, "doctor", "--format", "junit"]).run();
    run.assert_code(1);
    let xml = roxmltree::Document::parse(&run.stdout).expect("XML");
    let suite = xml.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    let cases: Vec<_> = xml.descendants().filter(|node| node.has_tag_name("testcase")).collect();
    assert_eq!(suite.attribute("tests"), Some(cases.len().to_string().as_str()));
    let failed: Vec<&str> = cases
        .iter()
        .filter(|case| case.children().any(|child| child.has_tag_name("failure")))
        .filter_map(|case| case.attribute("classname"))
        .collect();
    assert_eq!(failed, ["gdr.doctor.rdma.device"]);
    assert_eq!(suite.attribute("failures"), Some("1"));
    let probe = Gdr::new()
        .args(["probe", "copy", "--sim", "--quick", "--size", "4096", "--format", "junit"])
        .run();
    probe.assert_code(0);
    let xml = roxmltree::Document::parse(&probe.stdout).expect("XML");
    let suite = xml.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    assert_eq!((suite.attribute("failures"), suite.attribute("errors")), (Some("0"), Some("0")));
}

/// axe-core's source: where CI puts it, or a file of the caller.
fn axe() -> String {
    let file = std::env::var_os("GDR_AXE").map_or_else(
        || root().join("target/tools/axe_playwright_python/axe.min.js"),
        PathBuf::from,
    );
    let source = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        std::env::var_os("CI").is_none() || !source.is_empty(),
        "no axe-core: {}",
        file.display()
    );
    source
}

const AXE: [&str; 8] = [
    "hgx-acs-redirect-doctor",
    "vm-iommu-on-topo",
    "probe-copy",
    "fleet",
    "fleet-history",
    "explain-ranks",
    "snapshot-diff",
    "doctor-baseline",
];

/// The pages that axe looks at: one of each kind.
fn for_axe(name: &str) -> bool {
    AXE.contains(&name)
}

/// Runs the check in headless Chromium; the result by page.
fn look(dir: &Path, pages: &[(String, String)], dark: bool) -> Value {
    let policy = pages[0]
        .1
        .lines()
        .find(|line| line.contains("Content-Security-Policy"))
        .expect("a policy")
        .to_owned();
    let list: Vec<Value> = pages
        .iter()
        .map(|(name, html)| {
            let plain = if for_axe(name) { Some(html.replace(&policy, "")) } else { None };
            json!([name, html, plain])
        })
        .collect();
    let script = fs::read_to_string(root().join("tests/data/html-check.js")).expect("a script");
    // "</script>" inside would end the script.
    let safe = |text: String| text.replace("</", "<\\/").replace("<!--", "<\\!--");
    let harness = format!(
        "<!DOCTYPE html><meta charset=utf-8><body><script>const PAGES = {}; const AXE = {};\n{script}</script>",
        safe(Value::from(list).to_string()),
        safe(Value::from(axe()).to_string())
    );
    let file = dir.join("harness.html");
    fs::write(&file, harness).expect("a file");
    let scheme = format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 });
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=600000",
            "--window-size=1400,1000",
            &scheme,
        ])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium");
    let (dom, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:#?}");
    let result =
        dom.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let result = result.unwrap_or_else(|| panic!("no result: {log}"));
    let result = result
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", "\u{a0}")
        .replace("&amp;", "&");
    serde_json::from_str(&result).expect("JSON")
}

/// The structure of every page is as it was, blocks neither overlap nor leave the page at five widths from 375 to 1600 pixels, no
/// drawing is clipped, nothing is
/// reported on the console, and axe finds no violation, light and dark.
#[test]
#[ignore = "needs chromium"]
fn pages_are_laid_out_in_a_browser() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = pages(dir.path());
    let light = look(dir.path(), &pages, false);
    let some: Vec<(String, String)> =
        pages.iter().filter(|(name, _)| for_axe(name)).cloned().collect();
    assert_eq!(some.len(), AXE.len());
    let dark = look(dir.path(), &some, true);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim();
    let (mut wrong, mut outlines) = (Vec::new(), String::new());
    for (name, _) in &pages {
        for (scheme, results) in [("light", &light), ("dark", &dark)] {
            for kind in ["faults", "axe"] {
                // Only some pages are looked at in the dark.
                let found = results[name][kind].as_array().map_or(&[][..], Vec::as_slice);
                wrong.extend(found.iter().map(|fault| {
                    format!("{name}, {scheme}: {}", fault.as_str().unwrap_or_default())
                }));
            }
        }
        outlines.push_str(&format!("{name}\n"));
        for line in light[name]["outline"].as_array().expect("an outline") {
            let line = line.as_str().expect("a line");
            let line = line.replace(&format!("on {host}"), "on HOST");
            let mut line = line.replace(&dir.path().display().to_string(), "DIR");
            if name == "probe-copy" && line.starts_with("details") {
                // One result more for each kind of store that this CPU has.
                line = line.replace(|c: char| c.is_ascii_digit(), "9");
            }
            outlines.push_str(&format!("  {line}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let golden = root().join("tests/golden/html-outlines.txt");
    if std::env::var_os("GDR_BLESS").is_some() {
        fs::write(&golden, &outlines).expect("a file");
    }
    let before = fs::read_to_string(&golden).unwrap_or_default();
    for (before, now) in before.lines().zip(outlines.lines()) {
        assert_eq!(
            before, now,
            "the structure of a page changed: see GDR_BLESS in CONTRIBUTING.md"
        );
    }
    assert_eq!(before.lines().count(), outlines.lines().count());
}
