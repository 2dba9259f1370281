//! A compiled expression: steps on a stack of values, without recursion.

use super::like::Pattern;
use super::tree::{ArithmeticOperator, ComparisonOperator, Sign, SystemProperty};
use crate::PropertyValue;
use crate::names::Name;

/// The steps of an expression; they leave one value on the stack.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) steps: Box<[Step]>,
    /// Largest number of values on the stack.
    pub(super) depth: usize,
}

/// The target of a jump.
pub(super) type Position = usize;

/// One step, which pops operands from the stack and pushes a result.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Pushes a literal or a value known at compile time.
    Constant(PropertyValue),
    /// Pushes a property of the message.
    Property(Named),
    /// Pushes a new GUID.
    NewId,
    /// Pops a name, pushes the property.
    PropertyByName,
    /// Pops a value, pushes it with the sign applied.
    Signed(Sign),
    /// Pops two values, pushes the result.
    Arithmetic(ArithmeticOperator),
    /// Pops two values, pushes whether the comparison holds.
    Compare(ComparisonOperator),
    /// Pushes the result of comparing a property with a constant; the most frequent case.
    CompareProperty { property: Named, operator: ComparisonOperator, constant: PropertyValue },
    /// Pops an escape if there is one, a pattern and a value, pushes whether they match.
    Like { negated: bool, has_escape: bool },
    /// The same with a constant pattern; pops only the value.
    LikePattern { negated: bool, pattern: Pattern },
    /// Pops a value, pushes whether it is in the list.
    InConstants { negated: bool, list: Box<[PropertyValue]> },
    /// If the value on top is unknown, leaves it as the result and jumps.
    InStart { end: Position },
    /// Pops a member of the list; if the value below is equal, replaces it by the result and jumps.
    InMember { negated: bool, end: Position },
    /// Pops the value that was equal to no member, pushes the result.
    InEnd { negated: bool },
    /// Pushes whether a property is missing or null.
    IsNull { negated: bool, property: Named },
    /// Pushes whether a property exists.
    Exists(Named),
    /// Pops a condition, pushes its negation.
    Not,
    /// Requires a condition on top.
    Condition,
    /// Requires a condition on top; if it has this truth value, leaves it as the result and jumps.
    StopIf { truth: bool, end: Position },
    /// Pops two conditions, pushes their conjunction or disjunction.
    Join(Junction),
    /// A missing parameter: evaluation fails.
    NoParameter(Box<str>),
}

/// A property identified by name.
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
    /// The truth value of one term that decides the whole.
    pub(super) fn decisive(self) -> bool {
        self == Self::Or
    }

    /// Conjunction or disjunction in three-valued logic.
    pub(super) fn join(self, left: Option<bool>, right: Option<bool>) -> Option<bool> {
        let decisive = Some(self.decisive());
        if left == decisive || right == decisive {
            return decisive;
        }
        left.zip(right).map(|_| !self.decisive())
    }
}
