//! Module options and blacklists on the kernel command line, as libkmod and the kernel read them.

use super::directive::concerns;
use super::line::module_name;
use crate::model::{Command, Directive};

const SOURCE: &str = "/proc/cmdline";

/// The directives for modules that GPUDirect needs, in order.
pub fn command_line(text: &str) -> Vec<Directive> {
    let mut found = Vec::new();
    for word in words(text) {
        commands(&word, &mut found);
    }
    let of_ours = found.into_iter().filter(concerns);
    let directive = |command| Directive { source: SOURCE.to_owned(), line: 0, command };
    of_ours.map(directive).collect()
}

/// Splits at blanks outside quotes. Drops the last word if its quote is unclosed, as libkmod does.
pub fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        quoted ^= c == '"';
        match words.last_mut() {
            Some(word) if quoted || !(c.is_ascii_whitespace() || c == '\x0b') => word.push(c),
            _ => words.push(String::new()),
        }
    }
    if quoted {
        words.pop();
    }
    words
}

/// Parses `module.parameter=value`, `modprobe.blacklist=a,b`, and the kernel's `module_blacklist=a,b`.
fn commands(word: &str, found: &mut Vec<Command>) {
    if let Some(list) = word.strip_prefix("module_blacklist=") {
        // The kernel compares names without normalizing them.
        let names = list.trim_matches('"').split(',').filter(|name| !name.is_empty());
        found.extend(names.map(|name| Command::Refuse { module: name.to_owned() }));
        return;
    }
    // GRUB moves a quote from the value to the start of the word; libkmod moves it back.
    let (word, moved) = match word.strip_prefix('"') {
        Some(inner) => (inner, true),
        None => (word, false),
    };
    let Some((module, parameter)) = word.split_once('.') else {
        return;
    };
    // Quotes, dots or `=` before the value: not a module option.
    let name = parameter.split('=').next().unwrap_or_default();
    let value = parameter.split_once('=').map(|(_, value)| value);
    if module.contains(['=', '"', ' '])
        || name.contains(['.', '"', ' '])
        || (moved && value.is_none())
    {
        return;
    }
    match (module, value) {
        // Not normalized: kmod compares these with names that have underscores.
        ("modprobe", Some(list)) if name == "blacklist" => {
            let list = if moved { list.trim_end_matches('"') } else { list };
            found
                .extend(list.split(',').map(|name| Command::Blacklist { module: name.to_owned() }));
        }
        _ => {
            let Some(module) = module_name(module) else {
                return;
            };
            let options = match value {
                Some(value) if moved => format!("{name}=\"{value}"),
                _ => parameter.to_owned(),
            };
            found.push(Command::Options { module, options });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands_of(text: &str) -> Vec<Command> {
        command_line(text).into_iter().map(|found| found.command).collect()
    }

    fn options(options: &str) -> Command {
        Command::Options { module: "nvidia".to_owned(), options: options.to_owned() }
    }

    #[test]
    fn reads_module_dot_parameter() {
        for (text, expected) in [
            ("quiet nvidia.NVreg_X=1 ro\n", "NVreg_X=1"),
            ("nvidia.NVreg_X=1.5", "NVreg_X=1.5"),
            ("nvidia.NVreg_RegistryDwords=\"A=1; B=2\"", "NVreg_RegistryDwords=\"A=1; B=2\""),
            ("\"nvidia.NVreg_RegistryDwords=A=1; B=2\"", "NVreg_RegistryDwords=\"A=1; B=2\""),
            ("nvidia.async_probe", "async_probe"),
        ] {
            assert_eq!(commands_of(text), [options(expected)], "{text}");
        }
        for text in [
            "nvidia",
            "nvidia=1",
            "nvidia.a.b=1",
            "nvid\"ia.a\"=1",
            "nvidia.\"a=1\"",
            "x=nvidia.a=1",
            "nvidia.a=\"open",
            "snd.a=1",
            "",
        ] {
            assert!(commands_of(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn reads_blacklists_of_kmod_and_kernel() {
        let blacklist = |name: &str| Command::Blacklist { module: name.to_owned() };
        assert_eq!(
            commands_of("modprobe.blacklist=nouveau,nvidia-drm,pcspkr rd.driver.blacklist=nvidia"),
            [blacklist("nouveau"), blacklist("nvidia-drm")]
        );
        let refuse = Command::Refuse { module: "nvidia_peermem".to_owned() };
        assert_eq!(commands_of("module_blacklist=pcspkr,nvidia_peermem"), [refuse]);
    }
}
