//! Parses modprobe.d files, and reduces them for snapshots.

use std::fmt::Write as _;

use super::line::{lines, module_name, word, written};
use crate::model::{Command, Directive};

/// Limits per file, far above real files.
const MOST: usize = 4096;
const MAX_BYTES: usize = 1 << 20;

/// The directives that concern GPUDirect, in order; an error if there are too many. Ignores the lines
/// that libkmod ignores: unknown commands, directives without arguments.
pub fn directives(source: &str, text: &str) -> Result<Vec<Directive>, String> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut marked: Option<u32> = None;
    for (line, text) in lines(text) {
        if let Some(number) = text.strip_prefix(MARK) {
            marked = number.parse().ok();
            continue;
        }
        let line = marked.take().unwrap_or(line);
        let Some(command) = command(&text).filter(concerns) else {
            continue;
        };
        bytes += text.len();
        if found.len() == MOST || bytes > MAX_BYTES {
            return Err(format!(
                "it has more than {MOST} directives, or more than {MAX_BYTES} bytes of them"
            ));
        }
        found.push(Directive { source: source.to_owned(), line, command });
    }
    Ok(found)
}

/// Reduces a file to the lines that concern GPUDirect, each preceded by its number. Idempotent. Drops
/// comments and other modules' lines, which are private.
pub fn kept(text: &str) -> String {
    let mut out = String::new();
    let mut marked: Option<u32> = None;
    let mut count = 0;
    for (line, text) in lines(text) {
        if let Some(number) = text.strip_prefix(MARK) {
            marked = number.parse().ok();
            continue;
        }
        let line = marked.take().unwrap_or(line);
        if command(&text).as_ref().is_some_and(concerns) {
            // One over the limit, so that the reduced file is over the limit too.
            count += 1;
            if count > MOST + 1 || out.len() > 2 * MAX_BYTES {
                break;
            }
            let _ = writeln!(out, "{MARK}{line}\n{}", written(&text));
        }
    }
    out
}

/// Precedes a kept line; a comment to kmod.
pub(super) const MARK: &str = "# gdr: line ";

fn command(line: &str) -> Option<Command> {
    if line.starts_with('#') {
        return None;
    }
    let (command, rest) = word(line)?;
    let (first, rest) = word(rest)?;
    // strtok_r returns no last word for an empty rest.
    let last = || (!rest.is_empty()).then(|| rest.to_owned());
    let module = module_name(first)?;
    Some(match command {
        "options" => Command::Options { module, options: last()?.replace('\t', " ") },
        "blacklist" => Command::Blacklist { module },
        "install" => Command::Install { module, shell: last()? },
        "alias" => Command::Alias { name: module, module: module_name(word(rest)?.0)? },
        "softdep" => Command::Softdep { module, modules: last()? },
        _ => return None,
    })
}

/// True if a directive concerns a module that GPUDirect needs or that conflicts with it.
pub fn concerns(command: &Command) -> bool {
    match command {
        Command::Options { module, .. }
        | Command::Blacklist { module }
        | Command::Install { module, .. }
        | Command::Softdep { module, .. }
        | Command::Refuse { module } => is_ours(module),
        Command::Alias { name, module } => {
            is_ours(module) || is_ours(name) || is_nvidia_function(name)
        }
    }
}

fn is_ours(module: &str) -> bool {
    const EXACT: [&str; 12] = [
        "bnxt_re",
        "efa",
        "efa_nv_peermem",
        "gdrdrv",
        "ionic_rdma",
        "irdma",
        "mana_ib",
        "nouveau",
        "nova_core",
        "nv_peer_mem",
        "rdma_cm",
        "rdma_ucm",
    ];
    const START: [&str; 5] = ["nvidia", "mlx4", "mlx5", "ib_", "iw_"];
    let pattern = module.starts_with(['*', '?', '[']);
    pattern || EXACT.contains(&module) || START.iter().any(|start| module.starts_with(start))
}

fn is_nvidia_function(alias: &str) -> bool {
    let vendor = alias.strip_prefix("pci:v").unwrap_or_default();
    vendor.len() >= 8 && vendor.is_char_boundary(8) && vendor[..8].eq_ignore_ascii_case("000010de")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Vec<Command> {
        let found = directives("x", text).expect("few");
        found.into_iter().map(|found| found.command).collect()
    }

    fn options(module: &str, options: &str) -> Command {
        Command::Options { module: module.to_owned(), options: options.to_owned() }
    }

    #[test]
    fn reads_kmod_syntax() {
        let text = "# options nvidia A=1\n  options\tnvidia-drm  modeset=1\toops=2 \noptions nvidia\noptions nvidia \n\
                    blacklist nvidia # a comment is not one\nBlacklist nvidia\ninstall nvidia /bin/false\n\
                    alias pci:v000010DEd*sv*sd*bc03sc02i00*\t\tnvidia\nalias nvidia off\nalias nvidia\n\
                    softdep nvidia pre: ib-core post: nvidia-uvm\noptions snd_hda_intel power_save=1\n";
        let module = || "nvidia".to_owned();
        let alias = |name: &str, module: &str| Command::Alias {
            name: name.to_owned(),
            module: module.to_owned(),
        };
        assert_eq!(
            commands(text),
            [
                options("nvidia_drm", " modeset=1 oops=2 "),
                Command::Blacklist { module: module() },
                Command::Install { module: module(), shell: "/bin/false".to_owned() },
                alias("pci:v000010DEd*sv*sd*bc03sc02i00*", "nvidia"),
                alias("nvidia", "off"),
                Command::Softdep {
                    module: module(),
                    modules: "pre: ib-core post: nvidia-uvm".to_owned()
                },
            ]
        );
    }

    #[test]
    fn directive_has_number_of_first_line() {
        let text = "# a\n\noptions nvidia \\\n  A=1 \\\n  B=2\noptions nvidia C=3\n";
        let found = directives("/etc/modprobe.d/a.conf", text).expect("few");
        assert_eq!((found[0].line, found[1].line), (3, 6));
        assert_eq!(found[0].command, options("nvidia", "  A=1   B=2"));
    }

    #[test]
    fn kept_lines_have_same_directives_and_nothing_private() {
        let text =
            "# by alice\noptions snd a=1\noptions nvidia \\\n A=\\\\x\n\nblacklist nouveau\n";
        let kept_once = kept(text);
        assert!(!kept_once.contains("alice") && !kept_once.contains("snd"), "{kept_once}");
        assert_eq!(kept(&kept_once), kept_once);
        assert_eq!(directives("x", &kept_once), directives("x", text));
        assert_eq!(kept("blacklist pcspkr\n"), "");
    }

    #[test]
    fn rejects_huge_file_before_and_after_reduction() {
        let text = "options nvidia A=1\n".repeat(100_000);
        assert!(directives("x", &text).is_err());
        let kept = kept(&text);
        assert!(kept.len() < 300_000 && directives("x", &kept).is_err());
        let others = "# nothing\noptions snd a=1\n".repeat(200_000);
        assert_eq!(directives("x", &others), Ok(Vec::new()));
    }
}
