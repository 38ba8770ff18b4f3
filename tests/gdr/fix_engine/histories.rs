//! Random histories of repairs and undos that are killed at random, run out of space, start programs that do part of their
//! work, and meet files that somebody edits: all of it comes back, with what is derived from it.
//!
//! `GDR_HISTORIES=10000` runs more of them, `GDR_SEED` changes the seed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gdr::fix::{Back, Error, Journals, UndoReport};
use gdr::model::{
    Action, GrubMkconfig, ImageBuild, InitramfsBuilder, Journal, JournalState, Mutation, Operation,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fix_engine::derived::{self, Manner};
use crate::fix_engine::plans::{
    Draw, FILES, Tree, differing, draw, drawn, executor, path, say, tree,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Fix,
    Undo,
    ForcedUndo,
}

/// One event of a history.
#[derive(Debug, Clone)]
enum Event {
    /// A process that is killed after this many microseconds.
    Killed(Part, Manner, u64),
    /// A process, and its programs, that can write this many blocks of 512 bytes to a file.
    Full(Part, u64),
    /// A complete process.
    Whole(Part, Manner),
    /// Somebody writes a file, or removes it.
    Edit(usize, Option<String>),
}

fn number(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => Just(Part::Fix),
        3 => Just(Part::Undo),
        1 => Just(Part::ForcedUndo),
    ]
}

fn manner() -> impl Strategy<Value = Manner> {
    let bad = prop::sample::select(&Manner::BAD[..4]);
    prop_oneof![12 => Just(Manner::Well), 11 => bad, 1 => Just(Manner::Hang)]
}

fn event(longest: u64) -> impl Strategy<Value = Event> {
    let edit = (0..FILES.len(), prop::option::weighted(0.8, "[A-Z\n]{1,20}"));
    prop_oneof![
        6 => (part(), manner(), 0..longest).prop_map(|(part, manner, after)| Event::Killed(part, manner, after)),
        2 => (part(), 0_u64..24).prop_map(|(part, blocks)| Event::Full(part, blocks)),
        5 => (part(), manner()).prop_map(|(part, manner)| Event::Whole(part, manner)),
        1 => edit.prop_map(|(file, content)| Event::Edit(file, content)),
    ]
}

/// One to eight steps on one to four files, an attribute and overlapping registers, and the programs after them.
fn steps() -> impl Strategy<Value = (Vec<Draw>, Vec<Action>)> {
    let draws = (1_usize..=4, prop::collection::vec(draw(), 1..=8)).prop_map(|(files, draws)| {
        let within = |file: usize| file % files;
        let reduce = |draw| match draw {
            Draw::Write { file, content } => Draw::Write { file: within(file), content },
            Draw::Remove { file } => Draw::Remove { file: within(file) },
            other => other,
        };
        draws.into_iter().map(reduce).collect()
    });
    let builder = prop::sample::select(vec![
        InitramfsBuilder::UpdateInitramfs,
        InitramfsBuilder::Dracut,
        InitramfsBuilder::Mkinitcpio,
    ]);
    let menu = prop::sample::select(vec![
        Operation::UpdateGrub,
        Operation::make_grub_config(GrubMkconfig::GrubMkconfig, "/boot/grub/grub.cfg")
            .expect("a path"),
    ]);
    let word = Operation::set_kernel_parameter(None, "iommu=pt").expect("a word");
    let programs = (
        prop::option::of(Just(Action::Run(word))),
        prop::option::weighted(
            0.8,
            builder.prop_map(|builder| Action::Run(Operation::RebuildInitramfs { builder })),
        ),
        prop::option::of(menu.prop_map(Action::Run)),
        prop::option::weighted(0.2, Just(image())),
    );
    let programs = programs.prop_map(|(word, images, menu, image)| {
        [word, images, menu, image].into_iter().flatten().collect()
    });
    (draws, programs)
}

fn image() -> Action {
    Action::RebuildImage(ImageBuild {
        path: path("/boot/initrd.img-6.8"),
        builder: InitramfsBuilder::UpdateInitramfs,
        release: Some("6.8".try_into().expect("a release")),
    })
}

/// A machine, its programs, and what happened to it.
struct History {
    dir: tempfile::TempDir,
    tools: PathBuf,
    actions: Vec<Action>,
    about: String,
    first: Tree,
    last: Tree,
    /// What files had at first, and what somebody wrote.
    texts: [BTreeSet<Option<String>>; FILES.len()],
    is_edited: bool,
    /// gdr said that it cannot verify a step, or a process that nobody listened to may have said so.
    is_accepted: bool,
}

#[derive(Default)]
struct Counts {
    killed: u64,
    ended: u64,
    full: u64,
    finished: u64,
    stopped: u64,
    refused: u64,
    forced: u64,
}

impl History {
    fn new(tools: &Path, draws: &[Draw], programs: &[Action], about: String) -> Self {
        let [dir, other] = [derived::laid_out(), derived::laid_out()];
        let mut actions = drawn(dir.path(), draws);
        actions.extend(programs.iter().cloned());
        derived::apply(other.path(), tools, Manner::Well, actions.clone()).expect("it is made");
        let text = |file: &&str| fs::read_to_string(dir.path().join(&file[1..])).ok();
        Self {
            first: tree(dir.path()),
            last: tree(other.path()),
            texts: FILES.each_ref().map(|file| [text(file)].into()),
            dir,
            tools: tools.to_owned(),
            actions,
            about,
            is_edited: false,
            is_accepted: false,
        }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn event(&mut self, event: &Event, counts: &mut Counts) {
        match event {
            Event::Killed(part, manner, after) => {
                derived::end(self.root(), *manner);
                self.is_accepted |= *part == Part::ForcedUndo && *manner != Manner::Well;
                let mut child = self.start(*part, None);
                std::thread::sleep(Duration::from_micros(*after));
                let _ = child.kill();
                if child.wait().expect("its end").success() {
                    counts.ended += 1
                } else {
                    counts.killed += 1
                }
                self.settle();
            }
            Event::Full(part, blocks) => {
                derived::end(self.root(), Manner::Well);
                self.is_accepted |= *part == Part::ForcedUndo;
                let mut child = self.start(*part, Some(*blocks));
                assert!(child.wait().expect("its end").success(), "{}", self.about);
                counts.full += 1;
            }
            Event::Whole(Part::Fix, manner) => self.fix(*manner, counts),
            Event::Whole(part, manner) => {
                self.undo(*manner, *part == Part::ForcedUndo, counts);
            }
            Event::Edit(file, content) => {
                let path = self.root().join(&FILES[*file][1..]);
                match content {
                    Some(content) => {
                        fs::create_dir_all(path.parent().expect("a directory"))
                            .expect("directories");
                        fs::write(path, content).expect("a file");
                    }
                    None => drop(fs::remove_file(path)),
                }
                self.texts[*file].insert(content.clone());
                self.is_edited = true;
            }
        }
    }

    /// Starts a repair or an undo in a child process.
    fn start(&self, part: Part, blocks: Option<u64>) -> Child {
        let plan = serde_json::to_vec(&self.actions).expect("JSON");
        fs::write(self.root().join("var/plan.json"), plan).expect("the plan");
        let limit = match blocks {
            Some(blocks) => format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""),
            None => "exec \"$@\"".to_owned(),
        };
        Command::new("sh")
            .args(["-c", &limit, "sh"])
            .arg(std::env::current_exe().expect("this test"))
            .args(["--exact", "fix_engine::histories::wrapped_event", "--test-threads", "1"])
            .env("GDR_HISTORY_PART", format!("{part:?}"))
            .env("GDR_HISTORY_ROOT", self.root())
            .env("GDR_HISTORY_TOOLS", &self.tools)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test")
    }

    /// Waits for a program that survived the killed process.
    fn settle(&self) {
        let executor = executor(self.root());
        let Some(journals) = Journals::open(&executor).expect("journals") else {
            return;
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while matches!(journals.lock(), Err(Error::Busy { .. })) {
            assert!(Instant::now() < deadline, "{}: the lock is never free", self.about);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn fix(&self, manner: Manner, counts: &mut Counts) {
        let about = &self.about;
        let before = tree(self.root());
        let made = derived::apply(self.root(), &self.tools, manner, self.actions.clone());
        match made {
            Ok(journal) if journal.state == JournalState::Applied => {
                if !self.is_edited && !self.is_accepted {
                    assert_same(&tree(self.root()), &self.last, about);
                }
                self.assert_derived(&journal, 0..journal.entries.len());
                counts.finished += 1;
            }
            Ok(_) => counts.stopped += 1,
            // An error promises that nothing was changed. The plan was made for the first state, and the machine may be in another.
            Err(error) => assert_same(&tree(self.root()), &before, &format!("{about}: {error}")),
        }
    }

    /// Undoes the newest repair; false if no repair is left.
    fn undo(&mut self, manner: Manner, force: bool, counts: &mut Counts) -> bool {
        let undone = match derived::undo(self.root(), &self.tools, manner, force) {
            Ok(undone) => undone,
            Err(Error::NothingToUndo) => return false,
            Err(error) => panic!("{}: {error}", self.about),
        };
        counts.forced += u64::from(force);
        counts.refused += u64::from(!undone.whole);
        let says =
            |accepted: fn(&Back) -> bool| undone.steps.iter().any(|(_, back)| accepted(back));
        self.is_accepted |= says(|back| matches!(back, Back::Accepted(_)));
        if undone.whole {
            let ran = undone.steps.iter().map(|(at, _)| *at);
            self.assert_derived(&undone.journal, ran);
        } else if manner == Manner::Well {
            self.assert_refused_for_others(&undone, force);
        }
        true
    }

    /// A complete undo leaves only what others changed.
    fn assert_refused_for_others(&self, undone: &UndoReport, force: bool) {
        let rebuilt = undone
            .journal
            .entries
            .iter()
            .any(|entry| matches!(entry.mutation, Mutation::RebuildImage(_)));
        assert!(!force && (self.is_edited || rebuilt), "{}: {:?}", self.about, undone.steps);
    }

    /// What these steps derive is made of the present files.
    fn assert_derived(&self, journal: &Journal, steps: impl Iterator<Item = usize> + Clone) {
        let ran = |is: fn(&Operation) -> bool| {
            let mut mutations = steps.clone().map(|at| &journal.entries[at].mutation);
            mutations.any(|mutation| matches!(mutation, Mutation::Run(operation) if is(operation)))
        };
        let images = ran(|operation| matches!(operation, Operation::RebuildInitramfs { .. }));
        let menu = ran(|operation| {
            matches!(operation, Operation::UpdateGrub | Operation::MakeGrubConfig { .. })
        });
        for (path, expected) in derived::derived(self.root()) {
            let is_image = path.to_string_lossy().contains("initrd");
            if is_image && images || !is_image && menu {
                let found = fs::read_to_string(self.root().join(&path)).unwrap_or_default();
                assert_eq!(found, expected, "{}: {}", self.about, path.display());
            }
        }
    }

    /// Undoes all that is left by force. Then nothing of gdr's is there.
    fn end(mut self, counts: &mut Counts) {
        while self.undo(Manner::Well, true, counts) {}
        let mut now = tree(self.root());
        let mut first = std::mem::take(&mut self.first);
        if self.is_accepted {
            let is_entry = |path: &PathBuf| path.starts_with("boot/loader");
            now.retain(|path, _| !is_entry(path));
            first.retain(|path, _| !is_entry(path));
        }
        if !self.is_edited {
            assert_same(&now, &first, &self.about);
            return;
        }
        for (file, texts) in FILES.iter().zip(&self.texts) {
            let found = fs::read_to_string(self.root().join(&file[1..])).ok();
            assert!(texts.contains(&found), "{}: {file}: {found:?}", self.about);
        }
        for (path, _) in derived::derived(self.root()) {
            let found = fs::read_to_string(self.root().join(&path)).unwrap_or_default();
            let legit = self.legit(&path);
            assert!(legit.contains(&found), "{}: {}: {found:?}", self.about, path.display());
        }
        let is_theirs = |path: &PathBuf| {
            path.starts_with("etc") || path.starts_with("boot/grub") || is_image(path)
        };
        now.retain(|path, _| !is_theirs(path));
        first.retain(|path, _| !is_theirs(path));
        assert_same(&now, &first, &self.about);
    }

    /// What may be derived from files that gdr did not write.
    fn legit(&self, path: &Path) -> BTreeSet<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        if !is_image(path) {
            let menus = self.texts[2].iter().map(text);
            return menus.map(|text| format!("menu\n{text}")).collect();
        }
        let release = path.to_string_lossy().replace("boot/initrd.img-", "");
        let begin = BTreeSet::from([format!("image of {release}\n")]);
        self.texts.iter().fold(begin, |heads, texts| {
            let all = heads
                .iter()
                .flat_map(|head| texts.iter().map(move |tail| format!("{head}{}", text(tail))));
            all.collect()
        })
    }
}

fn is_image(path: &Path) -> bool {
    path.starts_with("boot") && path.to_string_lossy().contains("initrd")
}

/// The same, but for the paths named in the message.
#[track_caller]
fn assert_same(now: &Tree, expected: &Tree, about: &str) {
    let differs = differing(now, expected);
    assert!(differs.is_empty(), "{about}: {differs:?}");
}

/// Duration of a repair with eight steps on this machine, in microseconds.
fn duration(tools: &Path) -> u64 {
    let write = |file| Draw::Write { file, content: "x".to_owned() };
    let draws = [0, 1, 2, 3, 0, 1, 2, 3].map(write);
    let rebuild =
        Action::Run(Operation::RebuildInitramfs { builder: InitramfsBuilder::UpdateInitramfs });
    let history = History::new(tools, &draws, &[rebuild], String::new());
    let begin = Instant::now();
    let mut child = history.start(Part::Fix, None);
    assert!(child.wait().expect("its end").success());
    u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[test]
#[ignore = "slow: hundreds of histories"]
fn history_ends_in_first_state_or_says_otherwise() {
    let histories = number("GDR_HISTORIES", 100);
    let seed = number("GDR_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    let tools = derived::tools();
    let longest = duration(tools.path());
    let mut counts = Counts::default();
    for history in 0..histories {
        let events = prop::collection::vec(event(longest), 1..=7);
        let drawn = (steps(), events).new_tree(&mut runner);
        let ((draws, programs), events) = drawn.expect("a history").current();
        let about = format!("seed {seed}, history {history}: {draws:?} {programs:?} {events:?}");
        let mut history = History::new(tools.path(), &draws, &programs, about);
        for event in &events {
            history.event(event, &mut counts);
        }
        history.end(&mut counts);
    }
    assert!(counts.killed > histories / 4, "only {} processes were killed in time", counts.killed);
    say(&format!(
        "seed {seed}, {histories} histories: {} processes killed, {} ended before that, {} out of space; {} repairs finished, {} \
         stopped at a step; {} undos left something, {} were forced",
        counts.killed,
        counts.ended,
        counts.full,
        counts.finished,
        counts.stopped,
        counts.refused,
        counts.forced
    ));
}

/// The child process of the test above; does nothing by itself.
#[test]
fn wrapped_event() {
    let (Some(root), Some(tools), Ok(part)) = (
        std::env::var_os("GDR_HISTORY_ROOT"),
        std::env::var_os("GDR_HISTORY_TOOLS"),
        std::env::var("GDR_HISTORY_PART"),
    ) else {
        return;
    };
    let (root, tools) = (Path::new(&root), Path::new(&tools));
    let manner = derived::manner(root);
    match part.as_str() {
        "Fix" => {
            let text = fs::read(root.join("var/plan.json")).expect("the plan");
            let actions: Vec<Action> = serde_json::from_slice(&text).expect("JSON");
            let _ = derived::apply(root, tools, manner, actions);
        }
        part => {
            let _ = derived::undo(root, tools, manner, part == "ForcedUndo");
        }
    }
}
