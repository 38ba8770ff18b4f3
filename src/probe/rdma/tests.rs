//! Messages between the two ends, without a NIC.

use super::control::{Message, Step};
use super::kind::Kind;
use super::purpose::{Purpose, Traffic};
use super::settings::Settings;
use verbs::Transport;

fn connect(transport: Transport) -> Step {
    Step::Connect(Purpose {
        transport,
        pairs: 2,
        kind: Kind::Write,
        bytes: 8,
        traffic: Traffic::OneWay,
        relaxed_ordering: true,
        on_demand: false,
        settings: Settings::default(),
    })
}

#[test]
fn messages_round_trip_as_json() {
    let verify = Step::Verify { kind: Kind::WriteImmediate, bytes: 4096, seeds: [1, 2] };
    for message in [
        Message::Step(connect(Transport::Rc)),
        Message::Step(verify),
        Message::Found(Some("a word".to_owned())),
        Message::Done,
    ] {
        let text = serde_json::to_string(&message).expect("JSON");
        assert_eq!(serde_json::from_str::<Message>(&text).expect("a message"), message);
    }
    assert!(
        serde_json::from_str::<Step>(
            r#"{"connect":{"transport":"xrc","pairs":1,"kind":"write","bytes":8,"ways":"one"}}"#
        )
        .is_err()
    );
}
