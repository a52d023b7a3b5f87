//! `regatta top --web`: the page of the admin process, for a server that has none.
use super::{About, EXCHANGE_MAX, Hosts, serve};
use crate::{Failure, top::Reader};
use regatta_sys::{process, socket};
use std::{
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    os::fd::AsFd as _,
};

/// The work that fails without a port.
const SERVE: &str = "serve the page";

/// Serves the page of a running server on the loopback address, at a port of the kernel's choice,
/// until the server ends. Prints the address.
///
/// # Errors
/// There is no such server, or no port.
pub fn show_page(pid: Option<u32>, out: &mut dyn Write) -> Result<(), Failure> {
    let reader = Reader::other(pid)?;
    let server_pid = reader.pid();
    let mut listen = || -> io::Result<TcpListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        writeln!(
            out,
            "server {server_pid}, live: http://{address}/\n\
             Every user of this machine can read it. Ctrl-C ends it, not the server."
        )?;
        out.flush()?;
        Ok(listener)
    };
    let listener = listen().map_err(Failure::system(SERVE))?;
    let hosts = Hosts::Named(Ipv4Addr::LOCALHOST.to_string());
    let about = About { reader, hosts, own: None };
    let beat = |_| {
        if !process::exists(server_pid) {
            // The next accept fails, which ends the service.
            let _ = socket::stop_listening(listener.as_fd());
        }
    };
    let error = serve(listener.as_fd(), &about, EXCHANGE_MAX, &beat);
    if process::exists(server_pid) {
        return Err(Failure::system(SERVE)(error));
    }
    // A reader of this line that has gone needs none.
    let _ = writeln!(out, "server {server_pid} has ended");
    Ok(())
}
