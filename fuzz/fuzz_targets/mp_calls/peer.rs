//! The other rank: a thread of this process with the crate `mp`.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use gdsync::{Allocator, MemoryLocation};
use gpu::Gpu;
use mp::bootstrap::{Bootstrap, Local};
use mp::comm::Credits;
use mp::{Communicator, Options, Software, Transfer};

use crate::TIMEOUT;
use crate::calls::Ask;

enum Command {
    Ask(Ask),
    Window,
    End,
}

pub struct Peer {
    commands: Option<Sender<Command>>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Connects to rank 0, which must connect too.
    pub fn start(local: Local, has_credits: bool) -> Self {
        let (commands, received) = channel();
        let (reply, done) = sync_channel(1);
        let thread = std::thread::spawn(move || run(local, has_credits, &received, &reply));
        Self { commands: Some(commands), done, thread: Some(thread) }
    }

    /// Does it before this returns.
    pub fn ask(&mut self, ask: Ask) {
        if self.send(Command::Ask(ask)) {
            // An error if it has ended.
            let _ = self.done.recv();
        }
        if let Ask::Die = ask {
            self.join();
        }
    }

    /// Creates a window, with rank 0.
    pub fn window(&mut self) {
        self.send(Command::Window);
    }

    /// Ends with rank 0.
    pub fn end(&mut self) {
        self.send(Command::End);
    }

    pub fn join(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn send(&mut self, command: Command) -> bool {
        self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok())
    }
}

fn run(local: Local, has_credits: bool, commands: &Receiver<Command>, done: &SyncSender<()>) {
    // Errors are the program's: a rank that does not take part in time.
    let _ = serve(Box::new(local), has_credits, commands, done);
}

fn serve(
    mut bootstrap: Box<dyn Bootstrap>,
    has_credits: bool,
    commands: &Receiver<Command>,
    done: &SyncSender<()>,
) -> Result<(), mp::Error> {
    let allocator = Allocator::new(Gpu::sim(), None);
    let timeout = Duration::from_millis(TIMEOUT);
    let hca = Software::connect(&mut *bootstrap, allocator.clone(), timeout)?;
    let options = Options { timeout, ..Options::default() };
    let ranks = Communicator::connect(bootstrap, hca, allocator, options)?;
    let credits = has_credits.then(|| Credits::new(&ranks)).transpose()?;
    let memory = ranks.allocator().place(MemoryLocation::Host, 1 << 16)?;
    let region = ranks.register(&memory)?;
    let (mut requests, mut window) = (Vec::new(), None);
    for command in commands {
        match command {
            Command::Ask(ask) => {
                requests.extend(match (ask, &window, &credits) {
                    (Ask::Receive(bytes), ..) => ranks.receive(0, &region, 0..bytes.into()).ok(),
                    (Ask::Send(bytes), ..) => {
                        ranks.start(&Transfer::send(0, &region, 0..bytes.into())).ok()
                    }
                    (Ask::Put(offset, bytes), Some(window), _) => {
                        let put = Transfer::put(0, window, offset.into(), &region, 0..bytes.into());
                        ranks.start(&put).ok()
                    }
                    (Ask::Credit, _, Some(credits)) => credits.give(&ranks, 0).ok(),
                    (Ask::Die, ..) => return Ok(()),
                    _ => None,
                });
                let _ = done.send(());
            }
            Command::Window => window = ranks.window(&region).ok(),
            Command::End => {
                ranks.finalize()?;
                return Ok(());
            }
        }
    }
    Ok(())
}
