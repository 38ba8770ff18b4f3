//! A snapshot has NVML's answer or failure, and each command sees the part that it queries. The library is simulated.

use fakes::Driver;

use super::*;

const ASKING: &[&[&str]] = &[
    &["doctor", "--format", "json"],
    &["doctor", "--verbose"],
    &["topo", "--format", "json"],
    &["topo", "--pci", "--format", "json"],
    &["topo", "--p2p", "r"],
    &["topo", "--p2p", "a", "--format", "nvidia-smi"],
];

/// Standard error without the lines about the snapshot's origin and where its fixes belong.
fn remarks(run: &Run) -> Vec<&str> {
    run.stderr
        .lines()
        .filter(|line| !line.contains(", recorded ") && !line.contains("the recorded machine"))
        .collect()
}

#[test]
#[ignore = "slow: many runs"]
fn replays_every_library_outcome() {
    let fake = fakes::nvml::build(Driver::Current).expect("the simulated library");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let machine = |name: &str, change: &dyn Fn(&mut Value)| {
        let text = fs::read_to_string(fakes::nvml::machine("h200-x2")).expect("a machine");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        change(&mut value);
        written_as(dir.path(), name, value.to_string().as_bytes())
    };
    let well = machine("well", &|_| {});
    let hangs = machine("hangs", &|value| value["hang_in"] = "nvmlInit_v2".into());
    let broken = dir.path().join("broken");
    fs::create_dir(&broken).expect("a directory");
    fs::write(broken.join("libnvidia-ml.so.1"), "no library").expect("a file");
    for (name, library, machine) in
        [("well", &fake, &well), ("hangs", &fake, &hangs), ("broken", &broken, &well)]
    {
        let live = |args: &[&str]| {
            let mut gdr = Gdr::new().args(["--library-timeout", "1"]).args(args);
            for (name, value) in fakes::nvml::environment(library, machine) {
                gdr = gdr.env(name, value);
            }
            gdr.run()
        };
        let file = dir.path().join(format!("{name}.json"));
        let taken = live(&["snapshot", "-o", text_of(&file)]);
        assert_eq!(taken.code, 0, "{name}: {}", taken.stderr);
        let held = fs::read_to_string(&file).expect("the snapshot");
        let held: Value = serde_json::from_str(&held).expect("JSON");
        let answer = held["libraries"]["nvml"].to_string();
        let words = match name {
            "well" => "NVIDIA H200",
            "hangs" => "did not answer within 1 s",
            _ => "libnvidia-ml.so.1",
        };
        assert!(answer.contains(words), "{name}: {answer}");
        for question in ASKING {
            let (live, replayed) = (live(question), with(&file, question));
            assert_eq!(replayed.code, live.code, "{name} {question:?}: {}", replayed.stderr);
            assert_eq!(facts_of(&replayed), facts_of(&live), "{name} {question:?}");
            assert_eq!(remarks(&replayed), remarks(&live), "{name} {question:?}");
        }
    }
}
