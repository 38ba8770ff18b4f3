//! One step of a plan: recorded, done and read back.

use std::path::Path;

use super::command::{build, command, expected};
use super::journal::Journals;
use super::register::{Register, name, value};
use super::{Error, Report};
use crate::model::{
    Action, Digest, FileChange, FileMeta, FilePath, FileRecord, ImageChange, ModuleName, Mutation,
    Operation, UnitName,
};
use crate::world::{CommandLine, Executor, FileImage, Ran};

/// Where the kernel lists its modules.
const MODULES: &str = "/proc/modules";
/// Where units are enabled.
pub const UNITS: &str = "/etc/systemd/system";

/// What became of doing a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// It is done, and reads back as planned.
    Done,
    /// On a laid-out machine no program does it: it is for the user.
    Printed,
}

/// Checks before the first step that gdr can replace every file of a plan, with everything that belongs to it.
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

/// Compares what is there with what the plan says, and records all that undoing the step takes.
pub fn record(
    executor: &Executor,
    journals: &Journals,
    number: u32,
    action: &Action,
) -> Result<Mutation, Error> {
    match action {
        Action::WriteConfig(write) => {
            let now = Register::find(executor, write)?.read(executor)?;
            match now & write.mask == write.old & write.mask {
                true => Ok(Mutation::WriteConfig(*write)),
                false => surprise(format!(
                    "{} reads {}, and read {} when the plan was made",
                    name(write),
                    value(write, now),
                    value(write, write.old)
                )),
            }
        }
        Action::WriteFile(write) => {
            let path = Path::new(write.path.as_str());
            let before = executor.file(path)?;
            expect_content(&write.path, before.as_ref(), write.old.as_ref())?;
            let created = executor.missing_above(path)?;
            let created = created
                .iter()
                .map(|path| path.display().to_string().try_into());
            let created: Result<Vec<FilePath>, _> = created.collect();
            let meta = match &before {
                Some(before) => before.meta.clone(),
                None => new_meta(write.mode),
            };
            Ok(Mutation::ReplaceFile(FileChange {
                before: save(journals, number, &write.path, before)?,
                after: Some(FileRecord {
                    sha256: Digest::of(write.content.as_bytes()),
                    meta,
                }),
                created: created.map_err(|invalid| {
                    Error::Surprise(format!("a directory above {} is {invalid}", write.path))
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
            match now == write.old {
                true => Ok(Mutation::WriteAttribute(write.clone())),
                false => surprise(format!(
                    "{} reads '{now}', and read '{}' when the plan was made",
                    write.path, write.old
                )),
            }
        }
        Action::RebuildImage(image) => match executor.digest(Path::new(image.path.as_str()))? {
            Some(before) => Ok(Mutation::RebuildImage(ImageChange {
                build: image.clone(),
                before,
                after: None,
            })),
            None => surprise(format!("{} is gone since the plan was made", image.path)),
        },
        Action::Run(operation) => Ok(Mutation::Run(operation.clone())),
    }
}

/// Does a step and reads it back; what can only be known afterwards goes into its record.
pub fn act(
    executor: &Executor,
    action: &Action,
    mutation: &mut Mutation,
    report: Report<'_>,
) -> Result<Acted, Error> {
    match (action, mutation) {
        (Action::WriteConfig(write), _) => {
            let now = Register::find(executor, write)?.set(executor, write.mask, write.new)?;
            match now & write.mask == write.new & write.mask {
                true => Ok(Acted::Done),
                false => surprise(format!(
                    "{} was written {} and reads {}: the device does not take it",
                    name(write),
                    value(write, write.new),
                    value(write, now)
                )),
            }
        }
        (Action::WriteFile(write), Mutation::ReplaceFile(change)) => {
            for directory in &change.created {
                executor.make_directory(Path::new(directory.as_str()), 0o755)?;
            }
            let path = Path::new(write.path.as_str());
            let meta = change
                .after
                .as_ref()
                .map_or_else(|| new_meta(write.mode), |after| after.meta.clone());
            let image = FileImage {
                content: write.content.clone().into_bytes(),
                meta,
                links: 1,
            };
            executor.replace(path, &image)?;
            match executor.file(path)? {
                Some(now)
                    if now == image || change.before.is_none() && is_same_file(&now, &image) =>
                {
                    // A new file has what its directory gives it: a default access control list, a security label.
                    change.after = Some(FileRecord {
                        sha256: Digest::of(&now.content),
                        meta: now.meta,
                    });
                    Ok(Acted::Done)
                }
                _ => surprise(format!(
                    "{} does not read back as it was written",
                    write.path
                )),
            }
        }
        (Action::RemoveFile { path, .. }, _) => {
            executor.remove(Path::new(path.as_str()))?;
            Ok(Acted::Done)
        }
        (Action::WriteAttribute(write), _) => {
            let path = Path::new(write.path.as_str());
            executor.write_attribute(path, &write.new)?;
            let now = executor.attribute(path)?;
            match now == write.new {
                true => Ok(Acted::Done),
                false => surprise(format!(
                    "{} was written '{}' and reads '{now}'",
                    write.path, write.new
                )),
            }
        }
        (Action::RebuildImage(image), Mutation::RebuildImage(change)) => {
            let Some(command) = build(image) else {
                return surprise(format!("the kernel of {} is not known", image.path));
            };
            let (path, kept) = (Path::new(image.path.as_str()), image.kept());
            executor.keep(path, Path::new(&kept))?;
            let acted = run(executor, &command, &[0], report)?;
            match acted {
                Acted::Done => change.after = executor.digest(path)?,
                // Nothing was built, so nothing is put back.
                Acted::Printed => executor.remove(Path::new(&kept))?,
            }
            Ok(acted)
        }
        (Action::Run(operation), _) => {
            let acted = run(executor, &command(operation), expected(operation), report)?;
            match operation {
                _ if acted == Acted::Printed => Ok(acted),
                Operation::LoadModule { module } if !is_loaded(executor, module)? => surprise(
                    format!("modprobe {module} ended well, and {MODULES} does not list it"),
                ),
                Operation::EnableUnit { unit } if !is_enabled(executor, unit)? => surprise(
                    format!("systemctl enable {unit} ended well, and nothing in {UNITS} wants it"),
                ),
                _ => Ok(acted),
            }
        }
        (action, _) => surprise(format!(
            "the record of a step is of another kind: {action:?}"
        )),
    }
}

/// Runs a program, which is reported before it begins.
pub fn run(
    executor: &Executor,
    command: &CommandLine,
    expected: &[i32],
    report: Report<'_>,
) -> Result<Acted, Error> {
    match start(executor, command, report) {
        ran if is_success(&ran, expected) => Ok(Acted::Done),
        Ran::Printed => Ok(Acted::Printed),
        other => surprise(ended(command, &other)),
    }
}

/// The same, whatever comes of it.
pub fn start(executor: &Executor, command: &CommandLine, report: Report<'_>) -> Ran {
    report(&format!("runs: {command}"));
    executor.run(command)
}

/// Whether a program ended as expected, or need not be there.
pub fn is_success(ran: &Ran, expected: &[i32]) -> bool {
    match ran {
        Ran::Ended { code, .. } => expected.contains(code),
        Ran::Missing => expected.contains(&super::command::MISSING),
        Ran::Printed | Ran::Failed(_) => false,
    }
}

/// How a command ended that should have ended otherwise.
pub fn ended(command: &CommandLine, ran: &Ran) -> String {
    match ran {
        Ran::Ended { code, output } if output.is_empty() => {
            format!("'{command}' ended with {code}")
        }
        Ran::Ended { code, output } => format!("'{command}' ended with {code}: {output}"),
        Ran::Failed(why) => format!("'{command}': {why}"),
        Ran::Missing => format!("'{command}': {} is not installed", command.program.name()),
        Ran::Printed => format!("'{command}' was not run"),
    }
}

/// Whether a module is loaded.
pub fn is_loaded(executor: &Executor, module: &ModuleName) -> Result<bool, Error> {
    let text = match executor.attribute(Path::new(MODULES)) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let wanted = module.as_str().replace('-', "_");
    Ok(text
        .lines()
        .any(|line| line.split(' ').next() == Some(&wanted)))
}

/// Whether some target wants a unit at boot.
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

/// Keeps the content of a file that is replaced, and records the rest of it.
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
    Ok(Some(FileRecord {
        sha256: Digest::of(&before.content),
        meta: before.meta,
    }))
}

/// Whether a replacement of this file can keep everything that belongs to it.
fn replaceable(path: &FilePath, image: &FileImage) -> Result<(), Error> {
    if image.links > 1 {
        return surprise(format!(
            "{path} has {} hard links: the other names would keep the old content. Write it by hand, or remove the links",
            image.links
        ));
    }
    if image.meta.mode & 0o7000 != 0 {
        return surprise(format!(
            "{path} has mode {:04o}: gdr changes no file with set-user-id, set-group-id or sticky bits",
            image.meta.mode
        ));
    }
    // They hold a signature of the content (kernel documentation, ABI/testing/evm and ima_policy).
    let signed = ["security.ima", "security.evm"];
    match signed
        .iter()
        .find(|name| image.meta.attributes.contains_key(**name))
    {
        Some(name) => surprise(format!(
            "{path} is signed ({name}), and gdr cannot sign what it writes"
        )),
        None => Ok(()),
    }
}

/// Content, permissions and owner, whatever the extended attributes.
fn is_same_file(a: &FileImage, b: &FileImage) -> bool {
    let owner = |image: &FileImage| (image.meta.mode, image.meta.uid, image.meta.gid);
    a.content == b.content && owner(a) == owner(b)
}

/// What belongs to a new file.
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
    wanted: Option<&Digest>,
) -> Result<(), Error> {
    let now = file.map(|file| Digest::of(&file.content));
    match (now.as_ref(), wanted) {
        (now, wanted) if now == wanted => Ok(()),
        (None, _) => surprise(format!("{path} is gone since the plan was made")),
        (_, None) => surprise(format!(
            "{path} was written by somebody since the plan was made"
        )),
        _ => surprise(format!(
            "{path} was changed by somebody since the plan was made"
        )),
    }
}

fn surprise<T>(words: String) -> Result<T, Error> {
    Err(Error::Surprise(words))
}
