//! Files that change between the open and the last byte that is read of them.
use crate::{
    caching::body,
    rig::{Client, Rig, get, pattern},
};
use regatta_op::{CloseReason, OpKind};
use regatta_origin::Site;

/// A client that has asked for a file, which has been opened and not read yet.
fn reader<'a>(rig: &'a Rig, path: &str) -> Client<'a> {
    rig.connect_held(OpKind::Read, get(path).as_bytes())
}

/// To become shorter is to change: a body is read three times at most, whichever comes first.
#[test]
fn a_change_is_a_change() {
    let rig = Rig::new(Site::default());
    let mut file = rig.put("busy.log", &pattern(10));
    let mut client = reader(&rig, "/busy.log");
    for bytes in [pattern(11), pattern(12), Vec::new()] {
        assert!(client.closed.is_none() && client.output.is_empty());
        file.overwrite(&bytes);
        file = rig.put("busy.log", &pattern(10));
        client.read_once();
    }
    assert_eq!((client.closed, rig.opens.get()), (Some(CloseReason::Truncated), 3));
    assert!(client.output.is_empty());
}

/// Some have opened a file that is replaced then: the first to see that opens the new one for all.
#[test]
fn who_sees_a_change_leaves_what_others_have_cached() {
    let rig = Rig::new(Site::default());
    let old = rig.put("page.html", &pattern(100));
    let mut readers = [(); 3].map(|()| reader(&rig, "/page.html"));
    assert_eq!(rig.opens.get(), 3);
    old.overwrite(&pattern(101));
    rig.put("page.html", &pattern(200));
    for client in &mut readers {
        client.release();
        assert!(client.output.ends_with(&pattern(200)));
    }
    assert_eq!(rig.opens.get(), 4);
}

/// A client never gets an entry that was already stale at its request only because the file opened
/// in its place has changed again.
#[test]
fn a_change_behind_a_stale_entry_removes_it() {
    let rig = Rig::new(Site::default());
    assert_eq!(body(&rig, "/ten.txt"), b"0123456789");
    let second = rig.put("ten.txt", b"second");
    rig.pass(1_000);
    let mut client = reader(&rig, "/ten.txt");
    assert_eq!(client.waits_for(), Some(OpKind::Read));
    second.overwrite(b"a second");
    rig.put("ten.txt", b"the third");
    client.release();
    assert!(client.output.ends_with(b"\r\n\r\nthe third"));
    assert_eq!(body(&rig, "/ten.txt"), b"the third");
}
