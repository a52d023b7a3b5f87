//! An environment in words: what was asked for, and what the kernel says that it became.

use super::spec::{
    Disk, IN_PROCESS, Kind, Network, NetworkLayout, Pages, Profile, Queue, Seek, Spec,
};
use super::{DescribedDisk, Record};

impl Spec {
    /// What it asks for, part by part: the part's name, and what it is to be.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        if let Some(network) = &self.network {
            all.push(("network", network.words()));
        }
        if self.memory_bytes > 0 {
            let words = format!("{}, page cache included", size(self.memory_bytes));
            all.push(("memory", words));
        }
        if let Some(disk) = &self.disk {
            all.push(("disk", disk.words()));
        }
        match self.pages {
            Pages::AsIs => {}
            Pages::Cold => all.push(("page cache", "cold".to_owned())),
            Pages::Warm => all.push(("page cache", "warm".to_owned())),
        }
        if self.cpu.left_percent > 0 {
            let words = format!("{} % left of the server's", self.cpu.left_percent);
            all.push(("processors", words));
        }
        if self.profile == Profile::Geneves {
            all.push(("settings", "[G] table I".to_owned()));
        }
        if self.accounting {
            all.push(("accounting", "waits for the disk".to_owned()));
        }
        all
    }
}

impl Record {
    /// What it became, part by part, from what was read back when it was made.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        if let Some(network) = &self.network {
            let shaping =
                if network.shaping.is_empty() { "not shaped" } else { network.shaping.as_str() };
            let addresses = network.addresses.join(", ");
            all.push(("network", format!("{addresses}; {}; {shaping}", network.links)));
        }
        if let Some(bytes) = self.memory_bytes {
            all.push(("memory", size(bytes)));
        }
        if let Some(disk) = &self.disk {
            all.push(("disk", disk.words()));
        }
        if !self.settings.is_empty() {
            let settings = self.settings.iter().map(|one| format!("{} = {}", one.name, one.is));
            all.push(("settings", settings.collect::<Vec<_>>().join("; ")));
        }
        if !self.left_alone.is_empty() {
            let names = self.left_alone.join(", ");
            all.push(("settings", format!("left alone, since the machine's: {names}")));
        }
        all
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
