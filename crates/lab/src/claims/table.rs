//! The index of claims (systems.md §9): those of the event-driven family.

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
        needs: "a profile by system call (perf)",
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
];
