//! The cost of evaluating a filter and of an action, for a message with ten application properties.

#![allow(missing_docs)] // reason: criterion generates items without docs
#![allow(clippy::expect_used)] // reason: a benchmark may panic

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use peeklock_rules::{Arrival, PropertyValue, RuleProperties, SqlAction, SqlFilter, Subject};

fn rule_properties() -> RuleProperties {
    let text = |text: &str| PropertyValue::Text(text.into());
    let user = [
        ("tenant", text("contoso")),
        ("region", text("westeurope")),
        ("kind", text("order.created")),
        ("version", PropertyValue::Integer(3)),
        ("priority", PropertyValue::Double(0.5)),
        ("traceparent", text("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
        ("retry", PropertyValue::Boolean(false)),
        ("a", text("x")),
        ("amount", PropertyValue::Double(99.5)),
        ("b", PropertyValue::Integer(7)),
    ];
    let user = user.into_iter().map(|(name, value)| (name.into(), value)).collect();
    RuleProperties { label: Some("the bus stops".into()), user, ..RuleProperties::default() }
}

fn filters(criterion: &mut Criterion) {
    let any_of_32: Vec<String> = (0..32).map(|number| format!("a = 'y{number}'")).collect();
    let any_of_32 = any_of_32.join(" OR ");
    let cases = [
        ("a = 'x' AND b > 5", true),
        ("sys.Label LIKE '%bus%'", true),
        ("kind LIKE 'order.%'", true),
        ("b IN (1, 3, 5, 7)", true),
        ("b % 2 = 1 AND amount * 2 > 100", true),
        (any_of_32.as_str(), false),
    ];
    let mut group = criterion.benchmark_group("filter");
    group.throughput(Throughput::Elements(1));
    let rule_properties = rule_properties();
    let subject = Subject { rule_properties: &rule_properties, arrival: Arrival::default() };
    for (expression, expected) in cases {
        let filter = SqlFilter::new(expression, Vec::new()).expect("a filter");
        assert_eq!(filter.matches(&subject, &mut || 0), Ok(expected));
        let name = if expression.len() > 40 { "32 terms OR" } else { expression };
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(&filter).matches(black_box(&subject), &mut || 0));
        });
    }
    group.finish();
}

fn actions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("action");
    group.throughput(Throughput::Elements(1));
    let rule_properties = rule_properties();
    let subject = Subject { rule_properties: &rule_properties, arrival: Arrival::default() };
    for expression in ["SET b = b + 1", "SET sys.To = 'x-' + a; SET b = '8'; REMOVE tenant"] {
        let action = SqlAction::new(expression, Vec::new()).expect("an action");
        assert!(action.changes(&subject, &mut || 0).is_ok_and(|changes| !changes.is_empty()));
        group.bench_function(expression, |bencher| {
            bencher.iter(|| black_box(&action).changes(black_box(&subject), &mut || 0));
        });
    }
    group.finish();
}

fn compiling(criterion: &mut Criterion) {
    criterion.bench_function("read and compile", |bencher| {
        bencher.iter(|| SqlFilter::new(black_box("a = 'x' AND b > 5"), Vec::new()));
    });
}

criterion_group!(benches, filters, actions, compiling);
criterion_main!(benches);
