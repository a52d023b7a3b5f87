//! An exchange without a connection: it waits in a queue between its steps.
use crate::rig::{FakeFile, Rig, read};
use regatta_http::{FieldLines, Method, conditional::RequestConditions, target::Target};
use regatta_metrics::Counter;
use regatta_origin::{Destination, Exchange, Reply, Request, Site, Step, Supply};
use std::collections::VecDeque;

fn request<'a>(path: &'a str, conditions: &'a RequestConditions<'a>) -> Request<'a> {
    Request {
        method: Method::Get,
        target: Target::Path(path.as_bytes()),
        conditions,
        range: None,
        accept_encoding: FieldLines::one(b"br"),
        destination: Destination::Known { document: true, json: false, authorization: None },
        expects_unknown: false,
        too_large: false,
    }
}

/// The disk's outcome of a step; `Err` with the reply if the step is the end.
fn perform(rig: &Rig, step: Step<FakeFile>) -> Result<Supply<FakeFile>, Reply<FakeFile>> {
    Ok(match step {
        Step::Open(req) => Supply::Opened(rig.open(&req)),
        Step::Read(req) => Supply::Read(read(req), Ok(())),
        Step::Stat(file) => Supply::Stat(Ok(regatta_op::File::id(&file))),
        Step::Hold(_) => Supply::Again,
        Step::Reply(reply) => return Err(reply),
        Step::Cut => panic!("no file shrinks"),
    })
}

#[test]
fn many_stand_in_a_queue() {
    let rig = Rig::new(Site::default());
    let cx = rig.cx();
    let rows = [
        ("/", "file"),
        ("/ten.txt?x", "file"),
        ("/app.js", "file"),
        ("/big.bin", "file"),
        ("/docs", "redirect"),
        ("/docs/", "file"),
        ("/no%6ee", "file"),
        ("/%zz", "refused"),
    ];
    for round in 0..2 {
        // The paths are gone when the exchanges continue.
        let mut queue: VecDeque<_> = rows
            .iter()
            .map(|(path, expected)| {
                let (path, conditions) = ((*path).to_owned(), RequestConditions::none());
                let mut exchange = Exchange::default();
                let step = exchange.start(&request(&path, &conditions), rig.now(), &cx);
                (exchange, step, *expected)
            })
            .collect();
        let mut turns = 0;
        while let Some((mut exchange, step, expected)) = queue.pop_front() {
            turns += 1;
            match perform(&rig, step) {
                Ok(supply) => {
                    let step = exchange.resume(supply, rig.now(), &cx);
                    queue.push_back((exchange, step, expected));
                }
                Err(reply) => {
                    let what = match reply {
                        Reply::File(_) => "file",
                        Reply::Redirect(..) => "redirect",
                        Reply::Options => "options",
                        Reply::Refused(_) => "refused",
                        Reply::Nothing(_) => "nothing",
                        Reply::Ruled(..) => "ruled",
                        Reply::Unauthorized(_) => "unauthorized",
                    };
                    assert_eq!(what, expected);
                }
            }
        }
        assert!(turns > rows.len(), "some wait for the disk");
        assert_eq!(rig.count(Counter::Opens), 8, "round {round}: what is known is not opened");
    }
}
