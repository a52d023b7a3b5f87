//! Listings of folders (`content.listing`): a thread for each page builds it, outside of event
//! loops.
//!
//! Where workers fork, or share their table of descriptors, a child process takes the place of the
//! thread: a process with threads must not fork, and a thread would open numbers of all. A page
//! stays for a second, so that many requests for one folder read it once.
mod page;
mod render;

use page::build;
use regatta_arch::FolderLister;
use regatta_op::{Now, OpenFault, Tick};
use regatta_origin::{Lister, ListingPage, ListingRequest};
use regatta_sys::{
    OpenRules, Root,
    crew::Member,
    process::{Child, Exit, fork_worker, lower_priority},
    shm::create_named,
};
use std::{
    io,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

/// Most pages of a process that are built at once; others wait.
const BUILDS_MAX: usize = 4;
/// Most pages of a process, with those that are built.
const PAGES_MAX: usize = 8;
/// Time for which a page is kept, milliseconds.
const KEPT_MS: u64 = 1_000;
/// Longest page, bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Words of the memory in which a child leaves its page: result, length, and the bytes.
const WORDS: usize = 2 + PAGE_BYTES_MAX / 8;
/// `EIO`: a thread or child has ended without a page.
const INPUT_OUTPUT: i32 = 5;

/// Lister that builds each page in the call that asks for it: for a command, not for a loop.
#[derive(Debug)]
pub(crate) struct PromptLister {
    pub(crate) root: Arc<Root>,
    pub(crate) rules: OpenRules,
}

impl Lister for PromptLister {
    fn page(&self, wanted: &ListingRequest, _now: Now) -> Option<ListingPage> {
        Some(build(&self.root, wanted, self.rules))
    }

    fn settle(&self, _now: Now) {}
}

/// Whatever builds the pages of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builders {
    /// Threads.
    Threads,
    /// Child processes, one at a time.
    Children,
}

/// Listings of the folders that a process serves.
#[derive(Debug)]
pub(crate) struct Listings {
    builders: Builders,
    rules: OpenRules,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Arc<Root>>,
    member: Option<&'static Member>,
    /// Memory in which a child leaves its page, if children build.
    memory: Option<&'static [AtomicU64]>,
    /// Oldest first.
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    wanted: ListingRequest,
    work: Work,
    /// Time at which it was first seen to be there.
    done_at: Option<Tick>,
}

#[derive(Debug)]
enum Work {
    /// A thread builds it.
    Thread(Arc<OnceLock<ListingPage>>, JoinHandle<()>),
    /// A child builds it.
    Child(Child),
    /// The page, or the reason why there is none.
    Done(ListingPage),
}

impl Listings {
    /// No pages yet. Made before workers are forked.
    pub(crate) fn new(builders: Builders, rules: OpenRules) -> Self {
        Self { builders, rules, state: Mutex::default() }
    }

    fn begin(&self, state: &State, wanted: &ListingRequest) -> io::Result<Work> {
        let root = state.root.as_ref().ok_or(io::ErrorKind::NotFound)?;
        match self.builders {
            Builders::Threads => {
                let (root, wanted, rules) = (Arc::clone(root), wanted.clone(), self.rules);
                let page = Arc::new(OnceLock::new());
                let own = Arc::clone(&page);
                let work = move || drop(own.set(build_behind_loops(&root, &wanted, rules)));
                let handle = thread::Builder::new().name("listing".to_owned()).spawn(work)?;
                Ok(Work::Thread(page, handle))
            }
            Builders::Children => {
                let memory = state.memory.ok_or(io::ErrorKind::OutOfMemory)?;
                let keep: Vec<_> = root.all().map(AsFd::as_fd).collect();
                let work = || {
                    leave(memory, &build_behind_loops(root, wanted, self.rules));
                    0
                };
                let Some(member) = state.member else {
                    return fork_worker(&keep, work).map(Work::Child);
                };
                let fork = || fork_worker(&keep, work).inspect(|child| member.claim(child.as_fd()));
                member.acquire(fork).map(Work::Child)
            }
        }
    }
}

impl FolderLister for Listings {
    fn start(&self, root: &Arc<Root>, member: Option<&'static Member>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.root.is_some() {
            return;
        }
        (state.root, state.member) = (Some(Arc::clone(root)), member);
        if self.builders == Builders::Children {
            // The mapping outlives its descriptor.
            let map = || create_named("regatta-listing", WORDS).map(|memory| memory.words());
            let mapped = member.map_or_else(map, |member| member.acquire(map));
            state.memory = mapped.ok();
        }
    }
}

impl Lister for Listings {
    fn page(&self, wanted: &ListingRequest, now: Now) -> Option<ListingPage> {
        // A loop never waits for another's look.
        let mut state = self.state.try_lock().ok()?;
        state.advance(now.tick);
        if let Some(page) = state.pages.iter().find(|page| page.wanted == *wanted) {
            return match &page.work {
                Work::Done(page) => Some(page.clone()),
                Work::Thread(..) | Work::Child(_) => None,
            };
        }
        let builds_max = match self.builders {
            Builders::Threads => BUILDS_MAX,
            Builders::Children => 1,
        };
        if !state.make_room(builds_max) {
            return None;
        }
        match self.begin(&state, wanted) {
            Ok(work) => {
                state.pages.push(Page { wanted: wanted.clone(), work, done_at: None });
                None
            }
            Err(_) => Some(Err(OpenFault::Exhausted)),
        }
    }

    fn settle(&self, now: Now) {
        if let Ok(mut state) = self.state.try_lock() {
            state.advance(now.tick);
        }
    }
}

impl State {
    /// Takes the pages that are there by now, and drops those that are too old.
    fn advance(&mut self, now: Tick) {
        let (member, memory) = (self.member, self.memory);
        self.pages.retain_mut(|page| {
            page.advance(member, memory);
            if matches!(page.work, Work::Done(_)) {
                now.since(*page.done_at.get_or_insert(now)) < KEPT_MS
            } else {
                true
            }
        });
    }

    /// Drops the oldest page if there are too many. False if too many are being built.
    fn make_room(&mut self, builds_max: usize) -> bool {
        let is_done = |page: &Page| page.done_at.is_some();
        let done = self.pages.iter().filter(|page| is_done(page)).count();
        if self.pages.len() - done >= builds_max {
            return false;
        }
        if self.pages.len() >= PAGES_MAX
            && let Some(oldest) = self.pages.iter().position(is_done)
        {
            self.pages.remove(oldest);
        }
        true
    }
}

impl Page {
    fn advance(&mut self, member: Option<&'static Member>, memory: Option<&[AtomicU64]>) {
        let failed = Err(OpenFault::Other(INPUT_OUTPUT));
        let done = match &self.work {
            Work::Done(_) => return,
            Work::Thread(page, handle) => {
                // In this order: what the thread has set before its end is seen.
                let has_ended = handle.is_finished();
                match page.get() {
                    Some(page) => page.clone(),
                    None if has_ended => failed,
                    None => return,
                }
            }
            Work::Child(child) => {
                let page = match (child.try_wait(), memory) {
                    (Ok(None), _) => return,
                    (Ok(Some(Exit::Code(0))), Some(memory)) => take(memory),
                    _ => failed,
                };
                let closing = member.map(|member| member.closing(child.as_fd()));
                self.work = Work::Done(page);
                drop(closing);
                return;
            }
        };
        self.work = Work::Done(done);
    }
}

/// Builds a page in a thread or process of its own. Loops come first; if that is refused, they
/// share.
fn build_behind_loops(root: &Root, wanted: &ListingRequest, rules: OpenRules) -> ListingPage {
    let _ = lower_priority();
    build(root, wanted, rules)
}

/// Leaves a page in memory that another process reads after this one has ended.
fn leave(memory: &[AtomicU64], page: &ListingPage) {
    let [result, len, room @ ..] = memory else { return };
    match page {
        Ok(bytes) if bytes.len() <= room.len() * 8 => {
            for (word, chunk) in room.iter().zip(bytes.chunks(8)) {
                let mut eight = [0; 8];
                eight[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_ne_bytes(eight), Relaxed);
            }
            result.store(0, Relaxed);
            len.store(bytes.len() as u64, Relaxed);
        }
        page => {
            let fault = page.as_ref().err().copied().unwrap_or(OpenFault::Exhausted);
            let (code, errno) = fault.code();
            let errno = u64::from(errno.cast_unsigned());
            result.store(1 | u64::from(code) << 8 | errno << 32, Relaxed);
        }
    }
}

/// Takes the page of a child that has ended. Its end orders the words.
fn take(memory: &[AtomicU64]) -> ListingPage {
    let [result, len, room @ ..] = memory else { return Err(OpenFault::Exhausted) };
    let result = result.load(Relaxed);
    if result != 0 {
        let [_, code, _, _, errno @ ..] = result.to_le_bytes();
        return Err(OpenFault::from_code(code, i32::from_le_bytes(errno)));
    }
    let len = usize::try_from(len.load(Relaxed)).unwrap_or(usize::MAX).min(room.len() * 8);
    let words = room[..len.div_ceil(8)].iter();
    let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    bytes.truncate(len);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use page::tests::wanted;
    use regatta_testkit::folder::Folder;
    use std::{fs, time::Duration};

    fn root(folder: &Folder) -> Arc<Root> {
        Arc::new(Root::open(folder).unwrap())
    }

    fn at(ms: u64) -> Now {
        Now { tick: Tick(ms), unix: 0 }
    }

    /// The page, as soon as it is there.
    fn page(listings: &Listings, wanted: &ListingRequest, now: Now) -> ListingPage {
        for _ in 0..5_000 {
            if let Some(page) = listings.page(wanted, now) {
                return page;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("a page in five seconds");
    }

    #[test]
    fn a_page_is_built_once_and_kept_for_a_second() {
        let folder = Folder::new("listing");
        fs::write(folder.join("a.txt"), "a").unwrap();
        let listings = Listings::new(Builders::Threads, OpenRules::default());
        listings.start(&root(&folder), None);
        let of_root = wanted("", "");
        assert!(listings.page(&of_root, at(0)).is_none(), "it is not built in the loop");
        let first = page(&listings, &of_root, at(0)).unwrap();
        assert!(String::from_utf8_lossy(&first).contains("a.txt"));
        fs::write(folder.join("b.txt"), "b").unwrap();
        assert_eq!(listings.page(&of_root, at(KEPT_MS - 1)), Some(Ok(first.clone())));
        assert!(listings.page(&of_root, at(KEPT_MS)).is_none(), "it is built again");
        assert_ne!(page(&listings, &of_root, at(KEPT_MS)).unwrap(), first);
        let missing = page(&listings, &wanted("none", ""), at(KEPT_MS));
        assert_eq!(missing, Err(OpenFault::NotFound));
    }

    /// A page whose client disconnects is dropped after a second, although no other is asked for.
    #[test]
    fn pages_that_no_client_waits_for_are_dropped() {
        let folder = Folder::new("listing-left");
        let listings = Listings::new(Builders::Threads, OpenRules::default());
        listings.start(&root(&folder), None);
        assert!(listings.page(&wanted("", ""), at(0)).is_none());
        let pages = || listings.state.lock().unwrap().pages.len();
        let is_done = || listings.state.lock().unwrap().pages[0].done_at.is_some();
        while !is_done() {
            listings.settle(at(0));
            thread::sleep(Duration::from_millis(1));
        }
        listings.settle(at(KEPT_MS - 1));
        assert_eq!(pages(), 1);
        listings.settle(at(KEPT_MS));
        assert_eq!(pages(), 0);
    }

    #[test]
    fn no_more_pages_than_allowed_are_built_and_kept() {
        let folder = Folder::new("listing-many");
        let listings = Listings::new(Builders::Threads, OpenRules::default());
        listings.start(&root(&folder), None);
        for number in 0..20 {
            let of = wanted("", &number.to_string());
            page(&listings, &of, at(0)).unwrap();
            assert!(listings.state.lock().unwrap().pages.len() <= PAGES_MAX);
        }
        let mut state = listings.state.lock().unwrap();
        for page in &mut state.pages[..BUILDS_MAX] {
            page.done_at = None;
        }
        assert!(!state.make_room(BUILDS_MAX));
        assert!(state.make_room(BUILDS_MAX + 1));
        assert_eq!(state.pages.len(), PAGES_MAX - 1);
    }

    #[test]
    fn a_page_passes_through_memory() {
        let memory: Vec<_> = (0..10).map(|_| AtomicU64::new(u64::MAX)).collect();
        let fits = |len: usize| -> ListingPage { Ok(vec![b'x'; len].into()) };
        for (page, expected) in [
            (fits(0), fits(0)),
            (fits(13), fits(13)),
            (fits(64), fits(64)),
            (fits(65), Err(OpenFault::Exhausted)),
            (Err(OpenFault::NotFound), Err(OpenFault::NotFound)),
            (Err(OpenFault::Other(7)), Err(OpenFault::Other(7))),
        ] {
            leave(&memory, &page);
            assert_eq!(take(&memory), expected);
        }
    }
}
