//! Connections that a server's listeners have dropped: the server's own, where the machine's
//! counters are of everybody's.

use crate::servers::process::output_of;
use regatta_load::engine::Kernel;

/// So far, of whoever listens at `port`. `keeper` is a process of the network, if that is the
/// server's alone. None where nobody can tell.
pub(crate) fn so_far(keeper: Option<u32>, port: u16) -> Option<u64> {
    if let Some(keeper) = keeper {
        return Some(Kernel::read_of(&keeper.to_string()).listen_drops);
    }
    let port = format!(":{port}");
    parse(&output_of(&["ss", "-Hltnm", "sport", "=", &port])?)
}

/// The drops (`d` of `skmem`, ss(8)) of all listeners in ss's answer; None without any.
fn parse(said: &str) -> Option<u64> {
    let counts = said.split("skmem:(").skip(1).map(|rest| {
        let inside = rest.split(')').next()?;
        inside.split(',').find_map(|part| part.strip_prefix('d')?.parse::<u64>().ok())
    });
    counts.reduce(|sum, one| Some(sum? + one?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::skips::skip;
    use std::net::TcpListener;

    #[test]
    fn drops_are_those_of_the_port() {
        let said = "LISTEN 102 128 127.0.0.1:42029 0.0.0.0:*\n\t \
                    skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d39692)\nLISTEN 0 128 ...\n\t \
                    skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d8)\n";
        assert_eq!(parse(said), Some(39_700));
        assert_eq!(parse(""), None, "nobody listens");
        assert_eq!(parse("skmem:(r0,rb1)"), None, "an ss of long ago");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        match output_of(&["ss", "-V"]) {
            Some(_) => assert_eq!(so_far(None, port), Some(0)),
            None => skip("needs ss"),
        }
        assert!(so_far(Some(std::process::id()), port).is_some());
    }
}
