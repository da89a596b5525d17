//! Means over repetitions, with 95 % confidence intervals.

use serde::Serialize;

/// A mean over runs with different seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of runs that have a value.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the width of the 95 % confidence interval by Student's t; absent for a single run.
    pub ci95: Option<f64>,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Estimate {
    /// The estimate from `values`; `None` without values.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let ci95 = (n > 1).then(|| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            student_t_975(n - 1) * (variance / n as f64).sqrt()
        });
        let (min, max) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
        Some(Estimate { n, mean, ci95, min, max })
    }
}

/// The 0.975 quantile of Student's t with `freedom` degrees of freedom: tabulated for 1 and 2,
/// else by its expansion in 1/n (Abramowitz and Stegun, 26.7.5), whose error is below 0.1 % from n
/// = 3.
fn student_t_975(freedom: usize) -> f64 {
    match freedom {
        0 => f64::INFINITY,
        1 => 12.706_204_736,
        2 => 4.302_652_730,
        _ => {
            let n = freedom as f64;
            let z = 1.959_963_985_f64;
            let (z3, z5, z7, z9) = (z.powi(3), z.powi(5), z.powi(7), z.powi(9));
            z + (z3 + z) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n.powi(2))
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
                + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * z) / (92160.0 * n.powi(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_agrees_with_the_tables() {
        for (freedom, t) in
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (1000, 1.962)]
        {
            assert!((student_t_975(freedom) - t).abs() < 0.003 * t, "{freedom}: {}", student_t_975(freedom));
        }
    }

    #[test]
    fn an_interval_needs_two_runs() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[3.0]).unwrap().ci95, None);
        let e = Estimate::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((e.n, e.mean, e.min, e.max), (4, 2.5, 1.0, 4.0));
        assert!((e.ci95.unwrap() - 2.054).abs() < 0.01);
    }
}
