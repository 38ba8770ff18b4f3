//! What modprobe does with a name: which module it ends at, with which options, or why it refuses.

use super::line::{module_name, word};
use super::pattern::matches;
use crate::model::{Command, Directive};

/// Directives in the order in which kmod reads them.
pub struct Config<'a> {
    directives: Vec<&'a Directive>,
}

/// What a call of modprobe comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load<'a> {
    /// The module's file name without its suffix, with underscores.
    pub module: String,
    /// The `options` that reach it, in the order in which the kernel gets them.
    pub options: Vec<&'a Directive>,
    /// The directives that led there: an alias, an install line.
    pub by: Vec<&'a Directive>,
    /// Why it is not loaded at all.
    pub refused: Option<NotLoaded<'a>>,
}

/// Why a module is not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLoaded<'a> {
    /// An install line runs a command that loads nothing.
    Install(&'a Directive),
    /// An alias leads to `off`, which is no module.
    Off(&'a Directive),
    /// The kernel refuses it: `module_blacklist=`.
    Kernel(&'a Directive),
    /// A blacklist, which counts only where udev asks by alias.
    Blacklist(&'a Directive),
}

impl<'a> NotLoaded<'a> {
    /// The directive that decides.
    pub fn directive(self) -> &'a Directive {
        match self {
            Self::Install(found)
            | Self::Off(found)
            | Self::Kernel(found)
            | Self::Blacklist(found) => found,
        }
    }
}

/// The command that an install line puts in a module's place.
enum Instead {
    Nothing,
    /// It loads this module by modprobe; whether `$CMDLINE_OPTS` goes along.
    Modprobe(String, bool),
    /// It may do anything.
    Unknown,
}

impl<'a> Config<'a> {
    /// The configuration that these directives are, in this order.
    pub fn new(directives: impl IntoIterator<Item = &'a Directive>) -> Self {
        Self {
            directives: directives.into_iter().collect(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a Directive> {
        self.directives.iter().copied()
    }

    /// `modprobe NAME`: blacklists do not count.
    pub fn load(&self, asked: &str) -> Load<'a> {
        let alias = self.iter().find_map(|found| match &found.command {
            Command::Alias { name, module } if matches(name, asked) => {
                Some((found, module.as_str()))
            }
            _ => None,
        });
        match alias {
            Some((found, module)) => {
                let mut load = self.insert(module, asked);
                load.by.insert(0, found);
                if module == "off" && load.refused.is_none() {
                    load.refused = Some(NotLoaded::Off(found));
                }
                load
            }
            None => self.insert(asked, asked),
        }
    }

    /// `modprobe -b ALIAS`, as udev asks for a device by its modalias. `module` is where the module's own alias leads,
    /// in case no directive has one for it.
    pub fn load_for_device(&self, modalias: &str, module: &str) -> Load<'a> {
        let mut load = self.load(modalias);
        if load.by.is_empty() {
            load = self.insert(module, modalias);
        }
        // The blacklist counts for the module that the alias leads to, not for one that an install line leads to.
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

    /// The word that makes the kernel refuse a module.
    pub fn refused_by_kernel(&self, module: &str) -> Option<&'a Directive> {
        self.iter().find(
            |found| matches!(&found.command, Command::Refuse { module: name } if name == module),
        )
    }

    /// The options for a module by its name and the name by which it was asked for.
    fn options(&self, module: &str, asked: &str) -> Vec<&'a Directive> {
        let is_for = |found: &&Directive| match &found.command {
            Command::Options { module: name, .. } => name == module || name == asked,
            _ => false,
        };
        self.iter().filter(is_for).collect()
    }

    /// A module by its name: its install line, else itself.
    fn insert(&self, module: &str, asked: &str) -> Load<'a> {
        let own = self.options(module, asked);
        let install = self.iter().find_map(|found| match &found.command {
            Command::Install {
                module: name,
                shell,
            } if matches(name, module) => Some((found, shell.as_str())),
            _ => None,
        });
        let mut load = Load {
            module: module.to_owned(),
            options: own,
            by: install.iter().map(|(found, _)| *found).collect(),
            refused: None,
        };
        match install.map(|(found, shell)| (found, instead(shell))) {
            Some((found, Instead::Nothing)) => load.refused = Some(NotLoaded::Install(found)),
            Some((_, Instead::Modprobe(other, carries))) => {
                // The inner modprobe puts its own options first, and those that came with the call after them.
                let outer = std::mem::replace(&mut load.options, self.options(&other, &other));
                if carries && other != module {
                    load.options.extend(outer);
                }
                load.module = other;
            }
            Some((_, Instead::Unknown)) | None => {}
        }
        if load.refused.is_none() {
            load.refused = self.refused_by_kernel(&load.module).map(NotLoaded::Kernel);
        }
        load
    }
}

/// What an install command does, as far as its words tell. The last `modprobe -i` counts: distributions' lines load
/// what a module needs first, and the module last.
fn instead(shell: &str) -> Instead {
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
                last = itself(arguments).or(last);
            }
            _ => loads_nothing = false,
        }
    }
    match last {
        Some((name, carries)) => Instead::Modprobe(name, carries),
        None if loads_nothing => Instead::Nothing,
        None => Instead::Unknown,
    }
}

/// The module that `modprobe -i MODULE` loads past its install line, and whether `$CMDLINE_OPTS` goes along.
fn itself(mut arguments: &str) -> Option<(String, bool)> {
    let (mut ignores, mut carries, mut named) = (false, false, None);
    while let Some((argument, rest)) = word(arguments) {
        arguments = rest;
        match argument {
            "-i" | "--ignore-install" => ignores = true,
            "-r" | "--remove" => return None,
            "$CMDLINE_OPTS" => carries = true,
            _ if argument.starts_with(['-', '$', '>', '2']) => {}
            _ => named = named.or(Some(argument)),
        }
    }
    named
        .filter(|_| ignores)
        .and_then(|name| Some((module_name(name)?, carries)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmod::{command_line, directives};

    fn read(text: &str) -> Vec<Directive> {
        directives("a.conf", text).expect("few")
    }

    /// Module and options of a load, the options joined.
    fn comes_to(load: &Load<'_>) -> (String, String) {
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

    fn loads(text: &str, asked: &str) -> (String, String) {
        let found = read(text);
        comes_to(&Config::new(&found).load(asked))
    }

    fn pair(module: &str, options: &str) -> (String, String) {
        (module.to_owned(), options.to_owned())
    }

    /// The lines of Debian's nvidia-kernel-support, from its documentation.
    const DEBIAN: &str = "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n\
                          install nvidia-uvm modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS\n";

    #[test]
    fn options_of_the_name_and_of_the_alias_add_up() {
        assert_eq!(
            loads(
                "options nvidia A=1\noptions nvidia-drm B=1\noptions nvidia C=2\n",
                "nvidia"
            ),
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
    fn debians_install_lines_carry_the_options_on() {
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
    fn a_device_gets_the_options_of_the_module_that_its_alias_leads_to() {
        let modalias = "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00";
        let text = format!("{DEBIAN}options nvidia A=1\n");
        let found = read(&text);
        let load = Config::new(&found).load_for_device(modalias, "nvidia_current");
        assert_eq!(
            comes_to(&load),
            pair("nvidia_current", ""),
            "the options are lost"
        );
        let text = format!("{text}alias pci:v000010DEd*sv*sd*bc03sc02i00* nvidia\n");
        let found = read(&text);
        let load = Config::new(&found).load_for_device(modalias, "nvidia_current");
        assert_eq!(comes_to(&load), pair("nvidia_current", "A=1"));
    }

    #[test]
    fn a_load_is_refused_by_install_alias_kernel_and_for_a_device_by_blacklist() {
        for shell in [
            "/bin/false",
            "/bin/true",
            ":",
            "exit 1",
            "echo no; /usr/bin/false",
        ] {
            let found = read(&format!("install nvidia {shell}\n"));
            let load = Config::new(&found).load("nvidia");
            assert!(
                matches!(load.refused, Some(NotLoaded::Install(_))),
                "{shell}"
            );
        }
        let off = read("alias nvidia off\n");
        assert!(matches!(
            Config::new(&off).load("nvidia").refused,
            Some(NotLoaded::Off(_))
        ));
        let words = command_line("module_blacklist=nvidia");
        assert!(matches!(
            Config::new(&words).load("nvidia").refused,
            Some(NotLoaded::Kernel(_))
        ));
        let black = read("blacklist nvidia\n");
        let config = Config::new(&black);
        assert_eq!(config.load("nvidia").refused, None);
        let load = config.load_for_device("pci:v000010DE", "nvidia");
        assert!(matches!(load.refused, Some(NotLoaded::Blacklist(_))));
        for shell in [
            "/usr/bin/own-script nvidia",
            "modprobe nvidia-current",
            "true && own",
        ] {
            let found = read(&format!("install nvidia {shell}\n"));
            assert_eq!(Config::new(&found).load("nvidia").refused, None, "{shell}");
        }
    }
}
