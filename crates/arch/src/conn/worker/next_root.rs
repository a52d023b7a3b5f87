//! New root directories on their way from the master to the processes that serve.
//!
//! A root can change while the server runs. The master's watch on roots ([`NextRoot::send`]) sends
//! its descriptor, and the encoded rules that its site is built from. A worker receives them
//! ([`NextRoot::renew`]) when it reads the clocks after a wait. The keeper, which forks workers
//! where they share a table of descriptors, only stores them ([`NextRoot::renew_kept`]).
use crate::releases::Releases;
use regatta_sys::{
    Root,
    channel::Channel,
    exec::{read_sealed, sealed},
};
use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// The roots of a process, and the source of those that replace them.
#[derive(Clone, Copy, Debug)]
pub struct NextRoot<'a> {
    /// Root that is served.
    pub root: &'a Root,
    /// Brings roots, each with its [record](NextRoot::send).
    pub channel: &'a Channel,
    /// Sites of this process, one per host. [`NextRoot::renew`] replaces those of changed roots.
    pub releases: &'a Releases,
}

/// The longest text that is sent in the record itself, bytes; a longer one has a descriptor.
const INLINE_BYTES_MAX: usize = 2048;

/// Bytes of a record before its text: the number of the host, and the generation of the root.
const RECORD_BYTES: usize = 16;

/// A received root, and the text that its site is built from.
#[derive(Debug)]
struct Arrived {
    host: usize,
    /// Number of the change of roots, counted for all hosts together.
    generation: u64,
    root: OwnedFd,
    text: Vec<u8>,
}

impl NextRoot<'_> {
    /// Sends a root with the text that goes with it. Those of a process are sent in the order of
    /// the changes.
    ///
    /// # Errors
    /// No room in the channel, or no memory.
    pub fn send(
        channel: &Channel,
        host: usize,
        generation: u64,
        root: BorrowedFd<'_>,
        text: &[u8],
    ) -> io::Result<()> {
        let mut record = Vec::with_capacity(RECORD_BYTES + INLINE_BYTES_MAX);
        record.extend_from_slice(&(host as u64).to_ne_bytes());
        record.extend_from_slice(&generation.to_ne_bytes());
        if text.len() <= INLINE_BYTES_MAX {
            record.extend_from_slice(text);
            return channel.send(&record, &[root]);
        }
        let text = sealed("regatta-release", text)?;
        channel.send(&record, &[root, text.as_fd()])
    }

    /// Replaces the roots by those that have come, and the sites with them. Returns the last
    /// change, and whether all has come that was sent; `None` if nothing has. A root for which
    /// there was no descriptor must be sent again.
    #[must_use]
    pub fn renew(&self) -> Option<(u64, bool)> {
        let (arrived, is_whole) = self.receive();
        let last = arrived.last()?.generation;
        let new = self.lacking(arrived);
        let build = |of: &Arrived| (of.host, self.releases.build(of.host, of.generation, &of.text));
        let sites = new.iter().map(build).collect();
        self.releases.change(sites, || self.replace(&new));
        Some((last, is_whole))
    }

    /// [`NextRoot::renew`] in the keeper, which serves nothing: stores the texts for the workers
    /// that it forks. Returns the last change if all arrived that was sent.
    #[must_use]
    pub fn renew_kept(&self) -> Option<u64> {
        let (arrived, is_whole) = self.receive();
        let last = arrived.last().map(|of| of.generation).filter(|_| is_whole);
        let new = self.lacking(arrived);
        self.replace(&new);
        for Arrived { host, generation, text, .. } in new {
            self.releases.keep(host, generation, text);
        }
        last
    }

    /// Keeps what the process does not have; of each host the last.
    fn lacking(&self, arrived: Vec<Arrived>) -> Vec<Arrived> {
        let mut new = BTreeMap::new();
        for of in arrived {
            if self.releases.lacks(of.host, of.generation) {
                new.insert(of.host, of);
            }
        }
        new.into_values().collect()
    }

    fn replace(&self, arrived: &[Arrived]) {
        for Arrived { host, root, .. } in arrived {
            if let Some(of) = self.root.nth(*host) {
                // Nothing can be wrong with two numbers that are open.
                let _ = of.replace(root.as_fd());
            }
        }
    }

    /// Receives what has come, and says whether nothing of it was lost.
    fn receive(&self) -> (Vec<Arrived>, bool) {
        let mut record = [0; RECORD_BYTES + INLINE_BYTES_MAX];
        let (mut arrived, mut is_whole) = (Vec::new(), true);
        loop {
            let mut files = Vec::new();
            let bytes = match self.channel.recv(&mut record, &mut files, false) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    is_whole = false;
                    continue;
                }
                Err(_) => break,
            };
            match parse(&record[..bytes], files) {
                Some(of) => arrived.push(of),
                None => is_whole = false,
            }
        }
        (arrived, is_whole)
    }
}

fn parse(record: &[u8], files: Vec<OwnedFd>) -> Option<Arrived> {
    let (host, rest) = record.split_first_chunk()?;
    let (generation, text) = rest.split_first_chunk()?;
    let host = usize::try_from(u64::from_ne_bytes(*host)).ok()?;
    let mut files = files.into_iter();
    let root = files.next()?;
    let text = match files.next() {
        None => text.to_vec(),
        Some(longer) => read_sealed(longer, u64::MAX).ok()?,
    };
    Some(Arrived { host, generation: u64::from_ne_bytes(*generation), root, text })
}
