"""The gRPC gateway: any language publishes to a cluster and reads from it, through an ordinary HTTP/2 proxy."""
