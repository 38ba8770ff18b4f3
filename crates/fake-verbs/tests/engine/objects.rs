//! Attributes and tables of devices and ports.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;

#[test]
fn reports_devices_of_machine_file() {
    let machine = json!({"verbs": {
        "limits": {"vendor_part_id": 4129, "max_qp_wr": 1000},
        "fw_ver": "28.39.1002",
        "devices": [
            {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "limits": {"max_qp_wr": 500}, "ports": [
                {"lid": 7, "sm_lid": 3, "state": "init", "active_mtu": 2048, "speed": 64, "width": 16, "pkeys": [0x8001, 0x7fff]},
                {"link_layer": "ethernet", "max_msg_sz": 4096, "gids": []},
            ]},
            {"index": 9, "ports": [{"link_layer": "ethernet", "state": "down", "active_mtu": 1024, "gids": [
                {"gid": "fe80::1", "type": "roce1", "ifindex": 4}, null, {"gid": "::ffff:192.0.2.1", "type": "roce2"},
            ]}]},
        ],
    }});
    on(
        "objects::reports_devices_of_machine_file",
        &machine,
        |verbs| {
            let devices = verbs.devices();
            let names: Vec<String> = devices.iter().map(|device| verbs.name(*device)).collect();
            assert_eq!(names, ["mlx5_0", "fake_1"]);
            assert_eq!((verbs.index(devices[0]), verbs.index(devices[1])), (0, 9));
            assert_eq!(verbs.guid(devices[0]), 0x9803_9b03_0000_0001);
            let (first, second) = (verbs.open(0), verbs.open(1));
            let limits = verbs.limits(first);
            assert_eq!(
                (
                    limits.vendor_part_id,
                    limits.max_qp_wr,
                    limits.phys_port_cnt
                ),
                (4129, 500, 2)
            );
            assert_eq!(
                limits.node_guid.to_ne_bytes(),
                [0x98, 0x03, 0x9b, 0x03, 0, 0, 0, 1]
            );
            let version: Vec<u8> = limits
                .fw_ver
                .iter()
                .map(|byte| byte.to_ne_bytes()[0])
                .collect();
            assert!(version.starts_with(b"28.39.1002\0"));
            assert_eq!(
                (
                    verbs.limits(second).max_qp_wr,
                    verbs.limits(second).phys_port_cnt
                ),
                (1000, 1)
            );

            let port = verbs.port(first, 1).expect("a port");
            assert_eq!(
                (port.lid, port.sm_lid, port.state),
                (7, 3, ibv_port_state::IBV_PORT_INIT)
            );
            assert_eq!(
                (port.max_mtu, port.active_mtu),
                (IBV_MTU_4096, IBV_MTU_2048)
            );
            assert_eq!(
                (port.active_speed, port.active_width, port.link_layer),
                (64, 16, 1)
            );
            assert_eq!(
                (port.gid_tbl_len, port.pkey_tbl_len, port.phys_state),
                (1, 2, 5)
            );
            assert_eq!(
                (verbs.pkey(first, 0), verbs.pkey(first, 1)),
                (Ok(0x8001), Ok(0x7fff))
            );
            assert_eq!(verbs.pkey(first, 2), Err(libc::EINVAL));
            let port = verbs.port(first, 2).expect("a port");
            assert_eq!(
                (port.lid, port.link_layer, port.max_msg_sz, port.gid_tbl_len),
                (0, 2, 4096, 0)
            );
            assert_eq!(verbs.port(first, 3).err(), Some(libc::EINVAL));
            assert_eq!(verbs.port(first, 0).err(), Some(libc::EINVAL));
            let port = verbs.port(second, 1).expect("a port");
            assert_eq!(
                (port.state, port.phys_state, port.active_mtu),
                (ibv_port_state::IBV_PORT_DOWN, 2, IBV_MTU_1024)
            );

            // InfiniBand: derived from the GUID. Ethernet: as listed.
            let made = [
                0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x98, 0x03, 0x9b, 0x03, 0, 0, 0, 1,
            ];
            assert_eq!(
                (verbs.gid(first, 0), verbs.gid(first, 1)),
                (Ok(made), Err(libc::EINVAL))
            );
            let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
            assert_eq!(
                (verbs.gid(second, 1), verbs.gid(second, 2)),
                (Ok([0; 16]), Ok(mapped))
            );
            let size = size_of::<ibv_gid_entry>();
            let entry = verbs.gid_entry(second, 0, size).expect("an entry");
            assert_eq!(
                (entry.gid_type, entry.ndev_ifindex, entry.port_num),
                (IBV_GID_TYPE_ROCE_V1, 4, 1)
            );
            assert_eq!(verbs.gid_entry(second, 1, size).err(), Some(libc::ENODATA));
            assert_eq!(verbs.gid_entry(second, 3, size).err(), Some(libc::EINVAL));
            assert_eq!(
                verbs.gid_entry(second, 0, size - 1).err(),
                Some(libc::EINVAL)
            );
            let table = verbs.gid_table(second, 8).expect("the table");
            let indexes: Vec<_> = table
                .iter()
                .map(|entry| (entry.gid_index, entry.gid_type))
                .collect();
            assert_eq!(
                indexes,
                [(0, IBV_GID_TYPE_ROCE_V1), (2, IBV_GID_TYPE_ROCE_V2)]
            );
            assert_eq!(verbs.gid_table(second, 1).err(), Some(-22));
            assert_eq!((verbs.close(first), verbs.close(first)), (0, libc::EINVAL));
        },
    );
}
