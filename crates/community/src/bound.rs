//! Bounds of what users can get at an instant, if a scheduler that knows everything gives each
//! user one gateway.
//!
//! User `u` gets at most the rate `c(u, g)` through gateway `g`: the smaller of the rate that the
//! user wants and the rate of the path to the gateway. Let `x(u, g)` be the part of the user's
//! time at `g`, and `S(g)` the spare rate of `g`. The upper bound is the linear program `max sum x
//! c` with `sum over g of x <= 1` for each user, and `sum over u of x c <= S(g)` for each gateway.
//! Whole users, `x` of 0 or 1, can only get less.
//!
//! For any prices `p(g)` from 0 to 1, weak duality bounds the program from above by
//! `sum p(g) S(g) + sum over u of max over g of c (1 - p(g))`. The prices are found by subgradient
//! steps of Polyak's length. A greedy choice, improved by single moves, bounds the best choice of
//! whole users from below.

/// Most subgradient steps. One is enough if the prices of the instant before still fit.
const STEPS: u32 = 150;
/// Rounds of moves that improve the greedy choice.
const ROUNDS: u32 = 10;
/// Largest difference of the bounds at which the search stops, as a part of the upper bound.
const CLOSE: f64 = 0.003;

/// What users can get at an instant, in the unit of the arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// No choice of one gateway for each user gives more.
    pub most: f64,
    /// Some choice of one gateway for each user gives this.
    pub feasible: f64,
}

/// Prices of the gateways. They are kept from one instant to the next.
#[derive(Debug, Clone)]
pub struct Prices(Vec<f64>);

impl Prices {
    /// All prices are 0.
    #[must_use]
    pub fn new(gateways: usize) -> Prices {
        Prices(vec![0.0; gateways])
    }

    /// Both bounds. `spares` has the spare rate of each gateway. `users` has, for each user, each
    /// path as (gateway, highest rate).
    pub fn bound(&mut self, spares: &[f64], users: &[Vec<(u32, f64)>]) -> Bound {
        let Prices(prices) = self;
        let mut found = Bound { most: f64::INFINITY, feasible: feasible(spares, users) };
        let mut best = prices.clone();
        let (mut scale, mut stuck) = (1.0, 0);
        for _ in 0..STEPS {
            let mut asked = vec![0.0; spares.len()];
            let mut dual: f64 = prices.iter().zip(spares).map(|(price, spare)| price * spare).sum();
            for ways in users {
                let (mut value, mut choice) = (0.0, None);
                for &(gateway, most) in ways {
                    let net = most * (1.0 - prices[gateway as usize]);
                    if net > value {
                        (value, choice) = (net, Some((gateway, most)));
                    }
                }
                dual += value;
                if let Some((gateway, most)) = choice {
                    asked[gateway as usize] += most;
                }
            }
            if dual < found.most * (1.0 - 1e-6) {
                (found.most, stuck) = (dual, 0);
                best.clone_from(prices);
            } else {
                stuck += 1;
                if stuck == 10 {
                    (scale, stuck) = (0.5 * scale, 0);
                    prices.clone_from(&best);
                }
            }
            if found.most - found.feasible <= CLOSE * found.most {
                break;
            }
            let square: f64 = asked.iter().zip(spares).map(|(asked, spare)| (spare - asked).powi(2)).sum();
            if square == 0.0 {
                break;
            }
            let length = scale * (dual - found.feasible) / square;
            for (price, (asked, spare)) in prices.iter_mut().zip(asked.iter().zip(spares)) {
                *price = (*price - length * (spare - asked)).clamp(0.0, 1.0);
            }
        }
        *prices = best;
        found
    }
}

/// The sum that a good choice of whole users gives. Users who want most choose first, each where
/// it gets most. Then each user moves if that increases the sum, until nobody moves.
fn feasible(spares: &[f64], users: &[Vec<(u32, f64)>]) -> f64 {
    let most = |ways: &[(u32, f64)]| ways.iter().map(|way| way.1).fold(0.0, f64::max);
    let mut order: Vec<&Vec<(u32, f64)>> = users.iter().filter(|ways| !ways.is_empty()).collect();
    order.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let mut asked = vec![0.0; spares.len()];
    // The rate that one more demand adds to a gateway's throughput.
    let gain = |asked: &[f64], (gateway, most): (u32, f64)| {
        let at = gateway as usize;
        (asked[at] + most).min(spares[at]) - asked[at].min(spares[at])
    };
    let mut chosen: Vec<Option<(u32, f64)>> = vec![None; order.len()];
    for _ in 0..ROUNDS {
        let mut moved = false;
        for (ways, choice) in order.iter().zip(&mut chosen) {
            if let Some((gateway, most)) = *choice {
                asked[gateway as usize] -= most;
            }
            let before = choice.map_or(-1.0, |way| gain(&asked, way));
            let best = ways.iter().copied().max_by(|a, b| gain(&asked, *a).total_cmp(&gain(&asked, *b)));
            if let Some(best) = best.filter(|best| gain(&asked, *best) > before + 1e-6 * best.1) {
                (*choice, moved) = (Some(best), true);
            }
            if let Some((gateway, most)) = *choice {
                asked[gateway as usize] += most;
            }
        }
        if !moved {
            break;
        }
    }
    asked.iter().zip(spares).map(|(asked, spare): (&f64, &f64)| asked.min(*spare)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound(spares: &[f64], users: &[Vec<(u32, f64)>]) -> Bound {
        Prices::new(spares.len()).bound(spares, users)
    }

    /// The best choice of one gateway for each user, by trying all.
    fn best(spares: &[f64], users: &[Vec<(u32, f64)>]) -> f64 {
        let count: usize = users.iter().map(Vec::len).product();
        let value = |mut number: usize| {
            let mut asked = vec![0.0; spares.len()];
            for ways in users {
                let (gateway, most) = ways[number % ways.len()];
                number /= ways.len();
                asked[gateway as usize] += most;
            }
            asked.iter().zip(spares).map(|(asked, spare): (&f64, &f64)| asked.min(*spare)).sum::<f64>()
        };
        (0..count).map(value).fold(0.0, f64::max)
    }

    #[test]
    fn a_user_gives_way_to_one_that_has_no_choice() {
        let users = [vec![(0, 5.0), (1, 5.0)], vec![(0, 5.0)]];
        let found = bound(&[5.0, 5.0], &users);
        assert!((found.most - 10.0).abs() < 0.05 && found.feasible >= 5.0, "{found:?}");
    }

    #[test]
    fn one_user_cannot_fill_two_gateways() {
        let found = bound(&[5.0, 5.0], &[vec![(0, 5.0), (1, 4.0)]]);
        assert!((found.most - 5.0).abs() < 0.02 && found.feasible == 5.0, "{found:?}");
    }

    #[test]
    fn nobody_gets_nothing() {
        assert_eq!(bound(&[5.0], &[]).feasible, 0.0);
        assert!(bound(&[5.0], &[]).most < 1e-9);
        assert!(bound(&[], &[]).most < 1e-9);
        assert!(bound(&[0.0], &[vec![(0, 3.0)]]).most < 0.1);
    }

    proptest! {
        #[test]
        fn the_best_choice_is_between_the_bounds(
            spares in prop::collection::vec(0.0..20.0_f64, 3),
            users in prop::collection::vec(prop::collection::vec((0..3_u32, 0.1..10.0_f64), 1..4), 1..6),
        ) {
            let (found, best) = (bound(&spares, &users), best(&spares, &users));
            prop_assert!(found.feasible <= best + 1e-9, "{found:?} {best}");
            prop_assert!(found.most >= best - 1e-9, "{found:?} {best}");
        }
    }
}
