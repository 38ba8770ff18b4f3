//! Connections without acknowledgements: bytes move, and what is lost or refused is no error at its sender.

use ib::ibv_qp_attr_mask as mask;
use ib::{ibv_qp_state, ibv_qp_type};
use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::{Link, Pair};
use crate::device::{ALL, Device, Memory};
use crate::inside::inside;
use crate::work::Work;

fn connect(pair: &Pair, number: u32) {
    let link = Link::default();
    pair.initialize(link);
    let (mut change, named) = Pair::ready_to_receive(number, link);
    // What only a reliable connection has may not be named.
    assert_eq!(pair.modify(&mut change, named), 22, "EINVAL");
    let reliable = mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
    assert_eq!(
        pair.modify(&mut change, mask(named.0 & !reliable.0)),
        0,
        "to RTR"
    );
    let (mut change, _) = Pair::ready_to_send(link);
    assert_eq!(
        pair.modify(&mut change, mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN),
        0,
        "to RTS"
    );
}

#[test]
fn without_acknowledgements() {
    inside("unreliable::without_acknowledgements", &[CARD], || {
        let device = Device::open();
        let pair = || device.pair_of(ibv_qp_type::IBV_QPT_UC, device.pd);
        let (a, b) = (pair(), pair());
        connect(&a, b.number);
        connect(&b, a.number);
        let memory = device.memory(256, ALL);
        memory.write(0, b"one of many messages");
        b.receive(1, &[memory.piece(64, 20)]);
        b.receive(2, &[]);
        a.run(Work::send(3, &[memory.piece(0, 20)]));
        a.run(Work::write(4, &[memory.piece(0, 20)], &memory, 128).immediate(77));
        assert_eq!(b.received.success(), 1);
        assert_eq!(b.received.wait().imm_data(), Some(77));
        for offset in [64, 128] {
            assert_eq!(memory.read(offset, 20), b"one of many messages");
        }
        // No receive, a key that is none, and nobody there.
        a.run(Work::send(5, &[memory.piece(0, 20)]));
        a.run(Work::write(
            6,
            &[memory.piece(0, 20)],
            &Memory { key: 1, ..memory },
            192,
        ));
        assert_eq!(b.state(), ibv_qp_state::IBV_QPS_RTS);
        b.receive(7, &[memory.piece(192, 20)]);
        a.run(Work::send(8, &[memory.piece(0, 3)]));
        assert_eq!(b.received.success(), 7);
        assert_eq!(
            memory.read(192, 20),
            b"one\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        b.destroy();
        a.run(Work::send(9, &[memory.piece(0, 20)]));
    });
}
