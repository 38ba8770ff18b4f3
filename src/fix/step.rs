//! One step of a plan: recorded, run, verified.

use std::path::Path;

use super::command::{build, command, expected};
use super::journal::Journals;
use super::register::{Register, name, value};
use super::{Error, Report};
use crate::model::{
    Action, Digest, FileChange, FileMeta, FilePath, FileRecord, FileWrite, ImageChange, ModuleName,
    Mutation, Operation, UnitName,
};
use crate::world::{CommandLine, Executor, FileImage, Ran};

const MODULES: &str = "/proc/modules";
/// Where systemd keeps the links of enabled units.
pub const UNITS: &str = "/etc/systemd/system";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// The step ran, and the result was verified.
    Done,
    /// Nothing ran because the machine is a directory; the user runs the command.
    Printed,
}

/// Checks before the first step that gdr can replace the file with all its attributes.
pub fn check_file(executor: &Executor, action: &Action) -> Result<(), Error> {
    let path = match action {
        Action::WriteFile(write) => &write.path,
        Action::RemoveFile { path, .. } => path,
        _ => return Ok(()),
    };
    match executor.file(Path::new(path.as_str()))? {
        Some(image) => replaceable(path, &image),
        None => Ok(()),
    }
}

/// Compares the machine with the plan, and returns what an undo of the step needs.
pub fn record(
    executor: &Executor,
    journals: &Journals,
    number: u32,
    action: &Action,
) -> Result<Mutation, Error> {
    match action {
        Action::WriteConfig(write) => {
            let now = Register::find(executor, write)?.read(executor)?;
            if now & write.mask == write.old & write.mask {
                Ok(Mutation::WriteConfig(*write))
            } else {
                unexpected(format!(
                    "{} reads {}, but read {} when the plan was made",
                    name(write),
                    value(write, now),
                    value(write, write.old)
                ))
            }
        }
        Action::WriteFile(write) => {
            let path = Path::new(write.path.as_str());
            let before = executor.file(path)?;
            expect_content(&write.path, before.as_ref(), write.old.as_ref())?;
            let created = executor.missing_above(path)?;
            let created = created.iter().map(|path| path.display().to_string().try_into());
            let created: Result<Vec<FilePath>, _> = created.collect();
            let meta = match &before {
                Some(before) => before.meta.clone(),
                None => new_meta(write.mode),
            };
            Ok(Mutation::ReplaceFile(FileChange {
                before: save(journals, number, &write.path, before)?,
                after: Some(FileRecord { sha256: Digest::of(write.content.as_bytes()), meta }),
                created: created.map_err(|invalid| {
                    Error::Unexpected(format!("a directory above {} is {invalid}", write.path))
                })?,
                path: write.path.clone(),
            }))
        }
        Action::RemoveFile { path, old } => {
            let before = executor.file(Path::new(path.as_str()))?;
            expect_content(path, before.as_ref(), Some(old))?;
            Ok(Mutation::ReplaceFile(FileChange {
                before: save(journals, number, path, before)?,
                after: None,
                created: Vec::new(),
                path: path.clone(),
            }))
        }
        Action::WriteAttribute(write) => {
            let now = executor.attribute(Path::new(write.path.as_str()))?;
            if now == write.old {
                Ok(Mutation::WriteAttribute(write.clone()))
            } else {
                unexpected(format!(
                    "{} reads '{now}', but read '{}' when the plan was made",
                    write.path, write.old
                ))
            }
        }
        Action::RebuildImage(image) => match executor.digest(Path::new(image.path.as_str()))? {
            Some(before) => Ok(Mutation::RebuildImage(ImageChange {
                build: image.clone(),
                before,
                after: None,
            })),
            None => unexpected(format!("{} was removed after the plan was made", image.path)),
        },
        Action::Run(operation) => Ok(Mutation::Run(operation.clone())),
    }
}

/// Runs a step and verifies it; adds to its record what is known only afterwards.
pub fn act(
    executor: &Executor,
    action: &Action,
    mutation: &mut Mutation,
    report: Report<'_>,
) -> Result<StepResult, Error> {
    match (action, mutation) {
        (Action::WriteConfig(write), _) => {
            let now = Register::find(executor, write)?.set(executor, write.mask, write.new)?;
            if now & write.mask == write.new & write.mask {
                Ok(StepResult::Done)
            } else {
                unexpected(format!(
                    "{} was written {} and reads {}: the device ignores the write",
                    name(write),
                    value(write, write.new),
                    value(write, now)
                ))
            }
        }
        (Action::WriteFile(write), Mutation::ReplaceFile(change)) => {
            write_file(executor, write, change)
        }
        (Action::RemoveFile { path, .. }, _) => {
            executor.remove(Path::new(path.as_str()))?;
            Ok(StepResult::Done)
        }
        (Action::WriteAttribute(write), _) => {
            let path = Path::new(write.path.as_str());
            executor.write_attribute(path, &write.new)?;
            let now = executor.attribute(path)?;
            if now == write.new {
                Ok(StepResult::Done)
            } else {
                unexpected(format!("{} was written '{}' and reads '{now}'", write.path, write.new))
            }
        }
        (Action::RebuildImage(image), Mutation::RebuildImage(change)) => {
            let Some(command) = build(image) else {
                return unexpected(format!("cannot determine the kernel of {}", image.path));
            };
            let (path, kept) = (Path::new(image.path.as_str()), image.kept());
            executor.keep(path, Path::new(&kept))?;
            let acted = run(executor, &command, &[0], report)?;
            match acted {
                StepResult::Done => change.after = executor.digest(path)?,
                // The image was not rebuilt, so the copy is not needed.
                StepResult::Printed => executor.remove(Path::new(&kept))?,
            }
            Ok(acted)
        }
        (Action::Run(operation), _) => run_operation(executor, operation, report),
        (action, _) => unexpected(format!("the record of a step has the wrong type: {action:?}")),
    }
}

fn write_file(
    executor: &Executor,
    write: &FileWrite,
    change: &mut FileChange,
) -> Result<StepResult, Error> {
    for directory in &change.created {
        executor.make_directory(Path::new(directory.as_str()), 0o755)?;
    }
    let path = Path::new(write.path.as_str());
    let meta =
        change.after.as_ref().map_or_else(|| new_meta(write.mode), |after| after.meta.clone());
    let image = FileImage { content: write.content.clone().into_bytes(), meta, links: 1 };
    executor.replace(path, &image)?;
    match executor.file(path)? {
        Some(now) if now == image || change.before.is_none() && is_same_file(&now, &image) => {
            // Its directory may give a new file a default ACL or a security label.
            change.after = Some(FileRecord { sha256: Digest::of(&now.content), meta: now.meta });
            Ok(StepResult::Done)
        }
        _ => unexpected(format!("{} reads back with other content", write.path)),
    }
}

fn run_operation(
    executor: &Executor,
    operation: &Operation,
    report: Report<'_>,
) -> Result<StepResult, Error> {
    let acted = run(executor, &command(operation), expected(operation), report)?;
    match operation {
        _ if acted == StepResult::Printed => Ok(acted),
        Operation::LoadModule { module } if !is_loaded(executor, module)? => {
            unexpected(format!("modprobe {module} succeeded, but {MODULES} does not list it"))
        }
        Operation::EnableUnit { unit } if !is_enabled(executor, unit)? => unexpected(format!(
            "systemctl enable {unit} succeeded, but no target in {UNITS} wants it"
        )),
        _ => Ok(acted),
    }
}

/// Reports a program, then runs it; any other exit status than `expected` is an error.
pub fn run(
    executor: &Executor,
    command: &CommandLine,
    expected: &[i32],
    report: Report<'_>,
) -> Result<StepResult, Error> {
    match start(executor, command, report) {
        ran if is_success(&ran, expected) => Ok(StepResult::Done),
        Ran::Printed => Ok(StepResult::Printed),
        Ran::Missing => Err(Error::NotInstalled(ended(command, &Ran::Missing))),
        other => unexpected(ended(command, &other)),
    }
}

/// Reports a program, then runs it.
pub fn start(executor: &Executor, command: &CommandLine, report: Report<'_>) -> Ran {
    report(&format!("runs: {command}"));
    executor.run(command)
}

pub fn is_success(ran: &Ran, expected: &[i32]) -> bool {
    match ran {
        Ran::Ended { code, .. } => expected.contains(code),
        Ran::Missing => expected.contains(&super::command::MISSING),
        Ran::Printed | Ran::Failed(_) => false,
    }
}

pub fn ended(command: &CommandLine, ran: &Ran) -> String {
    match ran {
        Ran::Ended { code, output } if output.is_empty() => {
            format!("'{command}' failed with exit status {code}")
        }
        Ran::Ended { code, output } => {
            format!("'{command}' failed with exit status {code}: {output}")
        }
        Ran::Failed(why) => format!("'{command}': {why}"),
        Ran::Missing => format!("'{command}': {} is not installed", command.program.name()),
        Ran::Printed => format!("'{command}' was not run"),
    }
}

pub fn is_loaded(executor: &Executor, module: &ModuleName) -> Result<bool, Error> {
    let text = match executor.attribute(Path::new(MODULES)) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let name = module.as_str().replace('-', "_");
    Ok(text.lines().any(|line| line.split(' ').next() == Some(&name)))
}

/// True if a target wants the unit at boot.
pub fn is_enabled(executor: &Executor, unit: &UnitName) -> Result<bool, Error> {
    for name in executor.list(Path::new(UNITS))? {
        if name.ends_with(".wants") || name.ends_with(".requires") {
            let link = Path::new(UNITS).join(name).join(unit.as_str());
            if executor.is_there(&link)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Saves the content of a file that will be replaced.
fn save(
    journals: &Journals,
    number: u32,
    path: &FilePath,
    before: Option<FileImage>,
) -> Result<Option<FileRecord>, Error> {
    let Some(before) = before else {
        return Ok(None);
    };
    replaceable(path, &before)?;
    journals.save(number, &before.content)?;
    Ok(Some(FileRecord { sha256: Digest::of(&before.content), meta: before.meta }))
}

/// Refuses files that cannot be replaced without losing links, mode bits or a signature.
fn replaceable(path: &FilePath, image: &FileImage) -> Result<(), Error> {
    if image.links > 1 {
        return unexpected(format!(
            "{path} has {} hard links: the others would keep the old content; edit it by hand, or remove the links",
            image.links
        ));
    }
    if image.meta.mode & 0o7000 != 0 {
        return unexpected(format!(
            "{path} has mode {:04o}: gdr does not change files with set-user-id, set-group-id or sticky bits",
            image.meta.mode
        ));
    }
    // Signatures of the content (kernel documentation, ABI/testing/evm and ima_policy).
    let signed = ["security.ima", "security.evm"];
    match signed.iter().find(|name| image.meta.attributes.contains_key(**name)) {
        Some(name) => {
            unexpected(format!("{path} is signed ({name}), and gdr cannot sign what it writes"))
        }
        None => Ok(()),
    }
}

/// Compares content, permissions and owner, but not extended attributes.
fn is_same_file(a: &FileImage, b: &FileImage) -> bool {
    let owner = |image: &FileImage| (image.meta.mode, image.meta.uid, image.meta.gid);
    a.content == b.content && owner(a) == owner(b)
}

fn new_meta(mode: u32) -> FileMeta {
    FileMeta {
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ..FileMeta::default()
    }
}

fn expect_content(
    path: &FilePath,
    file: Option<&FileImage>,
    expected: Option<&Digest>,
) -> Result<(), Error> {
    let now = file.map(|file| Digest::of(&file.content));
    match (now.as_ref(), expected) {
        (now, expected) if now == expected => Ok(()),
        (None, _) => unexpected(format!("{path} was removed after the plan was made")),
        (_, None) => unexpected(format!("{path} was created after the plan was made")),
        _ => unexpected(format!("{path} was changed after the plan was made")),
    }
}

fn unexpected<T>(words: String) -> Result<T, Error> {
    Err(Error::Unexpected(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The kernel lists modules with underscores, whatever their files are called.
    #[test]
    fn finds_loaded_modules() {
        let dir = tempfile::tempdir().expect("a directory");
        let executor = Executor::directory(dir.path(), None, Duration::from_secs(1));
        let executor = executor.expect("a root");
        let is_loaded = |name: &str| {
            let module = ModuleName::try_from(name).expect("a module");
            is_loaded(&executor, &module).expect("a file or none")
        };
        assert!(!is_loaded("nvidia"), "there is no list");
        let list = dir.path().join(MODULES.trim_start_matches('/'));
        std::fs::create_dir_all(list.parent().expect("a directory")).expect("directories");
        let text = "nvidia_peermem 16384 0 - Live 0x0\nnvidia_uvm 4096 0 - Live 0x0\n";
        std::fs::write(list, text).expect("a list");
        for (name, expected) in [
            ("nvidia-peermem", true),
            ("nvidia_peermem", true),
            ("nvidia_uvm", true),
            ("nvidia", false),
            ("gdrdrv", false),
        ] {
            assert_eq!(is_loaded(name), expected, "{name}");
        }
    }
}
