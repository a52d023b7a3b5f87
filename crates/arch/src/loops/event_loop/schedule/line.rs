//! A peer's end of its connection, which may be sealed.
use crate::testing::dice::Dice;
use regatta_origin::{Progress, Seal as _, Toy};
use regatta_sys::wait::{Interest, ready_now};
use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
};

/// The most that is received from a sealed connection at once, bytes.
const TAKE_MAX: usize = 20_000;

/// A connection, or what is left of it.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) socket: Option<UnixStream>,
    pub(super) sealed: Option<Sealed>,
    /// Bytes sent and received, and bytes received.
    pub(super) moved: usize,
    pub(super) brought: u64,
}

/// The seal of a peer.
#[derive(Debug)]
pub(super) struct Sealed {
    dice: Dice,
    toy: Toy,
    out: Vec<u8>,
    inbox: Vec<u8>,
    plain: Vec<u8>,
    /// Records before the one that is altered on its way.
    until_spoilt: Option<usize>,
    says_last: bool,
    /// The server had closed its end before all that was sealed had been sent.
    held_back: bool,
}

impl Sealed {
    pub(super) fn new(seed: u64) -> Self {
        let (mut dice, mut out) = (Dice::new(seed), Vec::new());
        let toy = Toy::client(seed, &mut out);
        let until_spoilt = dice.once_in(6).then(|| dice.below(4));
        let (inbox, plain) = (Vec::new(), Vec::new());
        let (says_last, held_back) = (false, false);
        Self { dice, toy, out, inbox, plain, until_spoilt, says_last, held_back }
    }

    /// True if a record of it is altered on its way, sooner or later.
    pub(super) const fn is_spoilt(&self) -> bool {
        self.until_spoilt.is_some()
    }

    /// Opens what was received; an error if it is not what was sent.
    fn open(&mut self) -> io::Result<()> {
        let before = self.out.len();
        let opened = self.toy.open_all(&mut self.inbox, &mut self.plain, &mut self.out);
        let spoilt = self.until_spoilt.is_some_and(|until| until == 0);
        // The server sends its alert to a peer whose record it could not open.
        if opened.is_err() && !spoilt {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.out.len() > before {
            self.spoil();
        }
        Ok(())
    }

    /// Alters the last byte of what is to be sent, if it is time for that.
    fn spoil(&mut self) {
        match &mut self.until_spoilt {
            Some(0) | None => {}
            Some(until) => {
                *until -= 1;
                if *until == 0
                    && let Some(last) = self.out.last_mut()
                {
                    *last ^= 1;
                }
            }
        }
    }
}

impl Line {
    /// Sends and receives handshake records; true if there was something to do.
    pub(super) fn stir(&mut self) -> io::Result<bool> {
        let flushed = self.flush();
        let Self { sealed: Some(sealed), .. } = self else { return Ok(false) };
        if sealed.toy.progress() != Progress::Handshaking {
            return Ok(flushed);
        }
        Ok(self.fetch()? || flushed)
    }

    /// True if what it has sealed has not been sent.
    pub(super) fn holds_back(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.held_back || !sealed.out.is_empty())
    }

    /// True if the server has closed its end.
    pub(super) fn is_left(&self) -> bool {
        let ready = |socket: &UnixStream| ready_now(socket.as_fd(), Interest::READ);
        self.socket.as_ref().is_some_and(|socket| ready(socket).is_ok_and(|event| event.broken))
    }

    /// Sends a piece of what has been sealed; true if some was taken.
    fn flush(&mut self) -> bool {
        let Self { socket: Some(socket), sealed: Some(sealed), moved, .. } = self else {
            return false;
        };
        if sealed.out.is_empty() {
            return false;
        }
        let len = if sealed.dice.once_in(2) {
            sealed.out.len()
        } else {
            1 + sealed.dice.below(sealed.out.len())
        };
        match socket.write(&sealed.out[..len]) {
            Ok(bytes) => {
                sealed.out.drain(..bytes);
                *moved += bytes;
                bytes > 0
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                // The server has closed its end; what it sent before is still to be received.
                sealed.out.clear();
                sealed.held_back = true;
                true
            }
        }
    }

    /// Receives a piece and opens it; false if there is nothing yet.
    fn fetch(&mut self) -> io::Result<bool> {
        let Self { socket: Some(socket), sealed: Some(sealed), moved, brought } = self else {
            return Ok(false);
        };
        let mut buffer = [0; TAKE_MAX];
        let most = if sealed.dice.once_in(2) { TAKE_MAX } else { 1 + sealed.dice.below(600) };
        match socket.read(&mut buffer[..most]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                *moved += bytes;
                *brought += bytes as u64;
                sealed.inbox.extend_from_slice(&buffer[..bytes]);
                sealed.open()?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the beginning of `bytes`.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        let Some(sealed) = &mut self.sealed else {
            let written = socket.write(bytes)?;
            self.moved += written;
            return Ok(written);
        };
        if !sealed.out.is_empty() || sealed.toy.progress() == Progress::Handshaking {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if sealed.dice.once_in(8) {
            sealed.toy.renew(&mut sealed.out);
        }
        // The server has said that it receives no more.
        if sealed.toy.seal(bytes, &mut sealed.out).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        sealed.spoil();
        self.flush();
        Ok(bytes.len())
    }

    /// Ends what is sent; false if that is not possible yet.
    pub(super) fn shut(&mut self) -> bool {
        if let Some(sealed) = &mut self.sealed {
            if !std::mem::replace(&mut sealed.says_last, true) && sealed.dice.once_in(2) {
                sealed.toy.close(&mut sealed.out);
            }
            if !sealed.out.is_empty() {
                return false;
            }
        }
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Write);
        }
        true
    }

    /// Receives plain bytes; `Interrupted` if only records without any were received.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.sealed.is_none() {
            let Some(socket) = &mut self.socket else { return Ok(0) };
            let bytes = socket.read(buffer)?;
            self.moved += bytes;
            self.brought += bytes as u64;
            return Ok(bytes);
        }
        let nothing = self.sealed.as_ref().is_some_and(|sealed| sealed.plain.is_empty());
        if nothing {
            match self.fetch() {
                Ok(true) => {}
                Ok(false) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
        }
        let Some(sealed) = &mut self.sealed else { return Ok(0) };
        if sealed.plain.is_empty() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = sealed.plain.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&sealed.plain[..bytes]);
        sealed.plain.drain(..bytes);
        Ok(bytes)
    }

    /// All that is left to receive after the server has closed its end.
    pub(super) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        let Some(socket) = &mut self.socket else { return Ok(rest) };
        let ended = socket.read_to_end(&mut rest);
        if let Err(error) = ended
            && error.kind() == io::ErrorKind::WouldBlock
        {
            return Err(error);
        }
        self.brought += rest.len() as u64;
        if let Some(sealed) = &mut self.sealed {
            sealed.inbox.append(&mut rest);
            sealed.open()?;
            rest = std::mem::take(&mut sealed.plain);
        }
        Ok(rest)
    }
}
