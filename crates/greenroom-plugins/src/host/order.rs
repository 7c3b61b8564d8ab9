//! The order of plugins at one hook.
//!
//! In: entries with stage, priority, name and neighbours. Out: the same entries in the order in
//! which they are asked, each with the reason for its place. Stage first, then priority, then the
//! plugin's name in byte order (so `00-redact` comes before `10-trim`), then the place in its
//! manifest; `before` and `after` move an entry no further than needed. An edge across stages or
//! around in a circle is left out and told: one plugin's mistake must not stop the others.

use greenroom_formats::manifest::{HookEntry, Stage};

/// What decides a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub plugin: String,
    /// Which of the plugin's entries.
    pub index: usize,
    pub said: HookEntry,
}

impl Claim {
    fn rank(&self) -> (Stage, u32, &[u8], usize) {
        (self.said.stage, self.said.priority, self.plugin.as_bytes(), self.index)
    }
}

/// A place and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Index into the claims that were sorted.
    pub claim: usize,
    pub why: String,
}

/// Sorts. Answers every claim exactly once, and remarks about wishes that could not be met.
pub(super) fn sort(claims: &[Claim]) -> (Vec<Placed>, Vec<String>) {
    let mut ranked: Vec<usize> = (0..claims.len()).collect();
    ranked.sort_by(|a, b| claims[*a].rank().cmp(&claims[*b].rank()));
    let mut remarks = Vec::new();
    let edges = edges(claims, &ranked, &mut remarks);
    let mut placed: Vec<Placed> = Vec::with_capacity(claims.len());
    let mut left = ranked;
    while !left.is_empty() {
        // The first by rank whose forerunners all have their place: each moves the least distance.
        let free = left
            .iter()
            .position(|at| edges.iter().all(|(first, then)| then != at || !left.contains(first)));
        let at = match free {
            Some(free) => left.remove(free),
            None => unreachable!("edges that close a circle were left out"),
        };
        placed.push(Placed { claim: at, why: why(claims, at, &edges) });
    }
    (placed, remarks)
}

/// `(first, then)`, none of which closes a circle.
fn edges(claims: &[Claim], ranked: &[usize], remarks: &mut Vec<String>) -> Vec<(usize, usize)> {
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for &at in ranked {
        let claim = &claims[at];
        let wishes = claim.said.after.iter().map(|name| (name, true));
        for (name, after) in wishes.chain(claim.said.before.iter().map(|name| (name, false))) {
            for other in (0..claims.len()).filter(|other| claims[*other].plugin == *name) {
                if other == at {
                    continue;
                }
                let edge = if after { (other, at) } else { (at, other) };
                let word = if after { "after" } else { "before" };
                if claims[other].said.stage != claim.said.stage {
                    remarks.push(format!(
                        "{} wants to be {word} {name}, which is in stage {}: stages decide",
                        claim.plugin, claims[other].said.stage
                    ));
                } else if reaches(&edges, edge.1, edge.0) {
                    remarks.push(format!(
                        "{} wants to be {word} {name}, which closes a circle: left out",
                        claim.plugin
                    ));
                } else if !edges.contains(&edge) {
                    edges.push(edge);
                }
            }
        }
    }
    edges
}

fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(&at) = seen.get(next) {
        if at == to {
            return true;
        }
        for (_, then) in edges.iter().filter(|(first, _)| *first == at) {
            if !seen.contains(then) {
                seen.push(*then);
            }
        }
        next += 1;
    }
    false
}

fn why(claims: &[Claim], at: usize, edges: &[(usize, usize)]) -> String {
    let claim = &claims[at];
    let mut why = format!("stage {}, priority {}, name", claim.said.stage, claim.said.priority);
    for (first, then) in edges {
        if *then == at {
            why.push_str(&format!(", after {}", claims[*first].plugin));
        } else if *first == at {
            why.push_str(&format!(", before {}", claims[*then].plugin));
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use greenroom_formats::manifest::Hook;
    use proptest::prelude::*;

    use super::*;

    fn claim(plugin: &str) -> Claim {
        let said = HookEntry::new(Hook::InputSubmit.into());
        Claim { plugin: plugin.to_owned(), index: 0, said }
    }

    fn sorted(claims: &[Claim]) -> Vec<&str> {
        sort(claims).0.iter().map(|placed| claims[placed.claim].plugin.as_str()).collect()
    }

    #[test]
    fn stage_then_priority_then_bytes_of_the_name() {
        let mut late = claim("a");
        late.said.stage = Stage::Observe;
        let mut early = claim("z");
        early.said.priority = 100;
        let mut first = claim("zz");
        first.said.stage = Stage::Redact;
        first.said.priority = 1000;
        let claims = [late, claim("10-trim"), claim("00-redact"), early, first];
        assert_eq!(sorted(&claims), ["zz", "z", "00-redact", "10-trim", "a"]);
    }

    #[test]
    fn neighbours_move_the_least_distance() {
        let mut after = claim("a");
        after.said.after = vec!["c".to_owned(), "not-there".to_owned()];
        let mut before = claim("d");
        before.said.before = vec!["b".to_owned()];
        let claims = [after, claim("b"), claim("c"), before];
        // `a` waits for `c`; `b` waits for `d`.
        assert_eq!(sorted(&claims), ["c", "a", "d", "b"]);
        let (placed, remarks) = sort(&claims);
        assert_eq!(placed[1].why, "stage transform, priority 500, name, after c");
        assert_eq!(remarks, Vec::<String>::new());
    }

    #[test]
    fn a_circle_and_a_wish_across_stages_are_told_and_left_out() {
        let mut a = claim("a");
        a.said.after = vec!["b".to_owned()];
        let mut b = claim("b");
        b.said.after = vec!["a".to_owned(), "c".to_owned()];
        let mut c = claim("c");
        c.said.stage = Stage::Observe;
        let claims = [a, b, c];
        let (placed, remarks) = sort(&claims);
        assert_eq!(placed.len(), 3);
        assert_eq!(sorted(&claims), ["b", "a", "c"]);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
    }

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let stage = prop_oneof![Just(Stage::Redact), Just(Stage::Transform), Just(Stage::Observe)];
        let name = prop_oneof![Just("a"), Just("b"), Just("c"), Just("d"), Just("e")];
        let names = proptest::collection::vec(name.clone().prop_map(str::to_owned), 0..3);
        let one = (name, stage, 499u32..502, names.clone(), names).prop_map(
            |(plugin, stage, priority, before, after)| {
                let said = claim(plugin).said;
                let said = HookEntry { stage, priority, before, after, ..said };
                Claim { said, ..claim(plugin) }
            },
        );
        proptest::collection::vec(one, 0..8).prop_map(|mut claims| {
            for (index, claim) in claims.iter_mut().enumerate() {
                claim.index = index;
            }
            claims
        })
    }

    proptest! {
        #[test]
        fn everybody_once_and_by_stage_and_the_same_for_any_input_order(
            claims in claims(), seed in 0usize..100
        ) {
            let (placed, remarks) = sort(&claims);
            let mut seen: Vec<usize> = placed.iter().map(|placed| placed.claim).collect();
            let stages: Vec<Stage> = seen.iter().map(|at| claims[*at].said.stage).collect();
            prop_assert!(stages.is_sorted());
            let order: Vec<usize> = seen.iter().map(|at| claims[*at].index).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..claims.len()).collect::<Vec<_>>());
            let mut turned = claims.clone();
            if !turned.is_empty() {
                let by = seed % turned.len();
                turned.rotate_left(by);
            }
            let again: Vec<usize> =
                sort(&turned).0.iter().map(|placed| turned[placed.claim].index).collect();
            prop_assert_eq!(&again, &order);
            // Without a remark every wish inside a stage is met.
            if remarks.is_empty() {
                let place = |index: usize| order.iter().position(|at| *at == index).unwrap();
                for claim in &claims {
                    for other in claims.iter().filter(|other| other.index != claim.index) {
                        if claim.said.after.contains(&other.plugin) {
                            prop_assert!(place(other.index) < place(claim.index));
                        }
                        if claim.said.before.contains(&other.plugin) {
                            prop_assert!(place(claim.index) < place(other.index));
                        }
                    }
                }
            }
        }
    }
}
