//! Hostile arguments, environments, names of files and profiles, through the built binary.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use crate::hostile::page::problem;
use crate::support::{Bench, Gdr, Machine, scratch};

/// Bytes that an argument may hold; a NUL it may not.
const HOSTILE: [&[u8]; 9] = [
    b"\x1b]0;title\x07\x1b[2J",
    b"\x9b2J\x90",
    b"x\nFORGED line\r",
    "\u{9b}2J\u{202e}x\u{2028}FORGED\u{200b}\u{e0041}".as_bytes(),
    b"\xff\xfe\xc3",
    "../\u{1b}[31m/\u{85}x.toml".as_bytes(),
    b"{0} {} %s \t\x08\x7f",
    b"--\x1b[31m",
    b"",
];

/// Where a user may type anything: `?` stands for it, also within a word.
const COMMANDS: [&str; 34] = [
    "?",
    "? ?",
    "doctor ?",
    "doctor --profile ?",
    "doctor --profile=./?",
    "doctor --only ?",
    "doctor --skip gpu.?",
    "doctor --format ?",
    "doctor --platform ?",
    "doctor --color=?",
    "doctor --library-timeout ?",
    "doctor --from ?",
    "doctor --sysroot ?",
    "doctor --?",
    "topo --format=?",
    "topo --path ? ?",
    "topo --p2p ?",
    "explain ?",
    "explain --no-run error?here",
    "explain gpu.?",
    "explain /?",
    "snapshot -o /no/such/?",
    "snapshot --diff ? ?",
    "fix ?",
    "fix --dry-run --profile ?",
    "fix-acs --dry-run --pair ? ?",
    "fix-acs --device ?",
    "undo ?",
    "probe copy --sim --quick --kernel ?",
    "probe copy --gpu ? --quick",
    "probe copy --size ?",
    "probe rdma --peer ?",
    "probe rdma --device ? --quick",
    "probe rdma --rendezvous ? --quick",
];

fn check(what: &str, run: std::process::Output) {
    for (name, page) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
        if let Some(problem) = problem(page, false) {
            panic!("{what}: {name}: {problem}\n{:?}", String::from_utf8_lossy(page));
        }
    }
    let code = run.status.code();
    assert!(
        code.is_some_and(|code| code <= 3),
        "{what}: {code:?} {}",
        String::from_utf8_lossy(&run.stderr)
    );
}

/// A word of a command with what is hostile in it.
fn filled(word: &str, hostile: &[u8]) -> OsString {
    let mut out = Vec::new();
    for (at, part) in word.split('?').enumerate() {
        if at > 0 {
            out.extend_from_slice(hostile);
        }
        out.extend_from_slice(part.as_bytes());
    }
    OsString::from_vec(out)
}

#[test]
#[ignore = "slow: many runs"]
fn prints_hostile_arguments() {
    let machine = Machine::load("h200-x1").laid_out();
    for command in COMMANDS {
        for hostile in HOSTILE {
            let words = command.split(' ').map(|word| filled(word, hostile));
            let mut run = Gdr::new().args(words);
            // Where the command does not name one, a machine that is the same everywhere.
            if ["doctor --p", "topo", "fix --", "fix-acs --dry"]
                .iter()
                .any(|start| command.starts_with(start))
            {
                run = run.sysroot(machine.path());
            }
            let output = run.command().output().expect("the built gdr starts");
            check(&format!("{command} with {:?}", String::from_utf8_lossy(hostile)), output);
        }
    }
}

#[test]
fn prints_hostile_program_name() {
    for args in [&["--help"][..], &["doctor", "--help"], &["doctor", "--nosuch"], &[]] {
        let mut command = Gdr::new().args(args).command();
        command.arg0(OsStr::from_bytes(b"/bin/\x1b[2J\nFORGED"));
        check("argv[0]", command.output().expect("the built gdr starts"));
    }
}

#[test]
fn prints_hostile_variables() {
    let machine = Machine::load("sound").laid_out();
    let names = [
        "COLUMNS",
        "HOME",
        "XDG_CONFIG_HOME",
        "TERM",
        "NO_COLOR",
        "USER",
        "CUDA_VISIBLE_DEVICES",
        "NCCL_IB_HCA",
        "NCCL_NET_PLUGIN",
        "UCX_TLS",
        "LD_LIBRARY_PATH",
        "SLURM_NODELIST",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "GDR_BACKEND",
    ];
    for hostile in HOSTILE {
        let with = |mut gdr: Gdr| {
            for name in names {
                gdr = gdr.env(name, OsStr::from_bytes(hostile));
            }
            gdr.command().output().expect("the built gdr starts")
        };
        check("doctor", with(Gdr::new().args(["doctor", "--profile", "all", "--verbose"])));
        check(
            "a directory",
            with(Gdr::new().args(["doctor", "--verbose"]).sysroot(machine.path())),
        );
        check(
            "a profile",
            with(Gdr::new().args(["doctor", "--profile", "nosuch"]).sysroot(machine.path())),
        );
        check(
            "a launcher",
            with(Gdr::new().args(["probe", "rdma", "--rendezvous", "slurm", "--quick"])),
        );
    }
}

#[test]
#[ignore = "slow: many runs"]
fn prints_hostile_file_names() {
    let bench = Bench::of("sound", &serde_json::json!({}));
    for hostile in HOSTILE.iter().filter(|hostile| !hostile.is_empty() && !hostile.contains(&b'/'))
    {
        let name = OsStr::from_bytes(hostile);
        let directory = scratch();
        let root = directory.path().join(name);
        Machine::load("sound").lay_out(&root);
        let file = directory.path().join(format!("{}.json", "x")).with_file_name(name);
        let snapshot = directory.path().join("s.json");
        let run = |args: &[&OsStr]| {
            Gdr::new().args(args).command().output().expect("the built gdr starts")
        };
        let word = |word: &'static str| OsStr::new(word);
        for format in ["table", "markdown", "prometheus", "json"] {
            let args = [
                word("doctor"),
                word("--format"),
                OsStr::new(format),
                word("--sysroot"),
                root.as_os_str(),
            ];
            check("a directory", run(&args));
        }
        check(
            "a snapshot",
            run(&[
                word("snapshot"),
                word("--sysroot"),
                root.as_os_str(),
                word("-o"),
                snapshot.as_os_str(),
            ]),
        );
        fs::rename(&root, directory.path().join("moved")).expect("it moves");
        fs::copy(&snapshot, &file).expect("a copy");
        check(
            "a record",
            run(&[word("doctor"), word("--verbose"), word("--from"), file.as_os_str()]),
        );
        check(
            "two",
            run(&[word("snapshot"), word("--diff"), file.as_os_str(), snapshot.as_os_str()]),
        );
        check("a log", run(&[word("explain"), word("--no-run"), file.as_os_str()]));
        profile(&bench, directory.path(), &String::from_utf8_lossy(hostile));
    }
}

/// A profile's own words.
fn profile(bench: &Bench, directory: &Path, hostile: &str) {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let (text, path) = (quoted(hostile), directory.join("p.toml"));
    for content in [
        format!(
            "name = {text}\nabout = {text}\n[checks]\n\"gpu.present\" = {{ required = true }}\n"
        ),
        format!("name = {text}\nabout = {text}\nincludes = [{text}]\n"),
        format!("name = \"x\"\nabout = \"y\"\n[checks]\n{text} = {{ required = true }}\n"),
        format!("name = \"x\"\nabout = \"y\"\n{text} = 1\n"),
        text.clone(),
    ] {
        fs::write(&path, content).expect("a profile");
        for format in ["table", "markdown", "prometheus", "json"] {
            let run = Gdr::new().args(["doctor", "--format", format, "--profile"]).args([&path]);
            let output = run.sysroot(&bench.root()).command().output();
            check(&format!("a profile as {format}"), output.expect("the built gdr starts"));
        }
    }
}

/// A journal lists what was done to a machine; another user may have written it.
#[test]
fn lists_hostile_journals() {
    let bench = Bench::of("sound", &serde_json::json!({}));
    let directory = bench.root().join("var/lib/gdr/journal");
    for hostile in HOSTILE {
        let text = String::from_utf8_lossy(hostile);
        let step = serde_json::json!({
            "about": text, "action": "write_attribute", "path": format!("/sys/{text}"), "old": text, "new": text,
        });
        let journal = serde_json::json!({
            "schema": "gdr.journal/1", "number": 1, "gdr": text, "taken": text, "boot": text, "state": { "stopped": text },
            "entries": [{ "fix": text, "step": step, "progress": "done", "before": null }],
        });
        fs::create_dir_all(&directory).expect("a directory");
        for content in [journal.to_string(), format!("{{\"schema\": {text:?}}}"), text.to_string()]
        {
            fs::write(directory.join("1.json"), content).expect("a journal");
            for args in [&["undo", "--list"][..], &["undo"], &["undo", "--force"]] {
                let output = Gdr::new().args(args).sysroot(&bench.root()).command().output();
                check(&format!("{args:?}"), output.expect("the built gdr starts"));
            }
        }
    }
}
