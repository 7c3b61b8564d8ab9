//! Who gets which answer, without a program.

use proptest::prelude::*;
use serde_json::json;

use super::state::Heard;
use super::*;

fn shared() -> Shared {
    Shared::default()
}

fn object(value: Value) -> Result<Map<String, Value>, CallFailure> {
    Ok(value.as_object().unwrap().clone())
}

fn junk() -> Result<Map<String, Value>, CallFailure> {
    Err(CallFailure::Malformed { why: "x".into() })
}

#[test]
fn answers_find_their_question_by_id_in_any_order() {
    let shared = shared();
    let (first, mut one) = shared.ask().unwrap();
    let (second, mut two) = shared.ask().unwrap();
    let by_number = json!({"id": second.id, "action": "drop"});
    assert_eq!(shared.hear(object(by_number)), Heard::Answer);
    assert_eq!(two.try_recv().unwrap().unwrap().answer["action"], "drop");
    assert!(one.try_recv().is_err());
    let by_text = json!({"id": first.id.to_string()});
    assert_eq!(shared.hear(object(by_text.clone())), Heard::Answer);
    assert_eq!(shared.hear(object(by_text)), Heard::Junk, "twice");
    assert_eq!(shared.hear(object(json!({"id": 99}))), Heard::Junk);
    assert_eq!(shared.hear(object(json!({"hello": {}}))), Heard::Junk);
    assert_eq!(shared.hear(object(json!({"id": {}}))), Heard::Junk);
}

#[test]
fn without_ids_they_are_answered_by_age_and_late_ones_do_not_shift_that() {
    let shared = shared();
    let (given_up, answer) = shared.ask().unwrap();
    drop((given_up, answer));
    let (_question, mut answer) = shared.ask().unwrap();
    assert_eq!(shared.hear(object(json!({"action": "block"}))), Heard::Late);
    assert!(answer.try_recv().is_err());
    assert_eq!(shared.hear(object(json!({"action": "pass"}))), Heard::Answer);
    assert_eq!(answer.try_recv().unwrap().unwrap().answer["action"], "pass");
    assert_eq!(shared.hear(object(json!({}))), Heard::Junk, "nobody asked");
}

#[test]
fn the_end_is_told_to_everybody_and_to_whoever_comes_later() {
    let shared = shared();
    let (_question, mut answer) = shared.ask().unwrap();
    shared.fail(CallFailure::Junk { limit: 1 });
    shared.fail(CallFailure::Stopped);
    let first = CallFailure::Junk { limit: 1 };
    assert_eq!(answer.try_recv().unwrap(), Err(first.clone()));
    assert_eq!(shared.ask().err(), Some(first.clone()));
    assert_eq!(shared.failure(), Some(first));
}

#[test]
fn some_junk_is_tolerated() {
    let shared = shared();
    for _ in 0..JUNK_PER_MINUTE {
        assert_eq!(shared.hear(junk()), Heard::Junk);
    }
    assert_eq!(shared.hear(junk()), Heard::TooMuchJunk);
}

#[test]
fn a_request_is_one_line_with_its_id_first() {
    let request = object(json!({"hook": "output.filter", "id": "mine", "items": 1})).unwrap();
    let line = compose(&request, 7, Some(&["a\n\"b", ""])).unwrap();
    let text = String::from_utf8(line).unwrap();
    assert!(text.starts_with("{\"id\":\"7\",") && text.ends_with("}\n"), "{text}");
    assert_eq!(text.matches('\n').count(), 1);
    let read: Value = serde_json::from_str(&text).unwrap();
    let items = json!([{"n": 0, "line": "a\n\"b"}, {"n": 1, "line": ""}]);
    assert_eq!(read, json!({"id": "7", "hook": "output.filter", "items": items}));
}

proptest! {
    /// Any mixture of answers: each question gets at most one, and its own.
    #[test]
    fn nobody_gets_somebody_elses(order in Just((1..=20_u64).collect::<Vec<_>>()).prop_shuffle()) {
        let shared = shared();
        let mut asked: Vec<_> = (0..20).map(|_| shared.ask().unwrap()).collect();
        for id in order {
            let heard = shared.hear(object(json!({"id": id, "line": id.to_string()})));
            prop_assert_eq!(heard, Heard::Answer);
        }
        for (question, answer) in &mut asked {
            let reply = answer.try_recv().unwrap().unwrap();
            prop_assert_eq!(&reply.answer["line"], &json!(question.id.to_string()));
        }
    }
}
