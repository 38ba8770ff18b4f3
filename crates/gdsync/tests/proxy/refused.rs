//! Requests that fail immediately, and their errors.

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::proxy::{Error as ProxyError, Options, ProxyHca};
use gdsync::hca::{Access, Endpoint, Hca as _, RetryPolicy};
use gdsync::{Allocator, Error, MemoryLocation};
use gpu::Gpu;
use serde_json::json;

use crate::machine::{infiniband, on, roce, with};
use crate::side;
use crate::sides::SMALL;

fn open(options: Options) -> Result<ProxyHca, Error> {
    let allocator = Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok());
    let context = verbs::Context::open("mlx5_0").unwrap();
    ProxyHca::open(allocator, &context, options)
}

#[test]
fn rejects_down_port_and_missing_gid() {
    let test = "refused::rejects_down_port_and_missing_gid";
    let mut none = roce();
    none["verbs"]["devices"][0]["ports"][0]["gids"] = json!([null]);
    on(test, &[with("ports", json!([{"state": "down"}])), none, roce()], |number| {
        let gid_index = (number == 2).then_some(5);
        let options = Options { gid_index, ..Options::default() };
        let refused = open(options).expect_err("it is refused").to_string();
        let expected = [
            "port mlx5_0:1 is Down",
            "port mlx5_0:1 has no GID:",
            "port mlx5_0:1 has no GID at index 5",
        ][number];
        assert!(refused.starts_with(expected), "{refused}");
    });
}

#[test]
fn unreachable_gpu_memory_reports_both_paths() {
    let test = "refused::unreachable_gpu_memory_reports_both_paths";
    on(test, &[infiniband()], |_| {
        let allocator = Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok());
        let memory = allocator.place(MemoryLocation::Gpu, 4096).unwrap();
        let refused = open(Options::default()).unwrap().register(&memory, Access::ALL);
        let refused = refused.expect_err("a simulated GPU's memory");
        assert!(matches!(refused, Error::Device(ProxyError::NoMemoryPath { .. })), "{refused:?}");
        let text = refused.to_string();
        assert_eq!(text.matches("cannot register memory of a simulated GPU").count(), 2, "{text}");
    });
}

#[test]
fn rejects_incompatible_peer_and_second_connection() {
    let test = "refused::rejects_incompatible_peer_and_second_connection";
    on(test, &[infiniband(), roce()], |number| {
        let side = side("mlx5_0", &SMALL());
        let local = side.pair.endpoint;
        let connect = |local, peer| side.hca.connect(local, peer, RetryPolicy::default());
        let lacks = |peer| match connect(local, peer) {
            Err(Error::Device(ProxyError::Address { lacks, .. })) => lacks,
            other => panic!("{other:?}"),
        };
        assert_eq!(lacks(Endpoint::new(9, 1)), "path");
        let other = "0/000001/000000/4096/1/-".parse().unwrap();
        assert_eq!(lacks(other), ["LID", "GID"][number]);
        let unknown = Endpoint { qpn: 0x77, ..local };
        assert!(matches!(connect(unknown, local), Err(Error::NoQueuePair { qpn: 0x77 })));
        connect(local, local).unwrap();
        assert!(matches!(connect(local, local), Err(Error::Device(ProxyError::Spent { .. }))));
    });
}
