//! Resolves a module name as modprobe does: the module loaded, its options, or why it is refused.

use super::line::{module_name, word};
use super::pattern::matches;
use crate::model::{Command, Directive};

pub struct Config<'a> {
    directives: Vec<&'a Directive>,
}

/// The result of a modprobe call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load<'a> {
    /// File name without suffix, with underscores.
    pub module: String,
    /// The `options` that apply, in the order in which the kernel gets them.
    pub options: Vec<&'a Directive>,
    /// The alias or install line that led there.
    pub by: Vec<&'a Directive>,
    /// Why it is not loaded.
    pub refused: Option<NotLoaded<'a>>,
}

/// Why a module is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLoaded<'a> {
    /// An install line runs a command that loads nothing.
    Install(&'a Directive),
    /// An alias maps the name to `off`.
    Off(&'a Directive),
    /// `module_blacklist=` on the kernel command line.
    Kernel(&'a Directive),
    /// A blacklist line, which applies only to udev's loads by alias.
    Blacklist(&'a Directive),
}

impl<'a> NotLoaded<'a> {
    pub fn directive(self) -> &'a Directive {
        match self {
            Self::Install(found)
            | Self::Off(found)
            | Self::Kernel(found)
            | Self::Blacklist(found) => found,
        }
    }
}

/// The command of an install line.
enum InstallCommand {
    Nothing,
    /// Loads this module by modprobe; true if it passes `$CMDLINE_OPTS`.
    Modprobe(String, bool),
    /// Unknown effect.
    Unknown,
}

impl<'a> Config<'a> {
    pub fn new(directives: impl IntoIterator<Item = &'a Directive>) -> Self {
        Self { directives: directives.into_iter().collect() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a Directive> {
        self.directives.iter().copied()
    }

    /// `modprobe NAME`: ignores blacklists.
    pub fn load(&self, requested: &str) -> Load<'a> {
        let alias = self.iter().find_map(|found| match &found.command {
            Command::Alias { name, module } if matches(name, requested) => {
                Some((found, module.as_str()))
            }
            _ => None,
        });
        match alias {
            Some((found, module)) => {
                let mut load = self.resolve(module, requested);
                load.by.insert(0, found);
                if module == "off" && load.refused.is_none() {
                    load.refused = Some(NotLoaded::Off(found));
                }
                load
            }
            None => self.resolve(requested, requested),
        }
    }

    /// `modprobe -b ALIAS`, as udev loads a device's driver. `module` is the target of the module's own
    /// alias, used if no directive matches.
    pub fn load_for_device(&self, modalias: &str, module: &str) -> Load<'a> {
        let mut load = self.load(modalias);
        if load.by.is_empty() {
            load = self.resolve(module, modalias);
        }
        // The blacklist applies to the alias's target, not to the target of an install line.
        let first = load.by.first().map(|found| &found.command);
        let listed = match first {
            Some(Command::Alias { module, .. }) => self.blacklisted(module),
            _ => self.blacklisted(module),
        };
        load.refused = listed.map(NotLoaded::Blacklist).or(load.refused);
        load
    }

    /// The line that blacklists a module.
    pub fn blacklisted(&self, module: &str) -> Option<&'a Directive> {
        self.iter().find(
            |found| matches!(&found.command, Command::Blacklist { module: name } if name == module),
        )
    }

    /// The parameter that makes the kernel refuse a module.
    pub fn refused_by_kernel(&self, module: &str) -> Option<&'a Directive> {
        self.iter().find(
            |found| matches!(&found.command, Command::Refuse { module: name } if name == module),
        )
    }

    /// The options for a module, by its name and by the requested name.
    fn options(&self, module: &str, requested: &str) -> Vec<&'a Directive> {
        let is_for = |found: &&Directive| match &found.command {
            Command::Options { module: name, .. } => name == module || name == requested,
            _ => false,
        };
        self.iter().filter(is_for).collect()
    }

    /// Resolves a module name: its install line, else itself.
    fn resolve(&self, module: &str, requested: &str) -> Load<'a> {
        let own = self.options(module, requested);
        let install = self.iter().find_map(|found| match &found.command {
            Command::Install { module: name, shell } if matches(name, module) => {
                Some((found, shell.as_str()))
            }
            _ => None,
        });
        let mut load = Load {
            module: module.to_owned(),
            options: own,
            by: install.iter().map(|(found, _)| *found).collect(),
            refused: None,
        };
        match install.map(|(found, shell)| (found, interpret(shell))) {
            Some((found, InstallCommand::Nothing)) => {
                load.refused = Some(NotLoaded::Install(found))
            }
            Some((_, InstallCommand::Modprobe(other, passes_options))) => {
                // The inner modprobe puts its own options before those passed to it.
                let outer = std::mem::replace(&mut load.options, self.options(&other, &other));
                if passes_options && other != module {
                    load.options.extend(outer);
                }
                load.module = other;
            }
            Some((_, InstallCommand::Unknown)) | None => {}
        }
        if load.refused.is_none() {
            load.refused = self.refused_by_kernel(&load.module).map(NotLoaded::Kernel);
        }
        load
    }
}

/// Interprets an install command. The last `modprobe -i` counts: distributions' lines load
/// dependencies first.
fn interpret(shell: &str) -> InstallCommand {
    let mut last = None;
    let mut loads_nothing = true;
    for command in shell.split([';', '&', '|']) {
        let Some((program, arguments)) = word(command) else {
            continue;
        };
        match program.rsplit('/').next().unwrap_or_default() {
            "false" | "true" | ":" | "exit" | "echo" | "logger" => {}
            "modprobe" => {
                loads_nothing = false;
                last = modprobe_target(arguments).or(last);
            }
            _ => loads_nothing = false,
        }
    }
    match last {
        Some((name, passes_options)) => InstallCommand::Modprobe(name, passes_options),
        None if loads_nothing => InstallCommand::Nothing,
        None => InstallCommand::Unknown,
    }
}

/// The module of `modprobe -i MODULE`, and whether `$CMDLINE_OPTS` is passed.
fn modprobe_target(mut arguments: &str) -> Option<(String, bool)> {
    let (mut ignores, mut passes_options, mut named) = (false, false, None);
    while let Some((argument, rest)) = word(arguments) {
        arguments = rest;
        match argument {
            "-i" | "--ignore-install" => ignores = true,
            "-r" | "--remove" => return None,
            "$CMDLINE_OPTS" => passes_options = true,
            _ if argument.starts_with(['-', '$', '>', '2']) => {}
            _ => named = named.or(Some(argument)),
        }
    }
    named.filter(|_| ignores).and_then(|name| Some((module_name(name)?, passes_options)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmod::{command_line, directives};

    fn read(text: &str) -> Vec<Directive> {
        directives("a.conf", text).expect("few")
    }

    /// Module and joined options of a load.
    fn module_and_options(load: &Load<'_>) -> (String, String) {
        let texts: Vec<&str> = load
            .options
            .iter()
            .filter_map(|found| match &found.command {
                Command::Options { options, .. } => Some(options.as_str()),
                _ => None,
            })
            .collect();
        (load.module.clone(), texts.join(" "))
    }

    fn loads(text: &str, requested: &str) -> (String, String) {
        let found = read(text);
        module_and_options(&Config::new(&found).load(requested))
    }

    fn pair(module: &str, options: &str) -> (String, String) {
        (module.to_owned(), options.to_owned())
    }

    /// From the documentation of Debian's nvidia-kernel-support.
    const DEBIAN: &str = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n\
                          install nvidia-uvm modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS\n";

    #[test]
    fn merges_options_of_name_and_alias() {
        assert_eq!(
            loads("options nvidia A=1\noptions nvidia-drm B=1\noptions nvidia C=2\n", "nvidia"),
            pair("nvidia", "A=1 C=2")
        );
        assert_eq!(
            loads(
                "alias nvidia nvidia-current\noptions nvidia A=1\noptions nvidia-current B=2\n",
                "nvidia"
            ),
            pair("nvidia_current", "A=1 B=2")
        );
    }

    #[test]
    fn debian_install_lines_pass_options() {
        let text = format!("{DEBIAN}options nvidia A=1\noptions nvidia-current A=2\n");
        assert_eq!(loads(&text, "nvidia"), pair("nvidia_current", "A=2 A=1"));
        assert_eq!(loads(&text, "nvidia_uvm"), pair("nvidia_current_uvm", ""));
        let without =
            "install nvidia /sbin/modprobe --ignore-install nvidia-current\noptions nvidia A=1\n";
        assert_eq!(loads(without, "nvidia"), pair("nvidia_current", ""));
        let same = "install nvidia /sbin/modprobe -i nvidia && /sbin/modprobe nvidia-uvm\noptions nvidia A=1\n";
        assert_eq!(loads(same, "nvidia"), pair("nvidia", "A=1"));
    }

    #[test]
    fn device_load_uses_options_of_alias_target() {
        let modalias = "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00";
        let text = format!("{DEBIAN}options nvidia A=1\n");
        let found = read(&text);
        let load = Config::new(&found).load_for_device(modalias, "nvidia_current");
        assert_eq!(module_and_options(&load), pair("nvidia_current", ""), "the options are lost");
        let text = format!("{text}alias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia\n");
        let found = read(&text);
        let load = Config::new(&found).load_for_device(modalias, "nvidia_current");
        assert_eq!(module_and_options(&load), pair("nvidia_current", "A=1"));
    }

    #[test]
    fn refuses_by_install_alias_kernel_and_blacklist() {
        for shell in ["/bin/false", "/bin/true", ":", "exit 1", "echo no; /usr/bin/false"] {
            let found = read(&format!("install nvidia {shell}\n"));
            let load = Config::new(&found).load("nvidia");
            assert!(matches!(load.refused, Some(NotLoaded::Install(_))), "{shell}");
        }
        let off = read("alias nvidia off\n");
        assert!(matches!(Config::new(&off).load("nvidia").refused, Some(NotLoaded::Off(_))));
        let words = command_line("module_blacklist=nvidia");
        assert!(matches!(Config::new(&words).load("nvidia").refused, Some(NotLoaded::Kernel(_))));
        let black = read("blacklist nvidia\n");
        let config = Config::new(&black);
        assert_eq!(config.load("nvidia").refused, None);
        let load = config.load_for_device("pci:v000010DE", "nvidia");
        assert!(matches!(load.refused, Some(NotLoaded::Blacklist(_))));
        for shell in ["/usr/bin/own-script nvidia", "modprobe nvidia-current", "true && own"] {
            let found = read(&format!("install nvidia {shell}\n"));
            assert_eq!(Config::new(&found).load("nvidia").refused, None, "{shell}");
        }
    }
}
