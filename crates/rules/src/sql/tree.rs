//! The meaning of a text. Conditions and values are one type of expression: a condition is a value that is TRUE, FALSE
//! or UNKNOWN, and a truth value can be used as a condition.

/// A value, or a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A literal.
    Constant(Constant),
    /// A property of the message.
    Property(Property),
    /// `@name`; the name as written, without the `@`. Names are case-insensitive.
    Parameter(Box<str>),
    /// `newid()`.
    NewId,
    /// `property(name)` or `p(name)`: a property of the message, by a computed name.
    PropertyByName(Box<Expression>),
    /// `+x` or `-x`; a numeric literal includes its sign.
    Signed(Sign, Box<Expression>),
    /// A combination of two values.
    Arithmetic(ArithmeticOperator, Box<Expression>, Box<Expression>),
    /// A comparison of two values.
    Comparison(ComparisonOperator, Box<Expression>, Box<Expression>),
    /// `value [NOT] LIKE pattern [ESCAPE escape]`.
    Like {
        /// Whether LIKE is preceded by NOT.
        negated: bool,
        /// The tested value.
        value: Box<Expression>,
        /// The pattern.
        pattern: Box<Expression>,
        /// The character that makes the next character of the pattern literal.
        escape: Option<Box<Expression>>,
    },
    /// `value [NOT] IN (…)`, with at least one member.
    In {
        /// Whether IN is preceded by NOT.
        negated: bool,
        /// The tested value.
        value: Box<Expression>,
        /// The members.
        list: Vec<Expression>,
    },
    /// `property IS [NOT] NULL`.
    IsNull {
        /// Whether NULL is preceded by NOT.
        negated: bool,
        /// The property.
        property: Property,
    },
    /// `EXISTS (property)`.
    Exists(Property),
    /// NOT.
    Not(Box<Expression>),
    /// AND of two or more terms.
    And(Vec<Expression>),
    /// OR of two or more terms.
    Or(Vec<Expression>),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A text in single quotes.
    Text(Box<str>),
}

/// A property of the message.
#[derive(Debug, Clone, PartialEq)]
pub enum Property {
    /// An application property: `name` or `user.name`. Names are case-insensitive.
    User(Box<str>),
    /// `sys.name`.
    System(SystemProperty),
}

/// Properties available under `sys.`: the public properties of a message in Service Bus's first client (semantics
/// §13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemProperty {
    /// Text.
    ContentType,
    /// Text.
    CorrelationId,
    /// Text: the entity in which the message was dead-lettered before it was forwarded.
    DeadLetterSource,
    /// Number.
    DeliveryCount,
    /// Number.
    EnqueuedSequenceNumber,
    /// Time.
    EnqueuedTimeUtc,
    /// Time.
    ExpiresAtUtc,
    /// Boolean.
    ForcePersistence,
    /// Text; also called `Subject`.
    Label,
    /// Unknown when rules are evaluated.
    LockedUntilUtc,
    /// Unknown when rules are evaluated.
    LockToken,
    /// Text.
    MessageId,
    /// Text.
    PartitionKey,
    /// Text.
    ReplyTo,
    /// Text.
    ReplyToSessionId,
    /// Time.
    ScheduledEnqueueTimeUtc,
    /// Number.
    SequenceNumber,
    /// Text.
    SessionId,
    /// Number of bytes.
    Size,
    /// Number: 0 active, 1 deferred, 2 scheduled.
    State,
    /// Duration.
    TimeToLive,
    /// Text.
    To,
    /// Text.
    ViaPartitionKey,
}

/// The sign of [`Expression::Signed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `+`
    Plus,
    /// `-`
    Minus,
}

/// See [`Expression::Arithmetic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOperator {
    /// `+`; concatenates texts.
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; for integers, without a fraction.
    Divide,
    /// `%`
    Remainder,
}

/// See [`Expression::Comparison`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOperator {
    /// `=`
    Equal,
    /// `<>` or `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

/// One step of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `SET property = expression`: creates or changes the property.
    Set(Property, Expression),
    /// `REMOVE property`.
    Remove(Property),
}
