//! Filters: replace, drop, mask; prefilters; one that is dead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_engine::egress::{Edit, LineFilter, Sink};
use greenroom_formats::manifest::{HookEntry, OnFailure, Stage as Place};
use greenroom_plugin_api::file::{Hold, SinkName, Then};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fakes::{Stage, Take, hook, lines};
use crate::host::{HostConfig, SessionFacts};

const ONE: SessionId = SessionId(1);

fn facts() -> SessionFacts {
    SessionFacts { id: ONE, labels: Default::default() }
}

fn filter(stage: &Stage) -> Arc<dyn LineFilter> {
    stage.host().filter_for(&facts(), None).unwrap().expect("somebody filters")
}

/// Replaces `from` by `to` in lines and batches; drops lines with `DROP`.
fn replacing(from: &'static str, to: &'static str) -> impl Fn(&Value) -> Take + Send + Sync {
    move |request| {
        if let Some(line) = request["line"].as_str() {
            return Take::Say(match line {
                line if line.contains("DROP") => json!({ "action": "drop" }),
                line if line.contains(from) => {
                    json!({ "action": "replace", "line": line.replace(from, to) })
                }
                _ => json!({ "action": "pass" }),
            });
        }
        let items = request["items"].as_array().cloned().unwrap_or_default();
        let edits: Vec<Value> = items
            .iter()
            .enumerate()
            .filter_map(|(at, line)| match line.as_str().unwrap_or_default() {
                line if line.contains("DROP") => Some(json!([at, null])),
                line if line.contains(from) => Some(json!([at, line.replace(from, to)])),
                _ => None,
            })
            .collect();
        Take::Say(if edits.is_empty() { json!({}) } else { json!({ "edits": edits }) })
    }
}

fn redact() -> HookEntry {
    let mut entry = hook("output.filter");
    entry.stage = Place::Redact;
    entry.timeout_ms = Some(30);
    entry
}

#[tokio::test]
async fn replacements_chain_and_a_drop_ends_it() {
    for single in [false, true] {
        let stage = Stage { single, ..Stage::new() };
        stage.cast("10-second", vec![hook("output.filter")], replacing("b", "c"));
        stage.cast("00-first", vec![hook("output.filter")], replacing("a", "b"));
        let filter = filter(&stage);
        let input = lines(&["x", "a1", "DROP a", "b", "b a", ""]);
        let verdicts = filter.filter(ONE, &input).await;
        let replaced = |text: &str| Edit::Replace(text.to_owned());
        let expected =
            [Edit::Pass, replaced("c1"), Edit::Drop, replaced("c"), replaced("c c"), Edit::Pass];
        assert_eq!(verdicts, expected, "single: {single}");
        let dropped = stage
            .asked()
            .iter()
            .filter(|(name, request)| name == "10-second" && request.to_string().contains("DROP"))
            .count();
        assert_eq!(dropped, 0);
    }
}

#[tokio::test]
async fn only_what_the_prefilter_finds_leaves() {
    let stage = Stage::new();
    let mut entry = redact();
    entry.when.regex = Some("sk-|ghp_".to_owned());
    stage.cast("a", vec![entry], |_| Take::Silence);
    let filter = filter(&stage);
    let verdicts = filter.filter(ONE, &lines(&["clean", "has sk-1", "also clean"])).await;
    assert_eq!(verdicts, [Edit::Pass, Edit::Mask, Edit::Pass]);
    assert_eq!(stage.asked().len(), 1);
    assert_eq!(stage.asked()[0].1["items"], json!(["has sk-1"]));
}

#[tokio::test]
async fn a_failure_is_masked_passed_or_dropped() {
    let wrong = [
        json!({ "action": "replace", "line": "x" }),
        json!({ "action": "bogus" }),
        json!({ "edits": [[7, "x"]] }),
        json!({ "error": "no" }),
    ];
    for answer in wrong {
        let policies = [
            (None, Edit::Mask),
            (Some(OnFailure::Pass), Edit::Pass),
            (Some(OnFailure::Drop), Edit::Drop),
        ];
        for (policy, expected) in policies {
            let stage = Stage::new();
            let mut entry = redact();
            entry.on_failure = policy;
            stage.says("a", vec![entry], answer.clone());
            let verdicts = filter(&stage).filter(ONE, &lines(&["x"])).await;
            assert_eq!(verdicts, [expected], "{answer} {policy:?}");
        }
    }
    // Outside of stage redact, and under datawatch's name, unsaid means pass.
    for name in ["output.filter", "post_session_output"] {
        let stage = Stage { single: true, ..Stage::new() };
        stage.cast("a", vec![hook(name)], |_| Take::Fail);
        assert_eq!(filter(&stage).filter(ONE, &lines(&["x"])).await, [Edit::Pass]);
    }
}

#[tokio::test]
async fn a_masked_line_is_not_unmasked_by_the_next() {
    let stage = Stage::new();
    stage.cast("00-guard", vec![redact()], |_| Take::Fail);
    stage.cast("10-nice", vec![hook("output.filter")], replacing("x", "y"));
    assert_eq!(filter(&stage).filter(ONE, &lines(&["x"])).await, [Edit::Mask]);
    assert_eq!(stage.asked_names(), ["00-guard"]);
}

#[tokio::test]
async fn held_lines_wait_for_an_answer_then_are_masked() {
    let hold = |max_ms, then| {
        let mut entry = redact();
        entry.on_failure = Some(OnFailure::Hold);
        entry.hold = Some(Hold { max_ms, then, ..Hold::default() });
        entry
    };
    let stage = Stage::new();
    let tries = std::sync::atomic::AtomicUsize::new(0);
    stage.cast("a", vec![hold(5_000, Then::Mask)], move |_| {
        match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Take::Fail,
            _ => Take::Say(json!({})),
        }
    });
    assert_eq!(filter(&stage).filter(ONE, &lines(&["x"])).await, [Edit::Pass]);
    let stage = Stage::new();
    stage.cast("a", vec![hold(150, Then::Drop)], |_| Take::Fail);
    assert_eq!(filter(&stage).filter(ONE, &lines(&["x"])).await, [Edit::Drop]);
}

#[tokio::test]
async fn a_sealed_session_shows_nothing_more() {
    let stage = Stage::new();
    let mut entry = redact();
    entry.on_failure = Some(OnFailure::Seal);
    let tries = std::sync::atomic::AtomicUsize::new(0);
    stage.cast("a", vec![entry], move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Take::Fail,
        _ => Take::Say(json!({})),
    });
    let filter = filter(&stage);
    assert_eq!(filter.filter(ONE, &lines(&["x"])).await, [Edit::Mask]);
    assert_eq!(filter.filter(ONE, &lines(&["y", "z"])).await, [Edit::Mask, Edit::Mask]);
    assert_eq!(stage.asked().len(), 1);
}

/// Ten thousand lines past a filter that never answers, four batches at a time as the engine asks.
#[tokio::test]
async fn a_dead_filter_costs_few_time_outs() {
    for single in [false, true] {
        let stage = Stage { single, ..Stage::new() };
        stage.cast("a", vec![redact()], |_| Take::Silence);
        let filter = filter(&stage);
        let input = lines(&vec!["line of output"; 256]);
        let began = Instant::now();
        let mut masked = 0;
        for _ in 0..10 {
            let batches = tokio::join!(
                filter.filter(ONE, &input),
                filter.filter(ONE, &input),
                filter.filter(ONE, &input),
                filter.filter(ONE, &input)
            );
            for verdicts in [batches.0, batches.1, batches.2, batches.3] {
                masked += verdicts.iter().filter(|one| **one == Edit::Mask).count();
            }
        }
        assert_eq!(masked, 10_240);
        let silences = stage.silences.load(Ordering::Relaxed);
        assert!(silences <= 5, "single: {single}: {silences} time-outs");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn the_local_stream_is_governed_only_on_request() {
    let stage = Stage::new();
    stage.says("a", vec![hook("output.filter")], json!({}));
    let by_default = filter(&stage);
    for sink in Sink::ALL {
        assert_eq!(by_default.governs(sink), sink != Sink::AttachLocal, "{sink:?}");
    }
    let stage = Stage::new();
    let mut entry = hook("output.filter");
    entry.when.sinks = vec![SinkName::Recording];
    stage.says("a", vec![entry], json!({}));
    let narrow = filter(&stage);
    assert!(narrow.governs(Sink::Recording) && !narrow.governs(Sink::Stream));
    let stage = Stage::new();
    let mut entry = hook("output.filter");
    entry.when.sinks = vec![SinkName::All];
    stage.says("a", vec![entry], json!({}));
    assert!(filter(&stage).governs(Sink::AttachLocal));
}

#[tokio::test]
async fn nobody_filters_where_nobody_wants_to() {
    let stage = Stage::new();
    let mut entry = hook("output.filter");
    entry.when.labels = [("secret".to_owned(), "*".to_owned())].into();
    stage.says("a", vec![entry], json!({}));
    let host = stage.host();
    assert!(host.filter_for(&facts(), None).unwrap().is_none());
    let labels = [("secret".to_owned(), "yes".to_owned())].into();
    assert!(host.filter_for(&SessionFacts { id: ONE, labels }, None).unwrap().is_some());
    host.disable("a").await.unwrap();
    let labels = [("secret".to_owned(), "yes".to_owned())].into();
    assert!(host.filter_for(&SessionFacts { id: ONE, labels }, None).unwrap().is_none());
}

/// However it comes that a filter is not there: its policy holds for what it would have seen, and
/// it is said.
#[tokio::test]
async fn a_filter_that_was_noted_is_missed() {
    use crate::host::Standing;
    let stage = Stage::new();
    let entry = |policy: OnFailure, regex: Option<&str>| {
        let mut entry = redact();
        entry.on_failure = Some(policy);
        entry.when.regex = regex.map(str::to_owned);
        entry.when.labels = [("team".to_owned(), "red".to_owned())].into();
        entry
    };
    stage.says("masks", vec![entry(OnFailure::Mask, Some("key"))], json!({}));
    stage.says("passes", vec![entry(OnFailure::Pass, None)], json!({}));
    let labels = [("team".to_owned(), "red".to_owned())].into();
    let before = stage.host().filter_for(&SessionFacts { id: ONE, labels }, None).unwrap().unwrap();
    assert_eq!(before.absent(), None);
    let note = before.note().unwrap();
    let all = stage.found.lock().unwrap().clone();
    let texts = lines(&["a key", "free"]);
    let off = HostConfig::default();
    let on = || HostConfig { enabled: true, ..HostConfig::default() };
    let standing = |standing: Standing| {
        let mut found = all.clone();
        found[0].standing = standing;
        found
    };
    let cases = [
        ("turned off", all.clone(), off),
        ("no such plugin", Vec::new(), on()),
        ("nobody has agreed", standing(Standing::NeedsConsent), on()),
        ("not those that were agreed to", standing(Standing::Modified), on()),
        ("line 3", standing(Standing::Invalid(vec!["line 3".to_owned()])), on()),
    ];
    for (why, found, config) in cases {
        *stage.found.lock().unwrap() = found;
        let host = stage.host_with(config);
        // Its labels are lost, too.
        let chain = host.filter_for(&facts(), Some(&note)).unwrap().unwrap();
        assert!(chain.governs(Sink::Transcript), "{why}");
        let verdicts = chain.filter(ONE, &texts).await;
        assert_eq!(verdicts, [Edit::Mask, Edit::Pass], "{why}");
        let said = chain.absent().unwrap_or_default();
        assert!(said.contains("plugin masks") && said.contains(why), "{why}: {said}");
        // Who is missed now is missed by the next one, too.
        let again = chain.note().unwrap();
        assert!(host.filter_for(&facts(), Some(&again)).unwrap().unwrap().absent().is_some());
    }
    *stage.found.lock().unwrap() = all;
    let host = stage.host();
    let chain = host.filter_for(&facts(), Some(&note)).unwrap().unwrap();
    assert_eq!(chain.filter(ONE, &texts).await, [Edit::Pass, Edit::Pass], "it is back");
    assert_eq!(chain.absent(), None);
    // The operator's word, not an accident.
    host.disable("masks").await.unwrap();
    assert_eq!(chain.filter(ONE, &texts).await, [Edit::Pass, Edit::Pass]);
    assert_eq!(chain.absent(), None);
    // Gone while the host runs.
    host.enable("masks").await.unwrap();
    stage.found.lock().unwrap().clear();
    host.reload(None).await.unwrap();
    assert_eq!(chain.filter(ONE, &texts).await, [Edit::Mask, Edit::Pass]);
    assert!(host.filter_for(&facts(), Some(b"{")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Batches of any size and lines one by one come to the same.
    #[test]
    fn the_result_does_not_depend_on_batches(
        texts in proptest::collection::vec("[abxDROP ]{0,8}", 0..40),
        max_items in 1u32..8, max_bytes in 1u32..64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let run = |single: bool, batch: bool| {
            runtime.block_on(async {
                let stage = Stage { single, ..Stage::new() };
                let mut entry = hook("output.filter");
                if batch {
                    let batch = greenroom_plugin_api::file::Batch {
                        max_items, max_bytes, ..Default::default()
                    };
                    entry.batch = Some(batch);
                }
                stage.cast("a", vec![entry], replacing("a", "b"));
                filter(&stage).filter(ONE, &lines(&texts)).await
            })
        };
        let whole = run(false, false);
        prop_assert_eq!(whole.len(), texts.len());
        prop_assert_eq!(&run(false, true), &whole);
        prop_assert_eq!(&run(true, false), &whole);
    }
}

/// Five that never answer cost a line no more than all filters get together.
#[tokio::test]
async fn filters_share_their_time() {
    for single in [false, true] {
        let stage = Stage { single, ..Stage::new() };
        let mut entry = redact();
        (entry.timeout_ms, entry.on_failure) = (Some(200), Some(OnFailure::Pass));
        for name in ["a", "b", "c", "d"] {
            stage.cast(name, vec![entry.clone()], |_| Take::Silence);
        }
        // The last one has no time left, and hides what it was not asked about.
        entry.on_failure = None;
        stage.cast("e", vec![entry.clone()], |_| Take::Silence);
        let filter = filter(&stage);
        let began = Instant::now();
        let verdicts = filter.filter(ONE, &lines(&["x"])).await;
        let took = began.elapsed();
        assert_eq!(verdicts, [Edit::Mask], "single: {single}");
        assert!(took >= Duration::from_millis(400), "{took:?}");
        let asked: Vec<String> = stage.asked().into_iter().map(|(name, _)| name).collect();
        assert_eq!(asked, ["a", "b", "c"], "single: {single}");
        let third = stage.asked()[2].1["deadline_ms"].as_u64().unwrap();
        assert!(third <= 100, "{third}");
    }
}
