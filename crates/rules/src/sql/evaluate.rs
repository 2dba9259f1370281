//! Evaluation of a program for a message. Allocates only for concatenated texts and failures.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::arithmetic::{arithmetic, signed};
use super::compare::compare;
use super::like::like;
use super::message::Message;
use super::program::{Position, Program, Step};
use super::tree::ComparisonOperator;
use super::value::{Fault, Value};

/// Stack size sufficient for almost all programs.
const DEPTH_USUAL: usize = 16;
/// Twice the depth of the deepest expression ([`super::DEPTH_MAX`]): LIKE keeps two values while it computes a third.
const DEPTH_MOST: usize = 512;

/// Generates the values of `newid()`.
pub(super) type NewId<'n> = &'n mut dyn FnMut() -> u128;

/// The value of an expression. Deducts the steps of LIKE from those left.
///
/// # Errors
/// A [`Fault`] if it can't be evaluated for this message.
pub(super) fn evaluate<'a>(
    program: &'a Program,
    message: &Message<'a>,
    new_id: NewId<'_>,
    like_steps_left: &mut usize,
) -> Result<Value<'a>, Fault> {
    if program.depth <= DEPTH_USUAL {
        Machine::<DEPTH_USUAL> { stack: SmallVec::new(), like_steps_left }.run(program, message, new_id)
    } else {
        evaluate_deep(program, message, new_id, like_steps_left)
    }
}

/// A separate function, so that only deep expressions need its large stack frame.
#[inline(never)]
fn evaluate_deep<'a>(
    program: &'a Program,
    message: &Message<'a>,
    new_id: NewId<'_>,
    like_steps_left: &mut usize,
) -> Result<Value<'a>, Fault> {
    Machine::<DEPTH_MOST> { stack: SmallVec::new(), like_steps_left }.run(program, message, new_id)
}

/// A value as a condition: `None` is UNKNOWN.
///
/// # Errors
/// A value that is neither a truth value nor UNKNOWN (inferred: in C# it would not compile).
pub(super) fn condition(value: &Value<'_>) -> Result<Option<bool>, Fault> {
    match value {
        Value::Boolean(truth) => Ok(Some(*truth)),
        Value::Unknown => Ok(None),
        other => Err(Fault(format!("A condition must be true or false, and this is {}.", other.kind()))),
    }
}

struct Machine<'a, 's, const DEPTH: usize> {
    stack: SmallVec<[Value<'a>; DEPTH]>,
    like_steps_left: &'s mut usize,
}

impl<'a, const DEPTH: usize> Machine<'a, '_, DEPTH> {
    fn run(
        mut self,
        program: &'a Program,
        message: &Message<'a>,
        new_id: NewId<'_>,
    ) -> Result<Value<'a>, Fault> {
        let mut position = 0;
        while let Some(step) = program.steps.get(position) {
            position += 1;
            match self.step(step, message, new_id)? {
                None => {}
                Some(elsewhere) => position = elsewhere,
            }
        }
        Ok(self.take())
    }

    /// Executes one step; returns the position to jump to, if any.
    fn step(
        &mut self,
        step: &'a Step,
        message: &Message<'a>,
        new_id: NewId<'_>,
    ) -> Result<Option<Position>, Fault> {
        match step {
            Step::CompareProperty { property, operator, constant } => {
                self.put_truth(compare(*operator, &message.property(property), &Value::of(constant)));
            }
            Step::Constant(constant) => self.put(Value::of(constant)),
            Step::Property(named) => self.put(message.property(named)),
            Step::NewId => self.put(Value::Uuid(new_id())),
            Step::PropertyByName => {
                let name = self.take();
                self.put(property_by_name(&name, message)?);
            }
            Step::Signed(sign) => {
                let value = self.take();
                self.put(signed(*sign, value)?);
            }
            Step::Arithmetic(operator) => {
                let (left, right) = self.take_two();
                self.put(arithmetic(*operator, left, right)?);
            }
            Step::Compare(operator) => {
                let (left, right) = self.take_two();
                self.put_truth(compare(*operator, &left, &right));
            }
            Step::IsNull { negated, property } => {
                self.put(Value::Boolean((message.property(property) == Value::Unknown) != *negated));
            }
            Step::Exists(named) => self.put(Value::Boolean(message.has(named))),
            Step::Not => {
                let truth = condition(&self.take())?;
                self.put_truth(truth.map(|truth| !truth));
            }
            Step::Join(junction) => {
                let (left, right) = self.take_two();
                self.put_truth(junction.join(condition(&left)?, condition(&right)?));
            }
            Step::Condition => {
                condition(self.top())?;
            }
            Step::StopIf { truth, end } => {
                let stops = condition(self.top())? == Some(*truth);
                return Ok(stops.then_some(*end));
            }
            Step::NoParameter(name) => return Err(Fault(format!("There is no parameter '@{name}'."))),
            Step::Like { .. } | Step::LikePattern { .. } => {
                let likes = self.like(step)?;
                self.put_truth(likes);
            }
            Step::InConstants { .. } | Step::InStart { .. } | Step::InMember { .. } | Step::InEnd { .. } => {
                return Ok(self.is_in(step));
            }
        }
        Ok(None)
    }

    fn like(&mut self, step: &'a Step) -> Result<Option<bool>, Fault> {
        match step {
            Step::LikePattern { negated, pattern } => Ok(match self.take() {
                Value::Text(text) => Some(pattern.matches_within(&text, self.like_steps_left)? != *negated),
                _ => None,
            }),
            Step::Like { negated, has_escape } => {
                let escape = has_escape.then(|| self.take());
                let (value, pattern) = self.take_two();
                let likes = computed_like(&value, &pattern, escape.as_ref(), self.like_steps_left)?;
                Ok(likes.map(|likes| likes != *negated))
            }
            _ => Ok(None),
        }
    }

    /// Only the tested value can make it UNKNOWN (semantics §13.3); members are tested until one is equal.
    fn is_in(&mut self, step: &'a Step) -> Option<Position> {
        match step {
            Step::InConstants { negated, list } => {
                let answer = match self.take() {
                    Value::Unknown => Value::Unknown,
                    value => {
                        let found = list.iter().any(|member| are_equal(&value, &Value::of(member)));
                        Value::Boolean(found != *negated)
                    }
                };
                self.stack.push(answer);
                None
            }
            Step::InStart { end } => (*self.top() == Value::Unknown).then_some(*end),
            Step::InMember { negated, end } => {
                let member = self.take();
                are_equal(self.top(), &member).then(|| {
                    self.answer(!negated);
                    *end
                })
            }
            Step::InEnd { negated } => {
                self.answer(*negated);
                None
            }
            _ => None,
        }
    }

    /// Replaces the value on top of the stack by a truth value.
    fn answer(&mut self, answer: bool) {
        self.take();
        self.stack.push(Value::Boolean(answer));
    }

    fn put(&mut self, value: Value<'a>) {
        self.stack.push(value);
    }

    fn put_truth(&mut self, truth: Option<bool>) {
        self.stack.push(truth.map_or(Value::Unknown, Value::Boolean));
    }

    /// A compiled program never pops more than it pushed.
    fn take(&mut self) -> Value<'a> {
        debug_assert!(!self.stack.is_empty(), "a program that takes too much");
        self.stack.pop().unwrap_or(Value::Unknown)
    }

    fn take_two(&mut self) -> (Value<'a>, Value<'a>) {
        let right = self.take();
        (self.take(), right)
    }

    fn top(&self) -> &Value<'a> {
        self.stack.last().unwrap_or(&Value::Unknown)
    }
}

fn are_equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    compare(ComparisonOperator::Equal, left, right) == Some(true)
}

fn property_by_name<'a>(name: &Value<'_>, message: &Message<'a>) -> Result<Value<'a>, Fault> {
    match name {
        Value::Unknown => Ok(Value::Unknown),
        Value::Text(name) => message.by_name(name),
        other => {
            Err(Fault(format!("The name of a property must be a string, and this is {}.", other.kind())))
        }
    }
}

/// UNKNOWN if any operand is, or if the value is not a text (inferred: like types that are not comparable).
fn computed_like(
    value: &Value<'_>,
    pattern: &Value<'_>,
    escape: Option<&Value<'_>>,
    steps_left: &mut usize,
) -> Result<Option<bool>, Fault> {
    let is_unknown = |operand: &Value<'_>| *operand == Value::Unknown;
    if is_unknown(value) || is_unknown(pattern) || escape.is_some_and(is_unknown) {
        return Ok(None);
    }
    let pattern = string(pattern, "pattern")?;
    let escape = escape.map(|escape| string(escape, "ESCAPE")).transpose()?;
    match value {
        Value::Text(text) => like(text, pattern, escape, steps_left).map(Some),
        _ => Ok(None),
    }
}

fn string<'v>(value: &'v Value<'_>, role: &str) -> Result<&'v str, Fault> {
    match value {
        Value::Text(Cow::Borrowed(text)) => Ok(text),
        Value::Text(Cow::Owned(text)) => Ok(text),
        other => Err(Fault(format!("The {role} of LIKE must be a string, and this is {}.", other.kind()))),
    }
}
