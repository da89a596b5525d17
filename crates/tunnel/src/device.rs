//! The TUN device. One system call moves many packets. With offloads the device also segments and
//! joins them.

use crate::Error;
use crate::egress::{Egress, Parcel};
use crate::inward::Inward;
use crate::wire::HEADROOM;
use bytes::{Bytes, BytesMut};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tun_rs::{AsyncDevice, DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

/// Longest packet of a device, in bytes.
const LONGEST: usize = 65_535;
/// Longest packet of a tunnel: [`crate::wire::FRAME_LIMIT`] without the byte for the kind of a
/// frame.
const PACKET: usize = crate::wire::FRAME_LIMIT - 1;

/// Packets below this length are copied into buffers of their own length.
const SMALL: usize = 512;

/// A TUN device. It goes when this is dropped, or when the process ends.
pub struct Tun {
    device: AsyncDevice,
    name: String,
    writer: Mutex<Writer>,
}

/// Buffers for reading.
pub struct Reader {
    raw: Vec<u8>,
    packets: Vec<BytesMut>,
    sizes: Vec<usize>,
}

struct Writer {
    table: GROTable,
    /// Empty buffers with room for a joined packet.
    spare: Vec<BytesMut>,
    batch: Vec<BytesMut>,
}

impl Tun {
    /// Opens a device that is down and has no address. `%d` in `name` stands for a free number.
    ///
    /// # Errors
    /// [`Error::NoTun`], [`Error::Rights`], [`Error::System`].
    pub fn open(name: &str) -> Result<Self, Error> {
        if !Path::new("/dev/net/tun").exists() {
            return Err(Error::NoTun);
        }
        let device = DeviceBuilder::new()
            .name(name)
            .enable(false)
            .offload(true)
            .build_async()
            .map_err(Error::of("make a TUN device"))?;
        let name = device.name().map_err(Error::of("ask for the name of a TUN device"))?;
        let writer = Writer { table: GROTable::default(), spare: Vec::new(), batch: Vec::new() };
        Ok(Tun { device, name, writer: Mutex::new(writer) })
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface index of the device.
    ///
    /// # Errors
    /// [`Error::System`] when the device is gone.
    pub fn index(&self) -> Result<u32, Error> {
        self.device.if_index().map_err(Error::of("ask for the number of a TUN device"))
    }

    /// Gives every packet to `egress` until the device is gone.
    pub async fn feed(&self, egress: &Egress) {
        let (mut reader, mut parcels) = (Reader::default(), Vec::new());
        while self.read(&mut reader, &mut parcels).await.is_ok() {
            egress.push(parcels.drain(..));
        }
    }

    /// Waits for packets and appends them to `parcels`.
    ///
    /// # Errors
    /// [`Error::System`] when the device is gone.
    pub async fn read(&self, reader: &mut Reader, parcels: &mut Vec<Parcel>) -> Result<(), Error> {
        let Reader { raw, packets, sizes } = reader;
        let count = match self.device.recv_multiple(raw, packets, sizes, HEADROOM).await {
            Ok(count) => count,
            // EBADFD: the device was deleted.
            Err(error) if error.raw_os_error() == Some(77) => {
                return Err(Error::of("read from a TUN device")(error));
            }
            // The packet is longer than a tunnel takes, or the device is down. The packet is lost.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                return Ok(());
            }
        };
        for (slot, &size) in packets.iter_mut().zip(sizes.iter()).take(count) {
            if size < SMALL {
                // A queue of short packets must not hold buffers for long ones.
                parcels.push(Parcel::copy(slot.get(HEADROOM..HEADROOM + size).unwrap_or_default()));
                continue;
            }
            let mut bytes = std::mem::replace(slot, BytesMut::zeroed(HEADROOM + PACKET));
            bytes.truncate(HEADROOM + size);
            parcels.push(Parcel::new(bytes));
        }
        Ok(())
    }
}

impl Inward for Tun {
    fn deliver(&self, packets: &[Bytes]) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Writer { table, spare, batch } = &mut *writer;
        for packet in packets {
            let mut buffer =
                spare.pop().unwrap_or_else(|| BytesMut::with_capacity(VIRTIO_NET_HDR_LEN + LONGEST));
            buffer.clear();
            buffer.extend_from_slice(&[0; VIRTIO_NET_HDR_LEN]);
            buffer.extend_from_slice(packet);
            batch.push(buffer);
        }
        // A device that is down or full drops the packets, as a wire would.
        let device: &tun_rs::DeviceImpl = &self.device;
        let _ = device.send_multiple(table, batch, VIRTIO_NET_HDR_LEN);
        spare.append(batch);
    }
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            raw: vec![0; VIRTIO_NET_HDR_LEN + LONGEST],
            packets: vec![BytesMut::zeroed(HEADROOM + PACKET); IDEAL_BATCH_SIZE],
            sizes: vec![0; IDEAL_BATCH_SIZE],
        }
    }
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tun").field("name", &self.name).finish_non_exhaustive()
    }
}
