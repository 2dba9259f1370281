//! Compiles a tree to a program. Constant parts are computed here; constant parts that fail are kept, so that they fail
//! on evaluation.

use super::evaluate::evaluate;
use super::like::Pattern;
use super::message::{Message, system_name};
use super::parameters;
use super::program::{Junction, Named, Program, Step};
use super::tree::{Constant, Expression, Property, SystemProperty};
use crate::names::Name;
use crate::{Arrival, PropertyValue, RuleProperties};

/// Compiles an expression. Recursive per level of the tree, which the parser bounds.
pub(super) fn compile(expression: &Expression, parameters: &[(Box<str>, PropertyValue)]) -> Program {
    let mut compiler = Compiler { steps: Vec::new(), parameters };
    compiler.expression(expression);
    Program { depth: depth(&compiler.steps), steps: compiler.steps.into() }
}

pub(super) fn named(property: &Property) -> Named {
    match property {
        Property::User(name) => Named::User(Name::new(name)),
        Property::System(property) => Named::System(*property),
    }
}

struct Compiler<'p> {
    steps: Vec<Step>,
    parameters: &'p [(Box<str>, PropertyValue)],
}

impl Compiler<'_> {
    fn expression(&mut self, expression: &Expression) {
        let start = self.steps.len();
        match expression {
            Expression::Constant(value) => self.steps.push(Step::Constant(constant(value))),
            Expression::Property(property) => self.steps.push(Step::Property(named(property))),
            Expression::Parameter(name) => self.steps.push(match parameters::value(self.parameters, name) {
                Some(value) => Step::Constant(value.clone()),
                None => Step::NoParameter(name.clone()),
            }),
            Expression::NewId => self.steps.push(Step::NewId),
            Expression::PropertyByName(name) => self.by_name(name),
            Expression::Signed(sign, value) => self.operation(start, &[value], Step::Signed(*sign)),
            Expression::Arithmetic(operator, left, right) => {
                self.operation(start, &[left, right], Step::Arithmetic(*operator));
            }
            Expression::Comparison(operator, left, right) => {
                self.operation(start, &[left, right], Step::Compare(*operator));
                self.join_comparison(start);
            }
            Expression::Like { negated, value, pattern, escape } => {
                self.like(*negated, value, pattern, escape.as_deref());
            }
            Expression::In { negated, value, list } => self.is_in(*negated, value, list),
            Expression::IsNull { negated, property } => {
                self.steps.push(Step::IsNull { negated: *negated, property: named(property) });
            }
            Expression::Exists(property) => self.steps.push(Step::Exists(named(property))),
            Expression::Not(value) => self.operation(start, &[value], Step::Not),
            Expression::And(terms) => self.junction(Junction::And, terms),
            Expression::Or(terms) => self.junction(Junction::Or, terms),
        }
    }

    /// Compiles operands and an operation on them; evaluates it at once if all of them are constant.
    fn operation(&mut self, start: usize, operands: &[&Expression], step: Step) {
        for operand in operands {
            self.expression(operand);
        }
        self.steps.push(step);
        self.fold(start);
    }

    /// A property with a computed name, unless the name is constant.
    fn by_name(&mut self, name: &Expression) {
        let start = self.steps.len();
        self.expression(name);
        let known = match self.known_value(start) {
            Some(PropertyValue::Text(name)) => property_by_name(&name),
            _ => None,
        };
        match known {
            Some(property) => {
                self.steps.truncate(start);
                self.steps.push(Step::Property(property));
            }
            None => self.steps.push(Step::PropertyByName),
        }
    }

    /// Replaces constants and the step that uses them by their result, if there is one.
    fn fold(&mut self, start: usize) {
        let Some((_, operands)) = self.steps.get(start..).and_then(<[Step]>::split_last) else { return };
        if !operands.iter().all(|step| matches!(step, Step::Constant(_))) {
            return;
        }
        let steps: Box<[Step]> = self.steps.drain(start..).collect();
        let program = Program { depth: depth(&steps), steps };
        let nothing = RuleProperties::default();
        let message = Message { rule_properties: &nothing, arrival: Arrival::default(), changes: None };
        let mut steps_left = super::like::STEPS_MAX;
        let value = evaluate(&program, &message, &mut || 0, &mut steps_left)
            .map(|value| Step::Constant(value.into_fact()));
        match value {
            Ok(constant) => self.steps.push(constant),
            Err(_) => self.steps.extend(program.steps.into_vec()),
        }
    }

    /// Joins the comparison of a property with a constant into one step.
    fn join_comparison(&mut self, start: usize) {
        let Some([Step::Property(_), Step::Constant(_), Step::Compare(_)]) = self.steps.get(start..) else {
            return;
        };
        let (Some(Step::Compare(operator)), Some(Step::Constant(constant)), Some(Step::Property(property))) =
            (self.steps.pop(), self.steps.pop(), self.steps.pop())
        else {
            return;
        };
        self.steps.push(Step::CompareProperty { property, operator, constant });
    }

    fn like(&mut self, negated: bool, value: &Expression, pattern: &Expression, escape: Option<&Expression>) {
        let start = self.steps.len();
        self.expression(value);
        let pattern_start = self.steps.len();
        self.expression(pattern);
        if let Some(escape) = escape {
            self.expression(escape);
        }
        let step = match prepared(self.steps.get(pattern_start..).unwrap_or_default()) {
            Some(pattern) => {
                self.steps.truncate(pattern_start);
                Step::LikePattern { negated, pattern }
            }
            None => Step::Like { negated, has_escape: escape.is_some() },
        };
        self.steps.push(step);
        self.fold(start);
    }

    fn is_in(&mut self, negated: bool, value: &Expression, list: &[Expression]) {
        let start = self.steps.len();
        self.expression(value);
        let list_start = self.steps.len();
        let mut constants = Vec::new();
        self.steps.push(Step::InStart { end: 0 });
        for member in list {
            let member_start = self.steps.len();
            self.expression(member);
            constants.extend(self.known_value(member_start));
            self.steps.push(Step::InMember { negated, end: 0 });
        }
        self.steps.push(Step::InEnd { negated });
        if constants.len() == list.len() {
            self.steps.truncate(list_start);
            self.steps.push(Step::InConstants { negated, list: constants.into() });
            self.fold(start);
        } else {
            self.lead_to_end(list_start);
        }
    }

    /// Evaluates terms from left to right until one decides. Constant terms that don't decide are omitted, and so are
    /// the terms after a constant that decides, which would never be evaluated.
    fn junction(&mut self, junction: Junction, terms: &[Expression]) {
        let start = self.steps.len();
        let mut first_term_end = None;
        for term in terms {
            let before = self.steps.len();
            if first_term_end.is_some() {
                self.steps.push(Step::StopIf { truth: junction.decisive(), end: 0 });
            }
            let term_start = self.steps.len();
            self.expression(term);
            let known = self.known_truth(term_start);
            if known == Some(!junction.decisive()) {
                self.steps.truncate(before);
                continue;
            }
            if first_term_end.is_some() {
                self.steps.push(Step::Join(junction));
            } else {
                first_term_end = Some(self.steps.len());
            }
            if known == Some(junction.decisive()) {
                break;
            }
        }
        match first_term_end {
            None => self.steps.push(Step::Constant(PropertyValue::Boolean(!junction.decisive()))),
            Some(end) if end == self.steps.len() => self.steps.push(Step::Condition),
            Some(_) => self.lead_to_end(start),
        }
        self.fold(start);
    }

    /// The constant result of an expression's steps, if known.
    fn known_value(&self, start: usize) -> Option<PropertyValue> {
        match self.steps.get(start..) {
            Some([Step::Constant(value)]) => Some(value.clone()),
            _ => None,
        }
    }

    fn known_truth(&self, start: usize) -> Option<bool> {
        match self.known_value(start) {
            Some(PropertyValue::Boolean(truth)) => Some(truth),
            _ => None,
        }
    }

    /// Sets the jump targets of one operator's steps; those of nested operators are already set.
    fn lead_to_end(&mut self, start: usize) {
        let here = self.steps.len();
        for step in self.steps.iter_mut().skip(start) {
            if let Step::StopIf { end, .. } | Step::InStart { end } | Step::InMember { end, .. } = step
                && *end == 0
            {
                *end = here;
            }
        }
    }
}

/// The property with this name, unless it names a system property that does not exist.
fn property_by_name(name: &str) -> Option<Named> {
    match system_name(name) {
        Some(name) => SystemProperty::from_name(name).map(Named::System),
        None => Some(Named::User(Name::new(name))),
    }
}

fn constant(constant: &Constant) -> PropertyValue {
    match constant {
        Constant::Null => PropertyValue::Null,
        Constant::Boolean(truth) => PropertyValue::Boolean(*truth),
        Constant::Integer(number) => PropertyValue::Integer(*number),
        Constant::Double(number) => PropertyValue::Double(*number),
        Constant::Text(text) => PropertyValue::Text(text.clone()),
    }
}

/// The pattern produced by the steps, if it is constant and valid.
fn prepared(steps: &[Step]) -> Option<Pattern> {
    match steps {
        [Step::Constant(PropertyValue::Text(pattern))] => Pattern::new(pattern, None).ok(),
        [Step::Constant(PropertyValue::Text(pattern)), Step::Constant(PropertyValue::Text(escape))] => {
            Pattern::new(pattern, Some(escape)).ok()
        }
        _ => None,
    }
}

/// Largest number of values on the stack. Jumps lead to positions with the same number of values as without them.
fn depth(steps: &[Step]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for step in steps {
        let (taken, put) = match step {
            Step::Constant(_)
            | Step::Property(_)
            | Step::NewId
            | Step::CompareProperty { .. }
            | Step::IsNull { .. }
            | Step::Exists(_)
            | Step::NoParameter(_) => (0, 1),
            Step::PropertyByName
            | Step::Signed(_)
            | Step::LikePattern { .. }
            | Step::InConstants { .. }
            | Step::InEnd { .. }
            | Step::Not
            | Step::Condition => (1, 1),
            Step::Arithmetic(_) | Step::Compare(_) | Step::Join(_) => (2, 1),
            Step::Like { has_escape, .. } => (if *has_escape { 3 } else { 2 }, 1),
            Step::InStart { .. } | Step::StopIf { .. } => (0, 0),
            Step::InMember { .. } => (1, 0),
        };
        now = now.saturating_sub(taken) + put;
        most = most.max(now);
    }
    most
}
