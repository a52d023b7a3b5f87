//! HPACK, the compression of fields in HTTP/2 (RFC 7541).
//!
//! A decoder for servers validates and classifies each field when it enters the table. A later
//! reference to it costs a look-up. Values that the server never reads are not kept.
use super::{huffman, known::FieldKind};
use alloc::vec::Vec;
use core::ops::Range;

mod encode;
#[cfg(test)]
mod reference;
mod statics;
mod table;

pub use encode::{DATE_AT, write_field, write_head, write_no_table, write_raw_field, write_status};
use statics::{FACTS, FIELDS};
use table::{ENTRY_BYTES, NewEntry, Table, TableEntry};

/// Size of a table before any setting (RFC 9113 §6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;
/// The largest table that a decoder may offer.
pub const TABLE_BYTES_MAX: usize = 64 << 10;

/// Fault of a field block that cannot be decoded. The connection ends with `COMPRESSION_ERROR`: the
/// tables of both ends are no longer equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HpackFault {
    /// The block ends within a field.
    Truncated,
    /// An integer of more than five bytes.
    Integer,
    /// An index of no entry.
    Index,
    /// A string that is not in the Huffman code.
    Huffman,
    /// A larger table than the decoder offers.
    TableSize,
    /// A table size behind a field.
    LateTableSize,
    /// No table size at the start of the first block after the decoder has lowered its own.
    NoTableSize,
}

impl HpackFault {
    /// A few words for a log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "a field block ends within a field",
            Self::Integer => "a field block has an integer of more than five bytes",
            Self::Index => "a field block has an index of no entry",
            Self::Huffman => "a field block has a string that is not in the Huffman code",
            Self::TableSize => "a field block asks for a larger table than was offered",
            Self::LateTableSize => "a field block has a table size behind a field",
            Self::NoTableSize => "a field block has no table size after the table was made smaller",
        }
    }
}

/// Text that a decoder keeps of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    /// Valid values of known fields, for a server.
    Read,
    /// All names and values, for a client.
    All,
}

/// The decoder of a connection.
#[derive(Debug)]
pub struct HpackDecoder {
    table: Table,
    /// The largest table that the peer may use now.
    size_max: usize,
    /// Size of the table that is offered in the settings.
    offered: usize,
    /// The table was made smaller, and the next block must acknowledge it.
    owes_size: bool,
    retention: Retention,
}

impl HpackDecoder {
    /// The decoder of a server that offers a table of `table_bytes`, [`TABLE_BYTES_MAX`] at most.
    #[must_use]
    pub fn new(table_bytes: usize) -> Self {
        let offered = table_bytes.min(TABLE_BYTES_MAX);
        Self {
            table: Table::new(TABLE_BYTES_DEFAULT),
            size_max: offered.max(TABLE_BYTES_DEFAULT),
            offered,
            owes_size: false,
            retention: Retention::Read,
        }
    }

    /// The decoder of a client, for [`Self::read_fields`].
    #[must_use]
    pub fn for_client(table_bytes: usize) -> Self {
        Self { retention: Retention::All, ..Self::new(table_bytes) }
    }

    /// Takes the peer's acknowledgement of the settings that offered the table.
    pub fn acknowledge(&mut self) {
        self.size_max = self.offered;
        self.owes_size = self.table.size_max() > self.size_max;
    }

    /// The size of the table (RFC 7541 §4.1).
    #[must_use]
    pub const fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// Number of entries in the table.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Releases memory that only the last block needed: for when its head is no longer used.
    pub fn trim(&mut self) {
        self.table.compact();
    }

    /// Decodes a block, and passes each name and value to `each`. It judges neither of them.
    ///
    /// Only a decoder [for clients](Self::for_client) has all names and values; that of a server
    /// passes empty ones in their place.
    ///
    /// # Errors
    /// The block cannot be decoded.
    pub fn read_fields(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackFault> {
        let mut decoded = Vec::new();
        let mut at = self.begin(block)?;
        while let Some(field) = self.step(block, &mut at, &mut decoded)? {
            let texts = self.texts(block, &decoded);
            each(texts.name(&field), texts.get(field.value));
            decoded.clear();
            self.trim();
        }
        Ok(())
    }

    /// Decodes a block of no interest: the table changes all the same.
    ///
    /// # Errors
    /// The block cannot be decoded.
    pub fn skip(&mut self, block: &[u8]) -> Result<(), HpackFault> {
        let at = self.begin(block)?;
        self.skip_rest(block, at, &mut Vec::new())
    }

    /// Decodes the fields from `at` on, for the sake of the table.
    pub(super) fn skip_rest(
        &mut self,
        block: &[u8],
        mut at: usize,
        decoded: &mut Vec<u8>,
    ) -> Result<(), HpackFault> {
        loop {
            decoded.clear();
            self.trim();
            self.skip_indexed(block, &mut at)?;
            if self.step(block, &mut at, decoded)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Reads the sizes at the start of a block; returns the offset of its first field.
    pub(super) fn begin(&mut self, block: &[u8]) -> Result<usize, HpackFault> {
        self.trim();
        let mut at = 0;
        while let Some(0x20..=0x3f) = block.get(at) {
            let size = integer(block, &mut at, 5)?;
            if size > self.size_max {
                return Err(HpackFault::TableSize);
            }
            self.table.resize(size);
            self.owes_size = false;
        }
        if self.owes_size { Err(HpackFault::NoTableSize) } else { Ok(at) }
    }

    /// Skips fields that are in a table: each is a byte for the client, and changes nothing.
    ///
    /// # Errors
    /// An index of no entry.
    fn skip_indexed(&self, block: &[u8], at: &mut usize) -> Result<(), HpackFault> {
        let entries = FIELDS.len() + self.table.len();
        while let Some(0x80..) = block.get(*at) {
            let index = integer(block, at, 7)?;
            if index == 0 || index >= entries {
                return Err(HpackFault::Index);
            }
        }
        Ok(())
    }

    /// Decodes the field at `at`; `None` at the end of the block. Strings in the Huffman code are
    /// appended to `decoded`. Places are valid until the next [`Self::begin`] or [`Self::trim`].
    #[inline]
    pub(super) fn step(
        &mut self,
        block: &[u8],
        at: &mut usize,
        decoded: &mut Vec<u8>,
    ) -> Result<Option<DecodedField>, HpackFault> {
        match block.get(*at) {
            None => Ok(None),
            Some(0x80..) => {
                let index = integer(block, at, 7)?;
                self.indexed(index).map(Some)
            }
            Some(0x20..=0x3f) => Err(HpackFault::LateTableSize),
            Some(first) => self.literal(*first >= 0x40, block, at, decoded).map(Some),
        }
    }

    /// The texts that places refer to.
    pub(super) fn texts<'a>(&'a self, block: &'a [u8], decoded: &'a [u8]) -> Texts<'a> {
        Texts { block, decoded, table: self.table.text() }
    }

    /// A field of either table (RFC 7541 §6.1).
    #[inline]
    fn indexed(&self, index: usize) -> Result<DecodedField, HpackFault> {
        if let Some(number) = index.checked_sub(FIELDS.len()) {
            let entry = self.table.get(number).ok_or(HpackFault::Index)?;
            let (name, value) = self.kept(entry);
            let (kind, is_valid, bytes) = (entry.kind, entry.is_valid, entry.size());
            return Ok(DecodedField { kind, is_valid, bytes, name, value });
        }
        let ((name, value), facts) = (FIELDS[index], FACTS[index]);
        if index == 0 {
            return Err(HpackFault::Index);
        }
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        let (name, value) = (Place::static_name(index), Place::static_value(index));
        Ok(DecodedField { kind: facts.kind, is_valid: facts.is_valid, bytes, name, value })
    }

    /// A literal field (RFC 7541 §6.2), which enters the table or not.
    fn literal(
        &mut self,
        enters_table: bool,
        block: &[u8],
        at: &mut usize,
        decoded: &mut Vec<u8>,
    ) -> Result<DecodedField, HpackFault> {
        let index = integer(block, at, if enters_table { 6 } else { 4 })?;
        let (kind, name, name_bytes) = if index == 0 {
            let name = string(block, at, decoded)?;
            let text = self.texts(block, decoded).get(name);
            (FieldKind::from_name(text), name, text.len())
        } else {
            self.named(index)?
        };
        let value = string(block, at, decoded)?;
        let text = self.texts(block, decoded).get(value);
        let (is_valid, value_bytes) = (kind.is_valid(text), text.len());
        if enters_table {
            let new = NewEntry { kind, is_valid, name_bytes, value_bytes };
            self.insert(new, name, value, block, decoded);
        }
        let bytes = name_bytes + value_bytes + ENTRY_BYTES;
        Ok(DecodedField { kind, is_valid, bytes, name, value })
    }

    /// The kind, the name, and the length of the name of an entry.
    fn named(&self, index: usize) -> Result<(FieldKind, Place, usize), HpackFault> {
        match index.checked_sub(FIELDS.len()) {
            None => Ok((FACTS[index].kind, Place::static_name(index), FIELDS[index].0.len())),
            Some(number) => {
                let entry = self.table.get(number).ok_or(HpackFault::Index)?;
                Ok((entry.kind, self.kept(entry).0, entry.name_bytes()))
            }
        }
    }

    /// Inserts a field into the table, with the text that is to be kept.
    fn insert(&mut self, new: NewEntry, name: Place, value: Place, block: &[u8], decoded: &[u8]) {
        let (keeps_name, keeps_value) = match self.retention {
            Retention::All => (true, true),
            Retention::Read => (false, new.is_valid && new.kind.is_read()),
        };
        self.table.insert(new, |text| {
            for place in [keeps_name.then_some(name), keeps_value.then_some(value)] {
                match place {
                    Some(Place { source: Source::Table, start, bytes }) => {
                        let start = start as usize;
                        let end = (start + bytes as usize).min(text.len());
                        text.extend_from_within(start.min(end)..end);
                    }
                    Some(place) => {
                        let elsewhere = Texts { block, decoded, table: &[] };
                        text.extend_from_slice(elsewhere.get(place));
                    }
                    None => {}
                }
            }
        });
    }

    /// The name and the value that were kept of an entry; empty ones if they were not.
    #[inline]
    fn kept(&self, entry: &TableEntry) -> (Place, Place) {
        let Range { start, end } = entry.kept();
        let split = match self.retention {
            Retention::Read => start,
            Retention::All => u32::try_from(entry.name_bytes()).map_or(start, |name| start + name),
        };
        let place =
            |start: u32, end: u32| Place { source: Source::Table, start, bytes: end - start };
        (place(start, split), place(split, end))
    }
}

/// A field as it was decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodedField {
    pub(super) kind: FieldKind,
    /// False if the name or the value is malformed in any request.
    pub(super) is_valid: bool,
    /// Size of the field in a list: name, value and 32 (RFC 9113 §6.5.2).
    pub(super) bytes: usize,
    name: Place,
    /// The value; meaningless if the field is of a kind that is not read, or not valid.
    pub(super) value: Place,
}

/// Place of a name or value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    source: Source,
    /// The start in its text, or the index of a static entry.
    start: u32,
    bytes: u32,
}

/// Text that a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Block,
    Decoded,
    Table,
    StaticName,
    StaticValue,
}

impl Place {
    /// The place of an empty value.
    pub(super) const EMPTY: Self = Self { source: Source::Block, start: 0, bytes: 0 };

    /// The bytes `range` of a text; empty if they are beyond 4 GiB, where no block is.
    fn new(source: Source, range: Range<usize>) -> Self {
        match (u32::try_from(range.start), u32::try_from(range.len())) {
            (Ok(start), Ok(bytes)) => Self { source, start, bytes },
            _ => Self::EMPTY,
        }
    }

    fn static_name(index: usize) -> Self {
        Self::new(Source::StaticName, index..index)
    }

    fn static_value(index: usize) -> Self {
        Self::new(Source::StaticValue, index..index)
    }
}

/// Texts that places are in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    block: &'a [u8],
    decoded: &'a [u8],
    table: &'a [u8],
}

impl<'a> Texts<'a> {
    /// The bytes at a place.
    #[inline]
    pub(super) fn get(&self, place: Place) -> &'a [u8] {
        let start = place.start as usize;
        let (text, end) = match place.source {
            Source::Block => (self.block, start + place.bytes as usize),
            Source::Decoded => (self.decoded, start + place.bytes as usize),
            Source::Table => (self.table, start + place.bytes as usize),
            Source::StaticName => return FIELDS[start].0.as_bytes(),
            Source::StaticValue => return FIELDS[start].1.as_bytes(),
        };
        text.get(start..end).unwrap_or_default()
    }

    fn name(&self, field: &DecodedField) -> &'a [u8] {
        self.get(field.name)
    }
}

/// Reads an integer with a prefix of this many bits (RFC 7541 §5.1).
#[inline]
fn integer(block: &[u8], at: &mut usize, prefix_bits: u32) -> Result<usize, HpackFault> {
    let mask: u8 = 0xff >> (8 - prefix_bits);
    let prefix = block.get(*at).ok_or(HpackFault::Truncated)? & mask;
    *at += 1;
    if prefix < mask { Ok(usize::from(prefix)) } else { long_integer(block, at, prefix) }
}

/// Reads the bytes behind a full prefix: four at most.
#[cold]
fn long_integer(block: &[u8], at: &mut usize, prefix: u8) -> Result<usize, HpackFault> {
    let mut value = usize::from(prefix);
    for shift in [0, 7, 14, 21] {
        let byte = *block.get(*at).ok_or(HpackFault::Truncated)?;
        *at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackFault::Integer)
}

/// Reads a string (RFC 7541 §5.2); one in the Huffman code is appended to `decoded`.
fn string(block: &[u8], at: &mut usize, decoded: &mut Vec<u8>) -> Result<Place, HpackFault> {
    let is_coded = block.get(*at).is_some_and(|first| first & 0x80 != 0);
    let len = integer(block, at, 7)?;
    let raw = *at..at.saturating_add(len);
    let text = block.get(raw.clone()).ok_or(HpackFault::Truncated)?;
    *at = raw.end;
    if !is_coded {
        return Ok(Place::new(Source::Block, raw));
    }
    let start = decoded.len();
    huffman::decode(text, decoded).map_err(|_| HpackFault::Huffman)?;
    Ok(Place::new(Source::Decoded, start..decoded.len()))
}

#[cfg(test)]
mod tests;
