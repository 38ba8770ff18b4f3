//! gdr on a real kernel, in the virtual machines of `cargo xtask vm`, compared with lspci there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use xtask::vm::{Image, Job, cut_off, named, run, systemd_disk};

#[path = "../../../tests/support/need.rs"]
#[allow(dead_code, reason = "the other tests need what these do not")]
mod need;

use need::{Need, need};

const DEADLINE: Duration = Duration::from_secs(900);

fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .expect("the repository")
    })
}

/// A program of the workspace, below `target/debug`. Cargo gives a test only its own package's binaries; with this selection
/// nothing is compiled that a run of all tests has not compiled already.
fn built(program: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--bins", "--examples"])
            .current_dir(root())
            .status()
            .expect("cargo");
        assert!(built.success(), "the workspace does not build");
    });
    root().join("target/debug").join(program)
}

/// A number that whoever runs the tests may choose.
fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |number| number.parse().expect("a number"))
}

/// How often a repair is killed at a random moment, besides at each of its steps: `GDR_KILLS`.
fn kills() -> u64 {
    from_environment("GDR_KILLS", 2)
}

/// Runs a script in a machine; where its files are. None where this machine cannot run one.
fn in_machine(machine: &str, script: &str, binaries: Vec<PathBuf>) -> Option<PathBuf> {
    if !(need(Need::Qemu) && need(Need::Root)) {
        return None;
    }
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests").join(format!("{machine}-{script}"));
    let job = Job {
        script: root().join("tests/vm").join(format!("{script}.sh")),
        binaries,
        timeout: DEADLINE,
        files: files.clone(),
        variables: vec![("GDR_KILLS", kills().to_string())],
        disk: None,
    };
    let outcome = run(named(machine).expect("a machine"), &image, &job).expect("it runs");
    assert!(
        outcome.passed(),
        "{machine} {script}: {}",
        serde_json::to_string_pretty(&outcome).expect("JSON")
    );
    Some(files)
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each function's ports above it, outermost first, from `lspci -D -PP`.
fn lspci_paths(text: &str) -> BTreeMap<String, Vec<String>> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(path, _)| {
            let domain = &path[..5];
            let mut parts: Vec<String> = path
                .split('/')
                .map(|part| match part.matches(':').count() {
                    2 => part.to_owned(),
                    _ => format!("{domain}{part}"),
                })
                .collect();
            (parts.pop().expect("a function"), parts)
        })
        .collect()
}

/// The ACS control line of each function that has one, from `lspci -D -vvv`.
fn lspci_acs(text: &str) -> BTreeMap<String, String> {
    let mut function = String::new();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_ascii_hexdigit()) {
            function = line.split(' ').next().expect("an address").to_owned();
        } else if let Some((_, bits)) = line.split_once("ACSCtl:") {
            found.insert(function.clone(), bits.trim().to_owned());
        }
    }
    found
}

/// A control register's bits as lspci writes them (PCI Express 7.7.11.3).
fn as_lspci(control: u64) -> String {
    let names = [
        "SrcValid",
        "TransBlk",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "EgressCtrl",
        "DirectTrans",
    ];
    let flags = names.iter().enumerate().map(|(bit, name)| {
        let sign = if control >> bit & 1 == 1 { '+' } else { '-' };
        format!("{name}{sign}")
    });
    flags.collect::<Vec<_>>().join(" ")
}

/// Every path's legs and every port's ACS bits are those of lspci.
fn compare_forest(files: &Path) {
    let topo = json(&files.join("topo.json"));
    let paths = lspci_paths(&fs::read_to_string(files.join("lspci-path.txt")).expect("lspci -PP"));
    let acs = lspci_acs(&fs::read_to_string(files.join("lspci-vvv.txt")).expect("lspci -vvv"));
    let mut ports = BTreeSet::new();
    for path in topo["paths"].as_array().expect("paths") {
        let hops: Vec<&str> = path["hops"]
            .as_array()
            .expect("hops")
            .iter()
            .map(|h| h["bdf"].as_str().expect("bdf"))
            .collect();
        let (first, last) = (hops[0], hops[hops.len() - 1]);
        let (up, down) = (&paths[first], &paths[last]);
        let common = up.iter().zip(down).take_while(|(a, b)| a == b).count();
        let mut wanted: Vec<&str> = vec![first];
        wanted.extend(up[common..].iter().rev().map(String::as_str));
        if common > 0 {
            wanted.push(&up[common - 1]);
        }
        wanted.extend(down[common..].iter().map(String::as_str));
        wanted.push(last);
        assert_eq!(hops, wanted, "{} to {}", path["from"], path["to"]);
        for hop in path["hops"].as_array().expect("hops") {
            let bdf = hop["bdf"].as_str().expect("bdf");
            let said = hop["acs"]["known"].as_u64().map(as_lspci);
            assert_eq!(said.as_ref(), acs.get(bdf), "ACS of {bdf}");
            if said.is_some() {
                ports.insert(bdf.to_owned());
            }
        }
    }
    let all: BTreeSet<String> = acs.keys().cloned().collect();
    assert_eq!(ports, all, "ports with ACS");
    assert_eq!(all.len(), 6, "the machine has six ports with ACS");
}

fn acs_findings(files: &Path, report: &str) -> Vec<Value> {
    let report = json(&files.join(report));
    let all = report["findings"].as_array().expect("findings");
    all.iter()
        .filter(|finding| finding["id"] == "pcie.acs")
        .cloned()
        .collect()
}

/// gdr on a file that came out of a guest.
fn gdr_from(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(built("gdr"));
    command.env_clear().arg("--from").arg(file).args(args);
    command.output().expect("gdr runs")
}

/// What it says, as JSON.
fn from(file: &Path, args: &[&str]) -> Value {
    let output = gdr_from(file, args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{} {args:?}: {error}: {said}", file.display())
    })
}

/// A snapshot says here what its machine said there, byte for byte and with its exit status, to root and to a user.
fn compare_replays(files: &Path) {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let questions = text(&files.join("questions.txt"));
    assert!(questions.lines().count() > 5, "{questions}");
    for (who, snapshot) in [("root", "snapshot-root.json.zst"), ("user", "snapshot-user.json")] {
        for question in questions.lines() {
            let name = question.replace(' ', "_");
            let live = text(&files.join(who).join(&name));
            let status = text(&files.join(who).join(name + ".status"));
            let args: Vec<&str> = question.split(' ').collect();
            let replayed = gdr_from(&files.join(snapshot), &args);
            assert!(!live.is_empty(), "{question} as {who}");
            assert_eq!(String::from_utf8_lossy(&replayed.stdout), live, "{question} as {who}");
            assert_eq!(
                replayed.status.code(),
                status.trim().parse().ok(),
                "{question} as {who}"
            );
        }
    }
}

/// The class of each pair, by address.
fn classes(topo: &Value) -> BTreeMap<(String, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses: BTreeMap<String, String> = topo["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|device| (text(&device["name"]), text(&device["bdf"])))
        .collect();
    let mut classes = BTreeMap::new();
    for (a, row) in topo["matrix"].as_object().expect("a matrix") {
        for (b, class) in row.as_object().expect("a row") {
            classes.insert((addresses[a].clone(), addresses[b].clone()), text(class));
        }
    }
    classes
}

/// The verdict on each port, by its address; a finding may be about several.
fn acs_verdicts(report: &Value) -> BTreeMap<String, String> {
    let all = report["findings"].as_array().expect("findings");
    let acs = all.iter().filter(|finding| finding["id"] == "pcie.acs");
    let each = acs.flat_map(|finding| {
        let subject = finding["subject"].as_str().expect("a subject");
        let outcome = finding["outcome"].as_str().expect("an outcome");
        subject
            .split(", ")
            .map(move |port| (port.to_owned(), outcome.to_owned()))
    });
    each.collect()
}

/// What lspci printed of the machine, read back: the same classes, and of each port the same verdict.
fn compare_dumps(files: &Path) {
    let live = classes(&json(&files.join("topo.json")));
    for dump in ["lspci-vvv.txt", "lspci-xxxx.txt"] {
        let told = classes(&from(&files.join(dump), &["topo", "--format", "json"]));
        // Rows that both have: lspci has no RDMA devices, and takes InfiniBand controllers for them.
        let known = told.iter().filter(|(_, class)| !class.is_empty());
        let both: Vec<_> = known
            .filter_map(|(pair, class)| Some((pair, class, live.get(pair)?)))
            .collect();
        let devices: BTreeSet<_> = both.iter().map(|((a, _), ..)| a).collect();
        assert!(both.len() > devices.len(), "{dump} tells of no pair: {told:#?}");
        for (pair, told, here) in both {
            assert_eq!(told, here, "{dump}: {pair:?}");
        }
        let report = from(
            &files.join(dump),
            &["doctor", "--platform", "bare-metal", "--format", "json"],
        );
        let told = acs_verdicts(&report);
        let here = acs_verdicts(&json(&files.join("doctor-before.json")));
        // Below the switch all is told; whether QEMU's ports on its extra host bridges are root ports is not.
        let below: Vec<_> = here.iter().filter(|(port, _)| port.starts_with("0000:42:")).collect();
        assert!(!below.is_empty());
        for (port, verdict) in below {
            assert_eq!(told.get(port), Some(verdict), "{dump}: {port}: {told:#?}");
        }
        for (port, verdict) in told {
            let same = here.get(&port) == Some(&verdict);
            assert!(same || verdict == "unknown", "{dump}: {port}: {verdict}");
        }
    }
}

fn acs_job(machine: &str) -> Option<PathBuf> {
    // Debian's own, which can change users; busybox has another of that name.
    in_machine(machine, "acs", vec![built("gdr"), PathBuf::from("/usr/bin/setpriv")])
}

#[test]
fn with_the_iommu_on_the_ports_are_found_and_the_named_commands_cure_them() {
    let Some(files) = acs_job("iommu-on") else { return };
    compare_forest(&files);
    compare_dumps(&files);
    compare_replays(&files);

    // Below one switch it fails; in one host bridge it warns; between host bridges, where clearing mends nothing, it is told.
    let between = "0000:40:00.0";
    let wanted = [
        (between, "info"),
        ("0000:42:00.0", "fail"),
        ("0000:42:01.0", "fail"),
        ("0000:42:02.0", "fail"),
        ("0000:80:00.0", "warn"),
        ("0000:80:01.0", "warn"),
    ];
    let before = acs_findings(&files, "doctor-before.json");
    assert_eq!(before.len(), wanted.len(), "{before:#?}");
    for (finding, (port, outcome)) in before.iter().zip(wanted) {
        assert_eq!(
            (&finding["subject"], &finding["outcome"]),
            (&port.into(), &outcome.into())
        );
        let message = finding["message"].as_str().expect("a message");
        assert!(
            message.contains("ReqRedir") && message.contains("CmpltRedir"),
            "{message}"
        );
        // SrcValid and UpstreamFwd stay: 0x1d without 0x0c.
        let command = format!("setpci -s {port} ECAP_ACS+0x6.w=0011");
        let command = if port == between { Value::Null } else { command.into() };
        assert_eq!(finding["fix"]["command"], command);
    }
    let after = acs_findings(&files, "doctor-after.json");
    let cured = |finding: &Value| finding["outcome"] == "pass" || finding["subject"] == between;
    assert!(after.iter().all(cured), "{after:#?}");
    let lspci = lspci_acs(&fs::read_to_string(files.join("lspci-vvv-after.txt")).expect("lspci -vvv"));
    for (port, bits) in lspci.into_iter().filter(|(port, _)| port != between) {
        assert!(
            bits.contains("ReqRedir-") && bits.contains("CmpltRedir-") && bits.contains("SrcValid+"),
            "{port}: {bits}"
        );
    }
    // A guest judges no port that belongs to its host, and a user without rights knows nothing of them.
    let guest = acs_findings(&files, "root/doctor_--format_json");
    assert!(guest.iter().all(|finding| finding["outcome"] == "skip"), "{guest:#?}");
    let user = acs_findings(&files, "doctor-user.json");
    assert!(
        !user.is_empty()
            && user
                .iter()
                .all(|finding| finding["outcome"] == "unknown" && finding["needs"] == "root"),
        "{user:#?}"
    );
}

#[test]
fn with_the_iommu_off_the_ports_are_clean() {
    let Some(files) = acs_job("iommu-off") else { return };
    compare_forest(&files);
    compare_dumps(&files);
    compare_replays(&files);
    let found = acs_findings(&files, "doctor-before.json");
    assert!(
        !found.is_empty() && found.iter().all(|finding| finding["outcome"] == "pass"),
        "{found:#?}"
    );
    assert_eq!(fs::read_to_string(files.join("commands.txt")).expect("commands"), "");
}

/// Found, made, read by setpci, taken back to the last byte; twice at once; and killed at every step of six.
#[test]
fn ports_are_repaired_and_taken_back() {
    if !need(Need::Strace) {
        return;
    }
    let binaries = vec![
        built("gdr"),
        PathBuf::from("/usr/bin/setpriv"),
        PathBuf::from("/usr/bin/strace"),
    ];
    let Some(files) = in_machine("iommu-on", "fix", binaries) else {
        return;
    };
    let user = fs::read_to_string(files.join("user.txt")).expect("what a user is told");
    assert!(user.contains("sudo gdr fix-acs --platform=bare-metal --yes"), "{user}");
    let unasked = fs::read_to_string(files.join("unasked.txt")).expect("what is said without --yes");
    assert!(unasked.contains("--yes"), "{unasked}");
}

/// A unit of systemd makes the repair again in a second boot of the same system; and all of it is taken back there.
#[test]
fn a_repair_lasts_over_a_boot() {
    if !(need(Need::Qemu) && need(Need::Root) && need(Need::Mmdebstrap)) {
        return;
    }
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests/systemd");
    fs::create_dir_all(&files).expect("a directory");
    let disk = files.join("disk");
    systemd_disk(&image, &disk).expect("a disk");
    let job = |boot: &str| Job {
        script: root().join("tests/vm/persist.sh"),
        binaries: vec![built("gdr")],
        timeout: DEADLINE,
        files: files.join(boot),
        variables: Vec::new(),
        disk: Some(disk.clone()),
    };
    for boot in ["first", "second"] {
        let outcome = run(named("systemd").expect("a machine"), &image, &job(boot)).expect("it runs");
        assert!(
            outcome.passed(),
            "{boot} boot: {}",
            serde_json::to_string_pretty(&outcome).expect("JSON")
        );
    }
    fs::remove_file(disk).expect("the disk goes");
}

/// The plug is pulled while a repair is made: the next boot takes back what is left of it, and nothing is half written.
///
/// Each cut takes a boot: one here, and as many as `GDR_POWER_CUTS` says.
#[test]
fn a_power_cut_loses_nothing() {
    if !(need(Need::Qemu) && need(Need::Root)) {
        return;
    }
    let cuts = from_environment("GDR_POWER_CUTS", 1);
    let image = Image::prepare(&root().join("target/vm")).expect("an image");
    let files = root().join("target/vm/tests/power");
    fs::create_dir_all(&files).expect("a directory");
    let disk = files.join("disk");
    fs::File::create(&disk)
        .and_then(|file| file.set_len(64 << 20))
        .expect("a disk");
    let made = Command::new("/sbin/mke2fs")
        .args(["-q", "-t", "ext4"])
        .arg(&disk)
        .status();
    assert!(made.expect("mke2fs of e2fsprogs").success());
    let job = Job {
        script: root().join("tests/vm/power.sh"),
        binaries: vec![built("gdr")],
        timeout: DEADLINE,
        files,
        variables: Vec::new(),
        disk: Some(disk),
    };
    let machine = named("iommu-on").expect("a machine");
    let mut half_way = 0;
    for cut in 0..=cuts {
        // Spread over the time that a repair takes there, by a step that shares no factor with it.
        let after = Duration::from_millis(cut * 37 % 200);
        let console = cut_off(machine, &image, &job, "power: begun", after).expect("it runs");
        assert!(
            console.contains("power: whole") && !console.contains("power: differs"),
            "after cut {cut}: {console}"
        );
        half_way += usize::from(console.contains("as it was before") || console.contains("a reboot has reset it"));
    }
    let told = format!("{cuts} power cuts; {half_way} boots found something to take back\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes());
}

#[test]
fn soft_rdma_sits_where_its_network_device_sits() {
    let Some(files) = in_machine("rxe", "soft-rdma", vec![built("gdr")]) else {
        return;
    };
    let netdev = fs::read_to_string(files.join("netdev.txt")).expect("the netdev's place");
    let topo = json(&files.join("topo.json"));
    let nic = &topo["devices"][0];
    let bdf = nic["bdf"].as_str().expect("an address");
    assert!(netdev.contains(&format!("/{bdf}/")), "{bdf} is not in {netdev}");
    assert_eq!(
        (&nic["label"], &nic["software"], &nic["active"]),
        (&"rxe0".into(), &true.into(), &true.into())
    );
    let report = json(&files.join("doctor.json"));
    let all = report["findings"].as_array().expect("findings");
    let finding = all
        .iter()
        .find(|f| f["id"] == "rdma.device" && f["subject"] == "rxe0")
        .expect("a finding");
    assert_eq!(finding["outcome"], "info", "{finding}");
}

#[test]
fn rdma_works_in_one_guest_and_between_two() {
    if in_machine("rxe", "rxe", Vec::new()).is_some() {
        in_machine("two-guests", "two-guests", Vec::new());
    }
}

/// The program that holds the double of gdrdrv to the driver's ABI.
fn exercise() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exercise");
    let built = Command::new("gcc-12")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "exercise.c", "ask.c", "-o"])
        .arg(&program)
        .current_dir(root().join("tests/vm/gdrdrv-double"))
        .status()
        .expect("gcc-12");
    assert!(built.success(), "the exercise does not build");
    program
}

#[test]
fn the_double_of_gdrdrv_speaks_the_drivers_abi() {
    if !need(Need::KernelCompiler) {
        return;
    }
    let Some(files) = in_machine("gdrdrv", "gdrdrv", vec![exercise()]) else {
        return;
    };
    // The script judges; this sees that nothing of the exercise was lost on the way.
    let said = fs::read_to_string(files.join("exercise.txt")).expect("what the exercise said");
    let parts: Vec<_> = said.lines().filter_map(|line| line.split_once(": ")).collect();
    assert_eq!(
        parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["all", "bar", "cached"],
        "{said}"
    );
    for (_, found) in parts {
        assert!(found.ends_with(" claims held, 0 did not"), "{said}");
    }
}

#[test]
fn our_backend_works_with_every_version_of_the_double() {
    if !need(Need::KernelCompiler) {
        return;
    }
    let Some(files) = in_machine("gdrdrv", "gdrdrv-backend", vec![built("examples/module")]) else {
        return;
    };
    // The script judges; this sees that each version of the module did answer.
    let said = fs::read_to_string(files.join("module.txt")).expect("what the program said");
    for version in ["2.0", "2.3", "2.4", "2.5", "2.6"] {
        assert!(said.contains(&format!("version {version} attributes")), "{said}");
    }
}

/// The value after a key that ibv_devinfo prints, as in `active_mtu:  1024 (3)`: its first word.
fn told<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.unwrap_or_else(|| panic!("ibv_devinfo tells no {key}: {text}"))
}

/// The only finding of a check.
fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let all = report["findings"].as_array().expect("findings");
    let mut of_id = all.iter().filter(|finding| finding["id"] == id);
    let first = of_id.next().unwrap_or_else(|| panic!("no {id}"));
    assert!(of_id.next().is_none(), "several {id}");
    first
}

#[test]
fn verbs_tell_what_rdma_core_tells() {
    let Some(files) = in_machine("rxe", "verbs", vec![built("gdr"), built("examples/devinfo")]) else {
        return;
    };
    let text = |name: &str| fs::read_to_string(files.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (ours, theirs) = (text("devinfo.txt"), text("ibv_devinfo.txt"));
    assert!(ours.contains("dma-buf symbol: true\nmissing: \n"), "{ours}");
    assert!(
        ours.contains(&format!("device: {}\n", told(&theirs, "hca_id"))),
        "{ours}\n{theirs}"
    );
    // It shows no firmware: the field is empty in both.
    let limits = format!(
        "{} ports, {} queue pairs, {} regions",
        told(&theirs, "phys_port_cnt"),
        told(&theirs, "max_qp"),
        told(&theirs, "max_mr")
    );
    assert!(ours.contains(&limits), "{limits}: {ours}");
    let port = format!(
        "port {}: Active, {}, MTU {} of {}, lid {}",
        told(&theirs, "port"),
        told(&theirs, "link_layer"),
        told(&theirs, "active_mtu"),
        told(&theirs, "max_mtu"),
        told(&theirs, "port_lid")
    );
    assert_eq!(told(&theirs, "state"), "PORT_ACTIVE");
    assert!(ours.contains(&port), "{port}: {ours}");
    // `GID[  0]:  fe80::5054:ff:fe12:3456, RoCE v2`
    let gids: Vec<(&str, &str)> = theirs
        .lines()
        .filter_map(|line| line.trim().strip_prefix("GID["))
        .map(|line| line.split_once("]:").expect("an index and a GID"))
        .collect();
    assert!(gids.len() >= 2, "{theirs}");
    for (index, gid) in gids {
        let (address, kind) = gid.trim().split_once(", ").expect("an address and a kind");
        let line = format!(
            "GID {}: {} {address} ",
            index.trim(),
            kind.replace(' ', "").replace("RoCEv", "RoceV")
        );
        assert!(ours.contains(&line), "{line}: {ours}");
    }
    // rdma_rxe has no such operation.
    assert!(ours.contains("dma-buf: Refuses(95)"), "{ours}");
    let verbs = &json(&files.join("verbs.json"))["read"];
    assert_eq!(verbs["devices"], serde_json::json!(["rxe0"]));
    assert_eq!(
        verbs["trials"]["rxe0"]["opened"]["dmabuf"],
        serde_json::json!({"refuses": 95})
    );

    assert!(
        text("rdma-shared.txt").contains("netns shared"),
        "{}",
        text("rdma-shared.txt")
    );
    let shared = json(&files.join("doctor-shared.json"));
    assert_eq!(finding(&shared, "rdma.netns")["outcome"], "pass");
    assert!(text("rdma-exclusive.txt").contains("netns exclusive"));
    let exclusive = json(&files.join("doctor-exclusive.json"));
    assert_eq!(finding(&exclusive, "rdma.netns")["outcome"], "info");
    assert_eq!(text("pod-devices.txt"), "");
    let pod = json(&files.join("doctor-pod.json"));
    let subjects: Vec<_> = pod["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["subject"] == "rxe0")
        .collect();
    assert!(subjects.is_empty(), "{subjects:#?}");

    // A snapshot has no address of the guest's, and what it says of GIDs is what there is.
    let snapshot = text("snapshot.json");
    assert!(
        !snapshot.contains("0a00:0001") && !snapshot.contains("ffff:0a00"),
        "an address is in the snapshot"
    );
}
