//! One step of a plan: what must be there before it, doing it and reading it back, and taking it back.

use std::path::Path;

use super::Error;
use super::journal::owner;
use crate::model::{Action, Bdf, Before, ConfigWrite, Entry, FileImage, FileWrite, Hex, Progress, Reversal};
use crate::pci::{ConfigSpace, ReadError, offset_of};
use crate::world::{Hands, Ran};

/// Where the kernel lists its modules.
const MODULES: &str = "/proc/modules";
/// The exit status that stands for a program that is not installed, as in a shell (POSIX, Shell Command Language 2.8.2).
pub const MISSING: i32 = 127;
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

/// What became of taking a step back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// What was there before is there again.
    Restored,
    /// It was there already.
    Already,
    /// A reboot has reset it.
    Reset,
    /// There is nothing to take back.
    Nothing,
    /// The command that takes it back is for the user.
    Printed(Vec<String>),
    /// What is there now is neither what was there before nor what gdr wrote, in words.
    Refused(String),
}

/// Holds what is there against what the plan says was there, and keeps what the plan does not say of it.
pub fn look(hands: &Hands, action: &Action) -> Result<Before, Error> {
    match action {
        Action::WriteConfig(write) => {
            let now = Register::find(hands, write)?.read(hands)?;
            match now & write.mask == write.old & write.mask {
                true => Ok(Before::default()),
                false => surprise(format!(
                    "{} reads {}, and read {} when the plan was made",
                    name(write),
                    value(write, now),
                    value(write, write.old)
                )),
            }
        }
        Action::WriteFile(write) => {
            let path = Path::new(&write.path);
            let file = hands.file(path)?;
            expect_content(&write.path, file.as_ref(), write.old.as_deref())?;
            let made = hands.missing_above(path)?;
            Ok(Before {
                file,
                made: made.iter().map(|path| path.display().to_string()).collect(),
            })
        }
        Action::RemoveFile { path, old } => {
            let file = hands.file(Path::new(path))?;
            expect_content(path, file.as_ref(), Some(old))?;
            Ok(Before { file, made: Vec::new() })
        }
        Action::WriteAttribute { path, old, .. } => {
            let now = hands.attribute(Path::new(path))?;
            match now == *old {
                true => Ok(Before::default()),
                false => surprise(format!("{path} reads '{now}', and read '{old}' when the plan was made")),
            }
        }
        Action::RunCommand { .. }
        | Action::LoadModule { .. }
        | Action::EnableUnit { .. }
        | Action::SetKernelParameter { .. } => Ok(Before::default()),
    }
}

/// Does a step and reads it back.
pub fn act(hands: &Hands, action: &Action, before: &Before) -> Result<Acted, Error> {
    match action {
        Action::WriteConfig(write) => {
            let register = Register::find(hands, write)?;
            set(hands, &register, write, write.new)?;
            let now = register.read(hands)?;
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
        Action::WriteFile(write) => {
            for directory in &before.made {
                hands.make_directory(Path::new(directory), 0o755)?;
            }
            let path = Path::new(&write.path);
            let image = image(write, before.file.as_ref());
            hands.replace(path, &image)?;
            match hands.file(path)? {
                Some(now) if now == image => Ok(Acted::Done),
                _ => surprise(format!("{} does not read back as it was written", write.path)),
            }
        }
        Action::RemoveFile { path, .. } => {
            hands.remove(Path::new(path))?;
            Ok(Acted::Done)
        }
        Action::WriteAttribute { path, new, .. } => {
            let path = Path::new(path);
            hands.write_attribute(path, new)?;
            let now = hands.attribute(path)?;
            match now == *new {
                true => Ok(Acted::Done),
                false => surprise(format!("{} was written '{new}' and reads '{now}'", path.display())),
            }
        }
        Action::RunCommand { argv, expected, .. } => run(hands, argv, expected),
        Action::LoadModule { module } => {
            let argv = ["modprobe".to_owned(), module.clone()];
            let acted = run(hands, &argv, &[0])?;
            match acted == Acted::Printed || is_loaded(hands, module)? {
                true => Ok(acted),
                false => surprise(format!("modprobe {module} ended well, and {MODULES} does not list it")),
            }
        }
        Action::EnableUnit { unit } => {
            let argv = ["systemctl".to_owned(), "enable".to_owned(), unit.clone()];
            let acted = run(hands, &argv, &[0])?;
            match acted == Acted::Printed || is_enabled(hands, unit)? {
                true => Ok(acted),
                false => surprise(format!(
                    "systemctl enable {unit} ended well, and nothing in {UNITS} wants it"
                )),
            }
        }
        Action::SetKernelParameter { old, new } => run(hands, &grubby(old.as_deref(), Some(new)), &[0]),
    }
}

/// Takes a step back. `rebooted` says that the machine has booted since: what does not last is as it was. `force` restores
/// also where somebody else has changed it since.
pub fn reverse(hands: &Hands, entry: &Entry, rebooted: bool, force: bool) -> Result<Back, Error> {
    match &entry.step.action {
        Action::WriteConfig(write) => reverse_config(hands, write, rebooted, force),
        Action::WriteFile(write) => {
            let back = reverse_write(hands, write, &entry.before, force)?;
            if !matches!(back, Back::Refused(_)) {
                for directory in entry.before.made.iter().rev() {
                    hands.remove_directory(Path::new(directory))?;
                }
            }
            Ok(back)
        }
        Action::RemoveFile { path, .. } => {
            let Some(before) = &entry.before.file else {
                return Ok(Back::Nothing);
            };
            let target = Path::new(path);
            hands.sweep(target)?;
            match hands.file(target)? {
                Some(now) if now == *before => Ok(Back::Already),
                Some(_) if !force => Ok(Back::Refused(format!(
                    "{path} was taken away and is there again: somebody has written it since"
                ))),
                _ => {
                    hands.replace(target, before)?;
                    Ok(Back::Restored)
                }
            }
        }
        Action::WriteAttribute { path, old, new } => {
            let target = Path::new(path);
            hands.sweep(target)?;
            let now = match hands.attribute(target) {
                Ok(now) => now,
                Err(error) if error.is_absent() => return Ok(Back::Reset),
                Err(error) => return Err(error.into()),
            };
            if now == *old {
                return Ok(if rebooted { Back::Reset } else { Back::Already });
            }
            if now != *new && !force {
                return Ok(Back::Refused(format!(
                    "{path} reads '{now}', which gdr did not write: somebody has changed it since"
                )));
            }
            hands.write_attribute(target, old)?;
            Ok(Back::Restored)
        }
        Action::RunCommand { undo, .. } => match undo {
            Reversal::Nothing | Reversal::Again => Ok(Back::Nothing),
            Reversal::Command(argv) => reverse_by(hands, argv, entry.progress),
            Reversal::UntilReboot(_) if rebooted => Ok(Back::Reset),
            Reversal::UntilReboot(argv) => reverse_by(hands, argv, entry.progress),
        },
        Action::LoadModule { module } => match is_loaded(hands, module)? {
            false => Ok(if rebooted { Back::Reset } else { Back::Already }),
            // It was loaded again by somebody else, or at boot.
            true if rebooted => Ok(Back::Reset),
            true => {
                // Not modprobe -r: it takes along what the module needed and nobody uses, such as a NIC's own driver.
                let argv = ["rmmod".to_owned(), module.replace('-', "_")];
                reverse_by(hands, &argv, entry.progress)
            }
        },
        Action::EnableUnit { unit } => match is_enabled(hands, unit)? {
            false => Ok(Back::Already),
            true => {
                let argv = ["systemctl", "disable", unit.as_str()].map(str::to_owned);
                reverse_by(hands, &argv, entry.progress)
            }
        },
        Action::SetKernelParameter { old, new } => {
            reverse_by(hands, &grubby(Some(new), old.as_deref()), entry.progress)
        }
    }
}

/// Runs the commands that make one thing of another once more: the files under them are as they were.
pub fn again(hands: &Hands, argv: &[String], expected: &[i32]) -> Result<Back, Error> {
    match hands.run(argv) {
        ran if well(&ran, expected) => Ok(Back::Restored),
        Ran::Printed => Ok(Back::Printed(argv.to_vec())),
        other => Ok(Back::Refused(ended(argv, &other))),
    }
}

fn reverse_config(hands: &Hands, write: &ConfigWrite, rebooted: bool, force: bool) -> Result<Back, Error> {
    let register = match Register::find(hands, write) {
        Ok(register) => register,
        Err(Error::File(error)) if error.is_absent() => {
            return Ok(match rebooted {
                true => Back::Reset,
                false => Back::Refused(format!("{} is gone", write.bdf)),
            });
        }
        Err(error) => return Err(error),
    };
    let now = register.read(hands)?;
    if now & write.mask == write.old & write.mask {
        return Ok(if rebooted { Back::Reset } else { Back::Already });
    }
    if rebooted {
        // A boot starts from what the firmware and the kernel set: whoever wrote it since is not this repair.
        return Ok(Back::Reset);
    }
    if now & write.mask != write.new & write.mask && !force {
        return Ok(Back::Refused(format!(
            "{} reads {}, and gdr wrote {}: another tool, or the kernel after a reset of the device, has changed it since",
            name(write),
            value(write, now),
            value(write, write.new)
        )));
    }
    set(hands, &register, write, write.old)?;
    let now = register.read(hands)?;
    match now & write.mask == write.old & write.mask {
        true => Ok(Back::Restored),
        false => Ok(Back::Refused(format!(
            "{} was written {} and reads {}: the device does not take it",
            name(write),
            value(write, write.old),
            value(write, now)
        ))),
    }
}

fn reverse_write(hands: &Hands, write: &FileWrite, before: &Before, force: bool) -> Result<Back, Error> {
    let path = Path::new(&write.path);
    hands.sweep(path)?;
    let now = match hands.file(path) {
        Ok(now) => now,
        Err(error) if !force => return Ok(Back::Refused(error.sentence())),
        Err(error) => return Err(error.into()),
    };
    if now == before.file {
        return Ok(Back::Already);
    }
    let ours = now
        .as_ref()
        .is_some_and(|now| now.content.0 == write.content.as_bytes());
    if !ours && !force {
        let state = match now {
            Some(_) => "holds something else than gdr wrote",
            None => "is gone",
        };
        return Ok(Back::Refused(format!(
            "{} {state}: somebody has changed it since",
            write.path
        )));
    }
    match &before.file {
        Some(image) => hands.replace(path, image)?,
        None if now.is_some() => hands.remove(path)?,
        None => {}
    }
    Ok(Back::Restored)
}

fn reverse_by(hands: &Hands, argv: &[String], progress: Progress) -> Result<Back, Error> {
    match hands.run(argv) {
        Ran::Ended { code: 0, .. } => Ok(Back::Restored),
        Ran::Printed => Ok(Back::Printed(argv.to_vec())),
        // It may never have been done.
        Ran::Ended { .. } if progress == Progress::Begun => Ok(Back::Nothing),
        other => Ok(Back::Refused(ended(argv, &other))),
    }
}

fn run(hands: &Hands, argv: &[String], expected: &[i32]) -> Result<Acted, Error> {
    match hands.run(argv) {
        ran if well(&ran, expected) => Ok(Acted::Done),
        Ran::Printed => Ok(Acted::Printed),
        other => surprise(ended(argv, &other)),
    }
}

/// Whether a program ended as expected, or need not be there.
fn well(ran: &Ran, expected: &[i32]) -> bool {
    match ran {
        Ran::Ended { code, .. } => expected.contains(code),
        Ran::Missing(_) => expected.contains(&MISSING),
        Ran::Printed | Ran::Failed(_) => false,
    }
}

/// How a command ended that should have ended otherwise.
fn ended(argv: &[String], ran: &Ran) -> String {
    let line = argv.join(" ");
    match ran {
        Ran::Ended { code, said } if said.is_empty() => format!("'{line}' ended with {code}"),
        Ran::Ended { code, said } => format!("'{line}' ended with {code}: {said}"),
        Ran::Failed(why) => format!("'{line}': {why}"),
        Ran::Missing(name) => format!("'{line}': {name} is not installed"),
        Ran::Printed => format!("'{line}' was not run"),
    }
}

/// grubby's command that takes parameters off and puts others on, of every kernel that is installed.
fn grubby(off: Option<&str>, on: Option<&str>) -> Vec<String> {
    let mut argv = vec!["grubby".to_owned(), "--update-kernel=ALL".to_owned()];
    argv.extend(off.map(|off| format!("--remove-args={off}")));
    argv.extend(on.map(|on| format!("--args={on}")));
    argv
}

/// Whether a module is loaded.
fn is_loaded(hands: &Hands, module: &str) -> Result<bool, Error> {
    let text = match hands.attribute(Path::new(MODULES)) {
        Ok(text) => text,
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let wanted = module.replace('-', "_");
    Ok(text.lines().any(|line| line.split(' ').next() == Some(&wanted)))
}

/// Whether some target wants a unit at boot.
fn is_enabled(hands: &Hands, unit: &str) -> Result<bool, Error> {
    for name in hands.list(Path::new(UNITS))? {
        if name.ends_with(".wants") || name.ends_with(".requires") {
            let link = Path::new(UNITS).join(name).join(unit);
            if hands.is_there(&link)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What a file will be.
fn image(write: &FileWrite, before: Option<&FileImage>) -> FileImage {
    let (uid, gid) = owner();
    let content = Hex(write.content.clone().into_bytes());
    match before {
        Some(before) => FileImage {
            content,
            ..before.clone()
        },
        None => FileImage {
            content,
            mode: write.mode,
            uid,
            gid,
        },
    }
}

fn expect_content(path: &str, file: Option<&FileImage>, wanted: Option<&str>) -> Result<(), Error> {
    let now = file.map(|file| sha256(&file.content.0));
    match (now.as_deref(), wanted) {
        (now, wanted) if now == wanted => Ok(()),
        (None, _) => surprise(format!("{path} is gone since the plan was made")),
        (_, None) => surprise(format!("{path} was written by somebody since the plan was made")),
        _ => surprise(format!("{path} was changed by somebody since the plan was made")),
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn surprise<T>(words: String) -> Result<T, Error> {
    Err(Error::Surprise(words))
}

fn set(hands: &Hands, register: &Register, write: &ConfigWrite, wanted: u32) -> Result<(), Error> {
    let now = register.read(hands)?;
    let bytes = (now & !write.mask | wanted & write.mask).to_le_bytes();
    Ok(hands.write_config(register.bdf, register.offset, &bytes[..usize::from(register.width)])?)
}

/// A register where it is now.
struct Register {
    bdf: Bdf,
    offset: u16,
    width: u8,
}

impl Register {
    fn find(hands: &Hands, write: &ConfigWrite) -> Result<Self, Error> {
        // That the function is there is known before its list is walked: a walk has no words for a file that is not.
        hands.read_config(write.bdf, 0, 1)?;
        let space = Space { hands, bdf: write.bdf };
        match offset_of(&space, write.capability) {
            Ok(Some(offset)) if matches!(write.width, 1 | 2 | 4) => Ok(Self {
                bdf: write.bdf,
                offset: offset + write.offset,
                width: write.width,
            }),
            Ok(_) => surprise(format!("{} has no register {}", write.bdf, register(write))),
            Err(why) => surprise(format!(
                "the capabilities of {} cannot be read: {}",
                write.bdf,
                why.phrase()
            )),
        }
    }

    fn read(&self, hands: &Hands) -> Result<u32, Error> {
        let width = usize::from(self.width);
        let bytes = hands.read_config(self.bdf, self.offset, width)?;
        if bytes.len() != width {
            return surprise(format!(
                "configuration space of {} ends before {:#x}",
                self.bdf, self.offset
            ));
        }
        if bytes.iter().all(|byte| *byte == 0xff) {
            return surprise(format!("{} answers ones, as a device that is gone does", self.bdf));
        }
        let mut whole = [0; 4];
        whole[..width].copy_from_slice(&bytes);
        Ok(u32::from_le_bytes(whole))
    }
}

/// The configuration space of a function that is being changed.
struct Space<'h> {
    hands: &'h Hands,
    bdf: Bdf,
}

impl ConfigSpace for Space<'_> {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = self
            .hands
            .read_config(self.bdf, offset, out.len())
            .map_err(|_| ReadError::Failed)?;
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// A register as setpci names it.
pub fn register(write: &ConfigWrite) -> String {
    let size = match write.width {
        1 => "b",
        2 => "w",
        _ => "l",
    };
    format!("{}+{:#x}.{size}", write.capability.setpci(), write.offset)
}

fn name(write: &ConfigWrite) -> String {
    format!("{} of {}", register(write), write.bdf)
}

fn value(write: &ConfigWrite, value: u32) -> String {
    format!("{value:0width$x}", width = usize::from(write.width) * 2)
}
