//! What a text means. Conditions and values are one kind of expression: a condition is a value that is TRUE, FALSE or
//! UNKNOWN, and a value that is true can stand where a condition is wanted.

/// A value, or a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// Written out.
    Constant(Constant),
    /// Of the message.
    Property(Property),
    /// `@name`; the name as written, without the `@`. Names match regardless of case.
    Parameter(Box<str>),
    /// `newid()`.
    NewId,
    /// `property(name)` or `p(name)`: of the message, by a computed name.
    PropertyByName(Box<Expression>),
    /// `+x` or `-x`; a number that is written out has its sign in it.
    Signed(Sign, Box<Expression>),
    /// Two values make a third.
    Arithmetic(ArithmeticOperator, Box<Expression>, Box<Expression>),
    /// Two values compared.
    Comparison(ComparisonOperator, Box<Expression>, Box<Expression>),
    /// `value [NOT] LIKE pattern [ESCAPE escape]`.
    Like {
        /// Whether NOT stands before LIKE.
        negated: bool,
        /// What is looked at.
        value: Box<Expression>,
        /// What it shall look like.
        pattern: Box<Expression>,
        /// What takes its meaning from the next character of the pattern.
        escape: Option<Box<Expression>>,
    },
    /// `value [NOT] IN (…)`, of one value at least.
    In {
        /// Whether NOT stands before IN.
        negated: bool,
        /// What is looked for.
        value: Box<Expression>,
        /// Where.
        list: Vec<Expression>,
    },
    /// `property IS [NOT] NULL`.
    IsNull {
        /// Whether NOT stands before NULL.
        negated: bool,
        /// Which.
        property: Property,
    },
    /// `EXISTS (property)`.
    Exists(Property),
    /// NOT.
    Not(Box<Expression>),
    /// AND, of two at least.
    And(Vec<Expression>),
    /// OR, of two at least.
    Or(Vec<Expression>),
}

/// A value that is written out.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// Without a fraction.
    Integer(i64),
    /// With a fraction or an exponent.
    Double(f64),
    /// In single quotes.
    Text(Box<str>),
}

/// A property of the message.
#[derive(Debug, Clone, PartialEq)]
pub enum Property {
    /// An application property: `name` or `user.name`. Names match regardless of case.
    User(Box<str>),
    /// `sys.name`.
    System(SystemProperty),
}

/// What `sys.` can name: the public properties of a message in Service Bus's first client (semantics §13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemProperty {
    /// Text.
    ContentType,
    /// Text.
    CorrelationId,
    /// Text: where it was dead-lettered before it was forwarded.
    DeadLetterSource,
    /// Number.
    DeliveryCount,
    /// Number.
    EnqueuedSequenceNumber,
    /// Instant.
    EnqueuedTimeUtc,
    /// Instant.
    ExpiresAtUtc,
    /// Truth.
    ForcePersistence,
    /// Text; also called `Subject`.
    Label,
    /// Unknown when rules are asked.
    LockedUntilUtc,
    /// Unknown when rules are asked.
    LockToken,
    /// Text.
    MessageId,
    /// Text.
    PartitionKey,
    /// Text.
    ReplyTo,
    /// Text.
    ReplyToSessionId,
    /// Instant.
    ScheduledEnqueueTimeUtc,
    /// Number.
    SequenceNumber,
    /// Text.
    SessionId,
    /// Number of bytes.
    Size,
    /// Number: 0 active, 1 deferred, 2 scheduled.
    State,
    /// Length of time.
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
    /// `+`; of texts, one behind the other.
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; of integers, without a fraction.
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
    /// `SET property = expression`: creates or changes it.
    Set(Property, Expression),
    /// `REMOVE property`.
    Remove(Property),
}
