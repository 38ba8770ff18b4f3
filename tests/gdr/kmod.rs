//! Compares gdr's reading of modprobe.d and initramfs images with modprobe and the packing tools.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::scratch;
use gdr::collect::{self, CollectOptions};
use gdr::kmod::initramfs::{self, Reading};
use gdr::kmod::{self, Config};
use gdr::model::{self, Directive, Fact, Initramfs, Modprobe};
use gdr::world::World;

/// The directories of kmod 30, the oldest version tested, in the order in which `modprobe -C` gets them.
const DIRECTORIES: [&str; 4] =
    ["etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "lib/modprobe.d"];

/// A root whose libkmod is version 30.
fn root() -> tempfile::TempDir {
    let dir = scratch();
    for directory in DIRECTORIES {
        fs::create_dir_all(dir.path().join(directory)).expect("a directory");
    }
    let library = dir.path().join("usr/lib64");
    fs::create_dir_all(&library).expect("a directory");
    std::os::unix::fs::symlink("libkmod.so.2.4.0", library.join("libkmod.so.2")).expect("a link");
    dir
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a directory above")).expect("directories");
    fs::write(path, text).expect("a file");
}

fn ours(root: &Path) -> Modprobe {
    let world = World::directory(root).expect("a root");
    let expected = CollectOptions {
        system: true,
        modules: true,
        software: true,
        settings: true,
        ..CollectOptions::default()
    };
    collect::facts(&world, expected).modprobe
}

/// modprobe with a root's configuration.
fn modprobe(root: &Path, args: &[&str]) -> String {
    let mut command = Command::new("modprobe");
    for directory in DIRECTORIES {
        command.arg("-C").arg(root.join(directory));
    }
    let out = command.args(args).output().expect("modprobe runs");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

const KINDS: [&str; 4] = ["blacklist ", "install ", "alias ", "options "];

/// The directives that modprobe read for these modules, by kind, before the kernel's aliases.
fn theirs(root: &Path) -> Vec<String> {
    let text = modprobe(root, &["--showconfig"]);
    let own = text.split("# End of configuration files").next().unwrap_or_default();
    let of_ours = |line: &&str| {
        let rest = KINDS.iter().find_map(|kind| line.strip_prefix(kind));
        rest.is_some_and(|rest| {
            ["nvidia", "nouveau", "mlx5", "ib_", "gdrdrv", "pci:v000010DE"]
                .iter()
                .any(|start| rest.starts_with(start))
        })
    };
    let lines: Vec<&str> = own.split('\n').filter(of_ours).collect();
    sorted_by_kind(lines.into_iter().map(str::to_owned).collect())
}

fn sorted_by_kind(lines: Vec<String>) -> Vec<String> {
    KINDS
        .iter()
        .flat_map(|kind| lines.iter().filter(move |line| line.starts_with(kind)).cloned())
        .collect()
}

/// A directive in the format of `modprobe --showconfig`.
fn written(directive: &Directive) -> Option<String> {
    Some(match &directive.command {
        model::Command::Options { module, options } => format!("options {module} {options}"),
        model::Command::Blacklist { module } => format!("blacklist {module}"),
        model::Command::Install { module, shell } => format!("install {module} {shell}"),
        model::Command::Alias { name, module } => format!("alias {name} {module}"),
        _ => return None,
    })
}

/// A deterministic sequence.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// A file of valid, nearly valid and invalid lines.
fn file(dice: &mut Dice) -> String {
    const COMMANDS: [&str; 9] = [
        "options",
        "options",
        "options",
        "blacklist",
        "install",
        "alias",
        "  options",
        "#options",
        "include",
    ];
    const NAMES: [&str; 8] = [
        "nvidia",
        "nvidia-drm",
        "nvidia_uvm",
        "ib-core",
        "mlx5_core",
        "nvidia[a-c]-x",
        "nvidia]",
        "gdrdrv",
    ];
    const WORDS: [&str; 12] = [
        "NVreg_A=1",
        "NVreg_B=\"a b; c\"",
        "off",
        "/bin/false",
        "\\\\",
        "\\n",
        "\\\n",
        "\t",
        "  ",
        "#",
        "=",
        "nvidia-current",
    ];
    const BLANKS: [&str; 4] = [" ", "\t", "  ", " \\\n "];
    const ENDS: [&str; 4] = ["\n", "\n", " \n", "\n\n"];
    let mut text = String::new();
    for _ in 0..dice.roll(16) {
        text.push_str(dice.pick(&COMMANDS));
        text.push_str(dice.pick(&BLANKS));
        text.push_str(dice.pick(&NAMES));
        for _ in 0..dice.roll(4) {
            text.push_str(dice.pick(&BLANKS));
            text.push_str(dice.pick(&WORDS));
        }
        text.push_str(dice.pick(&ENDS));
    }
    text
}

/// Compares 200 roots of up to ten files: names, overriding, order, joined lines, quotes, invalid lines.
#[test]
#[ignore = "needs kmod"]
fn directives_match_modprobe() {
    let mut dice = Dice(5);
    let mut lines = 0;
    for nth in 0..200 {
        let dir = root();
        let mut texts = Vec::new();
        for _ in 0..1 + dice.roll(10) {
            let directory = dice.pick(&DIRECTORIES);
            let name = dice.pick(&[
                "a.conf",
                "b.conf",
                "B.conf",
                "10-x.conf",
                "9-x.conf",
                ".h.conf",
                "x.txt",
                "z.conf",
                ".conf",
            ]);
            let text = file(&mut dice);
            put(dir.path(), &format!("{directory}/{name}"), &text);
            texts.push(format!("{directory}/{name}: {text:?}"));
        }
        let read = ours(dir.path());
        let Fact::Known(directives) = &read.directives else {
            panic!("{nth}: {read:?}");
        };
        let own = sorted_by_kind(directives.iter().filter_map(written).collect());
        assert_eq!(own, theirs(dir.path()), "{nth}: {texts:#?}");
        lines += own.len();
    }
    assert!(lines > 1000, "only {lines} lines were compared");
}

/// A tree with two modules that have a GPU's alias, as built by Debian and by NVIDIA's installer.
fn with_modules(root: &Path, names: &[&str]) {
    let directory = root.join("lib/modules/6.8.0");
    fs::create_dir_all(&directory).expect("a directory");
    for name in names {
        let source = "__attribute__((section(\".modinfo\"))) char a[] = \"license=MIT\\0alias=pci:v000010DEd*sv*sd*bc03sc02i00*\";";
        let mut cc = Command::new("cc")
            .args(["-x", "c", "-c", "-", "-o"])
            .arg(directory.join(format!("{name}.ko")))
            .stdin(Stdio::piped())
            .spawn()
            .expect("cc runs");
        cc.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("the source");
        assert!(cc.wait().expect("cc ends").success());
    }
    fs::write(directory.join("modules.order"), "").expect("a file");
    fs::write(directory.join("modules.builtin"), "").expect("a file");
    let done =
        Command::new("depmod").arg("-b").arg(root).arg("6.8.0").status().expect("depmod runs");
    assert!(done.success());
}

/// The module and options of a name from `modprobe --show-depends`; for an install line its command.
fn depends(root: &Path, names: &[&str]) -> Option<String> {
    let directory = root.display().to_string();
    let args = [&["-d", &directory, "-S", "6.8.0", "--show-depends"], names].concat();
    let text = modprobe(root, &args);
    let line = text.lines().last()?.trim();
    Some(match line.strip_prefix("insmod ") {
        Some(rest) => rest.rsplit('/').next().unwrap_or_default().to_owned(),
        None => line.to_owned(),
    })
}

const GPU: &str = "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00";

#[test]
#[ignore = "needs kmod, a C compiler"]
fn options_match_modprobe() {
    for (text, module) in [
        ("options nvidia A=1\noptions nvidia B=2\noptions nvidia-drm C=3\n", "nvidia"),
        (
            "alias nvidia nvidia-current\noptions nvidia A=1\noptions nvidia_current B=2\n",
            "nvidia-current",
        ),
        ("alias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia\noptions nvidia A=1\n", "nvidia"),
        ("options nvidia-current B=2\noptions nvidia A=1\n", "nvidia-current"),
        ("blacklist nvidia\noptions nvidia A=1\n", "nvidia"),
        ("", "nvidia"),
    ] {
        let dir = root();
        put(dir.path(), "etc/modprobe.d/a.conf", text);
        with_modules(dir.path(), &[module]);
        let read = ours(dir.path());
        let directives = read.directives.known().expect("directives");
        let config = Config::new(directives);
        let shown = |load: &kmod::Load<'_>| {
            let options = load.options.iter().filter_map(|found| match &found.command {
                model::Command::Options { options, .. } => Some(options.clone()),
                _ => None,
            });
            let words = std::iter::once(format!("{module}.ko")).chain(options);
            words.collect::<Vec<_>>().join(" ")
        };
        // Without an alias, modprobe finds no module of the other name.
        if let Some(expected) = depends(dir.path(), &["nvidia"]) {
            assert_eq!(shown(&config.load("nvidia")), expected, "{text}");
        }
        let expected = depends(dir.path(), &["-b", GPU]);
        let load = config.load_for_device(GPU, &kmod::module_name(module).expect("a name"));
        assert_eq!(load.refused.is_none(), expected.is_some(), "{text}");
        if let Some(expected) = expected {
            assert_eq!(shown(&load), expected, "{text}");
        }
    }
}

#[test]
#[ignore = "needs kmod, a C compiler"]
fn install_lines_match_modprobe() {
    let dir = root();
    let text = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\noptions nvidia A=1\noptions nvidia-current B=2\n";
    put(dir.path(), "etc/modprobe.d/a.conf", text);
    with_modules(dir.path(), &["nvidia-current"]);
    assert_eq!(
        depends(dir.path(), &["nvidia"]).as_deref(),
        Some("install modprobe -i nvidia-current $CMDLINE_OPTS A=1")
    );
    // The result of the inner modprobe, with the options in place of the variable.
    assert_eq!(
        depends(dir.path(), &["-i", "nvidia-current", "A=1"]).as_deref(),
        Some("nvidia-current.ko B=2 A=1")
    );
    let read = ours(dir.path());
    let config = Config::new(read.directives.known().expect("directives"));
    let load = config.load("nvidia");
    let options: Vec<String> = load.options.iter().filter_map(|found| written(found)).collect();
    assert_eq!(load.module, "nvidia_current");
    assert_eq!(options, ["options nvidia_current B=2", "options nvidia A=1"]);
}

/// Pipes bytes through a tool.
fn through(tool: &str, args: &[&str], bytes: &[u8], at: &Path) -> Vec<u8> {
    let mut child = Command::new(tool)
        .args(args)
        .current_dir(at)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let out = child.wait_with_output().expect("the tool ends");
    writer.join().expect("the writer ends").expect("the bytes are taken");
    assert!(out.status.success(), "{tool}");
    out.stdout
}

fn image(bytes: &[u8]) -> Initramfs {
    let reading = Reading { path: "image", enough: &|| false };
    initramfs::read(&mut &*bytes, &reading)
}

/// Reads images of distributions' tools: with microcode, several blocks and dictionaries, and the driver at the end.
#[test]
#[ignore = "needs cpio, gzip, xz, zstd and lz4"]
fn reads_images_of_all_compressions() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    // Compressible, but not trivially.
    let mut dice = Dice(7);
    let filler: String =
        (0..2_500_000).map(|_| dice.pick(&["firmware ", "0xa5 ", "module\n", "zz"])).collect();
    put(at, "early/kernel/x86/microcode/GenuineIntel.bin", "microcode");
    put(at, "main/etc/modprobe.d/a.conf", "options nvidia A=1\n");
    put(at, "main/usr/lib/firmware/large", &filler);
    put(at, "main/usr/lib/modprobe.d/z.conf", "options nvidia Z=1\noptions snd b=1\n");
    put(at, "main/usr/lib/modules/6.8.0/updates/nvidia.ko.xz", "module");
    let archive = |directory: &str| {
        let list = Command::new("find")
            .arg(".")
            .current_dir(at.join(directory))
            .output()
            .expect("find runs");
        through("cpio", &["-o", "-H", "newc", "--quiet"], &list.stdout, &at.join(directory))
    };
    let (early, main) = (archive("early"), archive("main"));
    assert!(main.len() > 9 << 20, "more than one block of LZ4: {}", main.len());
    for (packing, tool, args) in [
        ("none", "cat", &[][..]),
        ("gzip", "gzip", &["-1", "-c"]),
        ("xz", "xz", &["--lzma2=preset=0,dict=32MiB", "--check=crc32", "-c"]),
        ("xz", "xz", &["-0", "--check=crc32", "--block-size=1MiB", "-c"]),
        ("zstd", "zstd", &["-3", "-q", "-c"]),
        ("zstd", "zstd", &["-3", "--long=24", "-q", "-c"]),
        ("lz4", "lz4", &["-l", "-1", "-q", "-c"]),
    ] {
        let packed = through(tool, args, &main, at);
        let whole = [&early[..], &packed[..]].concat();
        let found = image(&whole);
        let shown = format!("{tool} {args:?}: {found:?}");
        assert_eq!(found.failure, None, "{shown}");
        assert_eq!(found.packing, ["none", packing], "{shown}");
        assert_eq!(found.modules, ["usr/lib/modules/6.8.0/updates/nvidia.ko.xz"], "{shown}");
        let lines: Vec<String> = found.directives.iter().filter_map(written).collect();
        assert_eq!(lines, ["options nvidia A=1", "options nvidia Z=1"], "{shown}");
        // Truncated anywhere: reports it, or already has all that matters.
        for share in [3, 5, 9] {
            let cut = image(&whole[..whole.len() - packed.len() * share / 10]);
            assert!(cut.failure.is_some(), "{tool} {args:?}, cut by {share}/10: {cut:?}");
        }
    }
}
