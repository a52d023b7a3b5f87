//! Processes that open and close connections at once, and die: what they held comes back.
use super::{
    ClientNotes, Clients, ENTRY_WORDS, WAYS,
    tests::{LIMITS, counted, zeros},
};
use crate::testing::dice::{Dice, SEEDS};
use regatta_origin::Admission;
use std::{net::IpAddr, os::fd::RawFd, thread};

const PROCESSES: usize = 3;
const FDS: usize = 32;
const STEPS: usize = 200;

/// Lives as a process that ends without a word. Returns how many of its connections count.
fn live(clients: Clients<'_>, process: usize, dice: &mut Dice) -> u64 {
    let mut held: Vec<(RawFd, bool)> = Vec::new();
    let mut free: Vec<RawFd> = (0..RawFd::try_from(FDS).unwrap()).collect();
    for step in 0..STEPS {
        let now_ns = step as u64 * 1_000_000;
        let who = IpAddr::from([192, 0, 2, u8::try_from(dice.below(12)).unwrap()]);
        if dice.once_in(3) {
            // The answer does not matter: the table is what is checked.
            let _ = clients.may_ask(who, now_ns);
        }
        if dice.once_in(2)
            && let Some(fd) = dice.take(&mut free)
        {
            match clients.open(who, fd, process, now_ns) {
                Admission::Admitted | Admission::Limited => held.push((fd, true)),
                Admission::Untracked => held.push((fd, false)),
                Admission::Refused => free.push(fd),
            }
        } else if let Some((fd, _)) = dice.take(&mut held) {
            clients.close(fd, process);
            free.push(fd);
        }
    }
    held.iter().filter(|(_, counts)| *counts).count() as u64
}

#[test]
fn what_processes_hold_when_they_die_comes_back() {
    for seed in 0..SEEDS {
        // Two sets for twelve clients: they take entries over from each other all the time.
        let entries = zeros(2 * WAYS * ENTRY_WORDS);
        let words = zeros(Clients::note_words(PROCESSES, FDS));
        let notes = ClientNotes { words: &words, descriptors: FDS };
        let clients = Clients::new(&entries, notes, seed, LIMITS);
        let held: Vec<u64> = thread::scope(|scope| {
            let lives: Vec<_> = (0..PROCESSES)
                .map(|process| {
                    let mut dice = Dice::new(seed * PROCESSES as u64 + process as u64);
                    scope.spawn(move || live(clients, process, &mut dice))
                })
                .collect();
            lives.into_iter().map(|life| life.join().unwrap()).collect()
        });
        assert_eq!(counted(&entries), held.iter().sum::<u64>(), "seed {seed}");
        for (process, held) in held.into_iter().enumerate() {
            assert_eq!(clients.release_all(process), held, "seed {seed}, process {process}");
        }
        assert_eq!(counted(&entries), 0, "seed {seed}");
    }
}
