//! Tests of [`Shape`]: numbers of threads that follow from the options, and roles of their slots.
use super::*;
use crate::testing::settings;

fn shape(texts: &[(&str, &str)], listeners: usize, cpus: usize) -> Shape {
    Shape::new(&settings(&OPTIONS, texts), listeners, cpus)
}

#[test]
fn threads_are_as_many_as_the_papers_say() {
    let expect = |homes, readers, writers, parts| Shape {
        homes,
        readers,
        writers,
        writers_max: writers,
        parts,
    };
    let four =
        [("watpipe.read", "poller"), ("watpipe.acceptors", "one"), ("watpipe.writers", "25")];
    assert_eq!(shape(&four, 2, 8), expect(1, 0, 25, 1));
    let parts = ("watpipe.parts", "cpu");
    assert_eq!(shape(&[parts], 3, 8), expect(3, 8, 8, 8));
    assert_eq!(shape(&[], 3, 8), expect(3, 8, 8, 1));
    assert_eq!(shape(&[parts, ("watpipe.writers", "200")], 1, 4), expect(1, 4, 200, 4));
    // Each part has a reader and a writer.
    let few = [parts, ("watpipe.readers", "3"), ("watpipe.writers", "5")];
    assert_eq!(shape(&few, 1, 8), expect(1, 3, 5, 3));
    assert_eq!(shape(&[parts, four[0], ("watpipe.writers", "5")], 1, 8), expect(1, 0, 5, 5));
    assert_eq!(shape(&[parts], 1, 1000).parts, 255);
}

#[test]
fn controllers_may_start_writers_if_that_is_asked() {
    let some = [("watpipe.writers", "4"), ("watpipe.writers_max", "9")];
    let grown = shape(&[some[0], some[1], ("stages.pool_control", "queue")], 3, 2);
    assert_eq!((grown.writers, grown.writers_max, grown.parts), (4, 9, 1));
    // Three accept, two poll, two read, and one starts writers.
    assert_eq!(grown.threads(), 3 + 2 + 2 + 9 + 1);
    let fixed = shape(&[some[0], some[1], ("stages.pool_control", "none")], 3, 2);
    assert_eq!((fixed.writers_max, fixed.threads()), (4, 3 + 2 + 2 + 4));
    // Never fewer than there are from the beginning.
    assert!(!shape(&[("watpipe.writers", "20"), some[1]], 1, 2).grows());
}

#[test]
fn each_slot_has_one_role() {
    let slots = |shape: &Shape, role: &str| -> Vec<usize> {
        roles(shape).filter(|(_, of)| *of == role).map(|(at, _)| at).collect()
    };
    let all = Shape { homes: 2, readers: 1, writers: 1, writers_max: 2, parts: 1 };
    let of = |role| slots(&all, role);
    assert_eq!(of("accept"), [FIRST, ACCEPT]);
    assert_eq!(of("read"), [2, 6]);
    assert_eq!(of("write-poll"), [3, 7]);
    assert_eq!(of("write"), [vec![4], WRITERS_SLOTS.collect()].concat());
    assert_eq!(of("reader"), [vec![5], READERS_SLOTS.collect()].concat());
    assert_eq!(of("control"), [CONTROL]);
    let known = ["accept", "read", "write-poll", "write", "reader", "control"];
    assert_eq!(known.map(|role| of(role).len()).iter().sum::<usize>(), SLOTS.len());
    // A missing stage has no row in `regatta top`.
    let few = Shape { readers: 0, writers_max: 1, ..all };
    assert!(slots(&few, "reader").is_empty() && slots(&few, "control").is_empty());
    assert_eq!(slots(&few, "read"), [vec![2, 5, 6], READERS_SLOTS.collect()].concat());
    assert_eq!(slots(&few, "write"), [vec![4], WRITERS_SLOTS.collect(), vec![CONTROL]].concat());
}
