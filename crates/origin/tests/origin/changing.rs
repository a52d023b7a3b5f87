//! Files that change between the open and the last byte that is read of them.
use crate::{
    caching::get,
    rig::{Client, Rig, pattern},
};
use regatta_op::CloseReason;
use regatta_origin::Site;

/// A client that has asked for a file, which has been opened and not read yet.
fn reader<'a>(rig: &'a Rig, path: &str) -> Client<'a> {
    let mut client = rig.connect();
    client.hold_reads = true;
    client.feed(get(path).as_bytes());
    client
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
