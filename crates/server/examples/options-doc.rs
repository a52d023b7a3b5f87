//! Writes `docs/options.md` from the table of options.
fn main() -> std::io::Result<()> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    std::fs::write(page, regatta_server::config::options::markdown())
}
