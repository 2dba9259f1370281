//! Laws that hold for all expressions and messages.

use proptest::prelude::*;

use super::random::{ARRIVAL, expression, parameters, rule_properties, value};
use super::reference::{Failed, Reference};
use crate::sql::act::{act, prepared};
use crate::sql::compile::compile;
use crate::sql::evaluate::{condition, evaluate};
use crate::sql::message::Message;
use crate::sql::tree::{Expression, Property, Statement, SystemProperty};
use crate::sql::value::Fault;
use crate::{PropertyValue, RuleProperties, Subject};

type Parameters = Vec<(Box<str>, PropertyValue)>;

/// The value of an expression.
fn computed(
    expression: &Expression,
    parameters: &Parameters,
    rule_properties: &RuleProperties,
) -> Result<PropertyValue, Fault> {
    let program = compile(expression, parameters);
    let mut drawn = 0;
    let mut new_id = || {
        drawn += 1;
        drawn
    };
    let message = Message::new(&Subject { rule_properties, arrival: ARRIVAL });
    evaluate(&program, &message, &mut new_id, &mut usize::MAX.clone()).map(|value| value.into_fact())
}

fn truth(
    expression: &Expression,
    parameters: &Parameters,
    rule_properties: &RuleProperties,
) -> Result<Option<bool>, Fault> {
    let program = compile(expression, parameters);
    let message = Message::new(&Subject { rule_properties, arrival: ARRIVAL });
    evaluate(&program, &message, &mut || 7, &mut usize::MAX.clone()).and_then(|value| condition(&value))
}

fn not(operand: &Expression) -> Expression {
    Expression::Not(Box::new(operand.clone()))
}

fn and(left: &Expression, right: &Expression) -> Expression {
    Expression::And(vec![left.clone(), right.clone()])
}

fn or(left: &Expression, right: &Expression) -> Expression {
    Expression::Or(vec![left.clone(), right.clone()])
}

/// Whether values are equal; NaN is equal to itself.
fn same(left: &PropertyValue, right: &PropertyValue) -> bool {
    match (left, right) {
        (PropertyValue::Double(left), PropertyValue::Double(right)) => {
            left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
        }
        _ => left == right,
    }
}

fn statement() -> impl Strategy<Value = Statement> {
    let property = || {
        let user = prop::sample::select(vec!["a", "C", "new"]).prop_map(|name| Property::User(name.into()));
        let system = prop::sample::select(SystemProperty::ALL.to_vec()).prop_map(Property::System);
        prop_oneof![3 => user, 1 => system]
    };
    prop_oneof![
        3 => (property(), expression()).prop_map(|(property, value)| Statement::Set(property, value)),
        1 => property().prop_map(Statement::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_program_has_the_result_that_the_language_defines(
        expression in expression(),
        parameters in parameters(),
        rule_properties in rule_properties(),
    ) {
        let mut reference = Reference { rule_properties: &rule_properties, parameters: &parameters, drawn: 0 };
        let plainly = reference.value(&expression);
        match (computed(&expression, &parameters, &rule_properties), plainly) {
            (Ok(value), Ok(plain)) => prop_assert!(same(&value, &plain), "{:?} instead of {:?}", value, plain),
            (Err(fault), Err(Failed)) => prop_assert!(fault.0.ends_with('.'), "{}", fault.0),
            (value, plain) => prop_assert!(false, "{:?} instead of {:?}", value, plain),
        }
    }

    #[test]
    fn conditions_obey_the_laws_of_logic(
        one in expression(),
        other in expression(),
        parameters in parameters(),
        rule_properties in rule_properties(),
    ) {
        let truth = |expression: &Expression| truth(expression, &parameters, &rule_properties);
        if let (Ok(first), Ok(_)) = (truth(&one), truth(&other)) {
            prop_assert_eq!(truth(&not(&not(&one))), Ok(first));
            prop_assert_eq!(truth(&not(&and(&one, &other))), truth(&or(&not(&one), &not(&other))));
            prop_assert_eq!(truth(&not(&or(&one, &other))), truth(&and(&not(&one), &not(&other))));
            prop_assert_eq!(truth(&and(&one, &other)), truth(&and(&other, &one)));
            prop_assert_eq!(truth(&or(&one, &other)), truth(&or(&other, &one)));
            prop_assert_eq!(truth(&and(&one, &one)), Ok(first));
            prop_assert_eq!(truth(&or(&one, &and(&one, &other))), Ok(first));
        }
    }

    #[test]
    fn comparisons_turn_around(left in value(), right in value()) {
        use crate::sql::tree::ComparisonOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        use crate::sql::{compare::compare, value::Value};
        let (left, right) = (Value::of(&left), Value::of(&right));
        for (operator, turned) in [(Equal, Equal), (NotEqual, NotEqual), (Less, Greater), (LessOrEqual, GreaterOrEqual)] {
            prop_assert_eq!(compare(operator, &left, &right), compare(turned, &right, &left));
        }
        prop_assert_eq!(compare(Equal, &left, &right).map(|equal| !equal), compare(NotEqual, &left, &right));
    }

    #[test]
    fn actions_change_all_or_nothing(
        statements in prop::collection::vec(statement(), 1..5),
        parameters in parameters(),
        rule_properties in rule_properties(),
    ) {
        let subject = Subject { rule_properties: &rule_properties, arrival: ARRIVAL };
        let prepared = prepared(&statements, &parameters);
        let mut drawn = 0;
        let result = act(&prepared, &subject, &mut || { drawn += 1; drawn });
        let Ok(changes) = result else { return Ok(()) };
        let mut after = rule_properties.clone();
        changes.apply(&mut after);
        for (position, (name, _)) in changes.user.iter().enumerate() {
            prop_assert!(changes.user.iter().skip(position + 1).all(|(other, _)| other != name), "{} twice", name);
        }
        // The last statement about a property takes precedence.
        if let Some(Statement::Remove(Property::User(name))) = statements.last() {
            prop_assert!(after.user(name).is_none());
        }
        if let Some(Statement::Set(Property::User(name), _)) = statements.last() {
            prop_assert!(after.user(name).is_some());
        }
    }
}
