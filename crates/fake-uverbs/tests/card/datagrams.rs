//! Datagrams: who has the key gets them, with the room before them; what nobody takes is lost, and its sender does not hear of it.

use ib::ibv_qp_attr_mask as mask;
use ib::ibv_qp_state::{IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
use ib::{ibv_qp_type, ibv_wc_flags as flag, ibv_wc_opcode as done};
use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::Pair;
use crate::device::{ALL, Device, Memory};
use crate::inside::inside;
use crate::work::{INLINE, SIGNALLED, Work};

const KEY: u32 = 0x1234_5678;
/// What comes before each message.
const ROUTE: usize = 40;
/// `IBV_WC_LOC_LEN_ERR` and `IBV_WC_LOC_QP_OP_ERR`.
const LENGTH: u32 = 1;
const OPERATION: u32 = 2;

/// Ready to send, at a port, with a key.
fn ready(device: &Device, port: u8, key: u32) -> Pair {
    let pair = device.pair_of(ibv_qp_type::IBV_QPT_UD, device.pd);
    let named =
        mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | mask::IBV_QP_QKEY;
    for (state, named) in [
        (IBV_QPS_INIT, named),
        (IBV_QPS_RTR, mask::IBV_QP_STATE),
        (IBV_QPS_RTS, mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN),
    ] {
        let mut change = ib::ibv_qp_attr {
            qp_state: state,
            port_num: port,
            qkey: key,
            ..Default::default()
        };
        assert_eq!(pair.modify(&mut change, named), 0, "to {state}");
    }
    pair
}

/// The NIC's own ports: of each a way there, and which header a receive gets with it.
fn ways() -> Vec<(ib::ibv_ah_attr, Option<Vec<u8>>)> {
    let plain = |port_num| ib::ibv_ah_attr {
        port_num,
        dlid: if port_num == 1 { 0x0123 } else { 0 },
        sl: 5,
        ..Default::default()
    };
    let routed = |port, raw: [u8; 16], sgid_index| {
        let mut way = plain(port);
        way.is_global = 1;
        way.grh = ib::ibv_global_route {
            dgid: ib::ibv_gid { raw },
            flow_label: 0x5_4321,
            sgid_index,
            hop_limit: 9,
            traffic_class: 0xab,
        };
        // Version, class and label; 20 bytes and 24 around them; the next header's number; hops.
        let first = [0x6a, 0xb5, 0x43, 0x21, 0, 44, 0x1b, 9];
        (way, Some([&first[..], &raw, &raw].concat()))
    };
    let local = |last| {
        [
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0xff, 0xfe, 0, 0, last,
        ]
    };
    vec![
        (plain(1), None),
        routed(1, local(2), 0),
        routed(2, local(1), 0),
        routed(
            2,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 1],
            1,
        ),
    ]
}

fn handle(device: &Device, way: &ib::ibv_ah_attr) -> *mut ib::ibv_ah {
    let mut way = *way;
    // SAFETY: the live domain.
    let handle = unsafe { ib::ibv_create_ah(device.pd, &mut way) };
    assert!(
        !handle.is_null(),
        "ibv_create_ah: {}",
        std::io::Error::last_os_error()
    );
    handle
}

#[test]
fn arrive_behind_the_room_for_a_route() {
    inside(
        "datagrams::arrive_behind_the_room_for_a_route",
        &[CARD],
        || {
            let device = Device::open();
            for (way, header) in ways() {
                let (a, b) = (
                    ready(&device, way.port_num, 1),
                    ready(&device, way.port_num, KEY),
                );
                let to = (handle(&device, &way), b.number, KEY);
                let memory = device.memory(512, ALL);
                memory.write(0, b"twenty bytes of text");
                // The route has a piece of its own.
                b.receive(7, &[memory.piece(100, ROUTE), memory.piece(200, 100)]);
                b.receive(8, &[memory.piece(300, 100)]);
                a.run(Work::send(1, &[memory.piece(0, 10), memory.piece(10, 10)]).to(to));
                a.run(
                    Work::send(2, &[memory.piece(0, 6)])
                        .with(SIGNALLED | INLINE)
                        .immediate(77)
                        .to(to),
                );
                let route = header.as_ref().map_or(flag(0), |_| flag::IBV_WC_GRH);
                let wc = b.received.wait();
                assert_eq!(
                    (wc.wr_id(), wc.error(), wc.len(), wc.opcode()),
                    (7, None, 60, done::IBV_WC_RECV)
                );
                assert_eq!(
                    (wc.qp_num, wc.src_qp, wc.wc_flags),
                    (b.number, a.number, route)
                );
                let from = if way.port_num == 1 {
                    (0x0123, 5)
                } else {
                    (0, 0)
                };
                assert_eq!((wc.slid, wc.sl), from);
                assert_eq!(
                    memory.read(200, 30),
                    b"twenty bytes of text\0\0\0\0\0\0\0\0\0\0"
                );
                assert_eq!(
                    memory.read(100, ROUTE),
                    header.unwrap_or_else(|| vec![0; ROUTE])
                );
                let wc = b.received.wait();
                assert_eq!((wc.wr_id(), wc.len(), wc.imm_data()), (8, 46, Some(77)));
                assert_eq!(wc.wc_flags, route | flag::IBV_WC_WITH_IMM);
                assert_eq!(memory.read(340, 8), b"twenty\0\0");
            }
        },
    );
}

/// The next to come is the one that was sent for it: none of those before.
fn arrives_alone(a: &Pair, b: &Pair, memory: &Memory, to: (*mut ib::ibv_ah, u32, u32)) {
    a.run(Work::send(99, &[memory.piece(0, 3)]).to(to));
    let wc = b.received.wait();
    assert_eq!((wc.wr_id(), wc.error(), wc.len()), (10, None, ROUTE + 3));
}

#[test]
fn nobody_takes_are_lost() {
    inside("datagrams::nobody_takes_are_lost", &[CARD], || {
        let device = Device::open();
        let memory = device.memory(8192, ALL);
        let (a, b) = (ready(&device, 1, 5), ready(&device, 1, KEY));
        let way = ways()[0].0;
        let own = handle(&device, &way);
        let lost = |to| a.run(Work::send(1, &[memory.piece(0, 20)]).to(to));
        // No receive is posted yet.
        lost((own, b.number, KEY));
        b.receive(10, &[memory.piece(4096, 100)]);
        // Another key, the sender's own by the highest bit, nobody's number, another's port, and another port's LID and GID.
        lost((own, b.number, KEY + 1));
        lost((own, b.number, 1 << 31 | KEY));
        lost((own, 0x77, KEY));
        lost((own, ready(&device, 2, KEY).number, KEY));
        lost((
            handle(&device, &ib::ibv_ah_attr { dlid: 9, ..way }),
            b.number,
            KEY,
        ));
        let mut routed = ways()[1].0;
        routed.grh.dgid = ib::ibv_gid { raw: [77; 16] };
        lost((handle(&device, &routed), b.number, KEY));
        // A connection's end, and one that does not receive yet.
        lost((own, device.pair().number, KEY));
        lost((
            own,
            device.pair_of(ibv_qp_type::IBV_QPT_UD, device.pd).number,
            0,
        ));
        arrives_alone(&a, &b, &memory, (own, b.number, KEY));
        // The sender's own key is right here; and a queue pair may send to itself.
        let c = ready(&device, 1, 5);
        c.receive(10, &[memory.piece(4096, 100)]);
        arrives_alone(&a, &c, &memory, (own, c.number, 1 << 31 | 0x1234));
        b.receive(10, &[memory.piece(4096, 100)]);
        arrives_alone(&b, &b, &memory, (own, b.number, KEY));
    });
}

#[test]
fn fail_where_they_are_too_long() {
    inside("datagrams::fail_where_they_are_too_long", &[CARD], || {
        let device = Device::open();
        let memory = device.memory(16384, ALL);
        let (a, b) = (ready(&device, 1, KEY), ready(&device, 1, KEY));
        let to = (handle(&device, &ways()[0].0), b.number, KEY);
        b.receive(1, &[memory.piece(8192, 4096 + ROUTE)]);
        a.run(Work::send(2, &[memory.piece(0, 4096)]).to(to));
        assert_eq!(b.received.wait().len(), 4096 + ROUTE);
        // Too small by one byte: the receiver fails, its sender does not.
        b.receive(3, &[memory.piece(8192, ROUTE + 19)]);
        a.run(Work::send(4, &[memory.piece(0, 20)]).to(to));
        assert_eq!(b.received.failure(), (3, LENGTH));
        assert_eq!(b.state(), IBV_QPS_ERR);
        // More than a packet has.
        assert_eq!(
            a.fail(Work::send(5, &[memory.piece(0, 4097)]).to(to)),
            LENGTH
        );
        assert_eq!(a.state(), IBV_QPS_ERR);
    });
}

#[test]
fn reach_no_memory() {
    inside("datagrams::reach_no_memory", &[CARD], || {
        let device = Device::open();
        let memory = device.memory(128, ALL);
        let to = (handle(&device, &ways()[0].0), 1, KEY);
        let a = ready(&device, 1, KEY);
        // The provider posts it as it would another; the NIC knows that it cannot be.
        let write = Work::write(5, &[memory.piece(0, 8)], &memory, 64);
        assert_eq!(a.fail(write.to(to)), OPERATION);
        assert_eq!(memory.read(64, 8), [0; 8]);
    });
}
