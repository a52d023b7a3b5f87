//! The index of claims (systems.md §9), in its order: all of them, also those that take an
//! architecture or a machine that is not here. Behind them the bars of this project.

/// A claim of a paper, or a bar of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// What it says, with `{}` for each range.
    gist: &'static str,
    /// The ranges that it says something is in, which are those that are asked for.
    pub ranges: &'static [Range],
    /// What it takes to decide it.
    pub needs: &'static str,
    /// Processors that the server has to have for itself, at least; 0: any.
    pub processors: usize,
    /// The paper's number.
    pub paper: &'static str,
}

/// Where a claim says that a number lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
    /// Between these.
    Within(f64, f64),
    /// 1, but for this share either way: from 1 / (1 + share) to 1 + share.
    Equal(f64),
}

use Range::{Above, Below, Equal, Within};

impl Range {
    /// The least and the most.
    pub fn limits(self) -> (f64, f64) {
        match self {
            Above(low) => (low, f64::INFINITY),
            Below(high) => (f64::NEG_INFINITY, high),
            Within(low, high) => (low, high),
            Equal(share) => (1.0 / (1.0 + share), 1.0 + share),
        }
    }

    /// In words.
    pub fn words(self) -> String {
        match self {
            Above(low) => format!("above {low}"),
            Below(high) => format!("below {high}"),
            Within(low, high) => format!("from {low} to {high}"),
            Equal(share) => format!("1 within {:.0} %", 100.0 * share),
        }
    }
}

impl Claim {
    /// What it says.
    pub fn sentence(&self) -> String {
        let mut sentence = self.gist.to_owned();
        for range in self.ranges {
            sentence = sentence.replacen("{}", &range.words(), 1);
        }
        sentence
    }

    /// Whether it is said of several workloads, so that one refutes it.
    pub(crate) fn is_of_each_workload(&self) -> bool {
        self.gist.starts_with("With each workload")
    }

    /// Whether it takes something that is not built.
    pub fn is_not_built(&self) -> bool {
        self.needs.contains("not built")
    }
}

/// A range of a claim that has so many.
pub(crate) fn range(id: &str, at: usize) -> Range {
    let claim = CLAIMS.iter().find(|claim| claim.id == id);
    claim.expect("predicates are of claims").ranges[at]
}

/// What most claims have: no range of their own, and no wish for processors.
pub(crate) const ANY: Claim =
    Claim { id: "", gist: "", ranges: &[], needs: "", processors: 0, paper: "" };

/// All of them.
#[rustfmt::skip]
pub const CLAIMS: &[Claim] = &[
    Claim { id: "E-1",
        gist: "With files larger than the page cache, the share of the time in which SPED waits \
            for the disk is {}, at the rate where SYMPED saturates",
        ranges: &[Above(0.2)], needs: "a simulated disk and a memory limit", paper: "33 %", ..ANY },
    Claim { id: "E-2",
        gist: "SPED's peak over the best architecture's is {} with a disk, and {} when all is \
            cached",
        ranges: &[Within(0.55, 0.75), Above(0.95)],
        needs: "for the first half a simulated disk and a memory limit, and both in one run",
        paper: "63 %", ..ANY },
    Claim { id: "E-3",
        gist: "In overload SPED holds few connections, and its response times are not higher",
        needs: "a simulated disk, and thousands of descriptors", paper: "2,615 of 30,000", ..ANY },
    Claim { id: "E-4",
        gist: "With a disk, two processes' peak over one's is {}, and the processor idles half as \
            much at most",
        ranges: &[Above(1.2)], needs: "a simulated disk and a memory limit",
        paper: "+38 %; waiting 33 to 8 %", ..ANY },
    Claim { id: "E-5",
        gist: "With a disk, the peak of four processes over three's is {}, and of more over \
            four's {}",
        ranges: &[Equal(0.05), Below(1.05)], needs: "a simulated disk and a memory limit",
        paper: "5 and 4 % waiting", ..ANY },
    Claim { id: "E-6",
        gist: "Under a cap on connections that binds more processes lower the peak: waits bring \
            fewer events each, and there are more of them",
        needs: "a cap that binds, beside one that does not", paper: "qualitative", ..ANY },
    Claim { id: "E-7",
        gist: "With too few helpers for its user threads throughput far past saturation is {} of \
            the peak; over those at low load the descriptors in each poll are {}, those asked \
            about for each reply {}, and the polls in a second {}",
        ranges: &[Below(0.95), Above(2.0), Above(2.0), Within(0.5, 1.5)],
        needs: "user threads with few helpers that block and with more (knot-b, fiber.helpers), a \
            simulated disk, a shaped network, thousands of descriptors",
        paper: "8, 15, 22 % for poll; 243 to 609 descriptors", ..ANY },
    Claim { id: "E-8",
        gist: "With twice the helpers throughput far past saturation is {} of the peak, and the \
            descriptors asked about for each reply over those at low load are {}",
        ranges: &[Above(0.95), Below(1.25)],
        needs: "user threads with few helpers that block and with more (knot-b, fiber.helpers), a \
            simulated disk, a shaped network, thousands of descriptors",
        paper: "8, 6, 5 % for poll", ..ANY },
    Claim { id: "E-9",
        gist: "Blocking sendfile needs ten times the processes, and with so many it is as good",
        needs: "a simulated disk and a shaped network", paper: "75 to 200 against 3 to 4", ..ANY },
    Claim { id: "E-10",
        gist: "With few processes a larger cap is worse by 3 %; with many the smaller one is, and \
            is worse than with fewer processes",
        needs: "a simulated disk, a shaped network, descriptors", paper: "qualitative", ..ANY },
    Claim { id: "E-11",
        gist: "At equal throughput blocking has ten times the context switches, asks about 0.6 of \
            the descriptors at most, and leaves a page cache that is 5 % smaller",
        needs: "a simulated disk and a shaped network",
        paper: "4,394 against 107 a second; 6.2 against 13.1 %", ..ANY },
    Claim { id: "E-12",
        gist: "At twice the rate of saturation blocking loses more",
        needs: "a simulated disk and a shaped network", paper: "-12 %", ..ANY },
    Claim { id: "E-13",
        gist: "With a shared cache the peak over that with private ones is {}",
        ranges: &[Equal(0.03)], needs: "several processes, private and sharing",
        paper: "equal", ..ANY },
    Claim { id: "E-14",
        gist: "Private caches hold each file open once for each process, a shared one once",
        needs: "several processes, private and sharing",
        paper: "5,000,000 descriptors avoided", ..ANY },
    Claim { id: "E-15",
        gist: "The peak of user threads that copy from a cache of 3 % of the files or more over \
            that with 30 % is {}, and with 0.3 % {}",
        ranges: &[Equal(0.05), Below(0.95)],
        needs: "user threads with caches of several sizes (knot-c), a simulated \
            disk and a memory limit", paper: "100 to 1000 MB of 3.2 GB; 10 MB degrades", ..ANY },
    Claim { id: "E-16",
        gist: "The peak of user threads that do not copy over that of those that do is {}, of \
            those that block {}, and the bytes copied for each reply {}",
        ranges: &[Above(1.05), Above(1.08), Below(0.15)],
        needs: "user threads in three ways of sending (knot-c, knot-nb, knot-b), a simulated disk \
            and a shaped network", paper: "7 to 9 %, 11 to 18 %; copying 17.73 to 0.7 %", ..ANY },
    Claim { id: "E-17",
        gist: "A cap on connections limits throughput to what Little's law says, within 10 %, \
            however many workers there are",
        needs: "caps below and above what the load needs, and two numbers of workers",
        paper: "930 Mb/s at 10,000 threads", ..ANY },
    Claim { id: "E-18",
        gist: "With a user thread for each connection the peak with blocking sendfile over that \
            without is {}",
        ranges: &[Within(1.03, 1.1)],
        needs: "user threads in two ways of sending (knot-nb, knot-b), a \
            simulated disk and a shaped network", paper: "7 %", ..ANY },
    Claim { id: "E-19",
        gist: "The share of the processor that user threads cost is {}, and the best event-driven \
            peak over that of those that block {}",
        ranges: &[Within(0.06, 0.11), Above(1.1)],
        needs: "user threads (knot-b), profiles, a simulated disk and a shaped \
            network", paper: "7 to 11 %; +18 %, +34 %", ..ANY },
    Claim { id: "E-20",
        gist: "Where the scheduler polls before a helper sends, the descriptors asked about for \
            each reply over those where the helper tries first are {}",
        ranges: &[Above(1.1)],
        needs: "user threads with both designs of non-blocking sending (fiber.send), a shaped \
            network", paper: "qualitative", ..ANY },
    Claim { id: "E-21",
        gist: "With many connections on a disk the peak with five times the writers over that \
            with few is {}, the time idle for the disk with few over that with these {}, and the \
            peak with still more over that with these {}",
        ranges: &[Above(1.05), Above(5.0), Below(1.02)],
        needs: "a pipeline of stages (watpipe4) with several numbers of writers, a simulated disk \
            and a memory limit", paper: "+12, +10 %; waiting 14 to 1 %", ..ANY },
    Claim { id: "E-22",
        gist: "With few connections the peak with the most writers over that with the fewest is {}",
        ranges: &[Equal(0.02)],
        needs: "a pipeline of stages (watpipe4) with several numbers of writers under two caps, a \
            simulated disk and a memory limit", paper: "equal", ..ANY },
    Claim { id: "E-23",
        gist: "A pipeline's peak over the best event-driven server's is {}",
        ranges: &[Equal(0.03)],
        needs: "a pipeline of stages (watpipe4) beside event-driven servers, a simulated disk and \
            a memory limit", paper: "equal", ..ANY },
    Claim { id: "E-24",
        gist: "Work is spread unevenly over writers, with a standard deviation {} of the mean, and \
            the peak of fewer that share it evenly over theirs is {}",
        ranges: &[Above(0.2), Above(0.98)],
        needs: "a pipeline of stages (watpipe4) whose writers share work in several ways, a \
            simulated disk", paper: "25 against 10", ..ANY },
    Claim { id: "E-25",
        gist: "The mean response time grows with the limit on connections; a lower limit costs \
            little throughput",
        needs: "load beyond saturation under two limits",
        paper: "30,000 to 20,000 removes the difference", ..ANY },
    Claim { id: "E-26",
        gist: "The accept strategy is a confounder: it changes gaps between architectures",
        needs: "several architectures under overload", paper: "a design of [E] §7", ..ANY },
    Claim { id: "E-27",
        gist: "epoll instead of poll lowers overhead, and its peak over poll's is {}",
        ranges: &[Equal(0.03)], needs: "thousands of descriptors",
        paper: "as good but no better", ..ANY },
    Claim { id: "E-28",
        gist: "With short sessions, all cached and no think times the peak of a thread for each \
            connection over that of events is {}",
        ranges: &[Equal(0.05)], needs: "a thread for each connection (knot-nptl, mt) beside sped",
        paper: "a prediction of [E] §9", ..ANY },
    Claim { id: "E-29",
        gist: "From the fewest connections to the most, the peak of events over that of a thread \
            for each connection grows by a factor {}",
        ranges: &[Above(1.02)],
        needs: "a thread for each connection (knot-nptl, mt), several numbers of connections, \
            thousands of descriptors", paper: "a prediction of [E] §9", ..ANY },
    Claim { id: "E-30",
        gist: "What more processors bring user threads (MEANS) over what they bring SYMPED is {}",
        ranges: &[Above(0.9)],
        needs: "user threads over several kernel threads (means) beside symped, one and four \
            processors for the server", processors: 4, paper: "open" },
    Claim { id: "S-1",
        gist: "Sharing one cache the peak over that with private ones is {}",
        ranges: &[Above(0.98)], needs: "four processors for the server", processors: 4,
        paper: "2 %" },
    Claim { id: "S-2",
        gist: "With one global lock the peak over that with two tiers is {}",
        ranges: &[Below(1.0)], needs: "four processors for the server", processors: 4,
        paper: "no number" },
    Claim { id: "S-3",
        gist: "With processor, listener and process aligned the peak over that without is {}",
        ranges: &[Above(1.05)],
        needs: "four processors for the server, and a network card: on loopback a packet is \
            handled on the processor of who sent it", processors: 4, paper: "9.5 %" },
    Claim { id: "S-4",
        gist: "A partitioned server's peak with shared memory over N-copy's is {}",
        ranges: &[Equal(0.03)], needs: "four processors for the server", processors: 4,
        paper: "2 %" },
    Claim { id: "S-5",
        gist: "Under memory pressure N-copy is the worst",
        needs: "a simulated disk and a memory limit", paper: "-20 %", ..ANY },
    Claim { id: "S-6",
        gist: "All cached, non-blocking is at least as good as blocking",
        needs: "a shaped network", paper: "2 to 6 %", ..ANY },
    Claim { id: "S-7",
        gist: "On a disk, in one architecture at least, blocking sendfile's peak over \
            non-blocking's is {}, and the processors idle less for the disk",
        ranges: &[Above(1.05)], needs: "a simulated disk and a shaped network",
        paper: "about 9 % (WatPipe)", ..ANY },
    Claim { id: "S-8",
        gist: "In one architecture at least, blocking reads the disk in fewer and longer pieces, \
            of fewer files",
        needs: "a simulated disk and its log", paper: "seen in traces", ..ANY },
    Claim { id: "S-8b",
        gist: "Bytes read over those of an ideal cache of whole files: {} when blocking, {} when \
            not",
        ranges: &[Below(1.05), Above(1.07)], needs: "a simulated disk, its log and a memory limit",
        paper: "1.01 to 1.02 against 1.10 to 1.14", ..ANY },
    Claim { id: "S-9",
        gist: "All cached, the peak with one non-blocking writer for each core over the best with \
            another number is {}",
        ranges: &[Above(0.98)],
        needs: "a pipeline of stages (watpipe5) with several numbers of writers, four processors \
            for the server", processors: 4, paper: "4 writers" },
    Claim { id: "S-10",
        gist: "On a disk more writers wait less; the best peak with neither the fewest nor the \
            most over that with the fewest is {}, and that with the most over it {}",
        ranges: &[Above(1.0), Below(0.98)],
        needs: "a pipeline of stages (watpipe5) with several numbers of writers, a simulated disk \
            and a memory limit", paper: "100 to 500 writers", ..ANY },
    Claim { id: "S-11",
        gist: "The peak with pollers that are not pinned over that with pinned ones is {}, and \
            they help when load is uneven",
        ranges: &[Above(0.98)],
        needs: "a pipeline of stages (watpipe5) with pollers of both kinds, four processors for \
            the server", processors: 4, paper: "a suggestion" },
    Claim { id: "S-12",
        gist: "A process with a private cache costs ten times the memory of one that shares it",
        needs: "several numbers of processes", paper: "7.3 against 0.6 MB", ..ANY },
    Claim { id: "S-13",
        gist: "All cached, our best is 5 % ahead of nginx and 20 % ahead of lighttpd",
        needs: "nginx and lighttpd, tuned alike", paper: "14 and 44 %", ..ANY },
    Claim { id: "S-14",
        gist: "A server with a thread for each connection takes memory from the page cache and \
            reads from the disk where others do not",
        needs: "Apache, and memory just above the files",
        paper: "1.67 GB of page cache left of 4", ..ANY },
    Claim { id: "S-15",
        gist: "A well-made server with shared memory closes the gap to N-copy that was once \
            reported: a pipeline's peak over that of copies of it is {}",
        ranges: &[Above(0.95)],
        needs: "a pipeline of stages (watpipe5) and copies of it, four processors for the server",
        processors: 4, paper: "refutes Zeldovich 2003" },
    Claim { id: "S-16",
        gist: "How far the kernel reads ahead decides more than the server",
        needs: "a simulated disk",
        paper: "11,000 to 20,000 against 28,000 to 30,000 blocks a second", ..ANY },
    Claim { id: "S-17",
        gist: "No configuration is the best both when all is cached and on a disk",
        needs: "both workloads in one run", paper: "figure 5", ..ANY },
    Claim { id: "S-18",
        gist: "Tuned, the best of each architecture differ by 10 % at most",
        needs: "four processors for the server, and several settings of each architecture",
        processors: 4, paper: "10 %; 2 % cached", ..ANY },
    Claim { id: "S-T1",
        gist: "The workload's files have the sizes of table 1, and the memory that answers each \
            share of the requests over the table's is {}, but for its rounding",
        ranges: &[Equal(0.015)], needs: "the workload alone", paper: "table 1", ..ANY },
    Claim { id: "H-1",
        gist: "Accept1's peak over AcceptInf's is {}",
        ranges: &[Within(0.6, 0.9)], needs: "load beyond saturation", paper: "0.74", ..ANY },
    Claim { id: "H-2",
        gist: "After saturation Accept1's share of time in select rises at least twofold, and \
            fewer replies come of each busy second",
        needs: "load of 0.7 and 2.4 S, and one process", paper: "13 % to over 40 %", ..ANY },
    Claim { id: "H-3",
        gist: "CM collapses: its throughput over AcceptInf's at 1.67 S is {}",
        ranges: &[Below(0.5)], needs: "load of 1.67 S", paper: "about 0.25", ..ANY },
    Claim { id: "H-4",
        gist: "The collapse coincides with reads that find nothing",
        needs: "load of 1.43 and 1.67 S", paper: "5 % to 26 %", ..ANY },
    Claim { id: "H-5",
        gist: "Full-read alone is harmless, at the peak and beyond, and not together with \
            accept-on-close",
        needs: "load beyond saturation", paper: "nearly identical; then the order changes", ..ANY },
    Claim { id: "H-6",
        gist: "AcceptInf peaks higher, Eager falls less: the curves cross between 1.02 and 1.25 S",
        needs: "load around saturation", paper: "Eager ahead from 1.02 to 1.25 S", ..ANY },
    Claim { id: "H-7",
        gist: "A limit between 10 and 75 accepts keeps the peak and is 5 % better past it",
        needs: "load of 1.2 S", paper: "25 was the best", ..ANY },
    Claim { id: "H-8",
        gist: "Accept-on-close calls accept with more success, for less than one connection each \
            time that it begins to accept",
        needs: "load near saturation", paper: "93 % against 88 %", ..ANY },
    Claim { id: "H-9",
        gist: "Open connections in overload: Accept1 < Accept25 < AcceptInf < CM",
        needs: "load beyond saturation", paper: "CM at its cap of 15,000", ..ANY },
    Claim { id: "H-10",
        gist: "Accept25's mean response time over AcceptInf's at 1.2 S is {}",
        ranges: &[Below(1.1)], needs: "load of 1.2 S", paper: "within 10 %", ..ANY },
    Claim { id: "H-11",
        gist: "The kernel drops connections exactly when replies fall behind requests",
        needs: "load beyond saturation", paper: "correlation", ..ANY },
    Claim { id: "H-12",
        gist: "A limit of 25 accepts helps an epoll server under overload, too: its throughput \
            over that without one at 1.43 S is {}",
        ranges: &[Above(1.05)], needs: "load of 1.4 S", paper: "+25 to +40 % for TUX", ..ANY },
    Claim { id: "H-13",
        gist: "Which accept strategy is best depends on the architecture: none is within 5 % of \
            the best in each",
        needs: "several architectures under overload",
        paper: "TUX +19 to 36 %, Knot 0 to 32 %, uServer +39 to 71 %", ..ANY },
    Claim { id: "G-1",
        gist: "With some of the cores a few copies beat one, and one for each core",
        needs: "four processors for the server, and more of which they are some", processors: 4,
        paper: "+13 % with 2 copies on 4 cores", ..ANY },
    Claim { id: "G-2",
        gist: "No number of copies is the best with every number of cores",
        needs: "runs with 1, 2, 4 and 8 processors for the server, each with 1 copy up to one for \
            each", processors: 8, paper: "table III", ..ANY },
    Claim { id: "G-3",
        gist: "On one core the peak of a thread for each connection over that of events is {}, and \
            over a pipeline's {}",
        ranges: &[Below(0.85), Below(0.85)],
        needs: "a thread for each connection (knot-nptl, mt) beside sped and a pipeline of stages \
            (watpipe5)", paper: "35 %", ..ANY },
    Claim { id: "G-4",
        gist: "The peak of events over that of a thread for each connection, with the most \
            processors over with one, is {}",
        ranges: &[Below(0.9)],
        needs: "a thread for each connection (knot-nptl, mt), one and four processors for the \
            server", processors: 4, paper: "ahead at 4 cores" },
    Claim { id: "G-5",
        gist: "Short queues for new connections leave the processor unused",
        needs: "load beyond saturation", paper: "33 % used", ..ANY },
    Claim { id: "G-6",
        gist: "With all cores every architecture has the same peak, within 2 %",
        needs: "eight processors for the server", processors: 8, paper: "6.6 Gb/s", ..ANY },
    Claim { id: "G-7",
        gist: "From one core to all, cycles for each instruction grow by half or more, because of \
            memory",
        needs: "one pinned process beside as many as processors, four for the server at least, and \
            counters of stalls by cause", processors: 4, paper: "2.1 to 3.9 on 8 cores", ..ANY },
    Claim { id: "G-8",
        gist: "What all cores stream through private memory, for each core, over what one does \
            is {}",
        ranges: &[Below(0.9)],
        needs: "several numbers of processors, four for the server at least (measure.streaming)",
        processors: 4, paper: "0.2 (0.5 without MMX) on 24 cores" },
    Claim { id: "A-1",
        gist: "With each workload the peak of asynchronous reads over that of blocking ones is {}, \
            and of a server that adapts over asynchronous ones {}",
        ranges: &[Above(1.0), Above(1.0)], needs: "[A]'s three servers (bio, aio, self-adapting)",
        paper: "+19, +21 % (altered: +16, +5 %)", ..ANY },
    Claim { id: "A-2",
        gist: "At low load the median response time of a server that adapts over BIO's is {}, and \
            over AIO's {}; past BIO's knee its distance from AIO's over that from BIO's is {}",
        ranges: &[Equal(0.1), Below(1.0), Below(1.0)],
        needs: "[A]'s three servers (bio, aio, self-adapting)", paper: "figures 6 and 8", ..ANY },
    Claim { id: "A-3",
        gist: "Past its knee BIO's mean response time over that at low load is {}, and the others' \
            in ms {}",
        ranges: &[Above(10.0), Below(100.0)],
        needs: "[A]'s three servers (bio, aio, self-adapting)",
        paper: "over 300 ms; 60 and 74.1 ms", ..ANY },
    Claim { id: "A-4",
        gist: "The share that is read asynchronously follows the queue: at low load it is {}, in \
            overload {}",
        ranges: &[Below(0.05), Above(0.8)], needs: "[A]'s three servers (bio, aio, self-adapting)",
        paper: "section 4", ..ANY },
    Claim { id: "A-5",
        gist: "At low load the processor time for a reply with a poller that spins over that with \
            one that waits is {}, and the peak with the latter over that with the former {}",
        ranges: &[Above(1.1), Equal(0.05)],
        needs: "[A]'s asynchronous server with both pollers (adapt.completions)",
        paper: "- (a suspicion)", ..ANY },
    Claim { id: "A-6",
        gist: "The peak of blocking reads with a larger pool of threads over that of a server that \
            adapts is {}",
        ranges: &[Above(0.95)],
        needs: "[A]'s servers (bio, self-adapting) with pools of 256 and 64 threads",
        paper: "- (a critique)", ..ANY },
    Claim { id: "A-7",
        gist: "The peak of a server that adapts to how busy the disk is over that of one that \
            adapts to the queue is {}",
        ranges: &[Above(1.02)],
        needs: "[A]'s self-adapting server with both rules (adapt.rule), a simulated disk",
        paper: "its future work", ..ANY },
    Claim { id: "X-1",
        gist: "With thousands of connections the peak of a thread for each over the best \
            event-driven one's is {}",
        ranges: &[Above(0.85)],
        needs: "a thread for each connection (knot-nptl, mt), thousands of descriptors",
        paper: "- (contradicts [S] §7)", ..ANY },
    Claim { id: "X-2",
        gist: "All cached, AMPED's processor time for a reply over SPED's is {}",
        ranges: &[Below(1.05)], needs: "cached files",
        paper: "- (Flash: slightly below SPED)", ..ANY },
    Claim { id: "X-3",
        gist: "On a disk the peak of AMPED with one loop is {} of SYMPED's, and {} of SPED's",
        ranges: &[Above(0.95), Above(1.2)], needs: "a simulated disk and a memory limit",
        paper: "- (Flash)", ..ANY },
    Claim { id: "X-4",
        gist: "Where helpers only read, cold names still stall the loop; passing descriptors ends \
            that",
        needs: "a simulated disk, a memory limit, amped with helper processes that pass \
            descriptors, and that do not or flash, and names that the server does not keep",
        paper: "- (Ruan and Pai 2004)", ..ANY },
    Claim { id: "X-5",
        gist: "What asking helpers costs is seen where much is missed",
        needs: "a simulated disk and a memory limit, amped and flash beside symped",
        paper: "- (a doubt of [E] §2)", ..ANY },
    Claim { id: "X-6",
        gist: "The context switches for each cached reply of stages with a queue and a pool for \
            each step over those of a short pipeline are {}, and over SYMPED's {}; its peak over \
            theirs {} and {}",
        ranges: &[Above(3.0), Above(3.0), Below(1.0), Below(1.0)],
        needs: "stages with pools (seda), a short pipeline (watpipe4) and symped, cached files",
        paper: "- (expected by [E] §6)", ..ANY },
    Claim { id: "X-7",
        gist: "With a controller of batches the context switches for each reply over those without \
            are {}, and the peak {}",
        ranges: &[Below(1.0), Above(0.95)],
        needs: "stages (seda) with and without a controller of batches, cached files",
        paper: "- (SEDA)", ..ANY },
    Claim { id: "X-8",
        gist: "The most threads that a controller of pools gives the stage that waits for the disk \
            are {}, and those of each other stage {}",
        ranges: &[Above(1.5), Below(1.5)],
        needs: "stages with controllers (seda), a simulated disk", paper: "- (SEDA)", ..ANY },
    Claim { id: "X-9",
        gist: "At twice the load, where without admission control the 90th percentile of the \
            requests is beyond their time-out, that of the answers with it over its target is {}",
        ranges: &[Within(0.8, 1.2)],
        needs: "stages (seda) with admission control and without, a simulated disk, twice the load",
        paper: "- (SEDA)", ..ANY },
    Claim { id: "X-10",
        gist: "Jain's index of how evenly stages serve their clients is {}, and that of a server \
            limited by its processes is lower",
        ranges: &[Above(0.99)],
        needs: "stages (seda) and a process for each connection (mp) with fewer processes than \
            clients", paper: "Jain's index of 0.99", ..ANY },
    Claim { id: "X-11",
        gist: "All cached, LAIO's processor time for a reply over SPED's is {}",
        ranges: &[Below(1.03)], needs: "cached files", paper: "- (LAIO)", ..ANY },
    Claim { id: "X-12",
        gist: "On a disk, where several processes gain, LAIO's peak with one over SYMPED's is {}",
        ranges: &[Above(0.95)], needs: "a simulated disk and a memory limit",
        paper: "open in [E]", ..ANY },
    Claim { id: "X-13",
        gist: "Laziness completes at once what is in memory; always asking a helper costs a tenth",
        needs: "cached files", paper: "-", ..ANY },
    Claim { id: "X-14",
        gist: "The peak of a pool of few threads behind an event loop over that of a thread for \
            each connection is {}; its throughput over that of as few threads alone, over what its \
            connections are of their number, is {}",
        ranges: &[Equal(0.05), Within(0.8, 1.2)],
        needs: "a hybrid of threads and events (hybrid), and a thread for each connection (mt), \
            think times", paper: "- (Carrera 2005)", ..ANY },
    Claim { id: "X-15",
        gist: "The peaks of a pool of threads under different limits on idle time over each other \
            are {}; of a thread for each connection one over another is {}",
        ranges: &[Equal(0.05), Below(0.7)],
        needs: "a hybrid of threads and events (hybrid), and a thread for each connection (mt), \
            several limits on idle time", paper: "below 5 against over 30 %", ..ANY },
    Claim { id: "X-16",
        gist: "Serving by stages, cycles for each instruction over those of serving one connection \
            after the other are {}, and the median response time {}",
        ranges: &[Below(0.95), Above(1.0)],
        needs: "batches by stage and none in one server (cohort), counters of the processor",
        paper: "- (Larus and Parkes)", ..ANY },
    Claim { id: "P-1",
        gist: "Che's page cache, Little's law and two queues predict peaks, disk bytes and \
            plateaus within 15 %",
        needs: "a simulated disk with its log, a memory limit, a small limit on connections",
        paper: "ours", ..ANY },
    Claim { id: "P-2",
        gist: "One thread over io_uring ends SPED's idling on a disk",
        needs: "the server over io_uring (uring-1), which is not built; a simulated disk and a \
            memory limit. X-12 tells the same of LAIO", paper: "ours", ..ANY },
    Claim { id: "P-3",
        gist: "Without think times the servers rank otherwise",
        needs: "the same servers with think times and without", paper: "ours", ..ANY },
    Claim { id: "B-1",
        gist: "Cycles for a cached reply of 4 KiB over those of the bare loop are {}",
        ranges: &[Below(1.1)], needs: "counters of the processor", paper: "a bar of ours", ..ANY },
    Claim { id: "B-2",
        gist: "Cycles for a cached reply of 4 KiB over those of nginx are {}",
        ranges: &[Below(0.55)], needs: "counters of the processor, nginx",
        paper: "a bar of ours", ..ANY },
    Claim { id: "B-3",
        gist: "Cycles for a cached reply of 64 KiB over those of the bare loop are {}",
        ranges: &[Below(1.08)], needs: "counters of the processor", paper: "a bar of ours", ..ANY },
    Claim { id: "B-4",
        gist: "Cycles for a cached reply of 1 MiB over those of the bare loop are {}",
        ranges: &[Below(1.05)], needs: "counters of the processor", paper: "a bar of ours", ..ANY },
    Claim { id: "B-5",
        gist: "User instructions for a cached reply of 4 KiB are {}",
        ranges: &[Below(2_000.0)], needs: "counters of the processor",
        paper: "a bar of ours", ..ANY },
];
