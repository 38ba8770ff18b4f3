//! Masks private words of directives: words of shell commands, and paths in options.

use super::directive::directives;
use super::line::written;
use super::options::parameters;
use crate::model::{Command, Directive, Initramfs};

const MASKED: &str = "masked";

/// Masks a reduced file of modprobe.d. Idempotent.
pub fn masked(text: &str) -> String {
    let found = directives("", text).unwrap_or_default();
    found.into_iter().map(|found| line(mask(found))).collect()
}

/// Masks the directives of an initramfs.
pub fn masked_image(image: Initramfs) -> Initramfs {
    Initramfs { directives: image.directives.into_iter().map(mask).collect(), ..image }
}

fn mask(mut directive: Directive) -> Directive {
    match &mut directive.command {
        Command::Install { shell, .. } => {
            let words: Vec<&str> = shell.split_ascii_whitespace().map(word).collect();
            *shell = words.join(" ");
        }
        Command::Options { options, .. } => {
            let is_path = |value: &str| value.starts_with('/') && value.len() > 1;
            let set = parameters(options);
            if set.iter().any(|set| set.value.as_deref().is_some_and(is_path)) {
                let words = set.into_iter().map(|set| match set.value {
                    Some(value) if is_path(&value) => format!("{}=/{MASKED}", set.name),
                    Some(value) => format!("{}=\"{value}\"", set.name),
                    None => set.name,
                });
                *options = words.collect::<Vec<_>>().join(" ");
            }
        }
        _ => {}
    }
    directive
}

/// Keeps a word of a shell command that gdr interprets, and masks any other.
fn word(word: &str) -> &str {
    const PROGRAMS: [&str; 7] = ["modprobe", "false", "true", ":", "exit", "echo", "logger"];
    const SIGNS: [&str; 10] =
        [";", "&&", "||", "|", "&", "$CMDLINE_OPTS", "-i", "--ignore-install", "-r", "--remove"];
    const MODULES: [&str; 7] = ["nvidia", "nouveau", "mlx4", "mlx5", "ib_", "ib-", "gdrdrv"];
    let bare = word.trim_end_matches(';');
    let name = bare.rsplit('/').next().unwrap_or_default();
    let directory = &bare[..bare.len() - name.len()];
    let of_system = ["", "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"].contains(&directory);
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let module =
        directory.is_empty() && plain && MODULES.iter().any(|start| name.starts_with(start));
    if (of_system && PROGRAMS.contains(&name))
        || SIGNS.contains(&word)
        || SIGNS.contains(&bare)
        || module
    {
        word
    } else {
        MASKED
    }
}

/// Formats a directive like `kept`.
fn line(directive: Directive) -> String {
    let text = match &directive.command {
        Command::Options { module, options } => format!("options {module} {options}"),
        Command::Blacklist { module } => format!("blacklist {module}"),
        Command::Install { module, shell } => format!("install {module} {shell}"),
        Command::Alias { name, module } => format!("alias {name} {module}"),
        Command::Softdep { module, modules } => format!("softdep {module} {modules}"),
        Command::Refuse { .. } => return String::new(),
    };
    format!("{}{}\n{}\n", super::directive::MARK, directive.line, written(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmod::kept;

    #[test]
    fn masks_private_words_only() {
        let text = "install nvidia /sbin/modprobe -i nvidia-current $CMDLINE_OPTS; /opt/acme/bin/tell node17 # for alice\n\
                    install nouveau /bin/false\n\
                    options nvidia NVreg_TemporaryFilePath=/home/alice/tmp NVreg_RegistryDwords=\"A=1; B=2\"\n\
                    options nvidia NVreg_A=\"x y\"\n";
        let once = masked(&kept(text));
        for gone in ["acme", "node17", "alice"] {
            assert!(!once.contains(gone), "{once}");
        }
        assert_eq!(
            once,
            "# gdr: line 1\ninstall nvidia /sbin/modprobe -i nvidia-current $CMDLINE_OPTS; masked masked masked masked masked\n\
             # gdr: line 2\ninstall nouveau /bin/false\n\
             # gdr: line 3\noptions nvidia NVreg_TemporaryFilePath=/masked NVreg_RegistryDwords=\"A=1; B=2\"\n\
             # gdr: line 4\noptions nvidia NVreg_A=\"x y\"\n"
        );
        assert_eq!(masked(&once), once);
        assert_eq!(kept(&once), once);
    }
}
