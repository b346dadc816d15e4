"""Traces of sampled requests, as the event loop notes them. It knows no library of OpenTelemetry: bmq/server/trace_export exports them."""
