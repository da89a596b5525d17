//! A TUN device whose calls move many packets.
//!
//! The kernel passes segments of one TCP connection, or of one UDP socket with UDP_SEGMENT, as one
//! long packet, and takes them so. A call costs as much as dozens of copies, so a device that joins
//! carries several times the rate.

use crate::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

/// The longest IP packet, in bytes.
const LONGEST: usize = 65_535;
/// Most segments of one long packet: of TCP's least segment size, 88 bytes (Linux, `TCP_MIN_MSS`).
const SEGMENTS: usize = LONGEST / 88;
/// The longest segment, in bytes: the devices' MTU is 1500.
const SEGMENT: usize = 2048;

/// A TUN device, and buffers for its calls.
pub struct Device {
    tun: SyncDevice,
    raw: Vec<u8>,
    segments: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    table: GROTable,
    /// Packets to write, each behind the room for a header.
    batch: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Device {
    /// A device in the namespace of the calling thread, down and without an address. With `joins`
    /// it
    /// takes and gives the segments of a flow together.
    ///
    /// # Errors
    /// [`Error::NoTun`], [`Error::System`].
    pub fn open(name: &str, joins: bool) -> Result<Self, Error> {
        if !Path::new("/dev/net/tun").exists() {
            return Err(Error::NoTun);
        }
        let tun = DeviceBuilder::new()
            .name(name)
            .enable(false)
            .offload(joins)
            .build_sync()
            .map_err(Error::of("make a TUN device"))?;
        tun.set_nonblocking(true).map_err(Error::of("prepare a TUN device"))?;
        // The first one also holds a packet that is no segment.
        let lengths =
            std::iter::once(LONGEST).chain([SEGMENT; SEGMENTS]).take(if joins { SEGMENTS } else { 1 });
        let segments: Vec<Vec<u8>> = lengths.map(|length| vec![0; length]).collect();
        Ok(Device {
            tun,
            raw: vec![0; VIRTIO_NET_HDR_LEN + LONGEST],
            sizes: vec![0; segments.len()],
            segments,
            table: GROTable::default(),
            batch: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Its name.
    ///
    /// # Errors
    /// [`Error::System`] when the device is gone.
    pub fn name(&self) -> Result<String, Error> {
        self.tun.name().map_err(Error::of("ask for the name of a TUN device"))
    }

    /// Calls `each` with every packet of one read. False if no packet waits, or the device is
    /// down.
    ///
    /// # Errors
    /// [`Error::System`] when the device is gone.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> Result<bool, Error> {
        let count = match self.tun.recv_multiple(&mut self.raw, &mut self.segments, &mut self.sizes, 0) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            // A device that is down has nothing to read; the next poll asks it again.
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EIO as i32) => return Ok(false),
            Err(error) if error.raw_os_error().is_some() => {
                return Err(Error::of("read from a TUN device")(error));
            }
            // Longer than the MTU, or not IP: lost, as on a wire.
            Err(_) => 0,
        };
        for (segment, &size) in self.segments.iter().zip(&self.sizes).take(count) {
            each(&segment[..size]);
        }
        Ok(true)
    }

    /// Adds a packet to the next [`Device::write`].
    pub fn add(&mut self, packet: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(&[0; VIRTIO_NET_HDR_LEN]);
        buffer.extend_from_slice(packet);
        self.batch.push(buffer);
    }

    /// Writes the packets that were added. False if the device did not take them.
    pub fn write(&mut self) -> bool {
        let taken = self.tun.send_multiple(&mut self.table, &mut self.batch, VIRTIO_NET_HDR_LEN).is_ok();
        self.spare.append(&mut self.batch);
        taken
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name().unwrap_or_default()).finish_non_exhaustive()
    }
}
