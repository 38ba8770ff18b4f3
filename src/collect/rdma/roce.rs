//! Settings of RoCE in files: traffic classes, and congestion control (DCQCN) by priority.
//!
//! Files of MLNX_OFED: `tc/N/traffic_class`, and `ecn/roce_np/enable/P` and `ecn/roce_rp/enable/P` of the interface
//! (<https://docs.nvidia.com/networking/display/MLNXOFEDv497100LTS/Explicit+Congestion+Notification+%28ECN%29>). Of the kernel:
//! `default_roce_tos` (Documentation/ABI/testing/configfs-rdma_cm) and `cc_params` (drivers/infiniband/hw/mlx5/cong.c).

use crate::collect::read;
use crate::model::{Bdf, Fact, Note, RdmaPort, RoceSettings};
use crate::world::Files;

/// Priorities of Ethernet.
const PRIORITIES: u8 = 8;

pub fn settings(
    files: &dyn Files,
    device: &str,
    place: Option<Bdf>,
    port: &RdmaPort,
    notes: &mut Vec<Note>,
) -> RoceSettings {
    let number = port.number;
    let mut number_of = |path: String| {
        let text = read::text_if_there(files, &path, notes);
        text.map(|text| text.and_then(|text| last_number(&text)))
    };
    let traffic_class = number_of(format!("{}/{device}/tc/{number}/traffic_class", super::CLASS));
    let manager_class =
        number_of(format!("/sys/kernel/config/rdma_cm/{device}/ports/{number}/default_roce_tos"));
    let notification_dscp = match place {
        Some(bdf) => number_of(format!("/sys/kernel/debug/mlx5/{bdf}/cc_params/np_cnp_dscp")),
        None => Fact::Known(None),
    };
    let interface = port.gids.known().into_iter().flatten().find_map(|gid| {
        let name = gid.interface.present()?;
        // A VLAN has the settings of its interface.
        (gid.here == Fact::Known(true)).then(|| name.split('.').next().unwrap_or(name).to_owned())
    });
    let mut priorities = |point: &str| match &interface {
        Some(interface) => {
            enabled(files, &format!("/sys/class/net/{interface}/ecn/{point}/enable"), notes)
        }
        None => Fact::default(),
    };
    RoceSettings {
        traffic_class,
        manager_class,
        notifies: priorities("roce_np"),
        reacts: priorities("roce_rp"),
        notification_dscp,
    }
}

/// The priorities whose file holds 1.
fn enabled(files: &dyn Files, directory: &str, notes: &mut Vec<Note>) -> Fact<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for priority in 0..PRIORITIES {
        match read::text_if_there(files, &format!("{directory}/{priority}"), notes) {
            Fact::Known(Some(text)) if text.trim() == "1" => found.push(priority),
            Fact::Known(Some(_)) => {}
            Fact::Known(None) => return Fact::Known(None),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    Fact::Known(Some(found))
}

/// The number at the end of the first line, as in `106` and `Global tclass=106`.
fn last_number(text: &str) -> Option<u8> {
    let line = text.lines().next()?.trim();
    let number = line.rsplit('=').next()?.trim();
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_settings() {
        for (text, number) in [
            ("106", Some(106)),
            ("Global tclass=106\n", Some(106)),
            ("Global tclass=300", None),
            ("", None),
            ("unset", None),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
    }
}
