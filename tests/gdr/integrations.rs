//! The scripts and configurations of `integrations/`, each with the program that calls it or with what that program requires. Slurm
//! itself runs its scripts in `slurm_scripts`; the files for Kubernetes are in `kubernetes`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Gdr, Node, script};

const ACS: &str = "gdr: ACS redirects traffic at 0000:17:02.0";

pub fn integrations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations")
}

/// A machine, and a gdr that looks at it.
pub struct Place {
    dir: TempDir,
    machine: TempDir,
}

impl Place {
    fn new(node: &Node) -> Self {
        let place =
            Self { dir: tempfile::tempdir().expect("a directory"), machine: node.laid_out() };
        let gdr = env!("CARGO_BIN_EXE_gdr");
        let at = place.machine.path().display();
        script(&place.gdr(), &format!("#!/bin/sh\nexec {gdr} --sysroot {at} \"$@\"\n"));
        place
    }

    pub fn good() -> Self {
        Self::new(&Node::good())
    }

    /// Switch port 17:02.0 redirects a GPU's traffic.
    pub fn broken() -> Self {
        let mut node = Node::good();
        node.at("0000:17:02.0").acs_ctl =
            Some(serde_json::from_value("001d".into()).expect("a number"));
        Self::new(&node)
    }

    pub fn gdr(&self) -> PathBuf {
        self.dir.path().join("gdr")
    }

    pub fn run(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(args).env("GDR", self.gdr());
        command.output().expect("a program")
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn line_is_one_short_line_whatever_the_names() {
    let mut node = Node::good();
    let evil = format!("mlx5_0\u{1b}[31m\u{202e}{}", "x".repeat(300));
    node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").state = Some("1: DOWN".to_owned());
    node.at("0000:1b:00.0").rdma.as_mut().expect("a NIC").board = Some(evil.clone());
    node.gpu(0)["name"] = json!({ "known": evil });
    for profile in ["rdma", "all"] {
        let machine = node.laid_out();
        let run = Gdr::new()
            .sysroot(machine.path())
            .args(["doctor", "--profile", profile, "--format", "line"])
            .run();
        let line = run.stdout.strip_suffix('\n').expect("a line");
        assert!(line.starts_with("gdr: "), "{line}");
        assert!(line.chars().count() <= 240, "{line}");
        assert!(line.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{line}");
    }
    let run = |place: &Place, args: &[&str]| {
        let output = place.run(place.gdr(), &[&["doctor", "--format", "line"], args].concat());
        (output.status.code(), text(&output.stdout))
    };
    let acs = ["--only", "pcie.acs"];
    assert_eq!(run(&Place::good(), &acs), (Some(0), "gdr: nothing failed\n".to_owned()));
    let (code, line) = run(&Place::good(), &["--only", "rdma.device"]);
    assert_eq!(code, Some(3));
    assert!(line.starts_with("gdr: unknown: mlx5_0: /dev/infiniband/uverbs0"), "{line}");
    let (code, line) = run(&Place::broken(), &acs);
    assert_eq!(code, Some(1));
    assert!(line.starts_with(ACS), "{line}");
}

/// Slurm's health check changes a node only where it should. Stand-ins for scontrol and logger print what they are called with.
#[test]
fn slurm_health_check_keeps_other_reasons_and_unknown_nodes() {
    let scontrol = "#!/bin/sh\n[ \"$1\" = -o ] || { echo \"$*\"; exit; }\n\
        echo \"NodeName=n1 State=$STATE Weight=1 Reason=$REASON [root@2026-11-24T12:00:00]\"\n";
    let check = |place: &Place, options: &str, state: &str, reason: &str| {
        let at = place.dir.path();
        script(&at.join("scontrol"), scontrol);
        script(&at.join("logger"), "#!/bin/sh\necho \"$*\"\n");
        let conf = at.join("integrations.conf");
        let gdr = place.gdr();
        let text = format!("GDR={}\nGDR_OPTIONS='--only {options}'\n", gdr.display());
        fs::write(&conf, text).expect("a file");
        let output = Command::new(integrations().join("slurm/health-check.sh"))
            .env("PATH", format!("{}:/usr/bin:/bin", at.display()))
            .env("GDR_CONF", conf)
            .envs([("SLURMD_NODENAME", "n1"), ("STATE", state), ("REASON", reason)])
            .output();
        String::from_utf8_lossy(&output.expect("the script").stdout).into_owned()
    };
    let (good, broken) = (Place::good(), Place::broken());
    let drains = format!("update nodename=n1 state=drain reason={ACS}");
    for (state, reason) in [("IDLE", ""), ("IDLE+DRAIN", "gdr: gpu.present (GPU1)")] {
        let done = check(&broken, "pcie.acs", state, reason);
        assert!(done.starts_with(&drains), "{state}: {done}");
    }
    assert_eq!(check(&broken, "pcie.acs", "IDLE+DRAIN", "disk"), "");
    assert_eq!(check(&good, "pcie.acs", "IDLE+DRAIN", "disk"), "");
    assert_eq!(check(&good, "pcie.acs", "IDLE", ""), "");
    assert_eq!(
        check(&good, "pcie.acs", "IDLE+DRAIN", "gdr: x"),
        "update nodename=n1 state=resume\n"
    );
    // Unknown is not a pass, and an option that gdr does not take is not a failure of the node.
    for (options, words) in [
        ("rdma.device", "gdr: unknown: mlx5_0: /dev"),
        ("nonsense", "the node is left as it is: gdr doctor ended with 2: gdr: there"),
    ] {
        let done = check(&good, options, "IDLE+DRAIN", "gdr: x");
        let logged = format!("-t gdr-health-check n1: {words}");
        assert!(done.starts_with(&logged), "{done}");
        // Slurm logs what the program prints.
        let printed = format!("\ngdr-health-check: n1: {words}");
        assert!(done.contains(&printed), "{done}");
    }
    assert!(check(&broken, "pcie.acs", "IDLE", "").contains(&format!("\n{ACS}")));
}

/// NHC runs checks as bash functions, which call its `die` with a status and a reason.
#[test]
fn nhc_check_dies_with_what_failed() {
    let check = |place: &Place, options: &str| {
        let program = format!(
            "die() {{ echo \"die $1 $2\"; }}; . {}/nhc/gdr.nhc; check_gdr {options}; echo \"returned $?\"",
            integrations().display()
        );
        text(&place.run("bash", &["-c", &program]).stdout)
    };
    let acs = "--only pcie.acs";
    assert_eq!(check(&Place::good(), acs), "returned 0\n");
    // NHC knows no third outcome: unknown marks no node.
    assert_eq!(check(&Place::good(), "--only rdma.device"), "returned 0\n");
    let failed = check(&Place::broken(), acs);
    assert!(
        failed.starts_with(&format!("die 1 check_gdr:  {ACS}"))
            && failed.ends_with("\nreturned 1\n"),
        "{failed}"
    );
    assert_eq!(
        check(&Place::good(), "--only nonsense"),
        "die 1 check_gdr:  gdr doctor ended with 2\nreturned 1\n"
    );
}

/// The keys and rules are those that NPD's loader has: pkg/custompluginmonitor/types and pkg/types in its v1.36.0.
#[test]
fn npd_configuration_is_as_its_loader_requires() {
    let config = fs::read(integrations().join("node-problem-detector/gdr-monitor.json"));
    let config: Value = serde_json::from_slice(&config.expect("a file")).expect("JSON");
    let keys = |value: &Value| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().cloned().collect()
    };
    for (place, value, known) in [
        (
            "the file",
            &config,
            &["plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"][..],
        ),
        (
            "pluginConfig",
            &config["pluginConfig"],
            &[
                "invoke_interval",
                "timeout",
                "max_output_length",
                "concurrency",
                "enable_message_change_based_condition_update",
                "skip_initial_status",
            ],
        ),
        ("a condition", &config["conditions"][0], &["type", "reason", "message"]),
        (
            "a rule",
            &config["rules"][0],
            &["type", "condition", "reason", "path", "args", "timeout"],
        ),
    ] {
        for key in keys(value) {
            assert!(known.contains(&key.as_str()), "{place}: {key}");
        }
    }
    let seconds = |value: &Value| -> u64 {
        let text = value.as_str().and_then(|text| text.strip_suffix('s'));
        text.and_then(|text| text.parse().ok()).expect("seconds")
    };
    let rule = &config["rules"][0];
    assert_eq!(config["plugin"], "custom");
    assert_eq!(rule["type"], "permanent");
    assert_eq!(rule["condition"], config["conditions"][0]["type"]);
    assert!(seconds(&rule["timeout"]) <= seconds(&config["pluginConfig"]["timeout"]));
    let path = rule["path"].as_str().expect("a path");
    let installed = path.strip_prefix("/usr/share/gdr/integrations/");
    assert!(integrations().join(installed.expect("a path of the package")).is_file(), "{path}");
}

/// 0 is well, 1 a problem, all else unknown.
#[test]
fn npd_plugin_answers_by_exit_status() {
    let plugin = integrations().join("node-problem-detector/gdr-npd.sh");
    let ask = |place: &Place, options: &[&str]| {
        let output = place.run(&plugin, options);
        (output.status.code(), text(&output.stdout))
    };
    let acs = ["--only", "pcie.acs"];
    assert_eq!(ask(&Place::good(), &acs), (Some(0), "GPUDirect works\n".to_owned()));
    let (code, message) = ask(&Place::broken(), &acs);
    assert_eq!(code, Some(1));
    // NPD cuts at bytes.
    assert!(message.starts_with(ACS) && message.trim_end().len() <= 240, "{message}");
    let (code, message) = ask(&Place::good(), &["--only", "rdma.device"]);
    assert_eq!(code, Some(2));
    assert!(message.starts_with("gdr: unknown: mlx5_0: /dev"), "{message}");
    assert_eq!(
        ask(&Place::good(), &["--only", "nonsense"]),
        (Some(2), "gdr doctor ended with 2\n".to_owned())
    );
}

/// With a directory of Node Feature Discovery the plugin of the node problem detector sets a label too.
#[test]
fn npd_plugin_writes_a_label() {
    let plugin = integrations().join("node-problem-detector/gdr-npd.sh");
    let label = |place: &Place, check: &str| {
        let features = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(&plugin);
        command.args(["--only", check]).env("GDR", place.gdr()).env("GDR_LABELS", features.path());
        command.output().expect("the plugin");
        assert_eq!(fs::read_dir(features.path()).expect("a directory").count(), 1);
        fs::read_to_string(features.path().join("gdr")).expect("a label")
    };
    assert_eq!(label(&Place::good(), "pcie.acs"), "gdr.io/gpudirect=ready\n");
    assert_eq!(label(&Place::broken(), "pcie.acs"), "gdr.io/gpudirect=failed\n");
    assert_eq!(label(&Place::good(), "rdma.device"), "gdr.io/gpudirect=unknown\n");
}

#[test]
#[ignore = "needs promtool and systemd-analyze (Debian: prometheus, systemd)"]
fn metrics_are_replaced_whole_and_promtool_accepts_them() {
    let unit = integrations().join("prometheus/gdr-metrics.sh");
    let place = Place::broken();
    let at = tempfile::tempdir().expect("a directory");
    let directory = at.path().display().to_string();
    let output = place.run(&unit, &[&directory]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let file = at.path().join("gdr.prom");
    let metrics = fs::read_to_string(&file).expect("metrics");
    assert!(
        metrics.contains("gdr_finding{check=\"pcie.acs\",subject=\"0000:17:02.0\",severity=\"error\",outcome=\"fail\",action=\"fix\",drain=\"false\"} 1"),
        "{metrics}"
    );
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(&file).expect("a file"))
        .output()
        .expect("promtool");
    assert!(check.status.success(), "{}", text(&check.stderr));
    // A gdr that cannot run leaves the old metrics, whose age then shows it.
    script(&place.gdr(), "#!/bin/sh\necho half a li\nexit 2\n");
    assert_eq!(place.run(&unit, &[&directory]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).expect("metrics"), metrics);
    assert_eq!(fs::read_dir(at.path()).expect("a directory").count(), 1);
    // systemd accepts the units once the script is where they say.
    let units = at.path().join("units");
    fs::create_dir(&units).expect("a directory");
    for name in ["gdr-metrics.service", "gdr-metrics.timer"] {
        let text = fs::read_to_string(integrations().join("prometheus").join(name));
        let text = text
            .expect("a unit")
            .replace("/usr/share/gdr/integrations", &integrations().display().to_string());
        fs::write(units.join(name), text).expect("a unit");
    }
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(units.join("gdr-metrics.service"))
        .arg(units.join("gdr-metrics.timer"))
        .output()
        .expect("systemd-analyze");
    assert!(verify.status.success(), "{}", text(&verify.stderr));
    assert!(!text(&verify.stderr).contains("gdr-metrics"), "{}", text(&verify.stderr));
}

/// Every expression of the dashboard is PromQL, and it and the alerts ask for metrics that exist.
#[test]
#[ignore = "needs promtool (Debian: prometheus)"]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let file = integrations().join("grafana/gdr-dashboard.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array());
    let queries: Vec<&str> =
        targets.flatten().map(|target| target["expr"].as_str().expect("an expression")).collect();
    assert!(queries.len() > 5 && panels.iter().all(|panel| panel["targets"].is_array()));
    let rules: Vec<Value> = queries
        .iter()
        .enumerate()
        .map(|(at, query)| json!({ "record": format!("gdr:panel:{at}"), "expr": query }))
        .collect();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("rules.json");
    let groups = json!({ "groups": [{ "name": "gdr", "rules": rules }] });
    fs::write(&file, groups.to_string()).expect("a file");
    promtool(&["check", "rules"], &file);
    let place = Place::good();
    let metrics = place.run(place.gdr(), &["doctor", "--format", "prometheus"]).stdout;
    let metrics = text(&metrics);
    let alerts = fs::read_to_string(integrations().join("prometheus/gdr-alerts.yml"));
    let alerts = alerts.expect("rules");
    for (what, texts) in [("dashboard", queries), ("alerts", alerts.lines().collect())] {
        let words =
            texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let mut names: Vec<&str> = words.filter(|word| word.starts_with("gdr_")).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() > 4, "{what}: {names:?}");
        for name in names {
            let has = |kind: &str| metrics.contains(&format!("\n# TYPE {name} {kind}\n"));
            assert!(
                metrics.starts_with(&format!("# HELP {name} ")) || has("gauge") || has("counter"),
                "{what}: {name}"
            );
        }
    }
}

/// Each alert fires for a planted state and is silent for a healthy node.
#[test]
#[ignore = "needs promtool (Debian: prometheus)"]
fn alerts_fire_and_are_silent() {
    let tests = integrations().join("prometheus/gdr-alerts-test.yml");
    promtool(&["test", "rules"], &tests);
    // Every alert has a firing and a silent case.
    let read = |name: &str| {
        fs::read_to_string(integrations().join("prometheus").join(name)).expect("a file")
    };
    let (rules, cases) = (read("gdr-alerts.yml"), read("gdr-alerts-test.yml"));
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 5, "{alerts:?}");
    for alert in alerts {
        assert!(cases.contains(&format!("alertname: {alert}\n")), "{alert} never fires");
        assert!(
            cases.contains(&format!("alertname: {alert}, exp_alerts: []")),
            "{alert} is never silent"
        );
    }
}

fn promtool(command: &[&str], file: &Path) {
    let done = Command::new("promtool").args(command).arg(file).output().expect("promtool");
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
}

/// Metrics have one series for each device and check, and numbers of links and ports; the script takes a site's profile.
#[test]
fn metrics_are_by_device() {
    let place = Place::broken();
    let metrics = text(&place.run(place.gdr(), &["doctor", "--format", "prometheus"]).stdout);
    for line in [
        "gdr_finding{check=\"gpu.mig\",subject=\"GPU0 (0000:18:00.0)\",severity=\"warn\",outcome=\"pass\"} 1",
        "gdr_finding{check=\"gpu.mig\",subject=\"GPU7 (0000:cb:00.0)\",severity=\"warn\",outcome=\"pass\"} 1",
        "gdr_link_width_lanes{device=\"GPU0\",bdf=\"0000:18:00.0\"} 16",
        "gdr_link_max_speed_transfers_per_second{device=\"GPU0\",bdf=\"0000:18:00.0\"} 32000000000",
        "gdr_bar1_size_bytes{device=\"GPU0\",bdf=\"0000:18:00.0\"} 137438953472",
        "gdr_port_active{port=\"mlx5_0:1\"} 1",
        "gdr_port_rate_bytes_per_second{port=\"mlx5_0:1\"} 50000000000",
        "gdr_ready{profile=\"rdma\"} 0",
        "gdr_undetermined{profile=\"rdma\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // Nothing prevents it as far as this snapshot says, which lacks libraries.
    let good = Place::good();
    let open = good.run(good.gdr(), &["doctor", "--format", "prometheus"]);
    let open = text(&open.stdout);
    for line in ["gdr_ready{profile=\"rdma\"} 0", "gdr_undetermined{profile=\"rdma\"} 1"] {
        assert!(open.contains(line), "{line} is not in {open}");
    }
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    for line in samples.filter(|line| line.starts_with("gdr_finding{")) {
        assert!(!line.contains("), "), "a list of devices: {line}");
    }
    assert!(metrics.contains("\ngdr_last_run_timestamp_seconds 1"), "{metrics}");
    // Options of the command line, and those of the configuration.
    let at = tempfile::tempdir().expect("a directory");
    let (directory, conf) = (at.path().display().to_string(), at.path().join("integrations.conf"));
    let unit = integrations().join("prometheus/gdr-metrics.sh");
    let profiles = |args: &[&str]| {
        let mut command = Command::new(&unit);
        let output = command.args(args).env("GDR", place.gdr()).env("GDR_CONF", &conf).output();
        assert!(output.expect("the script").status.success());
        let metrics = fs::read_to_string(at.path().join("gdr.prom")).expect("metrics");
        let ready = metrics.lines().filter(|line| line.starts_with("gdr_ready{"));
        ready.map(|line| line.split('"').nth(1).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(profiles(&[&directory]), ["rdma"]);
    assert_eq!(profiles(&[&directory, "--profile", "p2p"]), ["p2p"]);
    fs::write(&conf, "GDR_OPTIONS='--profile gdrcopy'\n").expect("a file");
    assert_eq!(profiles(&[&directory]), ["gdrcopy"]);
}
