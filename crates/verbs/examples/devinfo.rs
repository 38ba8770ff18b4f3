//! Prints libibverbs' functions and its devices.
//!
//! `cargo run -p gdr-verbs --example devinfo`

#![allow(clippy::print_stdout)] // It is its purpose.

use std::error::Error as _;
use std::process::ExitCode;

use verbs::{Context, Error, Library, device_names};

fn main() -> ExitCode {
    match tell() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

fn tell() -> Result<(), Error> {
    let library = Library::open()?;
    println!("library: {}", library.path().display());
    println!("dma-buf symbol: {}", library.knows_dmabuf());
    println!("missing: {}", library.missing().join(" "));
    for name in device_names()? {
        println!("device: {name}");
        match Context::open(&name) {
            Ok(context) => device(&context)?,
            Err(error) => println!("  {}", sentence(&error)),
        }
    }
    Ok(())
}

fn device(context: &Context) -> Result<(), Error> {
    let limits = context.limits()?;
    println!(
        "  firmware {}, {} ports, {} queue pairs",
        limits.firmware, limits.ports, limits.queue_pairs
    );
    let mut room = 0;
    for number in 1..=limits.ports {
        let port = context.port(number)?;
        println!(
            "  port {number}: {:?}, {:?}, MTU {} of {}, lid {}",
            port.state,
            port.link_layer,
            port.active_mtu.unwrap_or(0),
            port.largest_mtu.unwrap_or(0),
            port.lid
        );
        room += port.gids;
    }
    match context.gids(room) {
        Ok(gids) => {
            for gid in gids {
                println!(
                    "  port {} GID {}: {:?} {} interface {}",
                    gid.port,
                    gid.index,
                    gid.kind,
                    gid.address,
                    gid.interface.unwrap_or(0)
                );
            }
        }
        Err(error) => println!("  {}", sentence(&error)),
    }
    match context.dmabuf() {
        Ok(answer) => println!("  dma-buf: {answer:?}"),
        Err(error) => println!("  {}", sentence(&error)),
    }
    Ok(())
}

fn sentence(error: &Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
