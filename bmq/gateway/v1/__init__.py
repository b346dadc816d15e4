"""The gateway's messages and services, version 1: gateway.proto, which the build compiles."""
