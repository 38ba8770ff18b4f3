//! The handshake: both ends prove that they know the secret, without sending it. This module knows no sockets.
//!
//! Each message is 40 bytes: `gdr`, a letter for its kind, the protocol's number (big endian), and 32 bytes. The number is the user's: gdr's
//! probes and the ranks of this crate have different ones, so that one secret can serve both.
//!
//! | from | letter | its 32 bytes |
//! |---|---|---|
//! | client | `c` | a random nonce |
//! | server | `s` | another |
//! | client | `p` | HMAC-SHA256 over label 1, the protocol and both nonces, by the secret |
//! | server | `q` | the same over label 2 |
//!
//! The label makes one end's proof useless as the other's (reflection), and the nonces make it useless in another connection
//! (replay). The keys of the frames that follow come from the same function with labels 3 (client to server) and 4. To any
//! invalid message of a client the server answers the eight bytes `gdrn` and its protocol's number, and nothing more.

use std::io;

use ::hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::frames::{FrameReader, FrameWriter, hmac};
use super::random;

/// Bytes of a message of the handshake.
pub const MESSAGE: usize = 40;
const HEAD: usize = 8;
const BODY: usize = MESSAGE - HEAD;

const NO: u8 = b'n';

/// The letter of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    ClientNonce = b'c',
    ServerNonce = b's',
    ClientProof = b'p',
    ServerProof = b'q',
}

/// What each key of a session is for.
#[derive(Debug, Clone, Copy)]
enum Label {
    ClientProof = 1,
    ServerProof = 2,
    ClientFrames = 3,
    ServerFrames = 4,
}

/// What both ends must have.
#[derive(Clone)]
pub struct Key {
    secret: Vec<u8>,
    protocol: u32,
}

impl Key {
    /// A secret of any length, and the number of the protocol: of the frames and what they hold. Any change needs a new number.
    #[must_use]
    pub fn new(secret: &[u8], protocol: u32) -> Self {
        Self { secret: secret.to_vec(), protocol }
    }
}

/// Both directions of an authenticated connection.
pub struct Session {
    /// What this end sends.
    pub writer: FrameWriter,
    /// What this end receives.
    pub reader: FrameReader,
}

/// Why the handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The other end is not gdr.
    Foreign,
    /// It speaks another protocol.
    Protocol(u32),
    /// It did not prove the secret.
    Secret,
    /// It is a server that rejected this client.
    Refused,
}

/// What to do next.
pub enum Next {
    /// Read more.
    Wait,
    /// Send this, then read more.
    Send([u8; MESSAGE]),
    /// The other end proved the secret. A server sends this first; a client sends nothing.
    Done(Option<[u8; MESSAGE]>, Box<Session>),
    /// It did not.
    Rejected(Rejection),
}

/// A server's answer to every client that it rejects.
#[must_use]
pub fn rejection_message(protocol: u32) -> [u8; HEAD] {
    head(NO, protocol)
}

fn head(letter: u8, protocol: u32) -> [u8; HEAD] {
    let mut head = [b'g', b'd', b'r', letter, 0, 0, 0, 0];
    head[4..].copy_from_slice(&protocol.to_be_bytes());
    head
}

fn message(kind: Kind, protocol: u32, body: &[u8; BODY]) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[..HEAD].copy_from_slice(&head(kind as u8, protocol));
    message[HEAD..].copy_from_slice(body);
    message
}

/// A message that arrives in pieces of any size. No byte beyond it is read.
struct Incoming {
    kind: Kind,
    protocol: u32,
    bytes: [u8; MESSAGE],
    filled: usize,
}

impl Incoming {
    fn new(kind: Kind, protocol: u32) -> Self {
        Self { kind, protocol, bytes: [0; MESSAGE], filled: 0 }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Returns the body once it is complete. The first wrong byte of the head is an error.
    fn received(&mut self, count: usize) -> Result<Option<[u8; BODY]>, Rejection> {
        self.filled = (self.filled + count).min(MESSAGE);
        let bytes = &self.bytes[..self.filled];
        let begins = |head: &[u8]| {
            let common = head.len().min(bytes.len());
            bytes[..common] == head[..common]
        };
        let is_of_server = matches!(self.kind, Kind::ServerNonce | Kind::ServerProof);
        let is_no = is_of_server && begins(&head(NO, self.protocol)[..4]);
        if !is_no && !begins(&head(self.kind as u8, self.protocol)[..4]) {
            return Err(Rejection::Foreign);
        }
        let Some(number) = bytes.get(4..HEAD) else {
            return Ok(None);
        };
        let number = number.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        if number != self.protocol {
            return Err(Rejection::Protocol(number));
        }
        if is_no {
            return Err(Rejection::Refused);
        }
        match bytes.get(HEAD..MESSAGE) {
            Some(body) => {
                let mut whole = [0; BODY];
                whole.copy_from_slice(body);
                Ok(Some(whole))
            }
            None => Ok(None),
        }
    }
}

/// The secret and both nonces.
struct Keys {
    key: Key,
    client: [u8; BODY],
    server: [u8; BODY],
}

impl Keys {
    fn mac(&self, label: Label) -> Hmac<Sha256> {
        hmac(&self.key.secret)
            .chain_update([label as u8])
            .chain_update(self.key.protocol.to_be_bytes())
            .chain_update(self.client)
            .chain_update(self.server)
    }

    fn derive(&self, label: Label) -> [u8; BODY] {
        self.mac(label).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    fn check(&self, label: Label, proof: &[u8; BODY]) -> Result<(), Rejection> {
        self.mac(label).verify_slice(proof).map_err(|_| Rejection::Secret)
    }

    fn session(&self, sends: Label, receives: Label) -> Box<Session> {
        Box::new(Session {
            writer: FrameWriter::new(&self.derive(sends)),
            reader: FrameReader::new(&self.derive(receives)),
        })
    }
}

/// The handshake of one end. The client proves first, so that a client without the secret gets no proof.
pub struct Handshake {
    keys: Keys,
    incoming: Incoming,
}

impl Handshake {
    /// A server's, which waits for the client's first message.
    ///
    /// # Errors
    ///
    /// Without random bytes.
    pub fn server(key: &Key) -> io::Result<Self> {
        Ok(Self {
            keys: Keys { key: key.clone(), client: [0; BODY], server: random()? },
            incoming: Incoming::new(Kind::ClientNonce, key.protocol),
        })
    }

    /// A client's, with the message to send first.
    ///
    /// # Errors
    ///
    /// Without random bytes.
    pub fn client(key: &Key) -> io::Result<(Self, [u8; MESSAGE])> {
        let nonce = random()?;
        let handshake = Self {
            keys: Keys { key: key.clone(), client: nonce, server: [0; BODY] },
            incoming: Incoming::new(Kind::ServerNonce, key.protocol),
        };
        Ok((handshake, message(Kind::ClientNonce, key.protocol, &nonce)))
    }

    /// Where to read the next bytes to: as many as are missing until this end answers.
    pub fn room(&mut self) -> &mut [u8] {
        self.incoming.room()
    }

    /// True if the other end sent anything.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.incoming.filled > 0
            || matches!(self.incoming.kind, Kind::ClientProof | Kind::ServerProof)
    }

    /// The received part of the current message.
    #[must_use]
    pub fn begun(&self) -> &[u8] {
        &self.incoming.bytes[..self.incoming.filled]
    }

    /// Handles `count` bytes that were read into [`room`](Self::room).
    pub fn received(&mut self, count: usize) -> Next {
        match self.incoming.received(count) {
            Ok(None) => Next::Wait,
            Ok(Some(body)) => self.answer(body).unwrap_or_else(Next::Rejected),
            Err(rejection) => Next::Rejected(rejection),
        }
    }

    fn answer(&mut self, body: [u8; BODY]) -> Result<Next, Rejection> {
        let protocol = self.keys.key.protocol;
        Ok(match self.incoming.kind {
            Kind::ClientNonce => {
                self.keys.client = body;
                self.incoming = Incoming::new(Kind::ClientProof, protocol);
                Next::Send(message(Kind::ServerNonce, protocol, &self.keys.server))
            }
            Kind::ServerNonce => {
                self.keys.server = body;
                self.incoming = Incoming::new(Kind::ServerProof, protocol);
                let proof = self.keys.derive(Label::ClientProof);
                Next::Send(message(Kind::ClientProof, protocol, &proof))
            }
            Kind::ClientProof => {
                self.keys.check(Label::ClientProof, &body)?;
                let proof = self.keys.derive(Label::ServerProof);
                Next::Done(
                    Some(message(Kind::ServerProof, protocol, &proof)),
                    self.keys.session(Label::ServerFrames, Label::ClientFrames),
                )
            }
            Kind::ServerProof => {
                self.keys.check(Label::ServerProof, &body)?;
                Next::Done(None, self.keys.session(Label::ClientFrames, Label::ServerFrames))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).expect("a digit")).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn keys() -> Keys {
        let secret: Vec<u8> = (1..=32).collect();
        Keys { key: Key::new(&secret, 5), client: [0x11; BODY], server: [0x22; BODY] }
    }

    /// Made with Python's hmac, from the description above.
    #[test]
    fn known_proofs_and_keys() {
        let known = [
            "deef5fb9e6126b5d6b1a91fbcc0136f905f21964587091fc186ed0d6debb34c6",
            "484b5f0f9fffa532cba7a54813e858888d1e8bd3a38a74a3155b70d18c76258e",
            "60a1537f433f3c827d10fb96c0007e3ce384725bbb14a4c8b1863f8301fc7d43",
            "4f2db3fd7176241bf06c00dcdc148f9367f7ee11ec6b6bce61c2b2a52394d063",
        ];
        let labels =
            [Label::ClientProof, Label::ServerProof, Label::ClientFrames, Label::ServerFrames];
        for (label, known) in labels.into_iter().zip(known) {
            assert_eq!(keys().derive(label).as_slice(), hex(known), "{label:?}");
        }
        // With the key of the third label.
        let mut session = keys().session(Label::ClientFrames, Label::ServerFrames);
        for (payload, known) in [
            (
                &b"\"alive\""[..],
                "0000000722616c697665222137e4764be30cf777286f327bf3b73d9256f6eefde287ddfce8ded2b6f82789",
            ),
            (b"", "0000000074c285758e68f59a642e40fbc6cc2a146526a34a6dc8c1e6225ae72ca712c33d"),
        ] {
            assert_eq!(session.writer.frame(payload), Some(hex(known)));
        }
    }

    #[test]
    fn message_heads() {
        let (_, first) = Handshake::client(&keys().key).expect("random bytes");
        assert_eq!(first[..8], *b"gdrc\0\0\0\x05");
        assert_eq!(rejection_message(5), *b"gdrn\0\0\0\x05");
    }
}
