//! Connections over TLS: their handshakes, what they send, and what they receive.

use super::core::Core;
use super::fate::Fate;
use super::http2::PROTOCOL;
use super::input::ConnId;
use super::secure::CIPHER_BYTES;
use super::tally::keep_first;
use crate::number::index;
use regatta_sys::{clock, recv};
use rustls::Error;
use std::io;
use std::os::fd::AsFd;

impl Core<'_> {
    /// Continues the handshake of a connection as far as bytes allow.
    pub(super) fn shake_hands(&mut self, id: ConnId) {
        loop {
            let Self { conns, cipher, tally, .. } = self;
            let conn = &mut conns[id.at()];
            let (Some(secure), Some(fd)) = (&mut conn.secure, &conn.fd) else { return };
            let received = match secure.send(fd.as_fd()) {
                Ok(bytes) => {
                    tally.bytes_sent += bytes;
                    if !secure.is_shaking() {
                        return self.shaken(id);
                    }
                    recv(fd.as_fd(), cipher)
                }
                Err(error) => Err(error),
            };
            self.now = clock::nanos();
            match received {
                Ok(0) => return self.failed.push((id, Fate::Reset)),
                Ok(bytes) => {
                    self.tally.bytes_received += bytes as u64;
                    // Content that comes so early stays in the session.
                    if let Err(error) = secure.decrypt(&self.cipher[..bytes], &mut []) {
                        return self.distrust(id, &error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.failed.push((id, Fate::of(&error))),
            }
        }
    }

    /// The handshake is done.
    fn shaken(&mut self, id: ConnId) {
        let conn = &mut self.conns[id.at()];
        let Some(secure) = &conn.secure else { return };
        if self.plan.streams > 0 && !secure.speaks(PROTOCOL) {
            let what = "the server does not agree to HTTP/2 (h2 in ALPN); leave out --http2";
            return self.distrust(id, &Error::General(what.to_owned()));
        }
        // Content may have come with its last bytes.
        conn.more = true;
        self.now = clock::nanos();
        if (self.from..self.until).contains(&conn.opened) {
            self.tally.phases.handshake.record(self.now.saturating_sub(secure.begun));
        }
        let counted = &mut self.tally.handshakes;
        if counted.agreed.is_empty() {
            counted.agreed = secure.describe();
        }
        *if secure.is_resumed() { &mut counted.resumed } else { &mut counted.full } += 1;
        self.ready(id);
    }

    /// A handshake failed: the connection is of no use.
    pub(super) fn distrust(&mut self, id: ConnId, error: &Error) {
        self.tally.handshakes.failed += 1;
        let reason = reason(error);
        keep_first(&mut self.tally.handshakes.fault, &reason);
        keep_first(&mut self.second.tls_fault, &reason);
        if let Some((secure, fd)) = self.conns[id.at()].parts() {
            // The alert; the peer may be gone.
            let _ = secure.send(fd);
        }
        self.failed.push((id, Fate::Tls));
    }

    /// Sends what is not yet sent, until the kernel takes no more.
    pub(super) fn flush_secure(&mut self, at: usize) {
        loop {
            let Self { conns, tally, plan, now, failed, .. } = self;
            let conn = &mut conns[at];
            let id = conn.id(at);
            let (Some(secure), Some(fd)) = (&mut conn.secure, &conn.fd) else { return };
            match secure.send(fd.as_fd()) {
                Ok(bytes) => tally.bytes_sent += bytes,
                Err(error) => return failed.push((id, Fate::of(&error))),
            }
            if secure.has_unsent() {
                return;
            }
            let Some(flight) = conn.flights.get_mut(conn.unsent) else { return };
            let target = &plan.script.targets[index(flight.order.target.into())];
            let rest = &target.bytes[conn.sent_bytes..];
            if rest.is_empty() {
                self.sent(at, true);
                continue;
            }
            if flight.begun == 0 {
                flight.begun = *now;
            }
            match secure.encrypt(rest) {
                Ok(bytes) => conn.sent_bytes += bytes,
                Err(error) => return failed.push((id, Fate::of(&error))),
            }
        }
    }

    /// Receives content into the input. `Ok(0)` is the end that the server announced; an end
    /// without that is an error.
    pub(super) fn receive_secure(&mut self, at: usize) -> io::Result<usize> {
        loop {
            let Self { conns, cipher, input, tally, now, .. } = self;
            let conn = &mut conns[at];
            let (Some(secure), Some(fd)) = (&mut conn.secure, &conn.fd) else { return Ok(0) };
            (input.at, input.end) = (0, secure.take(&mut input.bytes));
            if input.end > 0 || secure.is_closed {
                return Ok(input.end);
            }
            let most = conn.line.map_or(CIPHER_BYTES, |line| line.chunk.min(CIPHER_BYTES));
            let received = recv(fd.as_fd(), &mut cipher[..most]);
            *now = clock::nanos();
            let bytes = received?;
            conn.more = bytes == most || conn.ended;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(line) = &mut conn.line {
                line.took(bytes, *now);
            }
            tally.bytes_received += bytes as u64;
            let decrypted = secure.decrypt(&cipher[..bytes], &mut input.bytes);
            input.end = match decrypted {
                Ok(bytes) => bytes,
                Err(error) => {
                    keep_first(&mut tally.handshakes.fault, &error);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            // A user has the content when it is decrypted.
            *now = clock::nanos();
            conn.more |= secure.is_closed;
            if secure.has_unsent() {
                // An answer to a change of keys. If the socket is full, the next request sends it.
                tally.bytes_sent += secure.send(fd.as_fd())?;
            }
            if input.end > 0 {
                return Ok(input.end);
            }
            if !conn.more {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

/// The reason of a handshake's failure, in words.
fn reason(error: &Error) -> String {
    let text = error.to_string();
    // The library gives this one by its name alone.
    if text.contains("CaUsedAsEndEntity") {
        "the server shows an authority's own certificate (CA:TRUE), as \"openssl req -x509\" makes \
         it; a server's has basicConstraints = CA:FALSE"
            .to_owned()
    } else {
        text
    }
}
