//! The report as metrics in Prometheus's text format, for the textfile collector of the node exporter.
//!
//! Format: <https://prometheus.io/docs/instrumenting/exposition_formats/>. HELP and TYPE precede the samples of a
//! metric; backslash, quote and line feed are escaped in label values; samples are unique.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::SystemTime;

use super::{Report, counts};
use crate::model::{DeviceReading, Finding, Outcome, ReadyState, is_flap};
use crate::output::{is_hidden, now};

pub fn prometheus(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut family = Family::gauge("gdr_build_info", "Version of the gdr that wrote this file.");
    family.add(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    family.write(out)?;
    let mut family = Family::gauge("gdr_last_run_timestamp_seconds", "When the machine was read.");
    let taken = report.host.recorded.clone().unwrap_or_else(now);
    let taken = humantime::parse_rfc3339(&taken).ok();
    let seconds = taken.and_then(|taken| taken.duration_since(SystemTime::UNIX_EPOCH).ok());
    if let Some(seconds) = seconds {
        family.add(&[], seconds.as_secs() as f64);
    }
    family.write(out)?;
    ready(report, out)?;
    let mut family = Family::gauge("gdr_findings", "Number of findings by outcome.");
    for (_, count, word) in counts(&report.summary) {
        family.add(&[("outcome", word)], count as f64);
    }
    family.write(out)?;
    findings(report, out)?;
    devices(report, out)?;
    ports(report, out)
}

fn ready(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut whole = Family::gauge("gdr_ready", "1 if the whole machine is ready for the profile.");
    let mut open = Family::gauge(
        "gdr_undetermined",
        "1 if nothing is known to prevent the profile, and an unknown fact keeps the machine from being called ready for it.",
    );
    let mut number = Family::gauge(
        "gdr_ready_places",
        "Number of GPUs, or of GPUs with their partner, that are ready for the profile.",
    );
    let mut blocked = Family::gauge(
        "gdr_blocked_places",
        "Number of GPUs, or of GPUs with their partner, that are not ready for the profile.",
    );
    let mut places = Family::gauge(
        "gdr_ready_place",
        "A GPU, or a GPU with its partner, that is ready for the profile.",
    );
    for readiness in &report.readiness {
        let profile = ("profile", readiness.profile.as_str());
        whole.add(&[profile], f64::from(u8::from(readiness.state == ReadyState::Ready)));
        let may_be_open = matches!(readiness.state, ReadyState::Partly | ReadyState::Undetermined);
        let is_open = may_be_open && readiness.blocked.is_empty();
        open.add(&[profile], f64::from(u8::from(is_open)));
        number.add(&[profile], readiness.ready.len() as f64);
        blocked.add(&[profile], readiness.blocked.len() as f64);
        for place in &readiness.ready {
            places.add(&[profile, ("place", place)], 1.0);
        }
    }
    [whole, open, number, blocked, places].iter().try_for_each(|family| family.write(out))
}

/// One sample for each check and device, with the worst outcome: a list of devices as a label would be another series whenever
/// one of them changes.
fn findings(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut family = Family::gauge("gdr_finding", "A finding of a check on a device.");
    let mut worst: BTreeMap<(&str, &str), &Finding> = BTreeMap::new();
    let mut order = Vec::new();
    for finding in report.findings.iter().filter(|finding| finding.outcome != Outcome::Skip) {
        for device in finding.subject.split(", ") {
            let key = (finding.id.as_str(), device);
            let known = worst.entry(key).or_insert_with(|| {
                order.push(key);
                finding
            });
            if finding.outcome.urgency() < known.outcome.urgency() {
                *known = finding;
            }
        }
    }
    for (check, device) in order {
        let Some(finding) = worst.get(&(check, device)) else { continue };
        let outcome = super::word(finding.outcome).to_ascii_lowercase();
        let mut labels = vec![
            ("check", check),
            ("subject", device),
            ("severity", super::severity(finding.severity)),
            ("outcome", &outcome),
        ];
        if let Some(action) = &finding.action {
            labels.push(("action", action.class.name()));
            labels.push(("drain", if action.drain { "true" } else { "false" }));
        }
        family.add(&labels, 1.0);
    }
    family.write(out)
}

/// A number of a device.
type Value = fn(&DeviceReading) -> Option<f64>;

fn devices(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let readings = &report.readings;
    let families: [(&str, &str, Value); 6] = [
        (
            "gdr_link_width_lanes",
            "Active lanes of the PCI Express link above a device.",
            |device| device.width.map(f64::from),
        ),
        ("gdr_link_max_width_lanes", "Lanes that both ends of the link support.", |device| {
            device.max_width.map(f64::from)
        }),
        (
            "gdr_link_speed_transfers_per_second",
            "Speed of the link above a device; an idle GPU slows it down.",
            |device| device.speed.map(|speed| speed * 1e9),
        ),
        (
            "gdr_link_max_speed_transfers_per_second",
            "Speed that both ends of the link support.",
            |device| device.max_speed.map(|speed| speed * 1e9),
        ),
        ("gdr_bar1_size_bytes", "Size of a GPU's BAR1.", |device| {
            device.bar1.map(|bytes| bytes as f64)
        }),
        ("gdr_bar1_used_bytes", "Bytes of a GPU's BAR1 in use.", |device| {
            device.bar1_used.map(|bytes| bytes as f64)
        }),
    ];
    for (name, help, value) in families {
        let mut family = Family::gauge(name, help);
        let all = readings.gpus.iter().chain(&readings.nics).flatten();
        for (device, value) in all.filter_map(|device| Some((device, value(device)?))) {
            let bdf = device.bdf.as_deref().unwrap_or("");
            family.add(&[("device", &device.name), ("bdf", bdf)], value);
        }
        family.write(out)?;
    }
    Ok(())
}

fn ports(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let readings = &report.readings;
    let mut active = Family::gauge("gdr_port_active", "1 if the port of a NIC is active.");
    let mut rate = Family::gauge("gdr_port_rate_bytes_per_second", "Rate of a NIC's port.");
    let mut flaps = Family::counter(
        "gdr_port_flaps_total",
        "How often the link of a port went down since its counters were reset.",
    );
    let mut errors = Family::counter(
        "gdr_errors_total",
        "Errors of a port, a network interface or a PCI function since its counters were reset; those that are zero are left out.",
    );
    for port in &readings.ports {
        let label = ("port", port.name.as_str());
        if let Some(state) = &port.state {
            active.add(&[label], f64::from(u8::from(state == "ACTIVE")));
        }
        if let Some(gigabits) = port.rate {
            rate.add(&[label], gigabits * 1e9 / 8.0);
        }
        if let Some(counters) = readings.counters.get(&port.name) {
            let downs = counters.get("link_downed").copied().unwrap_or(0);
            flaps.add(&[label], downs as f64);
        }
    }
    for (of, counters) in &readings.counters {
        for (counter, count) in counters.iter().filter(|(name, _)| !is_flap(name)) {
            errors.add(&[("device", of), ("counter", counter)], *count as f64);
        }
    }
    [active, rate, flaps, errors].iter().try_for_each(|family| family.write(out))
}

/// A metric with its samples. Two samples of the same labels would make the file invalid: the first counts.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    samples: Vec<(String, f64)>,
}

impl Family {
    fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "gauge", samples: Vec::new() }
    }

    fn counter(name: &'static str, help: &'static str) -> Self {
        Self { kind: "counter", ..Self::gauge(name, help) }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| label(name, value)).collect();
        self.samples.push((labels.join(","), value));
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { name, help, kind, samples } = self;
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        let mut written = BTreeSet::new();
        for (labels, value) in samples.iter().filter(|(labels, _)| written.insert(labels)) {
            match labels.as_str() {
                "" => writeln!(out, "{name} {value}")?,
                labels => writeln!(out, "{name}{{{labels}}} {value}")?,
            }
        }
        Ok(())
    }
}

fn label(name: &str, value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if is_hidden(c) => text.push('?'),
            c => text.push(c),
        }
    }
    format!("{name}=\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_label_values() {
        assert_eq!(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
        assert_eq!(label("a", "x\r\u{1b}\u{202e}é"), "a=\"x???é\"");
    }
}
