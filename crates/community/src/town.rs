//! Places of gateways and users, and the paths between them.

use crate::config::Community;
use crate::draw::{Draw, Part};

/// Side of the square with 50 gateways, in metres. The density is the same for any number.
const SIDE_M: f64 = 5_000.0;
/// Length of a hop of the mesh, in metres.
const HOP_M: f64 = 700.0;
/// Round trip without hops, and of each hop, in seconds.
const RTT_S: (f64, f64) = (0.004, 0.006);
/// Rates of lines in bit/s, each with the part of homes that have it.
const LINES: [(f64, f64); 5] = [(10e6, 0.2), (20e6, 0.25), (50e6, 0.3), (100e6, 0.15), (300e6, 0.1)];

/// The path from a user to a gateway that it knows.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    pub gateway: u32,
    pub rtt_s: f64,
    pub rate_bps: f64,
}

/// The places of a run.
#[derive(Debug)]
pub struct Town {
    /// Rate of each gateway's line, in bit/s.
    pub lines_bps: Vec<f64>,
    /// Each user's paths, the nearest gateway first.
    pub paths: Vec<Vec<Path>>,
}

pub fn build(community: &Community, seed: u64) -> Town {
    let mut draw = Draw::new(seed, Part::Town, 0);
    let side = SIDE_M * (f64::from(community.gateways) / 50.0).sqrt();
    let place = |draw: &mut Draw| (side * draw.unit(), side * draw.unit());
    let gateways: Vec<(f64, f64)> = (0..community.gateways).map(|_| place(&mut draw)).collect();
    let lines_bps = (0..gateways.len()).map(|index| line(index, gateways.len())).collect();
    let paths = (0..community.users)
        .map(|_| {
            let user = place(&mut draw);
            let path = |(index, gateway): (usize, &(f64, f64))| {
                let hops = ((user.0 - gateway.0).hypot(user.1 - gateway.1) / HOP_M).ceil().max(1.0);
                let (rtt_s, rate_bps) = (RTT_S.0 + RTT_S.1 * hops, community.hop_bps / hops);
                let distance = (user.0 - gateway.0).hypot(user.1 - gateway.1);
                (distance, Path { gateway: index as u32, rtt_s, rate_bps })
            };
            let mut found: Vec<(f64, Path)> = gateways.iter().enumerate().map(path).collect();
            found.sort_by(|a, b| a.0.total_cmp(&b.0));
            found.into_iter().take(community.known as usize).map(|(_, path)| path).collect()
        })
        .collect();
    Town { lines_bps, paths }
}

/// The rate of line `index`. All towns of a size have the same number of lines of each rate, so
/// they differ in places only.
fn line(index: usize, count: usize) -> f64 {
    let mut point = (index as f64 + 0.5) / count as f64;
    for (rate, part) in LINES {
        point -= part;
        if point < 0.0 {
            return rate;
        }
    }
    LINES[LINES.len() - 1].0
}
