//! What the two ends say to each other, without a NIC.

use std::time::Duration;

use super::channel::Channel;
use super::control::{Control as _, Gone, Kind, Message, Step};
use super::purpose::{Purpose, Ways};
use verbs::Transport;

fn connect(transport: Transport) -> Step {
    Step::Connect(Purpose {
        transport,
        pairs: 2,
        kind: Kind::Write,
        bytes: 8,
        ways: Ways::One,
    })
}

#[test]
fn two_ends_of_one_process_hear_each_other_and_hear_when_one_is_gone() {
    let (mut local, mut remote) = Channel::pair(Duration::from_millis(50));
    local
        .tell(Message::Step(connect(Transport::Uc)))
        .expect("told");
    assert_eq!(
        remote.hear(Duration::ZERO),
        Ok(Message::Step(connect(Transport::Uc)))
    );
    assert_eq!(
        remote.hear(Duration::ZERO),
        Err(Gone::Silent(Duration::from_millis(50)))
    );
    drop(local);
    assert_eq!(remote.hear(Duration::from_secs(60)), Err(Gone::Ended));
    assert_eq!(remote.tell(Message::Ready), Err(Gone::Ended));
}

#[test]
fn what_is_said_goes_over_a_wire_as_json() {
    let verify = Step::Verify {
        kind: Kind::WriteImmediate,
        bytes: 4096,
        seeds: [1, 2],
    };
    for message in [
        Message::Step(connect(Transport::Rc)),
        Message::Step(verify),
        Message::Found(Some("a word".to_owned())),
        Message::WorkCompletion,
    ] {
        let text = serde_json::to_string(&message).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Message>(&text).expect("a message"),
            message
        );
    }
    assert!(
        serde_json::from_str::<Step>(
            r#"{"connect":{"transport":"xrc","pairs":1,"kind":"write","bytes":8,"ways":"one"}}"#
        )
        .is_err()
    );
}
