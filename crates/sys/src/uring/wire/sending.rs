//! Sends of a ring, and the pieces of files in them.
use super::{SEND, SPARES_MAX, WireRing, name};
use crate::{
    Read, StaticFile,
    socket::Connection,
    uring::{
        Pipe,
        sends::{Piece, Sending, SentBytes, Waiting},
    },
};
use io_uring::squeue;
use regatta_op::{Fault, Outbox};
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};

impl WireRing {
    /// Begins to send from the front of an outbox; at most `bytes_max` of what is in a file.
    /// Returns the number of bytes. [`WireRing::next_sent`] reports the result.
    pub fn send(
        &mut self,
        key: u64,
        socket: &Connection,
        outbox: Outbox<StaticFile>,
        bytes_max: u64,
    ) -> u64 {
        let at = self.enter(socket.as_fd().as_raw_fd(), key);
        let free = self.free_sends.pop();
        let number = free.unwrap_or_else(|| {
            self.sends.push(Box::new(Sending::new()));
            u32::try_from(self.sends.len() - 1).expect("fewer than 2^32 sends")
        });
        let sending = &mut self.sends[number as usize];
        (sending.key, sending.outbox, sending.waits) = (Some(key), outbox, Waiting::No);
        sending.piece = self.sockets[at].piece.take();
        let asked = mem::take(&mut self.sockets[at].asked);
        let has_input = !self.sockets[at].is_empty() || self.sockets[at].ended.is_some();
        // Else it continues a response, or is followed by another.
        sending.at_once = self.coalescing.is_supported() && asked && !has_input;
        let Some((entry, bytes)) = sending.entry(self.sockets[at].fd, bytes_max) else {
            let sent = sending.nothing();
            self.end_send(number, sent);
            return 0;
        };
        self.sockets[at].send = Some(number);
        self.push_send(number, at, entry);
        bytes
    }

    /// Takes the send of a connection, if it has finished.
    pub fn take_sent(&mut self, key: u64) -> Option<SentBytes> {
        let at = self.sent.iter().position(|sent| sent.key == key)?;
        self.sent.remove(at)
    }

    /// Gives up the send of a connection. Its memory is released when the kernel has reported it.
    pub fn abandon_send(&mut self, key: u64) {
        self.sent.retain(|sent| sent.key != key);
        let Some(at) = self.find(key) else { return };
        let Some(number) = self.sockets[at].send.take() else { return };
        let sending = &mut self.sends[number as usize];
        sending.key = None;
        let of = name_of_send(number, sending.waits);
        self.cancel(of);
    }

    /// Bytes in memory of the file range at the front of an outbox; 0 if none were read.
    pub fn piece_bytes(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> u64 {
        let Some(at) = self.find(key) else { return 0 };
        let bytes = self.sockets[at].piece.as_ref().map_or(0, |piece| piece.len_for(outbox));
        if bytes == 0 {
            self.drop_piece(at);
        }
        bytes
    }

    /// A buffer for a piece of a file.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Notes that a piece of a file is being read for a connection, from `from` on.
    pub fn expect_piece(&mut self, key: u64, file: &StaticFile, from: u64) {
        let Some(at) = self.find(key) else { return };
        self.drop_piece(at);
        self.sockets[at].piece = Some(Box::new(Piece::expected(file, from)));
    }

    /// Keeps what was read for the file range at the front of a connection's outbox.
    pub fn keep_piece(&mut self, key: u64, (bytes, read): Read) {
        let own = self.find(key).and_then(|at| self.sockets[at].piece.as_mut());
        if let Some(piece) = own {
            (piece.bytes, piece.read) = (bytes, read);
        }
    }

    /// An empty pipe for a piece of a file of this length. `None`: there are `most`, or no
    /// descriptors are left.
    pub fn pipe(&mut self, bytes: usize, most: usize) -> Option<Pipe> {
        if self.pipes.is_empty() && Arc::strong_count(&self.all_pipes) > most {
            return None;
        }
        self.pipes.pop().or_else(|| Pipe::new(bytes, Arc::clone(&self.all_pipes)).ok())
    }

    /// Keeps a pipe that was filled for the file range at the front of a connection's outbox.
    pub fn keep_pipe(&mut self, key: u64, pipe: Pipe, filled: Result<u64, Fault>) {
        let own = self.find(key).and_then(|at| self.sockets[at].piece.as_mut());
        if let Some(piece) = own {
            piece.read = filled.map(|_| ());
            piece.pipe = Some((pipe, filled.unwrap_or(0)));
        }
    }

    pub(super) fn drop_piece(&mut self, at: usize) {
        if let Some(piece) = self.sockets[at].piece.take() {
            self.give_spare(*piece);
        }
    }

    fn give_spare(&mut self, piece: Piece) {
        match piece.pipe {
            // One with bytes of another file is closed.
            Some((pipe, 0)) if self.pipes.len() < SPARES_MAX => self.pipes.push(pipe),
            None if self.spares.len() < SPARES_MAX => self.spares.push(piece.bytes),
            _ => {}
        }
    }

    pub(super) fn has_sent(&mut self, number: u32, result: i32) {
        let sending = &mut self.sends[number as usize];
        let waited = mem::replace(&mut sending.waits, Waiting::No);
        let Some(at) = sending.key.and_then(|key| self.find(key)) else {
            // It was given up: no other send continues it.
            return self.end_send(number, Ok(0));
        };
        if waited == Waiting::No
            && let Ok(sent) = u64::try_from(result)
        {
            self.sends[number as usize].advance(sent);
            return self.end_send(number, Ok(sent));
        }
        let entry = self.sends[number as usize].go_on(self.sockets[at].fd, waited, result);
        match entry {
            Some(entry) => self.push_send(number, at, entry),
            None => {
                let error = io::Error::from_raw_os_error(result.saturating_neg());
                self.end_send(number, Err(error));
            }
        }
    }

    fn push_send(&mut self, number: u32, at: usize, entry: squeue::Entry) {
        let &Sending { waits, at_once, .. } = &*self.sends[number as usize];
        self.push(entry, name_of_send(number, waits));
        self.coalescing.add(at_once);
        self.sockets[at].batch = self.batch;
    }

    /// Ends a send, and reports it to its connection.
    fn end_send(&mut self, number: u32, sent: io::Result<u64>) {
        let sending = &mut self.sends[number as usize];
        let (outbox, piece) = (mem::take(&mut sending.outbox), sending.piece.take());
        let key = sending.key.take();
        self.free_sends.push(number);
        let own = key.and_then(|key| self.find(key));
        match (own, piece) {
            (Some(at), Some(piece)) if sent.is_ok() && piece.len() > 0 => {
                self.sockets[at].piece = Some(piece);
            }
            (_, Some(piece)) => self.give_spare(*piece),
            (_, None) => {}
        }
        if let Some((at, key)) = own.zip(key) {
            self.sockets[at].send = None;
            self.sent.push_back(SentBytes { key, outbox, sent });
        }
    }
}

/// A wait of a send for room has a name of its own.
fn name_of_send(number: u32, waits: Waiting) -> u64 {
    name(SEND, number, u32::from(waits != Waiting::No))
}
