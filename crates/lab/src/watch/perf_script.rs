//! Reads what `perf script` prints, and folds stacks: a line for each, root first, with its count.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Frames of one stack that are kept, from the leaf.
const FRAMES_MAX: usize = 256;
/// Bytes of a symbol that are kept: generic Rust has long ones.
const SYMBOL_BYTES_MAX: usize = 512;
/// Bytes of one line that are read at most; a longer one is cut into several that mean nothing.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Mark of a frame of the kernel in folded stacks, as other tools write it.
pub(crate) const KERNEL: &str = "_[k]";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Kernel,
    /// The C library, the loader and what the kernel lends them (vDSO).
    Libc,
    Program,
    /// Another library, or code without a file.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name; None: it has none.
    pub symbol: Option<String>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The process; None: the line could not be read.
    pub pid: Option<u32>,
    /// The stack, leaf first.
    pub frames: Vec<Frame>,
}

/// Calls `each` with every sample in the output of `perf script -F comm,pid,ip,sym,dso`.
///
/// # Errors
/// If it cannot be read. What cannot be understood is left out.
pub fn samples(mut text: impl BufRead, mut each: impl FnMut(Sample)) -> io::Result<()> {
    let mut sample: Option<Sample> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut text, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let words = String::from_utf8_lossy(&line);
        let words = words.trim_end();
        if read == 0 || words.is_empty() {
            sample.take().map(&mut each);
        } else if !words.starts_with([' ', '\t']) {
            // A sample without a stack has no empty line behind it.
            sample.take().map(&mut each);
            sample = Some(Sample { pid: pid(words), frames: Vec::new() });
        } else if let Some(sample) = &mut sample
            && sample.frames.len() < FRAMES_MAX
        {
            sample.frames.extend(frame(words));
        }
        if read == 0 {
            return Ok(());
        }
    }
}

/// The process in `NAME 123` or `NAME 123/124`; names can have blanks.
fn pid(words: &str) -> Option<u32> {
    let last = words.trim_end().rsplit(char::is_whitespace).next()?;
    last.split('/').next()?.parse().ok()
}

/// A frame in `ffffffff81e41249 skb_clone ([kernel.kallsyms])`. Names have blanks and brackets.
fn frame(words: &str) -> Option<Frame> {
    let (address, rest) = words.trim().split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    // Paths begin with `/`, other objects with `[`.
    let begins = [" (/", " (["].iter().filter_map(|begin| rest.rfind(begin)).max();
    let (symbol, object) = match begins.or_else(|| rest.rfind(" (")) {
        Some(at) => (&rest[..at], rest[at + 2..].trim_end_matches(')')),
        None => (rest, ""),
    };
    let symbol = symbol.trim();
    let known = !symbol.is_empty() && symbol != "[unknown]";
    Some(Frame { symbol: known.then(|| shortened(symbol)), place: place(object) })
}

/// At most [`SYMBOL_BYTES_MAX`], with nothing in it that folded stacks use.
fn shortened(symbol: &str) -> String {
    let mut end = symbol.len().min(SYMBOL_BYTES_MAX);
    while !symbol.is_char_boundary(end) {
        end -= 1;
    }
    symbol[..end].replace(';', ",").replace(char::is_control, " ")
}

fn place(object: &str) -> Place {
    let file = object.rsplit('/').next().unwrap_or_default();
    let is_library = file.contains(".so");
    match object {
        "" | "[unknown]" => Place::Elsewhere,
        "[vdso]" | "[vsyscall]" => Place::Libc,
        _ if object.starts_with('[') || file.ends_with(".ko") => Place::Kernel,
        _ if ["libc.", "libc-", "ld-", "libpthread", "libm.", "libm-"]
            .iter()
            .any(|name| is_library && file.starts_with(name)) =>
        {
            Place::Libc
        }
        _ if is_library => Place::Elsewhere,
        _ => Place::Program,
    }
}

/// Stacks, root first, names divided by `;`, and how often each was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded(pub BTreeMap<String, u64>);

impl Folded {
    /// Adds a sample. Frames without a name at the root say that the stack could not be followed.
    pub fn add(&mut self, sample: &Sample) {
        let named = sample.frames.iter().rposition(|frame| frame.symbol.is_some());
        let names: Vec<String> = sample.frames[..named.map_or(0, |at| at + 1)]
            .iter()
            .rev()
            .map(|frame| {
                let symbol = frame.symbol.as_deref().unwrap_or("[unknown]");
                let mark = if frame.place == Place::Kernel { KERNEL } else { "" };
                format!("{symbol}{mark}")
            })
            .collect();
        let stack = if names.is_empty() { "[unknown]".to_owned() } else { names.join(";") };
        *self.0.entry(stack).or_default() += 1;
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
    }

    /// Reads lines that [`Self::text`], or another tool, has written. Others are left out; of a
    /// stack with more frames than perf gives those next to the root are kept.
    pub fn parse(text: &str) -> Self {
        let mut folded = Self::default();
        for line in text.lines() {
            if let Some((stack, count)) = line.rsplit_once(' ')
                && let Ok(count) = count.parse::<u64>()
            {
                let deep = stack.match_indices(';').nth(FRAMES_MAX - 1);
                let stack = deep.map_or(stack, |(end, _)| &stack[..end]);
                let have = folded.0.entry(stack.to_owned()).or_default();
                *have = have.saturating_add(count);
            }
        }
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Sample> {
        let mut found = Vec::new();
        samples(text.as_bytes(), |sample| found.push(sample)).unwrap();
        found
    }

    const TEXT: &str = "\
regatta 10200
\tffffffff81e41249 skb_clone ([kernel.kallsyms])
\tffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t          35196d <impl regatta_origin::conn::Conn<[u8; 4]>>::hit::{{closure}} (/my (old)/regatta)
\t          330b0a [unknown] (/opt/regatta)

Web Content 77/79
\t              10 __memcmp_evex_movbe (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t 7ffe0000 __vdso_clock_gettime ([vdso])
swapper     0

perf 9
";

    #[test]
    fn samples_of_perf_script() {
        let found = read(TEXT);
        let pids: Vec<_> = found.iter().map(|sample| sample.pid).collect();
        assert_eq!(pids, [Some(10_200), Some(77), Some(0), Some(9)]);
        let first = &found[0].frames;
        assert_eq!(first[0].symbol.as_deref(), Some("skb_clone"));
        assert_eq!(first[0].place, Place::Kernel);
        let third = "<impl regatta_origin::conn::Conn<[u8, 4]>>::hit::{{closure}}";
        assert_eq!(first[2].symbol.as_deref(), Some(third), "no semicolon, whatever the name");
        assert_eq!((first[2].place, first[3].symbol.as_ref()), (Place::Program, None));
        assert!(found[1].frames.iter().all(|frame| frame.place == Place::Libc));
        assert!(found[2].frames.is_empty());
    }

    #[test]
    fn objects_have_places() {
        for (object, expected) in [
            ("[kernel.kallsyms]", Place::Kernel),
            ("[guest.kernel.kallsyms.1]", Place::Kernel),
            ("/lib/modules/6.1/kernel/net/e1000.ko", Place::Kernel),
            ("[veth]", Place::Kernel),
            ("/lib/x86_64-linux-gnu/libc-2.36.so", Place::Libc),
            ("/lib64/ld-linux-x86-64.so.2", Place::Libc),
            ("/usr/lib/libssl.so.3", Place::Elsewhere),
            ("[unknown]", Place::Elsewhere),
            ("", Place::Elsewhere),
            ("/usr/sbin/nginx", Place::Program),
        ] {
            assert_eq!(place(object), expected, "{object}");
        }
    }

    #[test]
    fn stacks_are_folded_and_read_again() {
        let mut folded = Folded::default();
        let found = read(TEXT);
        for sample in found.iter().chain(&found) {
            folded.add(sample);
        }
        let text = folded.text();
        let first = "<impl regatta_origin::conn::Conn<[u8, 4]>>::hit::{{closure}};\
                     entry_SYSCALL_64_after_hwframe_[k];skb_clone_[k] 2\n";
        assert!(text.contains(first), "{text}");
        assert!(text.contains("[unknown] 4\n"), "{text}");
        assert_eq!(Folded::parse(&text), folded);
        assert_eq!(folded.0.values().sum::<u64>(), 8);
        let full = Folded::parse("no number\n\n; x\na;b 18446744073709551615\na;b 2");
        assert_eq!(full.0.into_iter().collect::<Vec<_>>(), [("a;b".to_owned(), u64::MAX)]);
        // The drawing descends frame by frame.
        let deep = Folded::parse(&format!("{}x 1\n", "a;".repeat(1_000_000)));
        let stack = deep.0.keys().next().unwrap();
        assert_eq!(stack.split(';').count(), FRAMES_MAX);
        assert!(crate::profile::flame::flame("deep", &deep).ends_with("</svg>\n"));
    }

    #[test]
    fn nothing_that_perf_prints_is_too_much() {
        // Every cut of a good text, and good lines in wrong places.
        for end in 0..TEXT.len() {
            let _ = read(&TEXT[..end]);
            let _ = read(&TEXT[end..]);
        }
        let long = format!("a 1\n\tff {} (x)\n{}", "é".repeat(5_000), "\tff f (y)\n".repeat(2_000));
        let found = read(&long);
        assert_eq!(found[0].frames.len(), FRAMES_MAX);
        assert!(found[0].frames[0].symbol.as_ref().unwrap().len() <= SYMBOL_BYTES_MAX);
        assert!(read("\tff orphan (z)\n\n\n").is_empty());
        assert_eq!(read("comm\n\tzz no address (z)\n\tff\n\tff ()\n")[0].frames.len(), 1);
    }
}
