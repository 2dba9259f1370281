//! A compiled expression: steps on a stack of values, without recursion, so that its depth costs no call.

use super::like::Pattern;
use super::tree::{ArithmeticOperator, ComparisonOperator, Sign, SystemProperty};
use crate::PropertyValue;
use crate::names::Name;

/// The steps of an expression; they leave one value.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) steps: Box<[Step]>,
    /// How many values there are at once at most.
    pub(super) depth: usize,
}

/// Where a step goes on.
pub(super) type Position = usize;

/// One step. "Takes" is from the top of the stack, "puts" is onto it.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Puts what was written out, or known when the rule was made.
    Constant(PropertyValue),
    /// Puts a property of the message.
    Property(Named),
    /// Puts a new GUID.
    NewId,
    /// Takes a name, puts the property.
    PropertyByName,
    /// Takes one value, puts it with its sign.
    Signed(Sign),
    /// Takes two values, puts a third.
    Arithmetic(ArithmeticOperator),
    /// Takes two values, puts whether they compare so.
    Compare(ComparisonOperator),
    /// Puts whether a property compares so to a value that is known; the case that occurs most.
    CompareProperty { property: Named, operator: ComparisonOperator, constant: PropertyValue },
    /// Takes an escape if there is one, a pattern and a value, puts whether they match.
    Like { negated: bool, has_escape: bool },
    /// The same with a pattern that is known; takes the value.
    LikePattern { negated: bool, pattern: Pattern },
    /// Takes a value, puts whether it is one of those.
    InConstants { negated: bool, list: Box<[PropertyValue]> },
    /// Leaves a value that is unknown as the answer and goes on there.
    InStart { end: Position },
    /// Takes a member of the list; if the value below is equal, the answer takes its place.
    InMember { negated: bool, end: Position },
    /// Takes the value that was equal to no member, puts the answer.
    InEnd { negated: bool },
    /// Puts whether a property is missing or null.
    IsNull { negated: bool, property: Named },
    /// Puts whether there is a property.
    Exists(Named),
    /// Takes a condition, puts its opposite.
    Not,
    /// Demands a condition.
    Condition,
    /// Demands a condition and, if it is this, leaves it as the answer and goes on there.
    StopIf { truth: bool, end: Position },
    /// Takes two conditions, puts both or either.
    Join(Junction),
    /// A parameter that was not given: the expression comes to nothing.
    NoParameter(Box<str>),
}

/// A property by its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Named {
    User(Name),
    System(SystemProperty),
}

/// AND or OR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Junction {
    And,
    Or,
}

impl Junction {
    /// What decides the whole, whatever the rest is.
    pub(super) fn decisive(self) -> bool {
        self == Self::Or
    }

    /// Both, or either, in three-valued logic.
    pub(super) fn join(self, left: Option<bool>, right: Option<bool>) -> Option<bool> {
        let decisive = Some(self.decisive());
        if left == decisive || right == decisive {
            return decisive;
        }
        left.zip(right).map(|_| !self.decisive())
    }
}
