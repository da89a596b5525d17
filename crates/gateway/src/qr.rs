//! QR codes (ISO/IEC 18004), as SVG for paper and pages, and as text for terminals.

use qrcode::{Color, EcLevel, QrCode};
use std::fmt::Write;

/// Light modules around a code (the quiet zone), which readers need.
const QUIET: usize = 4;

/// A square of dark and light modules, including the quiet zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qr {
    side: usize,
    dark: Vec<bool>,
}

impl Qr {
    /// The code of a text. It can be read with up to 15 % damage (level M). `None` if the text is
    /// too long.
    pub fn of(text: &str) -> Option<Qr> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let (width, side) = (code.width(), code.width() + 2 * QUIET);
        let mut dark = vec![false; side * side];
        for (n, color) in code.to_colors().into_iter().enumerate() {
            dark[(n / width + QUIET) * side + n % width + QUIET] = color == Color::Dark;
        }
        Some(Qr { side, dark })
    }

    /// An SVG element without a size of its own.
    pub fn svg(&self) -> String {
        let side = self.side;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
             shape-rendering=\"crispEdges\" aria-hidden=\"true\">\
             <path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/><path fill=\"#000\" d=\""
        );
        for (y, row) in self.dark.chunks(side).enumerate() {
            let mut x = 0;
            while x < side {
                let run = row[x..].iter().take_while(|dark| **dark).count();
                if run > 0 {
                    let _ = write!(text, "M{x} {y}h{run}v1h-{run}z");
                }
                x += run.max(1);
            }
        }
        text + "\"/></svg>"
    }

    /// Text for a terminal, two rows of modules in each line. Black on white, whatever the
    /// terminal's colours are.
    pub fn terminal(&self) -> String {
        let mut text = String::new();
        let dark = |x: usize, y: usize| self.dark.get(y * self.side + x).copied().unwrap_or(false);
        for y in (0..self.side).step_by(2) {
            text += "\x1b[38;5;16;48;5;231m";
            text.extend((0..self.side).map(|x| match (dark(x, y), dark(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            }));
            text += "\x1b[0m\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "http://10.20.0.1:3128/c/AC3DEFHJKMPRTWXY";

    /// What another program (rqrr) reads in a picture with eight pixels for a module.
    fn read(side: usize, dark: impl Fn(usize, usize) -> bool) -> String {
        let pixel = |x: usize, y: usize| if dark(x / 8, y / 8) { 0 } else { 255 };
        let mut picture = rqrr::PreparedImage::prepare_from_greyscale(8 * side, 8 * side, pixel);
        let grids = picture.detect_grids();
        assert_eq!(grids.len(), 1);
        grids[0].decode().unwrap().1
    }

    #[test]
    fn another_program_reads_the_link() {
        let qr = Qr::of(LINK).unwrap();
        assert_eq!(read(qr.side, |x, y| qr.dark[y * qr.side + x]), LINK);
        assert_eq!(Qr::of(&"x".repeat(3000)), None);
    }

    #[test]
    fn another_program_reads_the_link_in_the_svg() {
        let qr = Qr::of(LINK).unwrap();
        let svg = qr.svg();
        let path = svg.rsplit_once(" d=\"").unwrap().1.split('"').next().unwrap();
        let mut dark = vec![false; qr.side * qr.side];
        for run in path.split('M').skip(1) {
            let numbers: Vec<usize> =
                run.split([' ', 'h', 'v']).take(3).map(|number| number.parse().unwrap()).collect();
            let [x, y, length] = numbers[..] else { panic!("{run}") };
            dark[y * qr.side + x..][..length].fill(true);
        }
        assert_eq!(read(qr.side, |x, y| dark[y * qr.side + x]), LINK);
    }

    #[test]
    fn another_program_reads_the_link_in_the_terminal() {
        let qr = Qr::of(LINK).unwrap();
        let text = qr.terminal().replace("\x1b[38;5;16;48;5;231m", "").replace("\x1b[0m", "");
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        assert!(lines.iter().all(|line| line.len() == qr.side));
        let dark = |x: usize, y: usize| {
            let both = lines[y / 2][x];
            both == '█' || both == if y.is_multiple_of(2) { '▀' } else { '▄' }
        };
        assert_eq!(read(qr.side, dark), LINK);
    }
}
