use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// RFC 5681.
pub struct NewReno(pub Window);

impl Oracle for NewReno {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        if self.0.marked(ack, path) {
            self.0.back_off(0.5, ack.now_us);
        } else if grows(ack) {
            self.0.reno(ack.acked_bytes as f64);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        self.0.lose(0.5, loss);
    }

    fn window(&self) -> f64 {
        self.0.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.0.ssthresh
    }
}
