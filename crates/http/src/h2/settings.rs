//! Settings of HTTP/2 (RFC 9113 §6.5): those of the peer, and ours on their way to it.
use super::frame::{
    ACK, ErrorCode, FRAME_BYTES_DEFAULT, FRAME_BYTES_MAX, FrameHead, FrameKind,
    WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX, write_head,
};
use super::hpack::TABLE_BYTES_DEFAULT;
use alloc::vec::Vec;

/// Bytes of a setting in a frame.
const SETTING_BYTES: usize = 6;

/// Number of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SettingId(pub u16);

impl SettingId {
    /// `SETTINGS_HEADER_TABLE_SIZE`
    pub const HEADER_TABLE_SIZE: Self = Self(1);
    /// `SETTINGS_ENABLE_PUSH`
    pub const ENABLE_PUSH: Self = Self(2);
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`
    pub const MAX_CONCURRENT_STREAMS: Self = Self(3);
    /// `SETTINGS_INITIAL_WINDOW_SIZE`
    pub const INITIAL_WINDOW_SIZE: Self = Self(4);
    /// `SETTINGS_MAX_FRAME_SIZE`
    pub const MAX_FRAME_SIZE: Self = Self(5);
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`
    pub const MAX_HEADER_LIST_SIZE: Self = Self(6);
    /// `SETTINGS_NO_RFC7540_PRIORITIES` (RFC 9218 §2.1)
    pub const NO_RFC7540_PRIORITIES: Self = Self(9);
}

/// Fault of a setting. It ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SettingsFault {
    /// A switch that is neither 0 nor 1.
    Switch(SettingId),
    /// A window of more than [`WINDOW_BYTES_MAX`] bytes.
    Window(u32),
    /// Frames of fewer than [`FRAME_BYTES_DEFAULT`] or more than [`FRAME_BYTES_MAX`] bytes.
    FrameBytes(u32),
}

impl SettingsFault {
    /// The code to end the connection with.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Window(_) => ErrorCode::FLOW_CONTROL_ERROR,
            Self::Switch(_) | Self::FrameBytes(_) => ErrorCode::PROTOCOL_ERROR,
        }
    }

    /// A few words for a log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Switch(_) => "a setting is neither on nor off",
            Self::Window(_) => "the initial window is too large",
            Self::FrameBytes(_) => "the largest frame is too small or too large",
        }
    }
}

/// Settings of the peer that matter to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// The largest table of our encoder.
    pub table_bytes: u32,
    /// The initial window of a stream, bytes. A new one changes the windows of open streams by the
    /// difference (RFC 9113 §6.9.2).
    pub window_bytes: u32,
    /// The largest payload of our frames.
    pub frame_bytes_max: u32,
    /// The largest section of fields that the peer wants, counted as in a table.
    pub section_bytes_max: u32,
    /// True if the peer uses no priorities of RFC 7540.
    pub has_no_old_priorities: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            table_bytes: u32::try_from(TABLE_BYTES_DEFAULT).unwrap_or(u32::MAX),
            window_bytes: WINDOW_BYTES_DEFAULT,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            section_bytes_max: u32::MAX,
            has_no_old_priorities: false,
        }
    }
}

impl PeerSettings {
    /// Takes the payload of a frame, setting by setting; unknown ones are ignored.
    ///
    /// # Errors
    /// A setting has no allowed value; those before it are taken.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), SettingsFault> {
        let (settings, _) = payload.as_chunks::<SETTING_BYTES>();
        for [high, low, a, b, c, d] in settings {
            let id = SettingId(u16::from_be_bytes([*high, *low]));
            self.take(id, u32::from_be_bytes([*a, *b, *c, *d]))?;
        }
        Ok(())
    }

    fn take(&mut self, id: SettingId, value: u32) -> Result<(), SettingsFault> {
        match id {
            SettingId::HEADER_TABLE_SIZE => self.table_bytes = value,
            SettingId::ENABLE_PUSH | SettingId::NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(SettingsFault::Switch(id));
            }
            SettingId::NO_RFC7540_PRIORITIES => self.has_no_old_priorities = value == 1,
            SettingId::INITIAL_WINDOW_SIZE if value > WINDOW_BYTES_MAX => {
                return Err(SettingsFault::Window(value));
            }
            SettingId::INITIAL_WINDOW_SIZE => self.window_bytes = value,
            SettingId::MAX_FRAME_SIZE => {
                if !(FRAME_BYTES_DEFAULT..=FRAME_BYTES_MAX).contains(&value) {
                    return Err(SettingsFault::FrameBytes(value));
                }
                self.frame_bytes_max = value;
            }
            SettingId::MAX_HEADER_LIST_SIZE => self.section_bytes_max = value,
            _ => {}
        }
        Ok(())
    }
}

/// Appends SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(SettingId, u32)]) {
    let bytes = u32::try_from(settings.len() * SETTING_BYTES).unwrap_or(u32::MAX);
    write_head(out, FrameHead { bytes, kind: FrameKind::Settings, flags: 0, stream: 0 });
    for (id, value) in settings {
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of the peer's settings.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(out, FrameHead { bytes: 0, kind: FrameKind::Settings, flags: ACK, stream: 0 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::{Frame, WholeFrame, read_frame, split_frame};
    use alloc::vec;

    fn payload(settings: &[(u16, u32)]) -> Vec<u8> {
        let bytes =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        settings.iter().flat_map(bytes).collect()
    }

    fn check(settings: &[(u16, u32)], expected: Result<PeerSettings, SettingsFault>) {
        let mut found = PeerSettings::default();
        let result = found.apply(&payload(settings)).map(|()| found);
        assert_eq!(result, expected, "{settings:?}");
    }

    #[test]
    fn known_settings_are_taken() {
        let start = PeerSettings::default();
        assert_eq!((start.table_bytes, start.window_bytes), (4096, 65_535));
        assert_eq!((start.frame_bytes_max, start.section_bytes_max), (16_384, u32::MAX));
        check(&[], Ok(start));
        check(&[(1, 0)], Ok(PeerSettings { table_bytes: 0, ..start }));
        check(&[(2, 0), (2, 1), (3, 0), (3, u32::MAX)], Ok(start));
        check(&[(4, 1), (4, 0)], Ok(PeerSettings { window_bytes: 0, ..start }));
        let largest = WINDOW_BYTES_MAX;
        check(&[(4, largest)], Ok(PeerSettings { window_bytes: largest, ..start }));
        check(&[(5, 1 << 14)], Ok(start));
        let largest = (1 << 24) - 1;
        check(&[(5, largest)], Ok(PeerSettings { frame_bytes_max: largest, ..start }));
        check(&[(6, 5)], Ok(PeerSettings { section_bytes_max: 5, ..start }));
        check(&[(9, 1)], Ok(PeerSettings { has_no_old_priorities: true, ..start }));
        check(&[(0, 7), (7, 7), (8, 7), (0xffff, 7)], Ok(start));
    }

    #[test]
    fn other_values_end_the_connection() {
        check(&[(2, 2)], Err(SettingsFault::Switch(SettingId::ENABLE_PUSH)));
        check(&[(9, 2)], Err(SettingsFault::Switch(SettingId::NO_RFC7540_PRIORITIES)));
        check(&[(4, 1 << 31)], Err(SettingsFault::Window(1 << 31)));
        check(&[(5, (1 << 14) - 1)], Err(SettingsFault::FrameBytes((1 << 14) - 1)));
        check(&[(1, 1), (5, 1 << 24)], Err(SettingsFault::FrameBytes(1 << 24)));
        assert_eq!(SettingsFault::Window(1 << 31).code(), ErrorCode::FLOW_CONTROL_ERROR);
        assert_eq!(SettingsFault::FrameBytes(0).code(), ErrorCode::PROTOCOL_ERROR);
    }

    #[test]
    fn settings_are_written_as_they_are_read() {
        let mut out = vec![];
        write_settings(&mut out, &[(SettingId::INITIAL_WINDOW_SIZE, 9)]);
        write_settings_ack(&mut out);
        let WholeFrame { head, payload: bytes, rest } =
            split_frame(&out, 6).expect("allowed").expect("whole");
        assert_eq!(read_frame(head, bytes), Ok(Frame::Settings(&payload(&[(4, 9)]))));
        let WholeFrame { head, payload: bytes, rest } =
            split_frame(rest, 0).expect("allowed").expect("whole");
        assert_eq!((read_frame(head, bytes), rest), (Ok(Frame::SettingsAck), &[][..]));
    }
}
