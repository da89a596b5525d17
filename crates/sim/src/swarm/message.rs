//! Messages between peers, and the byte stream that carries them in order.

use super::pieces::{Bitfield, Block};
use std::collections::VecDeque;

/// A message between two peers, with the sizes of BEP 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Handshake, and the pieces that the sender has.
    Bitfield(Bitfield),
    /// The sender has this piece from now on.
    Have(u32),
    /// Whether the sender is interested in a piece of the receiver.
    Interested(bool),
    /// Whether the sender refuses to serve the receiver (choking).
    Choke(bool),
    /// A request for this block.
    Request(Block),
    /// The sender withdraws its request for this block.
    Cancel(Block),
    /// This block.
    Piece(Block),
}

impl Message {
    /// Size of the message in the stream (BEP 3), where a block has `block` bytes and the file
    /// `pieces` pieces.
    pub fn bytes(&self, block: u64, pieces: u32) -> u64 {
        match self {
            Message::Bitfield(_) => 68 + 5 + u64::from(pieces.div_ceil(8)),
            Message::Have(_) => 9,
            Message::Interested(_) | Message::Choke(_) => 5,
            Message::Request(_) | Message::Cancel(_) => 17,
            Message::Piece(_) => 13 + block,
        }
    }
}

/// The messages of one peer to another, on one connection.
#[derive(Debug)]
pub struct Stream {
    /// The peer that sends.
    pub peer: u32,
    /// Index of the receiver among the sender's neighbours.
    pub at: u32,
    /// Payload of each segment that was sent and has not arrived in order. Unit: bytes.
    segments: VecDeque<u16>,
    /// Number of segments that have arrived in order, and their bytes.
    next: u32,
    arrived: u64,
    written: u64,
    /// Messages that have not arrived in full, each with the position after its last byte.
    messages: VecDeque<(u64, Message)>,
}

impl Stream {
    /// A stream without messages.
    pub fn new(peer: u32, at: u32) -> Self {
        Stream {
            peer,
            at,
            segments: VecDeque::new(),
            next: 0,
            arrived: 0,
            written: 0,
            messages: VecDeque::new(),
        }
    }

    /// Writes `message`, which has `bytes` bytes.
    pub fn write(&mut self, message: Message, bytes: u64) {
        self.written += bytes;
        self.messages.push_back((self.written, message));
    }

    /// The next segment, with `payload` bytes, is sent for the first time.
    pub fn sent(&mut self, payload: u16) {
        self.segments.push_back(payload);
    }

    /// All segments before `next` have arrived.
    pub fn received(&mut self, next: u32) {
        while self.next < next {
            let Some(payload) = self.segments.pop_front() else { return };
            self.arrived += u64::from(payload);
            self.next += 1;
        }
    }

    /// The next message that has arrived in full.
    pub fn hear(&mut self) -> Option<Message> {
        let is_here = self.messages.front().is_some_and(|(end, _)| *end <= self.arrived);
        is_here.then(|| self.messages.pop_front()).flatten().map(|(_, message)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_heard_when_its_last_byte_is_there_and_in_order() {
        let mut stream = Stream::new(0, 0);
        let block = Block { piece: 1, block: 2 };
        stream.write(Message::Piece(block), 2_000);
        stream.write(Message::Have(7), 9);
        stream.sent(1_460);
        stream.sent(549);
        stream.received(1);
        assert_eq!(stream.hear(), None);
        stream.received(2);
        assert_eq!(stream.hear(), Some(Message::Piece(block)));
        assert_eq!(stream.hear(), Some(Message::Have(7)));
        assert_eq!(stream.hear(), None);
    }
}
