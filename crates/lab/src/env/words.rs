//! An environment in words: what was asked for, and what the kernel says that it became.

use super::spec::{
    Disk, IN_PROCESS, Kind, Network, NetworkLayout, Pages, Profile, Queue, Seek, Spec,
};
use super::{DescribedDisk, Record};

impl Spec {
    /// Requested parts: the name and the value of each.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let pages = match self.pages {
            Pages::AsIs => None,
            Pages::Cold => Some("cold".to_owned()),
            Pages::Warm => Some("warm".to_owned()),
        };
        let (memory, left) = (self.memory_bytes, self.cpu.left_percent);
        let settings = (self.profile == Profile::Geneves).then(|| "[G] table I".to_owned());
        let parts = [
            ("network", self.network.as_ref().map(Network::words)),
            ("memory", (memory > 0).then(|| format!("{}, page cache included", size(memory)))),
            ("disk", self.disk.as_ref().map(Disk::words)),
            ("page cache", pages),
            ("processors", (left > 0).then(|| format!("{left} % left of the server's"))),
            ("settings", settings),
            ("accounting", self.accounting.then(|| "waits for the disk".to_owned())),
        ];
        parts.into_iter().filter_map(|(part, words)| Some((part, words?))).collect()
    }
}

impl Record {
    /// Actual parts, from what was read back when it was made.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let network = self.network.as_ref().map(|network| {
            let shaping = Some(network.shaping.as_str()).filter(|words| !words.is_empty());
            let addresses = network.addresses.join(", ");
            format!("{addresses}; {}; {}", network.links, shaping.unwrap_or("not shaped"))
        });
        let settings = self.settings.iter().map(|one| format!("{} = {}", one.name, one.is));
        let settings = settings.collect::<Vec<_>>().join("; ");
        let alone = self.left_alone.join(", ");
        let alone =
            (!alone.is_empty()).then(|| format!("left alone, since the machine's: {alone}"));
        let parts = [
            ("network", network),
            ("memory", self.memory_bytes.map(size)),
            ("disk", self.disk.as_ref().map(DescribedDisk::words)),
            ("settings", Some(settings).filter(|words| !words.is_empty())),
            ("settings", alone),
        ];
        parts.into_iter().filter_map(|(part, words)| Some((part, words?))).collect()
    }
}

impl Network {
    fn words(&self) -> String {
        let layout = match self.layout {
            NetworkLayout::Loopback => "loopback",
            NetworkLayout::Pair => "a pair of devices",
        };
        let mut words = format!("{layout} of its own, MTU {}", self.mtu);
        if self.addresses > 1 {
            words += &format!(", {} addresses", self.addresses);
        }
        if self.single_packets {
            words += ", no segmentation offload";
        }
        for (name, sizes) in [("tcp_wmem", &self.tcp_wmem), ("tcp_rmem", &self.tcp_rmem)] {
            if !sizes.is_empty() {
                words += &format!(", {name} {sizes}");
            }
        }
        if self.rate > 0 {
            words += &format!(", {} bytes a second", self.rate);
        }
        if self.delay_ms > 0.0 {
            words += &format!(", {} ms under way", self.delay_ms);
        }
        words
    }
}

impl Disk {
    fn words(&self) -> String {
        let seek = match self.seek {
            Seek::Fixed => "",
            Seek::Distance => " by distance",
        };
        let queue = match self.queue {
            Queue::Fifo => "the oldest first",
            Queue::Nearest => "the nearest first",
            Queue::Anticipatory => "the nearest first, after a pause for the same file",
            Queue::Slices => "the oldest first, after a pause for the same file",
        };
        let heads =
            if self.heads == 1 { "a head".to_owned() } else { format!("{} heads", self.heads) };
        if self.kind == Kind::InProcess {
            let (ms, rate) = (self.seek_ms, self.bandwidth);
            return format!("{IN_PROCESS}: {ms} ms for the way, {rate} bytes a second, {heads}");
        }
        format!(
            "simulated: {} ms{seek} to another place, {} bytes a second, {heads}, {queue}, reads \
             ahead {} KiB",
            self.seek_ms, self.bandwidth, self.read_ahead_kb
        )
    }
}

impl DescribedDisk {
    fn words(&self) -> String {
        let direct = if self.direct_io { "direct I/O" } else { "CACHED BELOW" };
        format!(
            "{} of {}, {direct}, reads ahead {} KiB",
            self.device.display(),
            size(self.bytes),
            self.read_ahead_kb
        )
    }
}

/// A number of bytes in MiB, with a tenth where it is not a whole number.
fn size(bytes: u64) -> String {
    let (whole, tenth) = (bytes >> 20, (bytes % (1 << 20)) * 10 / (1 << 20));
    if tenth == 0 { format!("{whole} MiB") } else { format!("{whole}.{tenth} MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_told_part_by_part() {
        let network = Network {
            single_packets: true,
            tcp_wmem: "4096 16384 131072".to_owned(),
            delay_ms: 2.0,
            ..Network::default()
        };
        let spec = Spec {
            network: Some(network),
            memory_bytes: 84 << 20,
            disk: Some(Disk { seek_ms: 2.0, ..Disk::default() }),
            pages: Pages::Warm,
            accounting: true,
            ..Spec::default()
        };
        let said: Vec<String> =
            spec.words().into_iter().map(|(part, what)| format!("{part}: {what}")).collect();
        let wanted = [
            "network: loopback of its own, MTU 1500, no segmentation offload, tcp_wmem 4096 16384 \
             131072, 2 ms under way",
            "memory: 84 MiB, page cache included",
            "disk: simulated: 2 ms to another place, 100000000 bytes a second, a head, the oldest \
             first, reads ahead 128 KiB",
            "page cache: warm",
            "accounting: waits for the disk",
        ];
        assert_eq!(said, wanted);
        assert_eq!(Spec::default().words(), []);
        let disk = Disk { kind: Kind::InProcess, heads: 2, ..Disk::default() };
        let said = "simulated-in-process: 3 ms for the way, 100000000 bytes a second, 2 heads";
        assert_eq!(disk.words(), said);
    }
}
