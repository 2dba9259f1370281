//! The Service Bus dialect: joins endpoint and engine.
