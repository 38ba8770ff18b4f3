//! memlock: locked memory without a bound for logins (limits.d), for services (systemd's default), and for the services
//! that start other people's programs (drop-ins of their units). Files of our own, named so that they count last.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::modules::may_have_systemd;
use crate::check::{Ctx, ground};
use crate::model::{Operation, Process, Setting};

pub const FIX: Fix = Fix {
    id: "memlock",
    about: "Programs may lock as much memory as RDMA registers: at logins, in services, and in the jobs and containers that \
            services start.",
    desired,
};

const LOGINS: &str = "/etc/security/limits.d/zz-gdr-memlock.conf";
const SERVICES: &str = "/etc/systemd/system.conf.d/zz-gdr-memlock.conf";
const BY: &str = "# By 'gdr fix memlock': what RDMA registers is locked memory.\n";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(
            "This is a container: its limit comes from what started it. Start it with --ulimit memlock=-1 (docker, podman), \
             or mend the machine's containerd ('gdr fix memlock' there).",
        );
    }
    let settings = ctx
        .facts
        .limits
        .memlock_settings
        .known()
        .map_or(&[][..], Vec::as_slice);
    let mut desired = DesiredState::default();
    if !logins_are_free(settings) {
        desired.desired_change(
            "Logins may lock memory without a bound.",
            ChangeTarget::file(
                LOGINS,
                format!("{BY}* soft memlock unlimited\n* hard memlock unlimited\n"),
            ),
        );
    }
    narrower(settings, &mut desired);
    let services = match may_have_systemd(ctx) {
        true => services(ctx, settings, &mut desired),
        false => {
            desired.warnings.push(
                "systemd does not run this machine: a service needs 'ulimit -l unlimited' in the script that starts it."
                    .to_owned(),
            );
            Vec::new()
        }
    };
    if desired.desired_changes.is_empty() {
        if is_bounded(ctx) {
            desired.warnings.push(
                "The machine's files say so already: this process is older than they are, or was started by something \
                 that sets a limit of its own. Log in again."
                    .to_owned(),
            );
        }
        return desired;
    }
    desired.warnings.push(
        "Whoever may lock memory without a bound may take all of the machine's: where strangers share it, bound their \
         services' memory (MemoryMax)."
            .to_owned(),
    );
    desired.afterwards.push(
        "Log in again: a limit holds for what is started after it (ulimit -l says unlimited)."
            .to_owned(),
    );
    if !services.is_empty() {
        desired.afterwards.push(format!(
            "Restart the services, where nothing runs in them: systemctl restart {}",
            services.join(" ")
        ));
    }
    if services.iter().any(|name| name == "slurmd") {
        desired.afterwards.push(
            "Slurm hands a job the limits of the shell that submits it: set PropagateResourceLimitsExcept=MEMLOCK in \
             slurm.conf on all nodes, and 'scontrol reconfigure'."
                .to_owned(),
        );
    }
    desired
}

/// Wishes systemd's default and the drop-ins; gives the services that need a restart.
fn services(ctx: &Ctx<'_>, settings: &[Setting], desired: &mut DesiredState) -> Vec<String> {
    let default = settings
        .iter()
        .rev()
        .find_map(|setting| setting.line.strip_prefix("DefaultLimitMEMLOCK="));
    let free_by_default = default.is_some_and(is_free);
    if !free_by_default {
        desired.desired_change(
            "Services may lock memory without a bound, where their units do not say otherwise.",
            ChangeTarget::file(
                SERVICES,
                format!("{BY}[Manager]\nDefaultLimitMEMLOCK=infinity\n"),
            ),
        );
    }
    let mut bounded = Vec::new();
    for service in ctx.facts.limits.services.known().into_iter().flatten() {
        let own = service
            .memlock
            .as_ref()
            .map(|setting| setting.line.as_str());
        let free = own.map_or(free_by_default, |line| {
            line.strip_prefix("LimitMEMLOCK=").is_some_and(is_free)
        });
        if free {
            continue;
        }
        desired.desired_change(
            format!(
                "What {} starts may lock memory without a bound.",
                service.name
            ),
            ChangeTarget::file(
                format!(
                    "/etc/systemd/system/{}.service.d/zz-gdr-memlock.conf",
                    service.name
                ),
                format!("{BY}[Service]\nLimitMEMLOCK=infinity\n"),
            ),
        );
        bounded.push(service.name.clone());
    }
    if !free_by_default || !bounded.is_empty() {
        desired.desired_change(
            "systemd reads its configuration and units again.",
            ChangeTarget::Run(Operation::ReloadUnits),
        );
    }
    bounded
}

/// Whether both limits of everybody are off, by the last line of each (pam_limits; limits.conf(5)).
fn logins_are_free(settings: &[Setting]) -> bool {
    let last = |wanted: &str| {
        settings
            .iter()
            .rev()
            .find_map(|setting| match words(setting).as_slice() {
                ["*", kind, "memlock", value] if *kind == wanted || *kind == "-" => {
                    Some(is_free(value))
                }
                _ => None,
            })
    };
    last("soft") == Some(true) && last("hard") == Some(true)
}

/// Lines for one user or group go before those for everybody.
fn narrower(settings: &[Setting], desired: &mut DesiredState) {
    for setting in settings {
        if let [who @ ("user" | "@group"), _, "memlock", value] = words(setting).as_slice()
            && !is_free(value)
        {
            let whose = if *who == "user" { "a user" } else { "a group" };
            desired.warnings.push(format!(
                "{} bounds {whose} (memlock {value}), which goes before a line for everybody: change it by hand.",
                setting.path
            ));
        }
    }
}

fn words(setting: &Setting) -> Vec<&str> {
    setting.line.split_ascii_whitespace().collect()
}

/// Without a bound, as limits.conf or systemd write it: one value, or the soft and the hard one.
fn is_free(value: &str) -> bool {
    let free = |value: &str| ["unlimited", "infinity", "-1"].contains(&value.trim());
    value.split(':').all(free)
}

/// Whether a limit binds this process.
fn is_bounded(ctx: &Ctx<'_>) -> bool {
    let process = &ctx.facts.process;
    let limited = process.memlock_soft.known().is_some_and(Option::is_some);
    limited && process.capable(Process::CAP_IPC_LOCK).known() == Some(&false)
}
