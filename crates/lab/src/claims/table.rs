//! The index of claims (systems.md §9): those of the event-driven family, and what the others need.

/// A claim of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// What it says.
    pub gist: &'static str,
    /// What it takes to decide it.
    pub needs: &'static str,
    /// The paper's number.
    pub paper: &'static str,
}

/// All that the lab knows of.
#[rustfmt::skip]
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "E-1",
        gist: "With files larger than the page cache, SPED leaves a fifth of its processor or \
            more idle, waiting for the disk",
        needs: "a simulated disk and a memory limit",
        paper: "33 %",
    },
    Claim {
        id: "E-2",
        gist: "SPED's peak is 55 to 75 % of the best architecture's with a disk, and within 5 % \
            of it when all is cached",
        needs: "for the first half a simulated disk and a memory limit",
        paper: "63 %",
    },
    Claim {
        id: "E-3",
        gist: "In overload SPED holds few connections, and its response times are not higher",
        needs: "a simulated disk, and thousands of descriptors",
        paper: "2,615 of 30,000",
    },
    Claim {
        id: "E-4",
        gist: "With a disk, a second process raises the peak by a fifth or more",
        needs: "a simulated disk and a memory limit",
        paper: "+38 %; waiting 33 to 8 %",
    },
    Claim {
        id: "E-5",
        gist: "From three processes to four the peak changes by less than 5 %",
        needs: "a simulated disk to be the paper's case",
        paper: "5 and 4 % waiting",
    },
    Claim {
        id: "E-6",
        gist: "With a small cap on connections more processes do not help: waits bring fewer \
            events each",
        needs: "a load near the cap",
        paper: "qualitative",
    },
    Claim {
        id: "E-9",
        gist: "Blocking sendfile needs ten times the processes",
        needs: "a simulated disk and a shaped network",
        paper: "75 to 200 against 3 to 4",
    },
    Claim {
        id: "E-10",
        gist: "With few processes a larger cap is worse; with many the smaller one is",
        needs: "a simulated disk, a shaped network, descriptors",
        paper: "qualitative",
    },
    Claim {
        id: "E-11",
        gist: "At equal throughput blocking has ten times the context switches and half the \
            poll overhead",
        needs: "a simulated disk and a shaped network",
        paper: "4,394 against 107 a second; 6.2 against 13.1 %",
    },
    Claim {
        id: "E-12",
        gist: "After saturation blocking loses more",
        needs: "a simulated disk and a shaped network",
        paper: "-12 %",
    },
    Claim {
        id: "E-26",
        gist: "The accept strategy is a confounder: it changes gaps between architectures",
        needs: "several architectures under overload",
        paper: "a design of [E] §7",
    },
    Claim {
        id: "E-27",
        gist: "epoll instead of poll lowers overhead, and throughput is no better",
        needs: "thousands of descriptors",
        paper: "as good but no better",
    },
    Claim {
        id: "S-3",
        gist: "Aligning processor, listener and process gives 5 % or more",
        needs: "four processors for the server",
        paper: "9.5 %",
    },
    Claim {
        id: "S-4",
        gist: "A partitioned server with shared memory is within 3 % of N-copy",
        needs: "four processors for the server",
        paper: "2 %",
    },
    Claim {
        id: "S-5",
        gist: "Under memory pressure N-copy is the worst",
        needs: "a simulated disk and a memory limit",
        paper: "-20 %",
    },
    Claim {
        id: "H-1",
        gist: "Accept1 saturates at 0.7 to 0.8 of AcceptInf's peak",
        needs: "load beyond saturation",
        paper: "0.74",
    },
    Claim {
        id: "H-2",
        gist: "After saturation Accept1's share of time in select rises at least twofold",
        needs: "load of 0.7 and 2.4 S, and one process",
        paper: "13 % to over 40 %",
    },
    Claim {
        id: "H-3",
        gist: "CM collapses: at 1.67 S it has less than half of AcceptInf's throughput",
        needs: "load of 1.67 S",
        paper: "about 0.25",
    },
    Claim {
        id: "H-4",
        gist: "The collapse coincides with reads in vain",
        needs: "load of 1.43 and 1.67 S",
        paper: "5 % to 26 %",
    },
    Claim {
        id: "H-5",
        gist: "Full-read alone is harmless, and not together with accept-on-close",
        needs: "load beyond saturation",
        paper: "nearly identical; then the order changes",
    },
    Claim {
        id: "H-6",
        gist: "AcceptInf peaks higher, Eager falls less: the curves cross",
        needs: "load around saturation",
        paper: "Eager ahead from 1.02 to 1.25 S",
    },
    Claim {
        id: "H-7",
        gist: "A limit between 10 and 75 accepts keeps the peak and is 5 % better past it",
        needs: "load of 1.2 S",
        paper: "25 was the best",
    },
    Claim {
        id: "H-8",
        gist: "Accept-on-close calls accept with success, for less than one connection at a time",
        needs: "load near saturation",
        paper: "93 % against 88 %",
    },
    Claim {
        id: "H-9",
        gist: "Open connections in overload: Accept1 < Accept25 < AcceptInf < CM",
        needs: "load beyond saturation",
        paper: "CM at its cap of 15,000",
    },
    Claim {
        id: "H-10",
        gist: "Accept25's mean response time is not above AcceptInf's",
        needs: "load of 1.2 S",
        paper: "within 10 %",
    },
    Claim {
        id: "H-11",
        gist: "The kernel drops connections exactly when replies fall behind requests",
        needs: "load beyond saturation",
        paper: "correlation",
    },
    Claim {
        id: "H-12",
        gist: "The same limit helps an epoll server under overload",
        needs: "load of 1.4 S",
        paper: "+25 to +40 % for TUX",
    },
    Claim {
        id: "E-13",
        gist: "A shared cache answers as much as private ones, within 3 %",
        needs: "several processes, private and sharing",
        paper: "equal",
    },
    Claim {
        id: "E-14",
        gist: "Private caches hold each file open once for each process, a shared one once",
        needs: "several processes, private and sharing",
        paper: "5,000,000 descriptors avoided",
    },
    Claim {
        id: "E-25",
        gist: "The mean response time grows with the limit on connections; a lower limit costs \
            little throughput",
        needs: "load beyond saturation under two limits",
        paper: "30,000 to 20,000 removes the difference",
    },
    Claim {
        id: "S-1",
        gist: "Sharing one cache costs 2 % at most at the peak",
        needs: "four processors for the server",
        paper: "2 %",
    },
    Claim {
        id: "S-2",
        gist: "One global lock is measurably worse than two tiers",
        needs: "four processors for the server",
        paper: "no number",
    },
    Claim {
        id: "S-6",
        gist: "All cached, non-blocking is at least as good as blocking",
        needs: "a shaped network",
        paper: "2 to 6 %",
    },
    Claim {
        id: "S-7",
        gist: "On a disk, blocking sendfile is better by 5 % or more at equal architecture",
        needs: "a simulated disk and a shaped network",
        paper: "about 9 % (WatPipe)",
    },
    Claim {
        id: "S-8",
        gist: "Blocking reads the disk in fewer and longer pieces",
        needs: "a simulated disk and its log",
        paper: "seen in traces",
    },
    Claim {
        id: "S-8b",
        gist: "Bytes read over those of an ideal cache of whole files: 1.05 at most when \
            blocking, 1.07 or more when not",
        needs: "a simulated disk, its log and a memory limit",
        paper: "1.01 to 1.02 against 1.10 to 1.14",
    },
    Claim {
        id: "S-12",
        gist: "A process with a private cache costs far more memory than one that shares it",
        needs: "several numbers of processes",
        paper: "7.3 against 0.6 MB",
    },
    Claim {
        id: "S-13",
        gist: "All cached, our best is 5 % ahead of nginx and 20 % ahead of lighttpd",
        needs: "nginx and lighttpd, tuned alike",
        paper: "14 and 44 %",
    },
    Claim {
        id: "S-14",
        gist: "A server with a thread for each connection takes memory from the page cache and \
            reads from the disk where others do not",
        needs: "Apache, and memory just above the files",
        paper: "1.67 GB of page cache left of 4",
    },
    Claim {
        id: "S-16",
        gist: "How far the kernel reads ahead decides more than the server",
        needs: "a simulated disk",
        paper: "11,000 to 20,000 against 28,000 to 30,000 blocks a second",
    },
    Claim {
        id: "S-17",
        gist: "No configuration is the best both when all is cached and on a disk",
        needs: "both workloads in one run",
        paper: "figure 5",
    },
    Claim {
        id: "S-18",
        gist: "Tuned, the best of each architecture differ by 10 % at most",
        needs: "four processors, and each architecture tuned (regatta lab best)",
        paper: "10 %; 2 % cached",
    },
    Claim {
        id: "H-13",
        gist: "Which accept strategy is best depends on the architecture",
        needs: "several architectures under overload",
        paper: "TUX +19 to 36 %, Knot 0 to 32 %, uServer +39 to 71 %",
    },
    Claim {
        id: "G-3",
        gist: "On one core a server with a thread for each connection is 15 % or more below the \
            others",
        needs: "a server with a thread for each connection and a pipelined one, which are not \
            built yet",
        paper: "35 %",
    },
    Claim {
        id: "G-5",
        gist: "Short queues for new connections leave the processor unused",
        needs: "load beyond saturation",
        paper: "33 % used",
    },
    Claim {
        id: "G-6",
        gist: "With all cores every architecture has the same peak, within 2 %",
        needs: "eight processors for the server",
        paper: "6.6 Gb/s",
    },
    Claim {
        id: "X-2",
        gist: "All cached, AMPED costs 5 % at most beside SPED",
        needs: "cached files",
        paper: "- (Flash: slightly below SPED)",
    },
    Claim {
        id: "X-3",
        gist: "On a disk AMPED with one loop is within 5 % of SYMPED, and far ahead of SPED",
        needs: "a simulated disk and a memory limit",
        paper: "- (Flash)",
    },
    Claim {
        id: "X-11",
        gist: "All cached, LAIO costs less than 3 % beside SPED",
        needs: "cached files",
        paper: "- (LAIO)",
    },
    Claim {
        id: "X-12",
        gist: "On a disk LAIO with one process is within 5 % of SYMPED",
        needs: "a simulated disk and a memory limit",
        paper: "open in [E]",
    },
    Claim {
        id: "X-13",
        gist: "Laziness completes at once what is in memory; always asking a helper costs a tenth",
        needs: "cached files",
        paper: "-",
    },
    Claim {
        id: "P-1",
        gist: "Che's page cache, Little's law and two queues predict peaks, disk bytes and \
            plateaus within 15 %",
        needs: "a simulated disk with its log, a memory limit, a small limit on connections",
        paper: "ours",
    },
    Claim {
        id: "P-3",
        gist: "Without think times the servers rank otherwise",
        needs: "the same servers with think times and without",
        paper: "ours",
    },
];
