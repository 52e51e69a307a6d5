//! As much of TDS 7.4 as a scripted server needs. Numbers are of [MS-TDS], by section.

use std::io::{Read, Result, Write};

/// Packet types (2.2.3.1.1).
pub(crate) const BATCH: u8 = 0x01;
const ANSWER: u8 = 0x04;
pub(crate) const TRANSACTION: u8 = 0x0E;
pub(crate) const LOGIN: u8 = 0x10;
pub(crate) const PRELOGIN: u8 = 0x12;

/// Transaction manager requests (2.2.7.17).
pub(crate) const BEGIN: u16 = 5;

/// What an ENVCHANGE token tells (2.2.7.9).
const BEGUN: u8 = 8;
pub(crate) const COMMIT: u8 = 9;
pub(crate) const ROLLBACK: u8 = 10;

const TRANSACTION_ID: [u8; 8] = [7, 0, 0, 0, 0, 0, 0, 0];
const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];
const END_OF_MESSAGE: u8 = 0x01;

/// Largest packet this server sends; every client takes it.
const PACKET_MAX: usize = 4_096;

/// A cell. A column whose first cell is a number is BIGINT, any other is NVARCHAR(MAX).
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Number(i64),
    Text(String),
    NoText,
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// Reads one message: its type and the bodies of its packets.
pub(crate) fn read_message(stream: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut body = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header)?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let start = body.len();
        body.resize(start + length - header.len(), 0);
        stream.read_exact(&mut body[start..])?;
        if header[1] & END_OF_MESSAGE != 0 {
            return Ok((header[0], body));
        }
    }
}

pub(crate) fn write_message(stream: &mut impl Write, tokens: &[u8]) -> Result<()> {
    write_packets(stream, tokens, END_OF_MESSAGE)
}

/// Writes packets without the last one's mark: the client goes on reading.
pub(crate) fn write_unfinished(stream: &mut impl Write, tokens: &[u8]) -> Result<()> {
    write_packets(stream, tokens, 0)
}

fn write_packets(stream: &mut impl Write, tokens: &[u8], last: u8) -> Result<()> {
    let count = tokens.chunks(PACKET_MAX - 8).count();
    for (index, body) in tokens.chunks(PACKET_MAX - 8).enumerate() {
        let status = if index + 1 == count { last } else { 0 };
        let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
        let header = [ANSWER, status, length[0], length[1], 0, 0, 1, 0];
        stream.write_all(&header)?;
        stream.write_all(body)?;
    }
    stream.flush()
}

/// VERSION, ENCRYPTION (not supported), end (2.2.6.5).
pub(crate) fn prelogin() -> Vec<u8> {
    let options = [0x00, 0, 11, 0, 6, 0x01, 0, 17, 0, 1, 0xFF];
    let version = [16, 0, 0, 0, 0, 0];
    [&options[..], &version, &[0x02]].concat()
}

/// LOGINACK (2.2.7.14).
pub(crate) fn login_ack() -> Vec<u8> {
    let mut body = vec![1, 0x74, 0, 0, 4];
    body.extend(short_text("fake"));
    body.extend([16, 0, 0, 0]);
    with_length(0xAD, &body)
}

pub(crate) fn transaction_begun() -> Vec<u8> {
    let body = [&[BEGUN, 8][..], &TRANSACTION_ID, &[0]].concat();
    with_length(0xE3, &body)
}

pub(crate) fn transaction_ended(how: u8) -> Vec<u8> {
    let body = [&[how, 0, 8][..], &TRANSACTION_ID].concat();
    with_length(0xE3, &body)
}

/// ERROR (2.2.7.10).
pub(crate) fn error(number: u32, class: u8) -> Vec<u8> {
    let message: Vec<u16> = format!("scripted error {number}").encode_utf16().collect();
    let mut body = number.to_le_bytes().to_vec();
    body.extend([1, class]);
    body.extend(u16::try_from(message.len()).unwrap().to_le_bytes());
    body.extend(message.iter().flat_map(|unit| unit.to_le_bytes()));
    body.extend([0, 0]);
    body.extend(1_u32.to_le_bytes());
    with_length(0xAA, &body)
}

/// DONE (2.2.7.6), without a count.
pub(crate) fn done(error: bool) -> Vec<u8> {
    let mut token = vec![0xFD];
    token.extend(u16::from(error).wrapping_mul(2).to_le_bytes());
    token.extend([0; 10]);
    token
}

/// COLMETADATA (2.2.7.4) and ROWs (2.2.7.19).
pub(crate) fn rows(columns: &[&str], rows: &[Vec<Cell>]) -> Vec<u8> {
    let mut tokens = vec![0x81];
    tokens.extend(u16::try_from(columns.len()).unwrap().to_le_bytes());
    for (index, name) in columns.iter().enumerate() {
        // User type and flags: nullable.
        tokens.extend([0, 0, 0, 0, 1, 0]);
        match rows.first().map(|row| &row[index]) {
            Some(Cell::Number(_)) | None => tokens.extend([0x26, 8]),
            Some(Cell::Text(_) | Cell::NoText) => {
                tokens.extend([0xE7, 0xFF, 0xFF]);
                tokens.extend(COLLATION);
            }
        }
        tokens.extend(short_text(name));
    }
    for row in rows {
        tokens.push(0xD1);
        row.iter().for_each(|cell| write_cell(&mut tokens, cell));
    }
    tokens
}

fn write_cell(tokens: &mut Vec<u8>, cell: &Cell) {
    match cell {
        Cell::Number(value) => {
            tokens.push(8);
            tokens.extend(value.to_le_bytes());
        }
        Cell::NoText => tokens.extend([0xFF; 8]),
        Cell::Text(text) => {
            let units = utf16(text);
            tokens.extend((units.len() as u64).to_le_bytes());
            if !units.is_empty() {
                tokens.extend(u32::try_from(units.len()).unwrap().to_le_bytes());
                tokens.extend(units);
            }
            tokens.extend([0; 4]);
        }
    }
}

fn with_length(token: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[token][..], &length, body].concat()
}

fn short_text(text: &str) -> Vec<u8> {
    let units = utf16(text);
    [&[u8::try_from(units.len() / 2).unwrap()][..], &units].concat()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// The request behind ALL_HEADERS (2.2.5.3).
fn behind_headers(body: &[u8]) -> &[u8] {
    let length = u32::from_le_bytes([body[0], body[1], body[2], body[3]]);
    &body[length as usize..]
}

/// Whether the request's transaction descriptor is that of this server's transactions.
pub(crate) fn names_transaction(body: &[u8]) -> bool {
    body[10..18] == TRANSACTION_ID
}

pub(crate) fn transaction_request(body: &[u8]) -> u16 {
    let request = behind_headers(body);
    u16::from_le_bytes([request[0], request[1]])
}

pub(crate) fn batch_text(body: &[u8]) -> String {
    let units = behind_headers(body).chunks_exact(2);
    let units: Vec<u16> = units
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
        .collect();
    String::from_utf16(&units).unwrap()
}

/// Whether a text stands in a request, at whatever offset.
pub(crate) fn holds_text(body: &[u8], text: &str) -> bool {
    let wanted = utf16(text);
    body.windows(wanted.len()).any(|window| window == wanted)
}
