"""What tests against real processes share: servers, Kafka's own tools, a wire client made by hand."""
