//! What was probably meant.

/// The known word nearest to a wrong one, if it is near enough to be meant.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// As in the host's own configuration.
    const SIMILAR: f64 = 0.7;
    /// Two letters that changed places are one slip, which the other measure takes for two in short
    /// words.
    const SLIP: f64 = 0.9;
    let similarity = |known: &str| {
        let slip = known.len() > 2 && strsim::damerau_levenshtein(wrong, known) <= 1;
        strsim::jaro_winkler(wrong, known).max(if slip { SLIP } else { 0.0 })
    };
    known
        .into_iter()
        .map(|known| (similarity(known), known))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
