//! The files for Kubernetes of `integrations/`: validated, and run as a cluster would, because none is to be had here.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fakes::uverbs;
use serde_json::{Value, json};

use crate::fleet_links::{LONG_WAIT, assert_measured};
use crate::integrations::{Place, integrations, text};
use crate::support::{Gdr, free_port, script};

/// A Python program with the packages of `.ci/kubernetes.txt`.
fn python(program: &str, args: &[&Path]) -> Output {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
    let mut command = Command::new("python3");
    command.args(["-c", program]).args(args);
    command.env("PYTHONPATH", tools);
    command.output().expect("python3")
}

/// Whether a manifest is valid for the newest Kubernetes that the package knows, without unknown fields.
fn validate(file: &Path) -> Result<(), String> {
    const PROGRAM: &str = "import sys, yaml, kubernetes_validate as kv\n\
        for document in yaml.safe_load_all(open(sys.argv[1])):\n    \
        kv.validate(document, kv.latest_version(), strict=True)\n    \
        print(document['kind'])\n";
    let output = python(PROGRAM, &[file]);
    if output.status.success() && !output.stdout.is_empty() {
        Ok(())
    } else {
        Err(text(&output.stderr))
    }
}

#[test]
#[ignore = "needs kubernetes-validate (pip install --target target/tools -r .ci/kubernetes.txt)"]
fn manifests_are_valid_for_kubernetes() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["daemonset.yaml", "indexed-job.yaml", "indexed-job-probe.yaml"] {
        let file = integrations().join("kubernetes").join(name);
        assert_eq!(validate(&file), Ok(()), "{name}");
        let wrong = fs::read_to_string(&file).expect("a manifest");
        let wrong = wrong.replace("hostNetwork: true", "hostNetworks: true");
        let at = dir.path().join(name);
        fs::write(&at, wrong).expect("a file");
        let error = validate(&at).expect_err("an unknown field");
        assert!(error.contains("hostNetworks"), "{error}");
    }
}

/// What kubectl makes of a kustomization.
fn kustomized(directory: &str) -> String {
    let output =
        Command::new("kubectl").arg("kustomize").arg(integrations().join(directory)).output();
    let output = output.expect("kubectl");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
#[ignore = "needs kubectl and kubernetes-validate (pip install --target target/tools -r .ci/kubernetes.txt)"]
fn kustomizations_are_valid_for_kubernetes() {
    let dir = tempfile::tempdir().expect("a directory");
    for directory in ["kubernetes", "kubernetes/preflight-example", "node-problem-detector"] {
        let file = dir.path().join("all.yaml");
        fs::write(&file, kustomized(directory)).expect("a file");
        assert_eq!(validate(&file), Ok(()), "{directory}");
    }
    // The detector starts the plugin where the monitor says it is, from the map of the same name.
    let all = kustomized("node-problem-detector");
    let plugin = "/usr/share/gdr/integrations/node-problem-detector";
    assert!(all.contains(&format!("\"path\": \"{plugin}/gdr-npd.sh\"")), "{all}");
    assert!(all.contains(&format!("mountPath: {plugin}\n")), "{all}");
}

/// The init container has the environment of the job's container, runs as its manifest says, and ends with the finding.
#[test]
#[ignore = "needs kubectl and kubernetes-validate (pip install --target target/tools -r .ci/kubernetes.txt)"]
fn preflight_ends_a_bad_pod_with_the_finding() {
    const PROGRAM: &str =
        "import sys, json, yaml\nprint(json.dumps(yaml.safe_load(open(sys.argv[1]))))\n";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("job.yaml");
    fs::write(&file, kustomized("kubernetes/preflight-example")).expect("a file");
    let job: Value = serde_json::from_slice(&python(PROGRAM, &[&file]).stdout).expect("JSON");
    let pod = &job["spec"]["template"]["spec"];
    let check = &pod["initContainers"][0];
    assert_eq!(check["env"], pod["containers"][0]["env"]);
    assert_eq!(check["terminationMessagePolicy"], "FallbackToLogsOnError");
    let args: Vec<&str> =
        check["args"].as_array().expect("args").iter().filter_map(Value::as_str).collect();
    let run = |place: &Place| {
        let output = place.run(place.gdr(), &args);
        (output.status.code(), text(&output.stdout))
    };
    // Without root much is unknown, which stops no job.
    let (code, line) = run(&Place::good());
    assert_eq!(code, Some(0), "{line}");
    let (code, line) = run(&Place::broken());
    assert_eq!(code, Some(1), "{line}");
    assert!(line.contains("pcie.acs"), "{line}");
}

/// Runs the pods of a job as processes of this machine, with the arguments and variables that its manifest and Kubernetes give them. The name of
/// pod 0 is the one that the headless service would give it; here /etc/hosts has it.
fn run_job(manifest: &str, gdr: &Path, more: &[&str], variables: &[(&str, &Path)]) -> Vec<Output> {
    const PROGRAM: &str = "import sys, json, yaml\n\
        print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))\n";
    const AS_POD: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let file = integrations().join("kubernetes").join(manifest);
    let documents = python(PROGRAM, &[&file]).stdout;
    let documents: Value = serde_json::from_slice(&documents).expect("JSON");
    let [service, job] = documents.as_array().expect("documents").as_slice() else {
        panic!("a service and a job: {documents}")
    };
    let (spec, pod) = (&job["spec"], &job["spec"]["template"]["spec"]);
    assert_eq!(spec["completionMode"], "Indexed");
    // Pods of a job have its name in this label, and the service gives them names below its own.
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["selector"]["job-name"], job["metadata"]["name"]);
    assert_eq!(pod["subdomain"], service["metadata"]["name"]);
    let name = |document: &Value| document["metadata"]["name"].as_str().expect("a name").to_owned();
    let first = format!("{}-0.{}", name(job), name(service));
    let hosts = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&hosts, format!("127.0.0.1 localhost {first}\n")).expect("a file");
    let container = &pod["containers"][0];
    let list = |name: &str| container[name].as_array().expect("a list");
    let args = list("args").iter().map(|arg| arg.as_str().expect("a text"));
    let port = free_port();
    let pods = spec["completions"].as_u64().expect("a number");
    let start = |index: u64| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", AS_POD]).arg(hosts.path()).arg(gdr);
        command.args(args.clone()).args(["--format", "json"]).args(more);
        for variable in list("env") {
            let name = variable["name"].as_str().expect("a name");
            let value = match name {
                "GDR_FLEET_NODE" => format!("worker-{index}"),
                "GDR_PROBE_SECRET" => "5a".repeat(32),
                _ => variable["value"].as_str().expect("a value").to_owned(),
            };
            command.env(name, value);
        }
        command
            .envs(variables.iter().copied())
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .env("GDR_FLEET_PORT", &port)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("gdr")
    };
    let pods: Vec<_> = (0..pods).map(start).collect();
    let end = |pod: std::process::Child| pod.wait_with_output().expect("gdr");
    pods.into_iter().map(end).collect()
}

/// The report of pod 0.
fn first(outputs: &[Output]) -> Value {
    let errors = || outputs.iter().map(|output| text(&output.stderr)).collect::<String>();
    serde_json::from_slice(&outputs[0].stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", errors()))
}

#[test]
#[ignore = "needs root and kubernetes-validate (pip install --target target/tools -r .ci/kubernetes.txt)"]
fn doctor_job_runs_as_its_manifest_says() {
    let place = Place::good();
    let outputs = run_job("indexed-job.yaml", &place.gdr(), &[], &[]);
    let report = first(&outputs);
    assert_eq!(report["groups"][0]["nodes"], "worker-[0-3]", "{report:#}");
    assert_eq!(report["absent"], json!([]));
}

#[test]
#[ignore = "needs root, libmlx5 and kubernetes-validate (pip install --target target/tools -r .ci/kubernetes.txt)"]
fn probe_job_runs_as_its_manifest_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let nic = uverbs::nic(&dir.path().join("sys")).expect("a NIC");
    let nic = nic.iter().map(|(name, value)| (*name, Path::new(value)));
    // No file system is writable in its container.
    let more = [
        ("FAKE_UVERBS_PEERS", dir.path()),
        ("TMPDIR", Path::new("/nonexistent")),
        (LONG_WAIT.0, Path::new(LONG_WAIT.1)),
    ];
    let variables: Vec<(&str, &Path)> = nic.chain(more).collect();
    let options = ["--", "--quick", "--memory", "host", "--size", "8,4096", "--device", "mlx5_0:1"];
    let gdr = Path::new(env!("CARGO_BIN_EXE_gdr"));
    let outputs = run_job("indexed-job-probe.yaml", gdr, &options, &variables);
    let report = first(&outputs);
    let names = report["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["worker-0", "worker-1", "worker-2", "worker-3"]);
    assert_measured(&report, 6);
    for output in &outputs[1..] {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
#[ignore = "needs jq"]
fn nodes_are_labelled_by_a_report() {
    let label = integrations().join("kubernetes/label-nodes.sh");
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    script(&dir.path().join("kubectl"), &format!("#!/bin/sh\necho \"$*\" >> {}\n", log.display()));
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let run = |report: &Value| {
        let file = dir.path().join("report.json");
        fs::write(&file, report.to_string()).expect("a file");
        let mut command = Command::new(&label);
        command.arg(&file).env("PATH", &path);
        command.output().expect("the script")
    };
    // A report that gdr makes: one node is well, one fails, one has no report.
    let reports = dir.path().join("reports");
    fs::create_dir(&reports).expect("a directory");
    for (name, place) in [("worker-1", Place::good()), ("worker-2", Place::broken())] {
        let args = ["doctor", "--only", "pcie.acs", "--format", "json"];
        let document = place.run(place.gdr(), &args).stdout;
        fs::write(reports.join(format!("{name}.json")), document).expect("a file");
    }
    let merged = Gdr::new()
        .args(["fleet", "report", "--format", "json", "--by-file"])
        .args(["--nodes", "worker-[1-3]"])
        .args([&reports])
        .run();
    merged.assert_code(1);
    let mut report: Value = serde_json::from_str(&merged.stdout).expect("JSON");
    let output = run(&report);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(&log).expect("a log"),
        "label node worker-1 --overwrite gdr.io/gpudirect-rdma=ready\n\
         label node worker-2 gdr.io/gpudirect-rdma-\n\
         label node worker-3 gdr.io/gpudirect-rdma-\n"
    );
    // No name becomes an option of kubectl, and no other document is taken.
    fs::remove_file(&log).expect("a log");
    for name in ["--all", "a b", "$(id)", "worker-1\nworker-2", ""] {
        report["nodes"] = json!([{ "name": name, "state": "ok" }]);
        report["absent"] = json!([]);
        run(&report);
    }
    assert!(!log.exists(), "{:?}", fs::read_to_string(&log));
    report["schema"] = json!("gdr.doctor/1");
    let output = run(&report);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not a report of gdr fleet"));
}
