//! Whoever comes while there is a peer is told so.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Conditions;
use super::error::Error;
use super::socket::{again, any_ready, drain, write_all};
use super::wire::{Greeting, line};

/// How often it is asked whether it is to end.
const SLICE: Duration = Duration::from_millis(50);
/// So many who came in vain are told of.
pub const TOLD: usize = 32;

/// Tells whoever comes while there is a peer that this side is busy. It ends when it is dropped.
pub struct Porter {
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Porter {
    /// From now on.
    pub fn start(socket: TcpListener, peer: SocketAddr, terms: &Conditions<'_>) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let notes = Arc::new(Mutex::new(Vec::new()));
        let busy = Greeting {
            token: None,
            refused: Some(format!("it is busy with {peer}")),
            ..Greeting::of(terms)
        };
        let answer = line(&busy).map_err(|why| Error::Unsendable { why })?;
        let thread = std::thread::Builder::new().name("rendezvous-busy".to_owned()).spawn({
            let (stop, notes) = (Arc::clone(&stop), Arc::clone(&notes));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    any_ready(&mut [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)], SLICE);
                    match socket.accept() {
                        Ok((stream, address)) => {
                            let mut told = notes.lock().unwrap_or_else(PoisonError::into_inner);
                            if told.len() < TOLD {
                                told.push(format!("{address} came while this side was busy, and was told so"));
                            }
                            drop(told);
                            turn_away(&stream, &answer);
                        }
                        Err(error) => wait_out(&error),
                    }
                }
            }
        });
        Ok(Self {
            stop,
            notes,
            thread: Some(thread.map_err(|error| Error::System {
                what: "no thread can be started".to_owned(),
                why: error.to_string(),
            })?),
        })
    }

    /// Who came.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The port is free once this returns; a panic of the thread is no reason for another.
            let _ = thread.join();
        }
    }
}

/// Where nobody can be let in (no more descriptors) trying on at once helps nobody.
pub fn wait_out(error: &std::io::Error) {
    if !again(error) {
        std::thread::sleep(SLICE);
    }
}

/// Says a line to somebody and reads what it says for a moment: what is not read takes the line with it.
fn turn_away(stream: &TcpStream, answer: &[u8]) {
    let until = Instant::now() + Duration::from_millis(300);
    if stream.set_nonblocking(true).is_err() || write_all(stream, answer, until, &|| true).is_err() {
        return;
    }
    let _ = stream.shutdown(Shutdown::Write);
    drain(stream, until);
}
