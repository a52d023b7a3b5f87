//! Flame graphs: SVG files that need nothing else, the same bytes for the same stacks.
//!
//! The root stands at the bottom, a frame's width is its share of all samples, and order means
//! nothing. Frames below a thousandth are left out.

use crate::stats::count;
use crate::units::{filled, real};
use crate::watch::perf_script::{Folded, KERNEL};
use serde_json::json;
use std::collections::BTreeMap;

const TEMPLATE: &str = include_str!("../../assets/flame.svg");
/// Frames of a smaller share of the samples are not drawn.
const SHARE_MIN: f64 = 0.001;
const WIDTH: f64 = 1_200.0;
const MARGIN: f64 = 10.0;
/// Height of a frame, and of what stands above the frames: two lines, which the template places.
const ROW: f64 = 17.0;
const HEAD: f64 = 64.0;
/// Width of a letter of the frames' font at its size.
const LETTER: f64 = 6.65;
/// A difference of fewer points is none, in colour and in words.
const POINTS_MIN: f64 = 0.1;
/// Functions that are only in the first of two profiles, listed at most.
const GONE_MAX: usize = 5;

/// A function on the stacks that lead to it.
#[derive(Debug, Default)]
struct Node {
    /// Samples in it and in what it calls, of one or two profiles.
    counts: [u64; 2],
    calls: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, folded: &Folded, which: usize) {
        for (stack, count) in &folded.0 {
            let mut node = &mut *self;
            node.counts[which] = node.counts[which].saturating_add(*count);
            for name in stack.split(';') {
                node = node.calls.entry(name.to_owned()).or_default();
                node.counts[which] = node.counts[which].saturating_add(*count);
            }
        }
    }
}

#[derive(Debug)]
struct Drawn<'a> {
    name: &'a str,
    depth: usize,
    /// From where to where, as shares of the width.
    from: f64,
    share: f64,
    counts: [u64; 2],
}

/// Every frame that is wide enough, by the share of its samples in profile `which`.
fn frames<'a>(
    node: &'a Node,
    (depth, from): (usize, f64),
    (which, total): (usize, f64),
    out: &mut Vec<Drawn<'a>>,
) {
    let mut from = from;
    for (name, called) in &node.calls {
        let share = real(called.counts[which]) / total;
        if share >= SHARE_MIN {
            out.push(Drawn { name, depth, from, share, counts: called.counts });
            frames(called, (depth + 1, from), (which, total), out);
        }
        from += share;
    }
}

pub fn flame(name: &str, folded: &Folded) -> String {
    let mut root = Node::default();
    root.add(folded, 0);
    let total = real(root.counts[0].max(1));
    let mut all = Vec::new();
    frames(&root, (0, 0.0), (0, total), &mut all);
    let head = [
        format!("Where the processor time of {name} goes"),
        format!(
            "{} samples; width is the share of them, callers below, callees above. Orange: \
             kernel; green: Regatta; blue: other code of the program; grey: no name.",
            root.counts[0]
        ),
    ];
    let words = |frame: &Drawn<'_>| {
        let (name, place) = named(frame.name);
        let share = 100.0 * frame.share;
        format!("{name}{place}: {} samples, {share:.2} %", frame.counts[0])
    };
    let label = |frame: &Drawn<'_>| named(frame.name).0.to_owned();
    draw((&head, &[]), &all, (&words, &label, &|frame| kind_colour(frame.name)))
}

/// Difference of two profiles: the frames of the second, coloured and marked by their change.
pub fn difference(first: (&str, &Folded), second: (&str, &Folded)) -> String {
    let mut root = Node::default();
    root.add(first.1, 0);
    root.add(second.1, 1);
    let totals = root.counts.map(|count| real(count.max(1)));
    let points =
        |counts: [u64; 2]| 100.0 * (real(counts[1]) / totals[1] - real(counts[0]) / totals[0]);
    let mut all = Vec::new();
    frames(&root, (0, 0.0), (1, totals[1]), &mut all);
    let most = all.iter().map(|frame| points(frame.counts).abs()).fold(POINTS_MIN, f64::max);
    let (before, after) = (first.0, second.0);
    let head = [
        format!("{after} compared with {before}"),
        format!(
            "Frames of {after}. Red and +: a larger share of its time than of {before}'s, in \
             points of a per cent; blue and −: a smaller one; white: within {POINTS_MIN} points."
        ),
    ];
    let words = |frame: &Drawn<'_>| {
        let (name, place) = named(frame.name);
        let [old, new] = [0, 1].map(|at| 100.0 * real(frame.counts[at]) / totals[at]);
        let change = match points(frame.counts) {
            by if by >= POINTS_MIN => format!("{by:.2} points more"),
            by if by <= -POINTS_MIN => format!("{:.2} points less", -by),
            _ => "no difference".to_owned(),
        };
        format!("{name}{place}: {old:.2} % of {before}, {new:.2} % of {after}: {change}")
    };
    let label = |frame: &Drawn<'_>| {
        let name = named(frame.name).0;
        match points(frame.counts) {
            by if by >= POINTS_MIN => format!("+{by:.1} {name}"),
            by if by <= -POINTS_MIN => format!("−{:.1} {name}", -by),
            _ => name.to_owned(),
        }
    };
    let colour = |frame: &Drawn<'_>| difference_colour(points(frame.counts), most);
    let foot = gone(&root, totals[0], before, after);
    draw((&head, &foot), &all, (&words, &label, &colour))
}

/// Frames that only the first profile has, which have no width in the second.
fn gone(root: &Node, total: f64, before: &str, after: &str) -> Vec<String> {
    fn look<'a>(node: &'a Node, total: f64, found: &mut Vec<(f64, &'a str)>) {
        for (name, called) in &node.calls {
            let share = real(called.counts[0]) / total;
            if called.counts[1] == 0 && share >= SHARE_MIN {
                found.push((100.0 * share, name));
            } else if called.counts[1] > 0 {
                look(called, total, found);
            }
        }
    }
    let mut found = Vec::new();
    look(root, total, &mut found);
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let mut lines: Vec<String> = found
        .iter()
        .take(GONE_MAX)
        .map(|(share, name)| format!("− {share:.2} % of {before}: {}", named(name).0))
        .collect();
    if !lines.is_empty() {
        lines.insert(0, format!("Not in {after} at all:"));
    }
    lines
}

/// A frame's name, and where it lies in words.
fn named(name: &str) -> (&str, &'static str) {
    name.strip_suffix(KERNEL).map_or((name, ""), |name| (name, " (kernel)"))
}

/// Colours by kind, a little different by name, so that neighbours can be told apart.
fn kind_colour(name: &str) -> String {
    let hash = name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    let shade = hash % 14;
    let (hue, light) = match name {
        _ if name.ends_with(KERNEL) => (20 + shade, 66 + shade / 2),
        "[unknown]" => return "hsl(0,0%,80%)".to_owned(),
        _ if name.contains("regatta_") => (105 + 2 * shade, 68 + shade / 2),
        _ => (200 + shade, 74 + shade / 2),
    };
    format!("hsl({hue},62%,{light}%)")
}

/// Red for more, blue for less, the stronger the further.
fn difference_colour(points: f64, most: f64) -> String {
    if points.abs() < POINTS_MIN {
        return "hsl(0,0%,96%)".to_owned();
    }
    let hue = if points > 0.0 { 8 } else { 215 };
    let light = 92.0 - 32.0 * (points.abs() / most).min(1.0).sqrt();
    format!("hsl({hue},80%,{light:.0}%)")
}

/// Title, label and colour of a frame.
type Says<'s> = (
    &'s dyn Fn(&Drawn<'_>) -> String,
    &'s dyn Fn(&Drawn<'_>) -> String,
    &'s dyn Fn(&Drawn<'_>) -> String,
);

fn draw(
    (head, foot): (&[String; 2], &[String]),
    all: &[Drawn<'_>],
    (words, label, colour): Says<'_>,
) -> String {
    let deepest = all.iter().map(|frame| frame.depth + 1).max().unwrap_or(1);
    let floor = HEAD + ROW * count(deepest);
    let drawn = |frame: &Drawn<'_>| {
        let width = frame.share * (WIDTH - 2.0 * MARGIN);
        json!({
            "x": MARGIN + frame.from * (WIDTH - 2.0 * MARGIN),
            "y": floor - ROW * (count(frame.depth) + 1.0),
            "width": width,
            "words": words(frame),
            "label": fitting(&label(frame), width - 6.0),
            "colour": colour(frame),
        })
    };
    let values = json!({
        "width": WIDTH,
        "height": floor + MARGIN + ROW * count(foot.len() + usize::from(!foot.is_empty())),
        "floor": floor,
        "row": ROW,
        "head": head,
        "frames": all.iter().map(drawn).collect::<Vec<_>>(),
        "foot": foot,
    });
    filled("flame.svg", TEMPLATE, &values).expect("the template takes any stacks")
}

/// Part of a label that fits into `width`; None if that says nothing.
fn fitting(label: &str, width: f64) -> Option<String> {
    if count(label.chars().count()) * LETTER <= width {
        return Some(label.to_owned());
    }
    let room = (1..).take_while(|letters| count(*letters) * LETTER <= width).count();
    // A sign and a number say more than the beginning of a name.
    if label.starts_with(['+', '−']) && room < 12 {
        let number = label.split(' ').next().filter(|number| number.chars().count() <= room);
        return number.map(str::to_owned);
    }
    (room >= 5).then(|| format!("{}..", label.chars().take(room - 2).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "main;<regatta_arch::Loop<F>>::run;read_[k] 600\nmain;parse 399\nmain;rare 1\n";
    const B: &str = "main;<regatta_arch::Loop<F>>::run;read_[k] 300\nmain;log & write 100\n";

    fn titles(svg: &str) -> Vec<&str> {
        let parts = svg.split("<g><title>").skip(1);
        parts.filter_map(|part| part.split("</title>").next()).collect()
    }

    #[test]
    fn a_flame_graph_shows_every_frame_with_its_share() {
        let svg = flame("an <arm>", &Folded::parse(A));
        assert_eq!(
            titles(&svg),
            [
                "main: 1000 samples, 100.00 %",
                "&lt;regatta_arch::Loop&lt;F&gt;&gt;::run: 600 samples, 60.00 %",
                "read (kernel): 600 samples, 60.00 %",
                "parse: 399 samples, 39.90 %",
                "rare: 1 samples, 0.10 %",
            ]
        );
        // 60 % of 1180, from the margin on, two rows above the root.
        assert!(svg.contains("<rect x=\"10.0\" y=\"64\" width=\"708.0\""), "{svg}");
        assert!(svg.contains("an &lt;arm&gt;") && !svg.contains("<arm>"));
        for outside in ["href", "src=", "<script", "@import", "url("] {
            assert!(!svg.contains(outside), "{outside}");
        }
        assert_eq!(svg, flame("an <arm>", &Folded::parse(A)), "the same bytes");
        let less = flame("x", &Folded::parse(&A.replace("399", "9399")));
        assert!(!less.contains("rare"), "below a thousandth");
    }

    #[test]
    fn a_difference_is_told_in_colour_and_in_words() {
        let (a, b) = (Folded::parse(A), Folded::parse(B));
        let svg = difference(("old", &a), ("new", &b));
        assert!(
            titles(&svg)
                .contains(&"read (kernel): 60.00 % of old, 75.00 % of new: 15.00 points more")
        );
        assert!(svg.contains(">+15.0 read<") && svg.contains(">+25.0 log &amp; write<"), "{svg}");
        assert!(svg.contains("Not in new at all:") && svg.contains("− 39.90 % of old: parse"));
        let back = difference(("new", &b), ("old", &a));
        assert!(back.contains("15.00 points less") && back.contains(">−15.0 read<"), "{back}");
        assert!(back.contains("hsl(215,"), "blue for less");
        let same = difference(("a", &a), ("a again", &a));
        assert!(same.contains("no difference") && !same.contains("points more"), "{same}");
    }

    #[test]
    fn no_samples_are_no_graph_and_deep_stacks_are_drawn() {
        assert!(flame("none", &Folded::default()).contains("No samples."));
        let nothing = Folded::default();
        assert!(difference(("a", &nothing), ("b", &nothing)).contains("No samples."));
        let deep = format!("{} 1\n", vec!["f"; 256].join(";"));
        assert_eq!(titles(&flame("deep", &Folded::parse(&deep))).len(), 256);
    }

    #[test]
    fn labels_fit_into_their_frames() {
        for (label, width, expected) in [
            ("abc", 30.0, Some("abc")),
            ("abcdefghij", 40.0, Some("abcd..")),
            ("ééééééééé", 40.0, Some("éééé..")),
            ("abcdefghij", 30.0, None),
            ("ab", 0.0, None),
            ("+3.1 abcdefghij", 40.0, Some("+3.1")),
            ("+3.1 abcdefghij", 20.0, None),
            ("−3.1 abcdefghijkl", 90.0, Some("−3.1 abcdef..")),
        ] {
            assert_eq!(fitting(label, width).as_deref(), expected, "{label} in {width}");
        }
    }
}
