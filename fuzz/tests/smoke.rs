//! Runs every target on its committed corpus and on mutations of it: fuzzing without a fuzzer,
//! with any compiler.
//!
//! `smoke [--seconds N] [--seed S] [TARGET...]`: N seconds for each target, or a fixed number of
//! mutations. An input that fails is written below `artifacts/`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_fuzz::{TARGETS, Target};
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const USAGE: &str = "usage: smoke [--seconds N] [--seed S] [TARGET...]";
/// Mutations of each target where no time is given.
const MUTATIONS: u64 = 300;
/// Longest input that mutations make, bytes.
const INPUT_BYTES_MAX: usize = 4 << 10;
/// Words that mutations insert, besides pieces of the corpus.
const WORDS: [&[u8]; 24] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b",",
    b":",
    b"/",
    b"..",
    b"%2e",
    b"%2f",
    b"%",
    b"0",
    b"-",
    b"18446744073709551615",
    b"bytes=",
    b"W/\"",
    b"\"",
    b";q=0",
    b"HTTP/1.1",
    b"HEAD ",
    b"\xff",
    b"Transfer-Encoding: chunked\r\n",
];

thread_local! {
    static CURRENT: RefCell<(&'static str, Vec<u8>)> = const { RefCell::new(("", Vec::new())) };
}

fn main() -> ExitCode {
    let (mut time, mut seed, mut only) = (None, 0, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        match &*word {
            "--seconds" => match number(words.next()) {
                Some(seconds) => time = Some(Duration::from_secs(seconds)),
                None => return usage("--seconds needs a number"),
            },
            "--seed" => match number(words.next()) {
                Some(value) => seed = value,
                None => return usage("--seed needs a number"),
            },
            name if TARGETS.iter().any(|(known, _)| *known == name) => only.push(word),
            _ => return usage(&format!("unknown word {word}")),
        }
    }
    keep_what_fails();
    let is_chosen = |name| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(|(name, _)| is_chosen(name)).collect();
    let next = Mutex::new(chosen.iter());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let Some((name, run)) = next.lock().unwrap().next() else { break };
                    let (inputs, mutations) = smoke(name, *run, time, seed);
                    println!("test {name} ... ok");
                    eprintln!("{name}: {inputs} inputs of the corpus, {mutations} mutations");
                }
            });
        }
    });
    println!("test result: ok. {} passed; 0 failed; 0 ignored", chosen.len());
    ExitCode::SUCCESS
}

fn usage(why: &str) -> ExitCode {
    eprintln!("{why}\n{USAGE}");
    ExitCode::from(2)
}

/// Runs the corpus, then mutations of it, for `time` or a fixed number. Returns the number of both.
fn smoke(name: &'static str, run: fn(&[u8]), time: Option<Duration>, seed: u64) -> (usize, u64) {
    let corpus = corpus(name);
    let once = |input: &[u8]| {
        CURRENT.with_borrow_mut(|current| *current = (name, input.to_vec()));
        run(input);
    };
    for input in &corpus {
        once(input);
    }
    let started = Instant::now();
    let mut dice = Dice(seed);
    let mut count = 0;
    while time.map_or(count < MUTATIONS, |time| started.elapsed() < time) {
        once(&mutation(&corpus, &mut dice));
        count += 1;
    }
    (corpus.len(), count)
}

/// A variation of an input of the corpus.
fn mutation(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = dice.pick(corpus).cloned().unwrap_or_default();
    for _ in 0..=dice.below(5) {
        let at = dice.below(input.len() + 1);
        let end = at + dice.below((input.len() - at).min(40) + 1);
        match dice.below(7) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = u8::try_from(dice.below(256)).unwrap_or(0),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let other = dice.pick(corpus).cloned().unwrap_or_default();
                let from = dice.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            5 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let word = WORDS[dice.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// Committed inputs of a target, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = home().join("corpus").join(name);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Makes a panic write the input that caused it, and end the process.
fn keep_what_fails() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        CURRENT.with_borrow(|(name, input)| {
            let folder = home().join("artifacts").join(name);
            let sum = input.iter().fold(0u64, |sum, &byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            let path = folder.join(format!("smoke-{sum:016x}"));
            let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input));
            eprintln!("{name} fails on {} ({written:?}): {}", path.display(), input.escape_ascii());
        });
        std::process::exit(1);
    }));
}

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((value ^ (value >> 31)) % (n as u64)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        if choices.is_empty() { None } else { choices.get(self.below(choices.len())) }
    }
}
