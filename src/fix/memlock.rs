//! memlock: removes the limit on locked memory for logins (limits.d), services (systemd's default) and
//! services that start other programs (unit drop-ins), in files of our own that are read last.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use super::modules::may_have_systemd;
use crate::check::{Ctx, ground};
use crate::model::{Fact, Operation, Process, Setting};

pub const FIX: Fix = Fix {
    id: "memlock",
    about: "No limit on locked memory, which RDMA registers: for logins, services, and the jobs and containers that services \
            start.",
    checks: &["limits.memlock"],
    requires: &[],
    desired,
};

const LOGINS: &str = "/etc/security/limits.d/zz-gdr-memlock.conf";
const SERVICES: &str = "/etc/systemd/system.conf.d/zz-gdr-memlock.conf";
const BY: &str = "# By 'gdr fix memlock': RDMA locks the memory that it registers.\n";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(
            "This is a container: its limit comes from its runtime. Start it with --ulimit memlock=-1 (docker, podman), or run \
             'gdr fix memlock' on the host.",
        );
    }
    let settings = match &ctx.facts.limits.memlock_settings {
        Fact::Known(settings) => settings.as_slice(),
        Fact::Unknown(why) => {
            let source = "/etc/security/limits.conf, limits.d or systemd's system.conf";
            return DesiredState::none(NoChange::unread(source, *why));
        }
    };
    if let Fact::Unknown(why) = ctx.facts.limits.services
        && may_have_systemd(ctx)
    {
        let source =
            "the units of services that start jobs (/etc/systemd/system, /usr/lib/systemd/system)";
        return DesiredState::none(NoChange::unread(source, why));
    }
    let mut desired = DesiredState::default();
    if !logins_are_unlimited(settings) {
        desired.change(
            "Remove the limit for logins.",
            ChangeTarget::file(
                LOGINS,
                format!("{BY}* soft memlock unlimited\n* hard memlock unlimited\n"),
            ),
        );
    }
    warn_of_narrower_limits(settings, &mut desired);
    let services = if may_have_systemd(ctx) {
        services(ctx, settings, &mut desired)
    } else {
        desired.warnings.push(
                "This machine does not use systemd: add 'ulimit -l unlimited' to the scripts that start services."
                    .to_owned(),
            );
        Vec::new()
    };
    if desired.changes.is_empty() {
        if is_limited(ctx) {
            desired.warnings.push(
                "The machine's files have no limit already: this process was started before the change, or by a program that \
                 sets a limit. Log in again."
                    .to_owned(),
            );
        }
        return desired;
    }
    desired.warnings.push(
        "Users may then lock all of the machine's memory: if users do not trust each other, limit the memory of their \
         services (MemoryMax)."
            .to_owned(),
    );
    desired.afterwards.push(
        "Log in again: the change applies to new sessions ('ulimit -l' prints unlimited)."
            .to_owned(),
    );
    if !services.is_empty() {
        desired.afterwards.push(format!(
            "Restart the services while they are idle: systemctl restart {}",
            services.join(" ")
        ));
    }
    if services.iter().any(|name| name == "slurmd") {
        desired.afterwards.push(
            "Slurm gives jobs the limits of the submitting shell: set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf on all \
             nodes, then run 'scontrol reconfigure'."
                .to_owned(),
        );
    }
    desired
}

/// Adds systemd's default and the drop-ins; returns the services to restart.
fn services(ctx: &Ctx<'_>, settings: &[Setting], desired: &mut DesiredState) -> Vec<String> {
    let default =
        settings.iter().rev().find_map(|setting| setting.line.strip_prefix("DefaultLimitMEMLOCK="));
    let unlimited_by_default = default.is_some_and(is_unlimited);
    if !unlimited_by_default {
        desired.change(
            "Remove the default limit for services.",
            ChangeTarget::file(SERVICES, format!("{BY}[Manager]\nDefaultLimitMEMLOCK=infinity\n")),
        );
    }
    let mut limited = Vec::new();
    for service in ctx.facts.limits.services.known().into_iter().flatten() {
        let own = service.memlock.as_ref().map(|setting| setting.line.as_str());
        let unlimited = own.map_or(unlimited_by_default, |line| {
            line.strip_prefix("LimitMEMLOCK=").is_some_and(is_unlimited)
        });
        if unlimited {
            continue;
        }
        desired.change(
            format!("Remove the limit for programs that {} starts.", service.name),
            ChangeTarget::file(
                format!("/etc/systemd/system/{}.service.d/zz-gdr-memlock.conf", service.name),
                format!("{BY}[Service]\nLimitMEMLOCK=infinity\n"),
            ),
        );
        limited.push(service.name.clone());
    }
    if !unlimited_by_default || !limited.is_empty() {
        desired.change(
            "Reload systemd's configuration and units.",
            ChangeTarget::Run(Operation::ReloadUnits),
        );
    }
    limited
}

/// True if the last `*` lines set no limit, soft and hard (pam_limits; limits.conf(5)).
fn logins_are_unlimited(settings: &[Setting]) -> bool {
    let last = |limit: &str| {
        settings.iter().rev().find_map(|setting| match words(setting).as_slice() {
            ["*", kind, "memlock", value] if *kind == limit || *kind == "-" => {
                Some(is_unlimited(value))
            }
            _ => None,
        })
    };
    last("soft") == Some(true) && last("hard") == Some(true)
}

/// Warns of limits for one user or group: they override those for all.
fn warn_of_narrower_limits(settings: &[Setting], desired: &mut DesiredState) {
    for setting in settings {
        if let [who @ ("user" | "@group"), _, "memlock", value] = words(setting).as_slice()
            && !is_unlimited(value)
        {
            let limited = if *who == "user" { "a user" } else { "a group" };
            desired.warnings.push(format!(
                "{} limits {limited} (memlock {value}), which overrides the line for all users: change it by hand.",
                setting.path
            ));
        }
    }
}

fn words(setting: &Setting) -> Vec<&str> {
    setting.line.split_ascii_whitespace().collect()
}

/// Unlimited, in the syntax of limits.conf or systemd: one value, or soft and hard.
fn is_unlimited(value: &str) -> bool {
    let unlimited = |value: &str| ["unlimited", "infinity", "-1"].contains(&value.trim());
    value.split(':').all(unlimited)
}

fn is_limited(ctx: &Ctx<'_>) -> bool {
    let process = &ctx.facts.process;
    let limited = process.memlock_soft.known().is_some_and(Option::is_some);
    limited && process.capable(Process::CAP_IPC_LOCK).known() == Some(&false)
}
