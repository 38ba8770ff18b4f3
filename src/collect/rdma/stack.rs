//! The kernel's RDMA stack.

use std::path::Path;

use crate::collect::read;
use crate::model::{Fact, Note, RdmaStack};
use crate::world::Files;

/// `Y` if devices are shared among network namespaces, `N` if each belongs to one (`rdma system set netns`).
const NETNS_MODE: &str = "/sys/module/ib_core/parameters/netns_mode";

pub fn stack(files: &dyn Files, notes: &mut Vec<Note>) -> RdmaStack {
    RdmaStack {
        shared: shared(files, notes),
        connection_manager: read::is_there(files, "/dev/infiniband/rdma_cm"),
        ofed: read::is_there(files, "/usr/bin/ofed_info"),
        mlx5_version: read::text_if_there(files, "/sys/module/mlx5_core/version", notes),
        efa_version: read::text_if_there(files, "/sys/module/efa/version", notes),
    }
}

fn shared(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Option<bool>> {
    match read::text_if_there(files, NETNS_MODE, notes) {
        Fact::Known(Some(text)) => match text.trim() {
            "Y" | "1" => Fact::Known(Some(true)),
            "N" | "0" => Fact::Known(Some(false)),
            other => read::malformed(
                notes,
                NETNS_MODE,
                format!("'{}' is neither Y nor N", read::shorten(other)),
            ),
        },
        // Before Linux 5.2 there is no such parameter and no exclusive mode.
        Fact::Known(None) => match files.exists(Path::new("/sys/module/ib_core")) {
            Ok(true) => Fact::Known(Some(true)),
            Ok(false) => Fact::Known(None),
            Err(error) => Fact::Unknown(error.why()),
        },
        Fact::Unknown(why) => Fact::Unknown(why),
    }
}
