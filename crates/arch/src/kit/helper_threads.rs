//! Helpers that are threads: they share the loop's descriptors and memory, so that what they open
//! needs no passing.
use super::helpers::{Crew, Errand, Outcome};
use crate::drive::perform::{self, Below};
use regatta_sys::{Bell, OpenRules, Root, residency::touch};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

/// What a helper reads into, bytes: nobody looks at it.
pub const SCRATCH_BYTES: usize = 128 << 10;
/// The stack of a helper, bytes: it opens and reads, and calls nothing deep.
const STACK_BYTES: usize = 128 << 10;

/// What all threads have in common.
#[derive(Debug)]
struct Place {
    rules: OpenRules,
    bell: Bell,
}

type Said = (usize, Option<Outcome>);

/// Helper threads.
#[derive(Debug)]
pub struct Threads<'a> {
    root: &'a Root,
    /// The same directory by a descriptor that belongs to the threads; made for the first of them.
    theirs: Option<Arc<Root>>,
    place: Arc<Place>,
    /// By helper: where its errands go.
    inboxes: Vec<Option<SyncSender<Errand>>>,
    say: Sender<Said>,
    said: Receiver<Said>,
}

impl<'a> Threads<'a> {
    /// No threads yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(root: &'a Root, rules: OpenRules) -> io::Result<Self> {
        let place = Arc::new(Place { rules, bell: Bell::new()? });
        let (say, said) = channel();
        Ok(Self { root, theirs: None, place, inboxes: Vec::new(), say, said })
    }
}

impl Crew for Threads<'_> {
    fn hire(&mut self) -> io::Result<usize> {
        let root = match &self.theirs {
            Some(root) => Arc::clone(root),
            None => Arc::clone(self.theirs.insert(Arc::new(self.root.try_clone()?))),
        };
        let free = self.inboxes.iter().position(Option::is_none);
        let helper = free.unwrap_or(self.inboxes.len());
        let (give, take) = sync_channel(1);
        let (place, say) = (Arc::clone(&self.place), self.say.clone());
        let builder = thread::Builder::new().name("helper".to_owned()).stack_size(STACK_BYTES);
        builder.spawn(move || help(helper, &root, &place, &take, &say))?;
        match self.inboxes.get_mut(helper) {
            Some(inbox) => *inbox = Some(give),
            None => self.inboxes.push(Some(give)),
        }
        Ok(helper)
    }

    fn give(&mut self, helper: usize, errand: &mut Errand) -> io::Result<()> {
        let inbox = self.inboxes[helper].as_ref().ok_or(io::ErrorKind::NotFound)?;
        // Room for one, and the helper has none: this does not wait.
        inbox.try_send(errand.lend()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn dismiss(&mut self, helper: usize) {
        // It ends when it finds that no more errands can come.
        self.inboxes[helper] = None;
    }

    fn renew_root(&mut self) {
        self.theirs = None;
    }

    fn hear(&mut self) -> Option<(usize, Option<Outcome>)> {
        self.said.try_recv().ok().or_else(|| {
            // Who speaks after this look rings after this silence.
            self.place.bell.clear();
            self.said.try_recv().ok()
        })
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.place.bell.as_fd()
    }
}

/// A helper's life.
fn help(helper: usize, root: &Root, place: &Place, errands: &Receiver<Errand>, say: &Sender<Said>) {
    let mut scratch = Vec::new();
    for errand in errands {
        // Its files are closed there, not by the loop.
        let outcome = run(errand, Below { root, rules: place.rules }, &mut scratch);
        if say.send((helper, Some(outcome))).is_err() {
            return;
        }
        place.bell.ring();
    }
}

fn run(errand: Errand, below: Below<'_>, scratch: &mut Vec<u8>) -> Outcome {
    match errand {
        Errand::Open(req) => Outcome::Opened(below.open(&req)),
        Errand::Touch(req) => {
            scratch.resize(SCRATCH_BYTES, 0);
            // A range that cannot be read is reported by the send or read that it was for.
            let _ = touch(&req.file, req.at, req.len, scratch);
            Outcome::Touched
        }
        Errand::Read(req) => Outcome::Read(perform::read(req)),
    }
}
